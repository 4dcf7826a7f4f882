"""The weights of members, by what they say of samples they have not seen."""

import numpy as np

from .components import log_sum_exp

_STEPS = 300
#: At most so many members are kept, none with less than this weight.
_MOST_KEPT = 6
_LEAST_TO_STAY = 0.03
_LEAST_IN_THE_END = 0.02


def mean_and_error(values: np.ndarray, asked: np.ndarray) -> tuple[float, float]:
    """Return the mean of what held-out samples were given, and its standard error.

    Parameters
    ----------
    values, asked : ndarray of shape (n_asked,)
        The values, and how many samples had each.

    Examples
    --------
    >>> mean, error = mean_and_error(np.array([0.0, 4.0]), np.array([3.0, 1.0]))
    >>> mean, round(error, 3)
    (1.0, 0.866)
    """
    total = asked.sum()
    mean = asked @ values / total
    return float(mean), float(np.sqrt(asked @ np.square(values - mean)) / total)


def stacking_weights(held_out: np.ndarray, asked: np.ndarray, n_steps: int = _STEPS) -> np.ndarray:
    r"""Return the weights under which the sum of members is likeliest.

    .. math:: \max_w \sum_i a_i \log \sum_m w_m \, p_m(x_i)

    with :math:`p_m(x_i)` the density of member :math:`m` fitted without :math:`x_i`.

    Parameters
    ----------
    held_out : ndarray of shape (n_asked, n_members)
        The logarithms of :math:`p_m(x_i)`.
    asked : ndarray of shape (n_asked,)
        How many samples :math:`a_i` were given each.
    n_steps : int
        Steps of expectation maximisation.
    """
    ratios = np.exp(held_out - held_out.max(axis=1, keepdims=True))
    shares = asked / asked.sum()
    weights = np.full(held_out.shape[1], 1.0 / held_out.shape[1])
    for _ in range(n_steps):
        weights = weights * ((shares / (ratios @ weights)) @ ratios)
    return weights / weights.sum()


def stack(held_out: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which members are kept, heaviest first, and their weights."""
    if held_out.shape[1] == 1:
        return np.zeros(1, dtype=np.int64), np.ones(1)
    weights = stacking_weights(held_out, asked)
    kept = np.argsort(-weights, kind="stable")[:_MOST_KEPT]
    kept = kept[weights[kept] >= min(_LEAST_TO_STAY, weights.max())]
    weights = stacking_weights(held_out[:, kept], asked)
    stays = weights >= _LEAST_IN_THE_END
    kept, weights = kept[stays], weights[stays] / weights[stays].sum()
    order = np.argsort(-weights, kind="stable")
    return kept[order], weights[order]


def stacked(held_out: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the log density of the weighted sum of members."""
    return log_sum_exp(held_out + np.log(weights))
