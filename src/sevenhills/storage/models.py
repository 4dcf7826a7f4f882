"""Which models can be stored, and whether their parts agree with each other."""

from collections.abc import Mapping
from typing import Any, Union

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import compat
from ..clustering.optics import NOISE
from ..density import KernelMixture
from ..estimators import ESTIMATORS, DensityClassifier
from . import archive
from .archive import ModelFileError
from .codec import ROOT, Decoder, Encoder, part_of

#: The inner estimator stands for the drop-in for romepy.
_CLASSES: dict[str, type] = {
    **{cls.__name__: cls for cls in ESTIMATORS.values()},
    "DensityClassifier": DensityClassifier,
    "compat.ROME": compat._TiledROME,
}
#: Estimators are allowed anywhere; of the records, only a density is a model by itself.
_MODEL = Union[KernelMixture, Any]  # noqa: UP007
_NAMES = {cls: name for name, cls in _CLASSES.items()}


def pack(model: Any) -> bytes:
    """Return the contents of the file of a fitted model."""
    model = _without_drop_in(model)
    if not isinstance(model, KernelMixture):
        _check_can_be_stored(model)
    encoder = Encoder(_NAMES)
    description = encoder.encode(model, ROOT)
    return archive.pack(description, encoder.arrays)


def unpack(contents: bytes) -> Any:
    """Return the model in a file."""
    description, arrays = archive.unpack(contents)
    decoder = Decoder(_CLASSES, arrays, _check_fitted)
    model = decoder.decode(description, _MODEL, ROOT)
    if not isinstance(model, KernelMixture):
        with archive.naming_part(ROOT):
            _check_can_be_stored(model)
    decoder.finish()
    return _with_drop_in(model)


def _check_can_be_stored(model: Any) -> None:
    if type(model) not in _NAMES:
        known = ", ".join(["KernelMixture", *_CLASSES])
        raise TypeError(f"only {known} can be saved, got {type(model).__name__}")
    check_is_fitted(model, msg="this %(name)s is not fitted; fit it before saving it")


def _without_drop_in(model: Any) -> Any:
    """Return the estimator inside the drop-in for romepy; any other model as it is."""
    return model._fitted_model() if isinstance(model, compat.ROME) else model


def _with_drop_in(model: Any) -> Any:
    """Return the drop-in for romepy around the estimator that does its work."""
    if not isinstance(model, compat._TiledROME):
        return model
    out = compat.ROME(model.get_params()["min_std"])
    out._model, out.labels_, out.num_features = model, model.labels_, model.n_features_in_
    out.fitted = True
    return out


# Whether parts agree with each other


def _check_fitted(fitted: Mapping[str, Any], name: str) -> None:
    """Raise an error if the fitted attributes of an estimator contradict each other."""
    _check_features(fitted, name)
    _check_samples(fitted, name)
    _check_choices(fitted, name)


def _check_features(fitted: Mapping[str, Any], name: str) -> None:
    n_features = fitted["n_features_in_"]
    found = {key: len(fitted[key]) for key in ("feature_names_in_", "resolution_") if key in fitted}
    if "density_" in fitted:
        found["density_"] = fitted["density_"].n_features
    for cluster in fitted.get("clusters_", ()):
        found["clusters_"] = len(cluster.mean)
    for key, number in found.items():
        if number != n_features:
            raise ModelFileError(
                f"{part_of(name, key)}: {number} features, but n_features_in_ is {n_features}"
            )
    known = getattr(fitted.get("density_"), "feature_names", None)
    if known is not None and list(known) != list(fitted.get("feature_names_in_", known)):
        raise ModelFileError(f"{part_of(name, 'feature_names_in_')}: not those of the density")


def _check_samples(fitted: Mapping[str, Any], name: str) -> None:
    labels = fitted.get("labels_")
    if labels is None:
        return
    if labels.dtype != np.int64 or (labels < NOISE).any():
        raise ModelFileError(f"{part_of(name, 'labels_')}: must be int64 and not below {NOISE}")
    for key in ("ordering_", "candidates_"):
        if fitted[key] is not None and len(fitted[key].order) != len(labels):
            raise ModelFileError(
                f"{part_of(name, key)}: {len(fitted[key].order)} samples, but there are "
                f"{len(labels)} labels"
            )
    for cluster in fitted["clusters_"]:
        n_labels = np.sum(labels == cluster.label)
        # Rows without weight are labeled as noise, but are not members.
        if n_labels != cluster.n_members and not (cluster.label == NOISE and n_labels):
            raise ModelFileError(
                f"{part_of(name, 'clusters_')}: {cluster.n_members} members, but {n_labels} labels "
                f"are {cluster.label}"
            )


def _check_choices(fitted: Mapping[str, Any], name: str) -> None:
    """Raise an error if a chosen value is not among those that were tried."""
    if "bandwidth_" in fitted:
        if len(fitted["scores_"]) != len(fitted["bandwidths_"]):
            raise ModelFileError(f"{part_of(name, 'scores_')}: must be one for each bandwidth")
        if fitted["bandwidth_"] not in fitted["bandwidths_"]:
            raise ModelFileError(f"{part_of(name, 'bandwidth_')}: not one of bandwidths_")
    if "bic_" in fitted:
        n_kernels = fitted["density_"].n_kernels
        if not fitted["n_components_"] == n_kernels <= len(fitted["bic_"]):
            raise ModelFileError(
                f"{part_of(name, 'n_components_')}: must be the number of kernels of the density"
            )
