"""What is stored of every estimator: its parameters, and what it has learned."""

import numbers
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError

from .. import compat
from ..clustering.optics import NOISE
from ..density import KernelMixture
from ..estimators import (
    ROME,
    AutoROME,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
)
from .archive import Content
from .densities import pack_density, unpack_density
from .entries import Entries, ModelFileError, Reader, as_stored, nested
from .findings import (
    pack_candidates,
    pack_clusters,
    pack_ordering,
    pack_stacked,
    unpack_candidates,
    unpack_clusters,
    unpack_ordering,
    unpack_stacked,
)


class _Codec(NamedTuple):
    """How an attribute becomes entries, and how entries become the attribute."""

    pack: Callable[[Any], Entries]
    unpack: Callable[[Reader], Any]


def _density(*kinds: str) -> _Codec:
    return _Codec(pack_density, partial(unpack_density, kinds=kinds))


def _single(convert: Callable[[Any], Any], unpack: Callable[[Reader], Any]) -> _Codec:
    """Return the codec of an attribute that is one entry."""
    return _Codec(lambda value: {"": convert(value)}, unpack)


def _array(read: Callable[..., np.ndarray], **limits: Any) -> _Codec:
    return _single(np.asarray, partial(read, key="", shape=(None,), **limits))


def _unpack_names(reader: Reader) -> np.ndarray:
    return np.array(reader.texts(), dtype=object)


_KERNELS = {"density_": _density("kernels")}
_COUNT = _single(int, partial(Reader.whole, least=1))
_SPREAD = _single(float, partial(Reader.number, least=0.0))
#: Not there unless the samples came with names.
_NAMES = "feature_names_in_"
#: Not there in files of earlier versions and of the drop-in for romepy, where values are exact.
_UNITS = "resolution_"
_FEATURES = {"n_features_in_": _COUNT, _NAMES: _single(list, _unpack_names)}
_CLUSTERING = {
    "labels_": _array(Reader.integers, least=-1),
    "ordering_": _Codec(pack_ordering, unpack_ordering),
    "candidates_": _Codec(pack_candidates, unpack_candidates),
    _UNITS: _array(Reader.floats, least=0.0),
}
_ROME = {
    **_FEATURES,
    **_CLUSTERING,
    "density_": _density("kernels", "neighbours"),
    "clusters_": _Codec(pack_clusters, unpack_clusters),
    "min_std_": _SPREAD,
}
_AUTO = {
    **_FEATURES,
    **_CLUSTERING,
    **_KERNELS,
    "clusters_": _Codec(pack_stacked, unpack_stacked),
    "n_fragments_": _single(int, Reader.whole),
    "held_out_": _single(float, Reader.number),
}
_CROSS_VALIDATED = {
    **_FEATURES,
    **_KERNELS,
    "bandwidth_": _SPREAD,
    "bandwidths_": _array(Reader.floats, least=0.0),
    # A bandwidth that is far too small has the held-out log density of minus infinity.
    "scores_": _array(Reader.floats, finite=False),
}


class _Kind(NamedTuple):
    """A class of models, and how its attributes are stored."""

    model: type
    attributes: Mapping[str, _Codec]


_KINDS = {
    "ROME": _Kind(ROME, _ROME),
    "AutoROME": _Kind(AutoROME, _AUTO),
    "ManifoldParzen": _Kind(
        ManifoldParzen, {**_FEATURES, **_KERNELS, "n_neighbors_": _COUNT, "min_std_": _SPREAD}
    ),
    "GaussianKDE": _Kind(GaussianKDE, {**_FEATURES, **_KERNELS, "factor_": _SPREAD}),
    "KernelDensityCV": _Kind(KernelDensityCV, _CROSS_VALIDATED),
    "GaussianMixtureBIC": _Kind(
        GaussianMixtureBIC,
        {**_FEATURES, **_KERNELS, "n_components_": _COUNT, "bic_": _array(Reader.floats)},
    ),
    "VineDensity": _Kind(VineDensity, {**_FEATURES, "density_": _density("vine")}),
    "compat.ROME": _Kind(compat.ROME, _ROME),
    "KernelMixture": _Kind(KernelMixture, _KERNELS),
}


# From a model to what is stored of it


def pack(model: Any) -> Content:
    """Return what is stored of a model."""
    name = _name_of(model)
    if isinstance(model, KernelMixture):
        return _content(name, {}, {"density_": model})
    if isinstance(model, compat.ROME):
        _check_fitted(model, model.fitted)
        state = {key: value for key, value in vars(model._model).items() if key != _UNITS}
        return _content(name, {"min_std": model.min_std}, state)
    _check_fitted(model, hasattr(model, "density_"))
    return _content(name, model.get_params(deep=False), vars(model))


def _name_of(model: Any) -> str:
    for name, kind in _KINDS.items():
        if type(model) is kind.model:
            return name
    raise TypeError(f"only {', '.join(_KINDS)} can be saved, got {type(model).__name__}")


def _check_fitted(model: Any, fitted: bool) -> None:
    if not fitted:
        raise NotFittedError(f"this {type(model).__name__} is not fitted; fit it before saving it")


