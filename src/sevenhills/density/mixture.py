"""A mixture of Gaussian kernels whose covariances are shared by groups."""

from .boxes import Boxes
from .compression import Compressible
from .missing import Missing
from .regions import Regions
from .support import Support
from .tensors import TensorExport


class KernelMixture(Missing, Boxes, Support, Regions, Compressible, TensorExport):
    r"""A density that is a sum of Gaussian kernels.

    .. math:: p(x) = \sum_k w_k \, N(x; \mu_k, \Sigma_{g(k)}), \qquad
              \Sigma_g^{-1} = T_g T_g^\top

    The kernels of a group stand one after another and share the transform :math:`T_g`, which
    turns them into Gaussians of unit covariance. The value is immutable: its arrays are copies
    that cannot be written to.

    Parameters
    ----------
    weights : array-like of shape (n_kernels,)
        Positive, adding up to one.
    centres : array-like of shape (n_kernels, n_features)
        The means of the kernels.
    offsets : array-like of shape (n_groups + 1,)
        Group ``g`` consists of the kernels ``offsets[g]`` to ``offsets[g + 1] - 1``.
    transforms : array-like of shape (n_groups, n_features, n_features)
        What turns the kernels of every group into unit Gaussians, from the right:
        ``(x - centre) @ transform``.
    log_dets : array-like of shape (n_groups,), optional
        The logarithms of the transforms' absolute determinants; computed if not given.
    log_weights : array-like of shape (n_kernels,), optional
        The logarithms of the weights, which may be known where a weight is too small for a float.
    clusters : array-like of shape (n_groups,), optional
        The label of the cluster to which the kernels of every group belong, -1 being noise; one
        cluster by default.
    counts : array-like of shape (n_kernels,), optional
        How many samples every kernel stands for, if the density was made from samples.
    feature_names : sequence of str, optional
        What the features are called.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills import KernelMixture
    >>> two_hills = KernelMixture(
    ...     weights=[0.5, 0.5], centres=[[-1.0], [1.0]], offsets=[0, 2], transforms=[[[2.0]]]
    ... )
    >>> two_hills.pdf([[0.0], [1.0]]).round(4)
    array([0.108 , 0.3991])
    >>> two_hills.sample(3, random_state=0).shape
    (3, 1)
    """
