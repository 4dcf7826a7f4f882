"""Kernels on some rows of every cluster in place of all of them."""

from collections.abc import Sequence

import numpy as np

from ..clustering.optics import NOISE
from ..density import KernelMixture
from ..estimators.cluster_records import Cluster
from ..whitening import silverman
from .reservoir import Reservoir
from .shards import ClusterRows, Shapes, mixture_of


def coreset_mixture(
    coresets: Sequence[Reservoir], clusters: Sequence[Cluster], shapes: Shapes
) -> tuple[KernelMixture, list[float]]:
    """Put kernels on a sample of every cluster, as wide as so few samples need.

    Of 1,000 among a million rows, kernels of the width for a million would be separate peaks.

    Parameters
    ----------
    coresets : sequence of Reservoir
    clusters : sequence of Cluster
        What is known of all rows.
    shapes : Shapes
        The kernels for all rows.

    Returns
    -------
    density : KernelMixture
    bandwidths : list of float
        Those of the clusters after whitening.
    """
    n_features = shapes.transforms.shape[1]
    widths = [
        silverman(1 if cluster.label == NOISE else each.counts.sum(), n_features)
        for each, cluster in zip(coresets, clusters, strict=True)
    ]
    wider = np.array(widths) / [cluster.bandwidth for cluster in clusters]
    log_weights = [
        np.log(each.counts / each.counts.sum() * cluster.share)
        for each, cluster in zip(coresets, clusters, strict=True)
    ]
    rows = ClusterRows(
        np.concatenate([each.rows for each in coresets]),
        np.array([len(each.rows) for each in coresets]),
    )
    shapes = shapes._replace(
        transforms=shapes.transforms / wider[:, None, None],
        log_dets=shapes.log_dets - n_features * np.log(wider),
    )
    return mixture_of(rows.kernels(shapes, np.concatenate(log_weights)), shapes.labels), widths
