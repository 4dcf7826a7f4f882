"""Saving and loading of models, and the checks that the parts of a model agree."""

import io
import os
from collections.abc import Mapping
from typing import IO, Any, Union

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import compat
from ..atomic_write import atomic_write
from ..clustering.optics import NOISE
from ..density import ChainMap, KernelMixture
from ..estimators import ESTIMATORS, DensityClassifier
from ..validation import check_count
from .archive import ModelFileError, naming_part, pack, unpack
from .codec import ROOT, Decoder, Encoder, part_of

#: The estimators that can be stored; the inner estimator stands for the drop-in for romepy.
_CLASSES: dict[str, type] = {
    **{cls.__name__: cls for cls in ESTIMATORS.values()},
    "DensityClassifier": DensityClassifier,
    "compat.ROME": compat._TiledROME,
}
_NAMES = {cls: name for name, cls in _CLASSES.items()}
#: Estimators are allowed anywhere; of the records, only a density is a model by itself.
_MODEL = Union[KernelMixture, Any]  # noqa: UP007
#: Larger files, from 2 GiB on, are read only if ``max_bytes`` allows it.
_MAX_BYTES = 2**31


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or a density alone, to a file.

    The contents are read back first, as a proof that they can be. They are then written to a
    temporary file that is moved into place when it is complete, so an older file of this name is
    left as it was if anything fails. One model gives one file, byte for byte.

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
    contents = _encode(model)
    _decode(contents)  # proves that the file can be read
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
            return _decode(_read(file, max_bytes))
    return _decode(_read(path, max_bytes))


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


def _encode(model: Any) -> bytes:
    """Return the contents of the file of a fitted model."""
    if isinstance(model, compat.ROME):
        model = model._fitted_model()
    _check_can_be_stored(model)
    encoder = Encoder(_NAMES)
    description = encoder.encode(model, ROOT)
    return pack(description, encoder.arrays)


def _decode(contents: bytes) -> Any:
    """Return the model in a file."""
    description, arrays = unpack(contents)
    decoder = Decoder(_CLASSES, arrays, _check_fitted)
    model = decoder.decode(description, _MODEL, ROOT)
    with naming_part(ROOT):
        _check_can_be_stored(model)
    decoder.finish()
    return _with_drop_in(model) if isinstance(model, compat._TiledROME) else model


def _check_can_be_stored(model: Any) -> None:
    if isinstance(model, KernelMixture):
        return
    if type(model) not in _NAMES:
        known = ", ".join(["KernelMixture", *_CLASSES])
        raise TypeError(f"only {known} can be saved, got {type(model).__name__}")
    check_is_fitted(model, msg="this %(name)s is not fitted; fit it before saving it")


def _with_drop_in(model: Any) -> compat.ROME:
    """Return the drop-in for romepy around the estimator that does its work."""
    out = compat.ROME(model.get_params()["min_std"])
    out._model, out.labels_, out.num_features = model, model.labels_, model.n_features_in_
    out.fitted = True
    return out


# Parts of a model that must agree with each other


def _require(holds: bool, part: str, problem: str) -> None:
    if not holds:
        raise ModelFileError(f"{part}: {problem}")


def _check_fitted(fitted: Mapping[str, Any], name: str) -> None:
    """Raise an error if the fitted attributes of an estimator contradict each other."""
    _check_features(fitted, name)
    if "labels_" in fitted:
        _check_samples(fitted, name)
    if "bandwidth_" in fitted:
        is_complete = len(fitted["scores_"]) == len(fitted["bandwidths_"])
        _require(is_complete, part_of(name, "scores_"), "must be one for each bandwidth")
        is_known = fitted["bandwidth_"] in fitted["bandwidths_"]
        _require(is_known, part_of(name, "bandwidth_"), "not one of bandwidths_")
    if "bic_" in fitted:
        agrees = fitted["n_components_"] == fitted["density_"].n_kernels <= len(fitted["bic_"])
        part = part_of(name, "n_components_")
        _require(agrees, part, "must be the number of kernels of the density")


def _check_features(fitted: Mapping[str, Any], name: str) -> None:
    n_features = fitted["n_features_in_"]
    of_features = ("feature_names_in_", "resolution_", "scale_")
    found = {key: len(fitted[key]) for key in of_features if key in fitted}
    if "density_" in fitted:
        found["density_"] = fitted["density_"].n_features
    for cluster in fitted.get("clusters_", ()):
        found["clusters_"] = len(cluster.mean)
    for key, number in found.items():
        problem = f"{number} features, but n_features_in_ is {n_features}"
        _require(number == n_features, part_of(name, key), problem)
    for cell in fitted.get("cells_", ()):
        n_values, n_known = len(cell.values), len(fitted["categories_"])
        problem = f"{n_values} values, but {n_known} categories_"
        _require(n_values == n_known, part_of(name, "cells_"), problem)
    for support in fitted.get("support_", ()):
        maps = getattr(fitted["density_"], "maps", None) or ()
        own = maps[support.feature] if 0 <= support.feature < len(maps) else None
        agrees = support.map == (own.first if isinstance(own, ChainMap) else own)
        _require(agrees, part_of(name, "support_"), "not the maps of the density")
    known = getattr(fitted.get("density_"), "feature_names", None)
    agrees = known is None or list(known) == list(fitted.get("feature_names_in_", known))
    _require(agrees, part_of(name, "feature_names_in_"), "not those of the density")


def _check_samples(fitted: Mapping[str, Any], name: str) -> None:
    labels = fitted["labels_"]
    is_valid = labels.dtype == np.int64 and not (labels < NOISE).any()
    _require(is_valid, part_of(name, "labels_"), f"must be int64 and not below {NOISE}")
    for key in ("ordering_", "candidates_"):
        n_samples = len(labels) if fitted[key] is None else len(fitted[key].order)
        problem = f"{n_samples} samples, but there are {len(labels)} labels"
        _require(n_samples == len(labels), part_of(name, key), problem)
    for cluster in fitted["clusters_"]:
        n_labels = np.sum(labels == cluster.label)
        # Rows without weight are labeled as noise, but are not members.
        agrees = n_labels == cluster.n_members or (cluster.label == NOISE and n_labels)
        problem = f"{cluster.n_members} members, but {n_labels} labels are {cluster.label}"
        _require(agrees, part_of(name, "clusters_"), problem)
