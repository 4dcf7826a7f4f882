"""Ranks that pairwise tests leave open, and the correction for their number."""

from itertools import combinations

import numpy as np
from numpy.testing import assert_allclose

from sevenhills.metrics.ranks import holm, rank_range, ties


def test_holm_as_it_is_defined():
    rng = np.random.RandomState(0)
    for p_values in (rng.uniform(size=9), rng.randint(4, size=12) / 40, [0.02], []):
        order = np.argsort(p_values)
        expected = np.empty(len(p_values))
        for place, i in enumerate(order):
            steps = [(len(order) - k) * p_values[order[k]] for k in range(place + 1)]
            expected[i] = min(1.0, max(steps))
        assert_allclose(holm(p_values), expected)
    assert_allclose(holm([np.nan, 0.01]), [1.0, 0.02])


def test_ties_and_ranks_as_they_are_defined():
    """Compare with all subsets, for random pairs that are told apart."""
    rng = np.random.RandomState(0)
    for n in (1, 2, 3, 5, 6):
        names = [f"f{i}" for i in range(n)]
        for share in (0.0, 0.3, 0.7, 1.0):
            apart = {pair for pair in combinations(names, 2) if rng.uniform() < share}
            free = [
                set(subset)
                for size in range(1, n + 1)
                for subset in combinations(names, size)
                if not apart.intersection(combinations(subset, 2))
            ]
            largest = [each for each in free if not any(each < other for other in free)]
            found = [set(tie) for tie in ties(names, apart)]
            assert sorted(map(sorted, found)) == sorted(
                sorted(each) for each in largest if len(each) > 1
            )
            for name in names:
                low = 1 + sum((other, name) in apart for other in names)
                high = n - sum((name, other) in apart for other in names)
                assert rank_range(name, names, apart) == (
                    f"{low}-{high}" if low < high else str(low)
                )
