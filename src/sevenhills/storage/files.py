"""Saving and loading models."""

import io
import os
from typing import IO, Any

from ..atomic_write import atomic_write
from ..validation import check_count
from .archive import ModelFileError
from .models import pack, unpack

#: Larger files, from 2 GiB on, are read only if ``max_bytes`` allows it.
_MAX_BYTES = 2**31


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or a density alone, to a file.

    The contents are read back first, as a proof that they can be. They are then written to a
    temporary file that is moved into place when it is complete, so an older file of this name is
    left as it was if anything fails. The new file has the mode and the owner of the older one. A
    file that can be written but not replaced, for instance in a read-only folder, is written in
    place. One model gives one file, byte for byte.

    Parameters
    ----------
    model : estimator or KernelMixture
        A fitted estimator of this package, including :class:`sevenhills.compat.ROME` and
        :class:`~sevenhills.DensityClassifier`, or a density.
    path : path-like
        No suffix is added; the file is an ``.npz``.

    Raises
    ------
    ModelFileError
        If the model cannot be stored, for instance because ``random_state`` is a generator.
    NotFittedError
        If the model is not fitted.

    See Also
    --------
    load : Read a model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sevenhills import ROME, datasets, load, save
    >>> X = datasets.load("aniso").sample(200, random_state=0)
    >>> rome = ROME().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(rome, Path(folder) / "rome.npz")
    ...     again = load(Path(folder) / "rome.npz")
    >>> bool((again.score_samples(X) == rome.score_samples(X)).all())
    True
    """
    contents = pack(model)
    unpack(contents)  # proves that the file can be read
    with atomic_write(path) as file:
        file.write(contents)


def load(path: str | os.PathLike[str] | IO[bytes], *, max_bytes: int = _MAX_BYTES) -> Any:
    """Read a model that :func:`save` has written.

    Log densities, draws and summaries are those of the saved model, to the bit on one machine.
    Parameters that were numbers of numpy come back as plain numbers.

    Parameters
    ----------
    path : path-like or binary file
    max_bytes : int, default=2**31
        Larger files are refused before they are read.

    Returns
    -------
    estimator or KernelMixture

    Raises
    ------
    ModelFileError
        If the file is not a model file, or is damaged; the message names the part.

    Notes
    -----
    No code is run from a file and nothing is unpickled. The checksum finds damage, but not
    forgery: whoever can write the file can choose the density. The library pyvinecopulib parses
    the text of a vine copula.

    See Also
    --------
    save : Write a model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sevenhills import KernelMixture, load, save
    >>> hill = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(hill, Path(folder) / "hill.npz")
    ...     load(Path(folder) / "hill.npz")
    KernelMixture(n_features=1, n_kernels=1, n_groups=1)
    """
    check_count(max_bytes, "max_bytes", least=1)
    if isinstance(path, str | os.PathLike):
        with open(path, "rb") as file:
            return unpack(_read(file, max_bytes))
    return unpack(_read(path, max_bytes))


def _read(file: IO[bytes], max_bytes: int) -> bytes:
    """Return the contents of a file, or of a pipe, of at most ``max_bytes``."""
    size = max_bytes + 1
    if file.seekable():
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
    contents = file.read(size) if size <= max_bytes or not file.seekable() else None
    if contents is None or len(contents) > max_bytes:
        raise ModelFileError(f"file: larger than max_bytes = {max_bytes}")
    return contents
