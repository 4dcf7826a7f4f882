"""Weights of members, by which held-out samples are likeliest."""

import numpy as np

from .components import log_sum_exp

#: Upper bound on the members of a stack, and lower bounds on their weights, before and after the
#: weights are computed again without the others.
_MAX_MEMBERS, _MIN_WEIGHT, _MIN_FINAL_WEIGHT = 6, 0.03, 0.02
#: Members are dropped, the most expensive first, if held-out samples lose no more than this for
#: every kernel, and no more than these limits in all.
_PRICE, _MIN_LOSS, _MAX_LOSS = 1e-5, 0.002, 0.008
#: Iterations for the weights, and while members are dropped.
_WEIGHT_STEPS, _PRUNING_STEPS = 150, 60


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the weighted mean of values, and its standard error; weights are repetitions."""
    total = weights.sum()
    mean = weights @ values / total
    return float(mean), float(np.sqrt(weights @ np.square(values - mean)) / total)


def stacking_weights(
    held_out: np.ndarray, counts: np.ndarray, n_steps: int = _WEIGHT_STEPS
) -> np.ndarray:
    r"""Return the weights that maximize the likelihood of held-out samples.

    .. math:: \max_w \sum_i a_i \log \sum_m w_m \, p_m(x_i)

    ``held_out`` (n_test, n_members) holds the log densities :math:`\log p_m(x_i)` of members that
    were fitted without :math:`x_i`, and ``counts`` (n_test,) the numbers of samples :math:`a_i`.
    """
    ratios = np.exp(held_out - held_out.max(axis=1, keepdims=True))
    shares = counts / counts.sum()
    weights = np.full(held_out.shape[1], 1.0 / held_out.shape[1])
    for _ in range(n_steps):
        weights = weights * ((shares / (ratios @ weights)) @ ratios)
    return weights / weights.sum()


def stack(held_out: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the members that are kept, heaviest first, and their weights."""
    weights = stacking_weights(held_out, counts)
    kept = np.argsort(-weights, kind="stable")[:_MAX_MEMBERS]
    kept = kept[weights[kept] >= min(_MIN_WEIGHT, weights.max())]
    weights = stacking_weights(held_out[:, kept], counts)
    stays = weights >= _MIN_FINAL_WEIGHT
    kept, weights = kept[stays], weights[stays] / weights[stays].sum()
    order = np.argsort(-weights, kind="stable")
    return kept[order], weights[order]


def pruned(
    held_out: np.ndarray, counts: np.ndarray, kept: np.ndarray, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Drop members, the most expensive first, as long as held-out samples lose little.

    Return the indices of the members that stay, heaviest first, and their weights. The ``costs``
    are those of all members, in kernels.
    """
    weights = stacking_weights(held_out[:, kept], counts)
    before, saved = likelihood(held_out[:, kept], counts, weights), 0.0
    for member in kept[np.argsort(-costs[kept], kind="stable")]:
        others = kept[kept != member]
        if len(others) == 0:
            break
        without = stacking_weights(held_out[:, others], counts, _PRUNING_STEPS)
        price = np.clip(_PRICE * (saved + costs[member]), _MIN_LOSS, _MAX_LOSS)
        if likelihood(held_out[:, others], counts, without) >= before - price:
            kept, weights, saved = others, without, saved + costs[member]
    order = np.argsort(-weights, kind="stable")
    return kept[order], weights[order]


def likelihood(held_out: np.ndarray, counts: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean log density of held-out samples under a weighted sum of members."""
    return mean_and_error(log_sum_exp(held_out + np.log(weights)), counts)[0]
