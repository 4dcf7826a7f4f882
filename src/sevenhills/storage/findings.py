"""What is stored of the clusters that were found, and of how they were found."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..clustering import Candidates, Ordering
from ..clustering.optics import NOISE, Partitions
from ..clustering.selection import CRITERIA
from ..estimators.cluster_records import Cluster, StackedCluster
from .densities import check_offsets
from .entries import Entries, Reader


def pack_ordering(ordering: Ordering | None) -> Entries:
    """Return the arrays of an ordering."""
    if ordering is None:
        return {"": None}
    names = ("order", "reachability", "core_distances", "predecessor")
    return {
        "n_neighbors": int(ordering.n_neighbors),
        **{name: getattr(ordering, name) for name in names},
    }


def unpack_ordering(reader: Reader) -> Ordering | None:
    """Return the ordering of these arrays."""
    if reader.is_none():
        return None
    order = _permutation(reader)
    n_samples = len(order)
    predecessor = reader.integers("predecessor", (n_samples,), least=-1, below=n_samples)
    reachability = reader.floats("reachability", (n_samples,), least=0.0, finite=False)
    if np.isinf(reachability[predecessor >= 0]).any():
        raise reader.fail("is infinite for a row that was reached", "reachability")
    core_distances = reader.floats("core_distances", (n_samples,), least=0.0, finite=False)
    if np.isinf(core_distances[np.isfinite(reachability)]).any():
        raise reader.fail("is infinite for a row that was reached", "core_distances")
    return Ordering(
        order=order,
        reachability=reachability,
        core_distances=core_distances,
        predecessor=predecessor,
        n_neighbors=reader.whole("n_neighbors", least=1),
    )


def _permutation(reader: Reader) -> np.ndarray:
    order = reader.integers("order", (None,))
    if len(order) == 0 or (np.sort(order) != np.arange(len(order))).any():
        raise reader.fail("must name every row once", "order")
    return order


def pack_candidates(candidates: Candidates | None) -> Entries:
    """Return the arrays of candidates."""
    if candidates is None:
        return {"": None}
    # Files of exact scores are those that earlier versions wrote.
    errors = {"errors": candidates.errors} if candidates.errors.any() else {}
    return {
        "criterion": str(candidates.criterion),
        "chosen": int(candidates.chosen),
        "steep": candidates.rules == "xi",
        "parameters": candidates.parameters,
        "n_cuts": candidates.n_cuts,
        "n_clusters": candidates.n_clusters,
        "noise_share": candidates.noise_share,
        "scores": candidates.scores,
        # A run starts where the one before it ends.
        "runs": candidates.partitions.runs[:, 1:],
        "offsets": candidates.partitions.offsets,
        "order": candidates.order,
        **errors,
    }


def unpack_candidates(reader: Reader) -> Candidates | None:
    """Return the candidates of these arrays."""
    if reader.is_none():
        return None
    order = _permutation(reader)
    partitions = _unpack_partitions(reader, len(order))
    n = len(partitions)
    chosen = reader.whole("chosen")
    if chosen >= n:
        raise reader.fail(f"must be one of {n} candidates, got {chosen}", "chosen")
    return Candidates(
        criterion=reader.text("criterion", CRITERIA),
        rules=np.where(reader.flags("steep", (n,)), "xi", "dbscan"),
        parameters=reader.floats("parameters", (n,)),
        n_cuts=reader.integers("n_cuts", (n,), least=1),
        n_clusters=_read_n_clusters(reader, partitions),
        noise_share=reader.floats("noise_share", (n,), least=0.0),
        scores=reader.floats("scores", (n,)),
        errors=reader.floats("errors", (n,), least=0.0) if "errors" in reader else np.zeros(n),
        chosen=chosen,
        partitions=partitions,
        order=order,
    )


def _read_n_clusters(reader: Reader, partitions: Partitions) -> np.ndarray:
    n_clusters = reader.integers("n_clusters", (len(partitions),))
    if (n_clusters < partitions.n_clusters()).any():
        raise reader.fail("is less than the labels of a candidate", "n_clusters")
    return n_clusters


def _unpack_partitions(reader: Reader, n_samples: int) -> Partitions:
    ends, labels = reader.integers("runs", (None, 2), least=-1, below=n_samples + 1).T
    offsets = reader.integers("offsets", (None,))
    check_offsets(reader, offsets, len(ends))
    if len(offsets) < 2 or (ends[offsets[1:] - 1] != n_samples).any():
        raise reader.fail("must lead through all samples", "runs")
    starts = np.append(0, ends[:-1])
    starts[offsets[:-1]] = 0
    if (starts >= ends).any():
        raise reader.fail("must not be empty", "runs")
    return Partitions(np.stack([starts, ends, labels], axis=1), offsets)


def pack_clusters(clusters: tuple[Cluster, ...]) -> Entries:
    """Return clusters by columns."""
    return {
        "label": [int(each.label) for each in clusters],
        "n_members": [int(each.n_members) for each in clusters],
        "share": [float(each.share) for each in clusters],
        # Zero stands for none.
        "bandwidth": [float(each.bandwidth or 0.0) for each in clusters],
        "mean": np.array([each.mean for each in clusters]),
        "stds": np.array([each.stds for each in clusters]),
    }


def unpack_clusters(reader: Reader) -> tuple[Cluster, ...]:
    """Return the clusters of these columns."""
    means = reader.floats("mean", (None, None))
    rows = _rows(
        reader,
        reader.wholes("label", least=NOISE),
        reader.wholes("n_members"),
        reader.numbers("share", least=0.0),
        means,
        reader.floats("stds", means.shape, least=0.0),
        [width or None for width in reader.numbers("bandwidth", least=0.0)],
    )
    return tuple(Cluster(*row) for row in rows)


def pack_stacked(clusters: tuple[StackedCluster, ...]) -> Entries:
    """Return clusters by columns."""
    return {
        "label": [int(each.label) for each in clusters],
        "n_members": [int(each.n_members) for each in clusters],
        "share": [float(each.share) for each in clusters],
        "mean": np.array([each.mean for each in clusters]),
        "members": [list(each.members) for each in clusters],
        "weights": [each.weights.tolist() for each in clusters],
        "gain": [float(each.gain) for each in clusters],
        "gain_error": [float(each.gain_error) for each in clusters],
        "n_tried": [int(each.n_tried) for each in clusters],
        "reason": [str(each.reason) for each in clusters],
    }


def unpack_stacked(reader: Reader) -> tuple[StackedCluster, ...]:
    """Return the clusters of these columns."""
    members = [tuple(each.texts()) for each in reader.lists("members")]
    weights = [np.array(each.numbers(least=0.0)) for each in reader.lists("weights")]
    if [len(each) for each in members] != [len(each) for each in weights]:
        raise reader.fail("must be one for each member", "weights")
    rows = _rows(
        reader,
        reader.wholes("label", least=NOISE),
        reader.wholes("n_members"),
        reader.numbers("share", least=0.0),
        reader.floats("mean", (None, None)),
        members,
        weights,
        reader.numbers("gain"),
        reader.numbers("gain_error", least=0.0),
        reader.wholes("n_tried"),
        reader.texts("reason"),
    )
    return tuple(StackedCluster(*row) for row in rows)


def _rows(reader: Reader, *columns: Any) -> Iterator[tuple[Any, ...]]:
    if len({len(column) for column in columns}) != 1:
        raise reader.fail("has columns of different lengths")
    return zip(*columns, strict=True)
