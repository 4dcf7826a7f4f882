"""Tables in all formats and dialects, whole and damaged."""

import gzip
import io
import json
import sys
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sevenhills.cli.options import Choices, Layout
from sevenhills.cli.samples import samples_of
from sevenhills.cli.table_files import read_table

from .runner import ANISO, done, refused, write_csv


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
        ("a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
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
    X = np.random.RandomState(0).standard_normal((5, 1100)).round(3)
    path = write_csv(tmp_path / "wide.csv", X, [f"c{i}" for i in range(1100)])
    found = samples_of(read_table(str(path)), Choices())
    assert_array_equal(found.X, X)
    words = [",".join(f"c{i}" for i in range(1100)), *[",".join(["w", "1"] * 550)] * 3]
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "has a header but no rows"),
        (b"name,town\nanna,rome\n", "has no column of numbers; there is 'anna' in row 1"),
        (b"a,b\n1,2\n1,2,3\n", "row 2 has 3 cells, but the header has 2; is the --separator"),
        (b"a,b\n1,\n,2\n", "every row has a missing value, in a (1), b (1)"),
        (b"a,b\n1,2\n1,2\n", "every column has one value only: a (1), b (2)"),
        (b"\x00\x01\x02", "is not text; known formats are csv"),
        (b"\x93NUMPY\x01", "cannot be read"),
        (b"PAR1abc", "cannot be read"),
        (b"PKabc", "cannot be read"),
        (b'{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        (b'{"a": 1}\n[1]\n', 'every row must be an object like {"x": 1.5}'),
        (b"[[1, 2], [1, 3]]", "every row must be an object"),
        (b"[]", "is empty: there is no row"),
    ],
)
def test_bad_tables_are_one_line(content, message, tmp_path):
    assert message in refused("fit", "-", "-o", tmp_path / "m", given=content)
    assert not (tmp_path / "m").exists()


def test_all_formats_hold_the_same_table(tmp_path):
    import pyarrow
    import pyarrow.parquet

    X = ANISO.sample(9, random_state=0)
    rows = [dict(zip("ab", row, strict=True)) for row in X.tolist()]
    write_csv(tmp_path / "t.csv", X, "ab")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    np.save(tmp_path / "t.npy", X)
    np.savez(tmp_path / "t.npz", a=X[:, 0], b=X[:, 1])
    np.savez(tmp_path / "big.npz", X=X, other=np.zeros(3))
    np.save(tmp_path / "records.npy", np.rec.fromarrays(X.T, names="a,b"))
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "t.json").write_text(json.dumps(rows))
    (tmp_path / "long.json").write_text(json.dumps(rows, indent=2))
    pyarrow.parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "t.parquet")
    for path in tmp_path.iterdir():
        table = read_table(str(path))
        assert_array_equal(table.frame, X)
        assert table.names == (["a", "b"] if table.has_names else ["x0", "x1"])
        given = done("fit", "-", "-o", tmp_path.parent / "m", given=path.read_bytes())
        assert "fitted 9 rows of 2 columns" in given.stdout


def counts(table):
    """The number of words in every column that has some."""
    return {name: words.count for name, words in table.words.items()}


def test_columns_of_parquet_and_json_that_are_no_numbers(tmp_path):
    import datetime
    import decimal

    import pyarrow
    import pyarrow.parquet

    content = {
        "whole": [1, None, 3],
        "money": [decimal.Decimal("1.50"), decimal.Decimal("2.25"), None],
        "flag": [True, False, True],
        "day": [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 3)],
        "time": [datetime.datetime(2024, 1, 1, 12), None, None],
        "word": ["a", "b", "c"],
        "quoted": ["1.5", "2", "3"],
    }
    pyarrow.parquet.write_table(pyarrow.table(content), tmp_path / "t.parquet")
    found = read_table(str(tmp_path / "t.parquet"))
    assert_array_equal(found.frame["whole"], [1, np.nan, 3])
    assert_array_equal(found.frame["money"], [1.5, 2.25, np.nan])
    assert_array_equal(found.frame["quoted"], [1.5, 2, 3])
    assert_array_equal(found.frame["day"], [19723, np.nan, 19725])
    assert_array_equal(found.frame["time"], [19723.5, np.nan, np.nan])
    assert counts(found) == {"flag": 3, "word": 3}
    (tmp_path / "t.jsonl").write_text('{"a": 1, "b": true}\n{"a": null, "c": [1]}\n')
    found = read_table(str(tmp_path / "t.jsonl"))
    assert_array_equal(found.frame["a"], [1, np.nan])
    assert counts(found) == {"b": 1, "c": 1}


