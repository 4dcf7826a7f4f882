"""Model files: fitted estimators on the disk, without pickle.

A model file is an uncompressed ``.npz`` archive of little-endian arrays and one member
``header.json``, which holds everything that is not an array, the table of the arrays, and a SHA-256
over all of it. Reading one runs no code from it.

=============  ====================================================
``entries``    named arrays and values, and how they are checked
``archive``    the container: written as a whole or not at all
``densities``  what is stored of a density
``findings``   what is stored of clusters, orderings and candidates
``models``     what is stored of every estimator
``files``      ``save`` and ``load``
=============  ====================================================
"""

from .archive import ModelFileError
from .files import load, save

__all__ = ["ModelFileError", "load", "save"]
