"""Rules for the width of kernels."""


def silverman(n_samples: float, n_features: int) -> float:
    r"""Return Silverman's bandwidth for data of unit variance.

    .. math:: b = \left(\frac{M + 2}{4} n\right)^{-1 / (M + 4)}

    It is a standard deviation.

    Parameters
    ----------
    n_samples : float
        The number of samples, or the sum of their weights.
    n_features : int

    Examples
    --------
    >>> from sevenhills.bandwidth import silverman
    >>> round(silverman(100, 2), 4)
    0.4642
    """
    return float((n_samples * (n_features + 2) / 4) ** (-1 / (n_features + 4)))
