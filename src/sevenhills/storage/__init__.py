"""Model files: fitted estimators on disk, without pickle.

A model file is an uncompressed ``.npz`` archive. The member ``header.json`` describes the model,
all other members are its arrays, and the comment of the archive is a SHA-256 over everything before
it. Loading a file runs no code from it.

===========  ===============================================================
``archive``  the container: header, arrays and checksum as bytes
``codec``    values as JSON and arrays, and back, by the hints of their types
``files``    ``save`` and ``load``, and the checks of a model's parts
===========  ===============================================================
"""

from .archive import ModelFileError
from .files import load, save

__all__ = ["ModelFileError", "load", "save"]
