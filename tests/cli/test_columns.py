"""Cells as numbers, missing values or words."""

import numpy as np
from numpy.testing import assert_array_equal

from sevenhills.cli.columns import Notation, _number, column_from_cells, concatenate_columns


def test_all_at_once_and_one_by_one_cells_are_the_same_numbers():
    cells = ["1", " 2.5 ", "1e-3", "-inf", "nan", "", "NA", "word", "1_0", "+7", "0x1", "1,5"]
    for mark in (None, "."):
        notation = Notation(mark)
        expected = [_number(cell, notation) for cell in cells]
        for size in (1, 2, len(cells)):
            starts = range(0, len(cells), size)
            found = concatenate_columns(
                [column_from_cells("a", cells[i : i + size], notation, i + 1) for i in starts]
            )
            assert_array_equal(found.values, [np.nan if x is None else x for x in expected])
            assert (found.n_words, found.example) == (4, "'word' in row 8")
