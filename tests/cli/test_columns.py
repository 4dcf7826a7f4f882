"""Cells as numbers, missing values or words."""

import numpy as np
import pandas
import pytest
from numpy.testing import assert_array_equal

from sevenhills.cli.columns import Words, decimal_mark, number_in, table_of_cells


def test_all_at_once_and_one_by_one_cells_are_the_same_numbers():
    cells = ["1", " 2.5 ", "1e-3", "-inf", "nan", "", "NA", "word", "1_0", "+7", "0x1", "1,5"]
    words = ("word", "1_0", "0x1", "1,5")
    for mark in (None, "."):
        expected = [number_in(cell, mark) for cell in cells]
        numbers = [np.nan if each is None else each for each in expected]
        found = table_of_cells("t.csv", pandas.DataFrame({"a": cells}), True, mark)
        assert_array_equal(found.frame["a"], numbers)
        assert found.words == {"a": Words(4, "'word' in row 8", tuple(map(repr, words)))}
        for cell, number in zip(cells, numbers, strict=True):
            alone = table_of_cells("t.csv", pandas.DataFrame({"a": [cell]}), True, mark)
            assert_array_equal(alone.frame["a"], [number])


@pytest.mark.parametrize(
    ("cells", "separator", "mark"),
    [
        (["1", "2.5"], ",", "."),
        (["1,5", "2"], ";", ","),
        (["1.234,5"], ";", ","),
        (["1,234.5", "2,000"], ",", "."),
        (["1,234,567"], ",", "."),
        (["1,234"], ",", None),
        (["1,234"], ";", ","),
        (["1.234", "word", ""], ",", "."),
    ],
)
def test_the_decimal_mark_of_cells(cells, separator, mark):
    assert decimal_mark(cells, separator) == mark
