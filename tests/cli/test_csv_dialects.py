"""CSV in its many dialects."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sevenhills.cli.options import Choices, Layout
from sevenhills.cli.samples import samples_of
from sevenhills.cli.table_files import read_table

from .runner import done, refused, write_csv


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a,b\n1,2\n3,4\n", {"a": [1, 3], "b": [2, 4]}),
        ("a;b\n1,5;2\n3,25;4\n", {"a": [1.5, 3.25], "b": [2, 4]}),
        ("a\tb\r\n1\t2\r\n3\t4", {"a": [1, 3], "b": [2, 4]}),
        ("a|b\n1|2\n3|4\n", {"a": [1, 3], "b": [2, 4]}),
        ("  a   b\n  1   2\n 30   4\n", {"a": [1, 30], "b": [2, 4]}),
        ("a\n1,5\n2,5\n", {"a": [1.5, 2.5]}),
        ("a\n1.5\n2.5\n", {"a": [1.5, 2.5]}),
        ('a,b\n"1,5","2"\n"2,5","3"\n', {"a": [1.5, 2.5], "b": [2, 3]}),
        ('a,b\n"1,234.5",1\n"2,000",2\n', {"a": [1234.5, 2000], "b": [1, 2]}),
        ("a;b\n1.234,5;1\n2.000;2\n", {"a": [1234.5, 2000], "b": [1, 2]}),
        ("a;b\n1,234;1\n2,500;2\n", {"a": [1.234, 2.5], "b": [1, 2]}),
        ('"a","b"\n"1"," 2 "\n"3","4"\n', {"a": [1, 3], "b": [2, 4]}),
        ("1,2\n3,4\n", {"x0": [1, 3], "x1": [2, 4]}),
        ("anna,1\nbob,2\n", {"x0": [np.nan, np.nan], "x1": [1, 2]}),
        ("a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4], "x2": [np.nan, np.nan]}),
        ("a,b\n1,2\n3\n", {"a": [1, 3], "b": [2, np.nan]}),
        ("a,a,a\n1,2,3\n", {"a": [1], "a_2": [2], "a_3": [3]}),
        ("a,b\n\n1,2\n\n3,4\n\n", {"a": [1, 3], "b": [2, 4]}),
        ("# made by hand\na,b\n1,2\n", {"a": [1], "b": [2]}),
        ("a,b\nNA,-\n?,NULL\n1,2\n", {"a": [np.nan, np.nan, 1], "b": [np.nan, np.nan, 2]}),
        ("a,b\n1e3,\N{MINUS SIGN}5\n+2,.5\n", {"a": [1000, 2], "b": [-5, 0.5]}),
        ("2019,2020\n1,2\n", {"x0": [2019, 1], "x1": [2020, 2]}),
        ('a,b\n1,"two\nlines"\n2,x\n', {"a": [1, 2], "b": [np.nan, np.nan]}),
        ("a,b\n1_0,2\n", {"a": [np.nan], "b": [2]}),
    ],
)
def test_dialects(tmp_path, text, columns):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    table = read_table(str(path))
    assert table.names == list(columns)
    for name, expected in columns.items():
        assert_array_equal(table.frame[name], expected)


def test_what_cannot_be_told_is_not_guessed(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('a,b\n"1,234",1\n"2,500",2\n"3,100",5\n')
    result = done("fit", path, "-o", tmp_path / "m", "--min-std", "1")
    assert "'1,234' in row 1; --decimal says what the mark in it means" in result.stderr
    for mark, expected in ((".", [1234, 2500, 3100]), (",", [1.234, 2.5, 3.1])):
        assert_array_equal(read_table(str(path), Layout(decimal=mark)).frame["a"], expected)


def test_headers_and_separators_as_told(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("2019,2020\n1,2\n")
    assert read_table(str(path), Layout(header=True)).names == ["2019", "2020"]
    table = read_table(str(path), Layout(separator=";", header=False))
    assert table.words == {}
    assert_array_equal(table.frame["x0"], [2019.202, 1.2])
    assert Layout(separator="tab").separator == "\t"
    path.write_text("x y\n1 2\n")
    assert read_table(str(path), Layout(separator="space")).names == ["x", "y"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path, encoding):
    path = tmp_path / "table.csv"
    path.write_text("größe,höhe\n1,2\n3,4\n", encoding=encoding)
    table = read_table(str(path))
    assert table.names == ["größe", "höhe"]
    assert any("Windows-1252" in remark for remark in table.remarks) == (encoding == "cp1252")


def test_thousands_of_columns(tmp_path):
    X = np.random.RandomState(0).standard_normal((5, 3000)).round(3)
    path = write_csv(tmp_path / "wide.csv", X, [f"c{i}" for i in range(3000)])
    found = samples_of(read_table(str(path)), Choices())
    assert_array_equal(found.X, X)
    words = [",".join(f"c{i}" for i in range(3000)), *[",".join(["w", "1"] * 1500)] * 3]
    path.write_text("\n".join(words))
    line = refused("fit", path, "-o", tmp_path / "m")
    assert len(line) < 300


def test_long_tables(tmp_path):
    X = np.random.RandomState(0).standard_normal((9001, 2)).round(6)
    path = write_csv(tmp_path / "long.csv", X)
    with open(path, "a") as file:
        file.write("1.5,word\n")
    table = read_table(str(path))
    assert_array_equal(table.frame["x"], [*X[:, 0], 1.5])
    assert table.words["y"].example == "'word' in row 9002"


def test_numbers_are_read_to_the_last_digit(tmp_path):
    X = np.random.RandomState(0).standard_normal((500, 2)) * 10.0 ** np.arange(-250, 250)[:, None]
    cells = [[repr(float(x)) for x in row] for row in X]
    for separator, mark in ((",", "."), (";", ",")):
        path = tmp_path / "table.csv"
        path.write_text("\n".join(separator.join(row) for row in cells).replace(".", mark))
        table = read_table(str(path))
        assert_array_equal(table.frame, X)
        assert not table.has_names
