"""What is stored of a density."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..density import KernelMixture, NeighborCluster, NeighborDensity
from ..estimators.vine import VineCopula
from ..extras import import_extra
from .entries import Entries, ModelFileError, Reader, nested, refusing

#: How far logarithms of determinants may be from those computed anew, by another method.
_CLOSE = 1e-3
#: How far weights may be from adding up to one.
_ROUNDING = 1e-9


def pack_kernels(density: KernelMixture) -> Entries:
    """Return the arrays of a kernel mixture."""
    names = ("weights", "means", "offsets", "transforms", "log_dets", "log_weights", "clusters")
    feature_names = density.feature_names
    return {
        **{name: getattr(density, name) for name in names},
        "counts": density.counts,
        "feature_names": None if feature_names is None else list(feature_names),
    }


def unpack_kernels(reader: Reader) -> KernelMixture:
    """Return the kernel mixture of these arrays, the same to the bit."""
    means = reader.floats("means", (None, None))
    offsets = reader.integers("offsets", (None,))
    n_groups, n_features = max(0, len(offsets) - 1), means.shape[1]
    transforms = reader.floats("transforms", (n_groups, n_features, n_features))
    log_dets = reader.floats("log_dets", (n_groups,))
    _check_transforms(reader, transforms, log_dets)
    with refusing(reader.name):
        return KernelMixture(
            weights=reader.floats("weights", (len(means),)),
            means=means,
            offsets=offsets,
            transforms=transforms,
            log_dets=log_dets,
            log_weights=reader.floats("log_weights", (len(means),), finite=False),
            clusters=reader.integers("clusters", (n_groups,), least=-1),
            counts=_unless_none(reader, "counts", partial(reader.floats, shape=(len(means),))),
            feature_names=_unless_none(reader, "feature_names", reader.texts),
        )


def _unless_none(reader: Reader, key: str, read: Callable[[str], Any]) -> Any:
    return None if reader.at(key).is_none() else read(key)


def _check_transforms(reader: Reader, transforms: np.ndarray, log_dets: np.ndarray) -> None:
    found = np.linalg.slogdet(transforms)[1]
    if not np.isfinite(found).all():
        raise reader.fail("holds a singular matrix", "transforms")
    if (np.abs(found - log_dets) > _CLOSE).any():
        raise reader.fail("are not those of the transforms", "log_dets")


def pack_neighbours(density: NeighborDensity) -> Entries:
    """Return a nearest-neighbour density as arrays, one cluster after another."""
    clusters, m = density.clusters, density.n_features
    members = [np.empty((0, m)), *(each.members for each in clusters)]
    noise = density.noise
    return {
        "weights": density.weights,
        "members": np.concatenate(members),
        "member_weights": np.concatenate([np.empty(0), *(each.weights for each in clusters)]),
        "offsets": np.cumsum([len(each) for each in members]),
        "locations": np.array([each.location for each in clusters]).reshape(-1, m),
        "transforms": np.array([each.transform for each in clusters]).reshape(-1, m, m),
        "log_dets": np.array([each.log_det for each in clusters], dtype=np.float64),
        "n_neighbors": np.array([each.n_neighbors for each in clusters], dtype=np.float64),
        "min_radius": np.array([each.min_radius for each in clusters], dtype=np.float64),
        **nested("noise", {"": None} if noise is None else pack_kernels(noise)),
    }


def unpack_neighbours(reader: Reader) -> NeighborDensity:
    """Return the nearest-neighbour density of these arrays, the same to the bit."""
    members = reader.floats("members", (None, None))
    (n_members, m), offsets = members.shape, reader.integers("offsets", (None,))
    n_clusters = max(0, len(offsets) - 1)
    transforms = reader.floats("transforms", (n_clusters, m, m))
    log_dets = reader.floats("log_dets", (n_clusters,))
    _check_transforms(reader, transforms, log_dets)
    check_offsets(reader, offsets, n_members)
    member_weights = reader.floats("member_weights", (n_members,))
    n_neighbors = reader.floats("n_neighbors", (n_clusters,))
    _check_neighbours(reader, member_weights, offsets, n_neighbors)
    columns = zip(
        pairwise(offsets.tolist()),
        reader.floats("locations", (n_clusters, m)),
        transforms,
        log_dets.tolist(),
        n_neighbors.tolist(),
        reader.floats("min_radius", (n_clusters,), least=0.0).tolist(),
        strict=True,
    )
    clusters = tuple(
        NeighborCluster(members[i:j], member_weights[i:j], location, transform, log_det, k, radius)
        for (i, j), location, transform, log_det, k, radius in columns
    )
    noise = None if reader.at("noise").is_none() else unpack_kernels(reader.at("noise"))
    if noise is not None and noise.n_features != m:
        raise reader.fail(f"must have {m} features, got {noise.n_features}", "noise")
    weights = reader.floats("weights", (n_clusters,), least=0.0)
    _check_shares(reader, weights, noise)
    return NeighborDensity(weights, clusters, noise)


def check_offsets(reader: Reader, offsets: np.ndarray, n_rows: int, key: str = "offsets") -> None:
    """Refuse offsets that do not deal out all rows, some to each."""
    rising = len(offsets) > 0 and offsets[0] == 0 and (np.diff(offsets) > 0).all()
    if not rising or offsets[-1] != n_rows:
        raise reader.fail(f"must rise from 0 to {n_rows}", key)


def _check_neighbours(
    reader: Reader, weights: np.ndarray, offsets: np.ndarray, n_neighbors: np.ndarray
) -> None:
    """Refuse members that weigh nothing, and more neighbours than a cluster has."""
    if (weights <= 0).any():
        raise reader.fail("must be positive", "member_weights")
    masses = np.add.reduceat(weights, offsets[:-1]) if len(weights) else np.empty(0)
    if (n_neighbors <= 0).any() or (n_neighbors > masses * (1 + _ROUNDING)).any():
        raise reader.fail("must be positive, and no more than a cluster has", "n_neighbors")


def _check_shares(reader: Reader, weights: np.ndarray, noise: KernelMixture | None) -> None:
    """Refuse weights that, with that of the noise, do not add up to one."""
    total = weights.sum()
    if (weights == 0).any() or (abs(total - 1) > _ROUNDING if noise is None else total >= 1):
        raise reader.fail("must be positive and add up to one, noise included", "weights")


def pack_vine(density: VineCopula) -> Entries:
    """Return a vine as the text that its library writes, and what it is measured in."""
    text, background = density.vine.to_json(), density.background
    if type(density.vine).from_json(text).to_json() != text:
        raise ModelFileError("vine: its library does not read what it has written")
    return {
        # A vine of many features takes more than a header may.
        "vine": np.frombuffer(text.encode("utf-8"), dtype=np.uint8),
        "centre": density.centre,
        "unit": float(density.unit),
        "features": density.features,
        "background_weight": float(density.background_weight),
        **nested("background", {"": None} if background is None else pack_kernels(background)),
    }


def unpack_vine(reader: Reader) -> VineCopula:
    """Return the vine of this text."""
    library = import_extra("pyvinecopulib", "vine", "a stored VineDensity needs pyvinecopulib")
    centre = reader.floats("centre", (None,))
    unit = reader.number("unit")
    if not unit > 0:
        raise reader.fail("must be positive", "unit")
    try:
        vine = library.Vinedist.from_json(reader.octets("vine").decode("utf-8"))
    except ModelFileError:
        raise
    except Exception as error:  # the library says in many ways that a text is not its own
        raise reader.fail(str(error), "vine") from error
    if vine.dim != len(centre):
        raise reader.fail(f"must have {len(centre)} features, got {vine.dim}", "vine")
    if "features" not in reader:  # a file that an earlier version wrote
        return VineCopula(vine, centre, unit, np.arange(len(centre)))
    features = reader.integers("features", (len(centre),))
    if (np.sort(features) != np.arange(len(centre))).any():
        raise reader.fail("must name every feature once", "features")
    background, weight = reader.at("background"), reader.number("background_weight")
    if not 0 <= weight < 1:
        raise reader.fail("must be at least 0 and less than 1", "background_weight")
    if background.is_none():
        return VineCopula(vine, centre, unit, features)
    kernels = unpack_kernels(background)
    if kernels.n_features != len(centre):
        raise reader.fail(f"must have {len(centre)} features", "background")
    return VineCopula(vine, centre, unit, features, kernels, weight)


class _Kind(NamedTuple):
    density: type
    pack: Callable[[Any], Entries]
    unpack: Callable[[Reader], Any]


_KINDS = {
    "kernels": _Kind(KernelMixture, pack_kernels, unpack_kernels),
    "neighbours": _Kind(NeighborDensity, pack_neighbours, unpack_neighbours),
    "vine": _Kind(VineCopula, pack_vine, unpack_vine),
}


def pack_density(density: Any) -> Entries:
    """Return the entries of a density, of which kind it is among them."""
    for name, kind in _KINDS.items():
        if type(density) is kind.density:
            return {"kind": name, **kind.pack(density)}
    raise ModelFileError(f"density_: a {type(density).__name__} cannot be stored")


def unpack_density(reader: Reader, kinds: Sequence[str]) -> Any:
    """Return the density of these entries, which must be of one of some kinds."""
    return _KINDS[reader.text("kind", kinds)].unpack(reader)