def test_archives_that_are_not_one_table():
    file = io.BytesIO()
    np.savez(file, a=np.zeros(3), b=np.zeros(4))
    assert "holds the arrays a, b" in refused("fit", "-", "-o", "m", given=file.getvalue())
    file = io.BytesIO()
    np.save(file, np.zeros((2, 2, 2)))
    line = refused("fit", "-", "-o", "m", given=file.getvalue())
    assert "must hold rows and columns, but has shape (2, 2, 2)" in line


def test_without_pyarrow_parquet_names_the_extra(monkeypatch, tmp_path, model):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "sevenhills[parquet]" in refused("fit", "-", "-o", tmp_path / "m", given=b"PAR1")
    assert "sevenhills[parquet]" in refused("sample", model, "-o", tmp_path / "draws.parquet")
    assert list(tmp_path.iterdir()) == []


# Spreadsheets

OFFICE = "http://schemas.openxmlformats.org"


def xlsx_cell(name, value):
    if value is None:
        return ""
    if isinstance(value, str):
        return f'<c r="{name}" t="inlineStr"><is><t>{value}</t></is></c>'
    if isinstance(value, bool):
        return f'<c r="{name}" t="b"><v>{int(value)}</v></c>'
    return f'<c r="{name}"><v>{value!r}</v></c>'


def write_xlsx(path, rows, sheets=("Data",)):
    """Write the same rows to every sheet."""
    space = f'xmlns="{OFFICE}/spreadsheetml/2006/main"'
    relations = f'<Relationships xmlns="{OFFICE}/package/2006/relationships">'
    kind = f"{OFFICE}/officeDocument/2006/relationships"
    body = "".join(
        f'<row r="{i}">'
        + "".join(xlsx_cell(f"{chr(65 + j)}{i}", each) for j, each in enumerate(row))
        + "</row>"
        for i, row in enumerate(rows, 1)
    )
    listed, related = "", ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        types = f'<Types xmlns="{OFFICE}/package/2006/content-types"/>'
        archive.writestr("[Content_Types].xml", types)
        main = f'<Relationship Id="r1" Type="{kind}/officeDocument" Target="xl/workbook.xml"/>'
        archive.writestr("_rels/.rels", f"{relations}{main}</Relationships>")
        for i, name in enumerate(sheets, 1):
            listed += f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>'
            target = f"worksheets/sheet{i}.xml"
            related += f'<Relationship Id="r{i}" Type="{kind}/worksheet" Target="{target}"/>'
            sheet = f"<worksheet {space}><sheetData>{body}</sheetData></worksheet>"
            archive.writestr(f"xl/{target}", sheet)
        book = f'<workbook {space} xmlns:r="{kind}"><sheets>{listed}</sheets></workbook>'
        archive.writestr("xl/workbook.xml", book)
        archive.writestr("xl/_rels/workbook.xml.rels", f"{relations}{related}</Relationships>")
    return path


def test_spreadsheets(tmp_path):
    rows = [["a", "b", "c", ""], [0.1, 2, "x", True], [1 / 3, None, "1.5", False]]
    table = read_table(str(write_xlsx(tmp_path / "t.xlsx", rows, ("Data", "More"))))
    assert table.names == ["a", "b", "c", "x3"]
    assert_array_equal(table.frame["a"], [0.1, 1 / 3])
    assert_array_equal(table.frame["b"], [2, np.nan])
    assert_array_equal(table.frame["c"], [np.nan, 1.5])
    assert counts(table) == {"c": 1, "x3": 2}
    assert "read the sheet Data of Data, More; --sheet names another" in table.remarks[1]
    path = str(write_xlsx(tmp_path / "plain.xlsx", [[2019, 2020], [1, 2]]))
    assert "has no header" in read_table(path).remarks[0]
    assert read_table(path, Layout(header=True)).names == ["2019", "2020"]
    for rows, message in (([], "is empty"), ([["a", "b"]], "has a header but no rows")):
        path = write_xlsx(tmp_path / "bad.xlsx", rows)
        assert message in refused("fit", path, "-o", tmp_path / "m")


def test_bombs_in_spreadsheets_are_refused(tmp_path):
    path = write_xlsx(tmp_path / "t.xlsx", [["a"], ["0" * 2**24], [1]])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/zeros", bytes(2**26))
    assert "unpacks to more than" in refused("fit", path, "-o", tmp_path / "m")
