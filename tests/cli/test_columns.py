"""Cells as numbers, missing values or words."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sevenhills.cli.columns import (
    column_from_cells,
    concatenate_columns,
    decimal_mark,
    number_in,
)


def test_all_at_once_and_one_by_one_cells_are_the_same_numbers():
    cells = ["1", " 2.5 ", "1e-3", "-inf", "nan", "", "NA", "word", "1_0", "+7", "0x1", "1,5"]
    for mark in (None, "."):
        expected = [number_in(cell, mark) for cell in cells]
        for size in (1, 2, len(cells)):
            starts = range(0, len(cells), size)
            found = concatenate_columns(
                [column_from_cells("a", cells[i : i + size], mark, i + 1) for i in starts]
            )
            assert_array_equal(found.values, [np.nan if x is None else x for x in expected])
            assert (found.n_words, found.example) == (4, "'word' in row 8")


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