def _content(name: str, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Content:
    codecs = _KINDS[name].attributes
    for attribute in state:
        if attribute.endswith("_") and attribute not in codecs:
            raise ModelFileError(f"{attribute}: not known to be part of a {name}")
    entries: Entries = {}
    for attribute, codec in codecs.items():
        if attribute in state:
            entries |= nested(attribute, codec.pack(state[attribute]))
    plain = {key: _plain(key, value) for key, value in parameters.items()}
    return Content(name, plain, as_stored(entries))


def _plain(name: str, value: Any) -> Any:
    """Return a parameter as JSON holds it."""
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value) == 1:
        return [_plain_scalar(name, each) for each in value]
    return _plain_scalar(name, value)


def _plain_scalar(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and np.isfinite(float(value)):
        return float(value)
    problem = f"cannot be stored, being {value!r:.60}"
    if name == "random_state":
        problem += "; set it to a whole number or to None first"
    raise ModelFileError(f"{name}: {problem}")


# And back


def unpack(content: Content) -> Any:
    """Return the model of which this was stored."""
    if content.kind not in _KINDS:
        raise ModelFileError(f"class: must be one of {', '.join(_KINDS)}, got {content.kind!r}")
    kind = _KINDS[content.kind]
    codecs = dict(kind.attributes)
    if "resolution" not in content.parameters and _UNITS not in content.entries:
        codecs.pop(_UNITS, None)
    fitted = _fitted(Reader(content.entries), codecs)
    if _UNITS in kind.attributes:
        fitted.setdefault(_UNITS, np.zeros(fitted["density_"].n_features))
    if kind.model is KernelMixture:
        _check_parameters(content, ())
        return fitted["density_"]
    if kind.model is compat.ROME:
        _check_parameters(content, ("min_std",))
        return _compat(content.parameters, fitted)
    _check_parameters(content, kind.model().get_params(deep=False))
    return _with_attributes(_recipe(kind.model, content.parameters), fitted)


def _recipe(model: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
    """Return an estimator whose parameters it would accept when it is fitted."""
    recipe = model(**parameters)
    try:
        recipe._check_parameters()
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"parameters: {error}") from error
    return recipe


def _check_parameters(content: Content, known: Collection[str]) -> None:
    for name, value in content.parameters.items():
        if name not in known:
            raise ModelFileError(f"parameters: a {content.kind} has no {name!r}")
        _plain(name, value)


def _with_attributes(model: Any, attributes: Mapping[str, Any]) -> Any:
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def _compat(parameters: Mapping[str, Any], fitted: Mapping[str, Any]) -> compat.ROME:
    """Return the drop-in for romepy around the estimator that does its work."""
    model = compat.ROME(**parameters)
    inner = _recipe(compat._TiledROME, {**parameters, "resolution": None, "start": "first"})
    model._model = _with_attributes(inner, fitted)
    model.labels_ = fitted["labels_"]
    model.num_features = fitted["n_features_in_"]
    model.fitted = True
    return model


def _fitted(reader: Reader, codecs: Mapping[str, _Codec]) -> dict[str, Any]:
    out = {
        name: codec.unpack(reader.at(name))
        for name, codec in codecs.items()
        if name != _NAMES or name in reader.entries
    }
    reader.finish()
    _check_features(out)
    _check_samples(out)
    _check_choices(out)
    return out


def _check_features(fitted: Mapping[str, Any]) -> None:
    """Refuse parts that do not have the features of the density."""
    n_features = fitted["density_"].n_features
    found = {"n_features_in_": fitted.get("n_features_in_", n_features)}
    if _NAMES in fitted:
        found[_NAMES] = len(fitted[_NAMES])
        known = getattr(fitted["density_"], "feature_names", None)
        if known is not None and list(known) != list(fitted[_NAMES]):
            raise ModelFileError(f"{_NAMES}: not those of the density")
    if _UNITS in fitted:
        found[_UNITS] = len(fitted[_UNITS])
    for cluster in fitted.get("clusters_", ()):
        found["clusters_.mean"] = len(cluster.mean)
    for name, number in found.items():
        if number != n_features:
            raise ModelFileError(f"{name}: {number} features, but the density has {n_features}")


def _check_samples(fitted: Mapping[str, Any]) -> None:
    """Refuse parts that do not have the samples of the labels."""
    if "labels_" not in fitted:
        return
    labels = fitted["labels_"]
    for name in ("ordering_", "candidates_"):
        if fitted[name] is not None and len(fitted[name].order) != len(labels):
            n_samples = len(fitted[name].order)
            raise ModelFileError(f"{name}: {n_samples} samples, but there are {len(labels)} labels")
    for cluster in fitted["clusters_"]:
        n_labels = np.sum(labels == cluster.label)
        # Rows that weigh nothing are labelled as noise, but are no members.
        if n_labels != cluster.n_members and not (cluster.label == NOISE and n_labels):
            raise ModelFileError(
                f"clusters_.n_members: not as many as there are labels {cluster.label}"
            )


def _check_choices(fitted: Mapping[str, Any]) -> None:
    """Refuse a choice that is not among what was tried."""
    if "scores_" in fitted and len(fitted["scores_"]) != len(fitted["bandwidths_"]):
        raise ModelFileError("scores_: must be one for each bandwidth")
    if "bandwidth_" in fitted and fitted["bandwidth_"] not in fitted["bandwidths_"]:
        raise ModelFileError("bandwidth_: must be one of those that were tried")
    if "bic_" in fitted and not fitted["n_components_"] <= len(fitted["bic_"]):
        raise ModelFileError("n_components_: must be one of those that were tried")
    if "bic_" in fitted and fitted["n_components_"] != fitted["density_"].n_kernels:
        raise ModelFileError("n_components_: must be the number of kernels of the density")
