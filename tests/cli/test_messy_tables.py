"""Tables as people and programs write them: what is read, and what is said about it."""

import json
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import sevenhills
from sevenhills.cli.columns import table_of_cells
from sevenhills.cli.dates import days_in, hours_in, weekday_in
from sevenhills.cli.options import Choices, Layout
from sevenhills.cli.samples import samples_of
from sevenhills.cli.table_files import read_table

from .runner import done, refused, remarks

TABLES = Path(__file__).parent / "tables"


def samples(name, layout=None, **choices):
    """Read a table from the folder as samples."""
    return samples_of(read_table(str(TABLES / name), layout), Choices(**choices))


def column(cells, mark="."):
    """Read one column of texts."""
    return table_of_cells("t.csv", pandas.DataFrame({"a": cells}), True, mark)


def days(*moment):
    return (datetime(*moment) - datetime(1970, 1, 1)) / timedelta(days=1)


def test_a_few_words_among_numbers_are_missing_values():
    found = samples("penguins.csv")
    measured = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    assert found.names == [*measured, "year"]
    assert found.frame.index.tolist() == [i for i in range(24) if i not in (3, 10, 17, 20)]
    assert_array_equal(found.X[0], [43.2, 17.8, 190, 3875, 2007])
    assert found.remarks == (
        "words taken as missing in columns bill_length_mm (2), bill_depth_mm (2), "
        "flipper_length_mm (2), body_mass_g (2): 'k.A.'",
        "left out columns species ('Adelie'), island ('Torgersen'), sex ('male'): words, no "
        "numbers",
        "left out 4 of 24 rows with missing or infinite values, in bill_length_mm (2), "
        "bill_depth_mm (2), flipper_length_mm (2), body_mass_g (2)",
    )


def test_words_that_are_refused_or_dropped(tmp_path):
    path, out = TABLES / "penguins.csv", tmp_path / "m.sevenhills"
    mass = ["--columns", "body_mass_g,year"]
    line = refused("fit", path, "-o", out, *mass, "--text", "raise")
    assert "column 'body_mass_g' does not hold numbers ('k.A.' in row 11); --text missing" in line
    assert "does not hold numbers" in refused("fit", path, "-o", out, *mass, "--text", "drop")
    assert "'species' does not hold" in refused("fit", path, "-o", out, "--keep", "species")
    result = done("fit", path, "-o", out, *mass, "--estimator", "kde")
    assert "column body_mass_g: 2 words" in result.stderr
    result = done("fit", path, "-o", out, "--text", "drop", "--estimator", "kde")
    assert sevenhills.load(out).feature_names_in_.tolist() == ["year"]
    warning = "warning: 7 of 8 columns were left out; the samples have only year"
    assert remarks(result)[-1] == warning


def test_four_numbers_for_a_word_make_a_column_of_numbers():
    for cells, is_numeric in ((["1", "2", "3", "4", "x"], True), (["1", "2", "3", "x"], False)):
        table = column([*cells, "", ""])
        assert table.is_numeric("a") == is_numeric
        assert table.words["a"].different == ("'x'",)


def test_different_words_are_named():
    table = column([*map(str, range(0, 90, 3)), "broken", "lost", "broken"])
    said = samples_of(table, Choices()).remarks[0]
    assert said == (
        "column a: 3 words taken as missing: 'broken', 'lost'; first 'broken' in row 31"
    )


def test_the_index_of_a_data_frame():
    found = samples("index.csv")
    assert found.names == ["x", "y"]
    assert len(found.X) == 24
    left_out = "left out column Unnamed: 0: row numbers; --keep 'Unnamed: 0' keeps it"
    assert found.remarks == (left_out,)
    assert found.left_out["identifier_columns"] == ["Unnamed: 0"]
    for choices in ({"keep": ["Unnamed: 0"]}, {"columns": "Unnamed: 0,x,y"}):
        kept = samples("index.csv", **choices)
        assert kept.names == ["Unnamed: 0", "x", "y"]
        assert kept.remarks == ()


def test_identifiers():
    found = samples("identifiers.csv")
    assert found.names == ["population", "area"]
    assert_array_equal(found.X[0], [165254, 17])
    assert found.remarks == (
        "left out column uuid: identifiers, every word differs, first '6513270e-269e-4d37-...' "
        "in row 1",
        "left out column nr: row numbers; --keep nr keeps it",
        "left out column customer_id: identifiers; --keep customer_id keeps it",
        "warning: 3 of 5 columns were left out; the samples have only population, area",
    )
    kept = samples("identifiers.csv", keep=["nr", "customer_id"])
    assert kept.names == ["nr", "customer_id", "population", "area"]
    assert "has no column 'nummer'" in refused(
        "fit", TABLES / "identifiers.csv", "-o", "m", "--keep", "nummer"
    )


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("n", range(9), "row numbers"),
        ("n", range(30, 21, -1), "row numbers"),
        ("n", [1, 2, np.nan, 4, 5, 6], "row numbers"),
        ("n", [1, 2, 4, 5, 6, 7], None),
        ("n", [1, 2, 3, 5, 4, 6], None),
        ("n", [1, 1, 1, 1, 1, 1], None),
        ("n", [1, 2, 3, 4], None),
        ("year", range(1990, 2020), None),
        ("year_id", range(1990, 2020), "identifiers"),
        ("n", [1, 2, *range(5, 25)], "row numbers"),
        ("n", [*range(24, 2, -1), 1], "row numbers"),
        ("n", [*range(1, 40, 2), 42, 44], None),
        ("n", [2, 1, *range(3, 25)], "row numbers"),
        ("n", [3, 2, *range(4, 25)], None),
        ("PassengerId", [7, 3, 9, 12, 5], "identifiers"),
        ("Nr.", [7, 3, 9, 12, 5], "identifiers"),
        ("n", np.arange(9) / 2, None),
        ("order id", [7, 3, 9, 12, 5], "identifiers"),
        ("order id", [7, 3, 9, 7, 5], None),
        ("humid", [7, 3, 9, 12, 5], None),
        ("", [0, 3, 1, 3, 8], "row numbers"),
        ("Unnamed: 0", [0, 3, -1, 3, 8], None),
        ("Unnamed: 0.1", [0, 3, 1, 3, 8], "row numbers"),
    ],
)
def test_numbers_that_tell_rows_apart(name, values, kind):
    cells = pandas.DataFrame({name: np.array(values, float), "y": np.ones(len(values))})
    found = table_of_cells("t.csv", cells, has_names=True).identifiers
    assert list(found.values()) == ([] if kind is None else [kind])


def test_a_table_of_row_numbers_alone(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "\n".join(map(str, range(20))))
    line = refused("fit", path, "-o", "m")
    assert "has no column of numbers but row numbers in n; --keep n keeps it" in line
    options = ["--keep", "n", "--estimator", "kde"]
    assert "fitted 20 rows" in done("fit", path, "-o", "m", *options).stdout


def test_currency():
    found = samples("currency.csv")
    assert_array_equal(found.X[:3], [[38490, -14, 7.3], [68479, -1890, 2.34], [72330, 1468, 2.59]])
    assert found.remarks == (
        "column revenue: amounts in $",
        "column profit: amounts in $; 11 in parentheses, read as negative",
        "column price: amounts in €",
    )


def test_percentages():
    found = samples("percent.csv")
    assert_array_equal(found.X[:3], [[63, -0.9], [31, -3.4], [5, 1.4]])
    assert found.remarks == ("columns share, growth: percentages, 12 % is read as 12",)


def test_groups_of_thousands():
    found = samples("thousands.csv")
    assert found.names == ["residents", "spaced"]
    assert_array_equal(found.X[:3], [[147, 2781118], [68108, 2969716], [432, 213612]])
    assert found.remarks == (
        "column residents: commas group thousands",
        "left out column unclear: words, no numbers, first '4,714' in row 1; --decimal says what "
        "the mark in it means",
    )
    told = samples("thousands.csv", Layout(decimal="."))
    assert told.X[0, 2] == 4714


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["$1,200", "$950", "-$3.50", "$-2"], [1200, 950, -3.5, -2]),
        (["1 200", "12\u00a0345", "1'234'567", "7"], [1200, 12345, 1234567, 7]),
        (["(1,200)", "30", "( $5 )", "\u22124"], [-1200, 30, -5, -4]),
        (["12%", "0.5 %", "-3 %", ""], [12, 0.5, -3, np.nan]),
        (["5 EUR", "7,000 EUR", "9.5 EUR"], [5, 7000, 9.5]),
        (["$5", "6", "7", "8", "€9"], [5, 6, 7, 8, np.nan]),
        (["12%", "13%", "14%", "15%", "0.16"], [12, 13, 14, 15, np.nan]),
        (["$5$", "--6", "(-7)", "5 %%", "()"], [np.nan] * 5),
        (["$1,200", "two", "words"], [np.nan] * 3),
    ],
)
def test_amounts(cells, numbers):
    assert_array_equal(column(cells).frame["a"], numbers)


@pytest.mark.parametrize(
    ("cells", "is_known"),
    [
        (["1,200", "950"], True),
        (["$1,234", "$2,345"], True),
        (["1,234", "2,345,678"], True),
        (["1,234", "2,500"], False),
        (["1,234", "950"], False),
        (["1,200", "1500"], False),
        (["€1,234", "€2,500"], False),
        (["1,234", "1,5"], False),
    ],
)
def test_commas_of_a_column_in_a_file_without_other_marks(cells, is_known):
    table = column(cells, mark=None)
    expected = [float(cell.strip("$€").replace(",", "")) for cell in cells]
    if is_known:
        assert_array_equal(table.frame["a"], expected)
        assert any(each.endswith("commas group thousands") for each in table.remarks)
    else:
        assert "--decimal says what the mark in it means" in table.words["a"].example


def test_advice_on_marks_is_for_numbers_with_two_readings():
    for word in ("12 %", "$5", "1.5 %", "x"):
        assert column(["1", "2", word, "x", "y"]).words["a"].example == f"{word!r} in row 3"


@given(
    st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1, max_size=20),
    st.sampled_from(["$", "€", "EUR ", ""]),
    st.sampled_from([".", ","]),
)
def test_formatted_amounts_are_read_back(amounts, unit, mark):
    swapped = str.maketrans(".,", ",.") if mark == "," else {}
    cells = [f"({unit}{-x:,})" if x < 0 else f"{unit}{x:,}" for x in amounts]
    found = column([cell.translate(swapped) for cell in cells], mark)
    assert_array_equal(found.frame["a"], [float(x) for x in amounts])


def test_dates():
    found = samples("dates.csv")
    assert found.names == ["day", "begin", "german", "american", "value"]
    day = days(2024, 5, 27)
    assert_allclose(found.X[0], [day, day + (13 + 43 / 60) / 24, day, day, 0.02], rtol=1e-15)
    assert_array_equal(found.frame["german"], found.frame["day"])
    assert_array_equal(found.frame["american"], found.frame["day"])
    assert found.remarks == (
        "columns day, begin, german, american: dates, read as days since 1970-01-01",
        "left out column unclear: words, no numbers, first '06/07/2024' in row 1; day or month "
        "first? dates like 2024-12-31 are read",
    )


@given(st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)), min_size=1))
def test_dates_are_read_back(moments):
    moments = [*(each.replace(microsecond=0) for each in moments), datetime(2001, 2, 13)]
    formats = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S+00:00", "%Y/%m/%d %H:%M:%S"]
    formats += [
        "%d.%m.%Y %H:%M:%S",
        "%d/%m/%Y %H:%M:%S",
        "%m/%d/%y %I:%M:%S {}",  # %p is empty in some locales
        "%d-%m-%Y %H:%M:%S",
    ]
    expected = [(each - datetime(1970, 1, 1)) / timedelta(days=1) for each in moments]
    for format in formats:
        halves = ["AM" if each.hour < 12 else "PM" for each in moments]
        texts = [each.strftime(format) for each in moments]
        found = days_in([text.format(half) for text, half in zip(texts, halves, strict=True)])
        assert_allclose(found, expected, rtol=1e-12)
    assert days_in(moments) == expected
    assert days_in([each.date() for each in moments]) == [np.floor(each) for each in expected]


@pytest.mark.parametrize(
    "cell",
    [
        "2024-02-30",
        "32.1.2024",
        "13/14/2024",
        "1/2/2024",
        "2024-01-01 25:00",
        "1.2",
        "1-2/2024",
        "3.11.4",
        "3.11.14",
    ],
)
def test_cells_that_are_no_dates(cell):
    assert days_in([cell]) == [None]


def test_dates_of_both_orders_are_not_guessed():
    assert days_in(["13/1/2024", "1/13/2024"]) == [None, None]
    assert days_in(["2024-01-01T02:00+02:00", "1970-01-02Z"]) == [days(2024, 1, 1), None]


def test_times_of_day_and_weekdays(tmp_path):
    found = samples("times.csv")
    assert_allclose(found.X[0], [20.3, 21.3, 6, 30])
    assert_allclose(found.X[1], [1 + 56 / 60, 2 + 56 / 60, 6, 37])
    assert found.remarks == (
        "columns departure, arrival: times of day, read as hours; --support departure=circular:24 "
        "--support arrival=circular:24 makes them circular",
        "column weekday: weekdays, read as 1 (Monday) to 7; --support weekday=circular:7 makes "
        "it circular",
    )
    circles = ["--support", "departure=circular:24", "--support", "weekday=circular:7"]
    options = [*circles, "--estimator", "kde"]
    done("fit", TABLES / "times.csv", "-o", tmp_path / "m.sevenhills", *options)


@pytest.mark.parametrize(
    ("cell", "hours"),
    [
        ("00:00", 0),
        ("7:30", 7.5),
        ("06:00:36", 6.01),
        ("12:30 AM", 0.5),
        ("12:30 p.m.", 12.5),
        ("24:00", None),
        ("23:59:60", None),
        ("13:00 pm", None),
        ("7:5", None),
        (7.5, None),
    ],
)
def test_hours(cell, hours):
    assert hours_in(cell) == (None if hours is None else pytest.approx(hours))


def test_names_of_weekdays():
    assert [weekday_in(each) for each in ("Monday", " sun", "WED.", "Month", 3)] == [
        1, 7, 3, None, None,
    ]  # fmt: skip


def test_semicolons_with_decimal_commas_and_points_of_thousands():
    found = samples("semicolon.csv")
    assert found.names == ["Umsatz", "Temperatur", "Einwohner"]
    assert_array_equal(found.X[:2], [[2701.61, 10.2, 384125], [1782.15, 13.2, 611115]])
    (said,) = found.remarks
    assert said.endswith("semicolon.csv has decimal commas (--decimal . says otherwise)")


def test_units_after_spaces_are_not_columns():
    found = samples("european.csv")
    assert found.names == ["Preis", "Datum", "Anteil"]
    assert_array_equal(found.X[0], [7402.5, days(2024, 3, 1), 18.5])
    assert not any("left out" in said for said in found.remarks)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([-999, 1, 2.5, -999, 3, 4], "-999 in 2 rows"),
        ([1, 2.5, 9999, 3, 9999, 9999], "9999 in 3 rows"),
        ([999, 1, 2.5, 3, 4], None),  # a single one may be an outlier
        ([-999, -999, -990, -980], None),
        ([-998, -998, 1, 2], None),
        ([-999, -999, 5, 5], None),
    ],
)
def test_numbers_that_may_mark_missing_values(values, code):
    cells = pandas.DataFrame({"x": np.array(values, float), "y": np.arange(len(values)) ** 2 / 7})
    said = samples_of(table_of_cells("t.csv", cells, has_names=True), Choices()).remarks
    expected = f"warning: column x has {code}, far from its other values; if it marks missing"
    assert [each.startswith(expected) for each in said] == ([] if code is None else [True])


def test_a_spreadsheet():
    found = samples("sheet.xlsx")
    assert found.names == ["Datum", "Uhrzeit", "Masse", "Anteil"]
    assert_allclose(found.X[0], [days(2024, 5, 27), 6 + 35 / 60, 17.28, 59])
    assert len(found.X) == 22
    assert found.remarks == (
        "column Datum: dates, read as days since 1970-01-01",
        "column Uhrzeit: times of day, read as hours; --support Uhrzeit=circular:24 makes it "
        "circular",
        "column Anteil: percentages, 12 % is read as 12",
        "column Masse: 2 words taken as missing: 'defekt' in row 5",
        "left out column Nr: row numbers; --keep Nr keeps it",
        "left out 2 of 24 rows with missing or infinite values, in Masse (2)",
    )


def test_sheets():
    found = samples("book.xlsx")
    assert found.names == ["size left", "size right", "mass left", "mass right"]
    assert found.X.shape == (24, 4)
    assert "--sheet names another" in found.remarks[0]
    assert_array_equal(samples("book.xlsx", Layout(sheet="Data")).X, found.X)
    for name in ("old.xls", "sheet.ods"):
        assert_array_equal(samples(name).X, found.X[:, :2])
    path = TABLES / "book.xlsx"
    assert "has no sheet 'B'; it has Readme, Data" in refused(
        "fit", path, "-o", "m", "--sheet", "B"
    )
    assert "has a header but no rows" in refused("fit", path, "-o", "m", "--sheet", "Readme")


def test_feather_and_archives(tmp_path, monkeypatch):
    frame = samples("years.csv").frame
    frame.to_feather(tmp_path / "t.feather")
    assert_array_equal(read_table(str(tmp_path / "t.feather")).frame, frame)
    assert_array_equal(samples("packed.zip").X, frame)
    with zipfile.ZipFile("two.zip", "w") as archive:
        archive.write(TABLES / "years.csv", "a.csv")
        archive.write(TABLES / "years.csv", "b.csv")
    assert "two.zip must hold one table, but has a.csv, b.csv" in refused(
        "fit", "two.zip", "-o", "m"
    )
    with zipfile.ZipFile("nested.zip", "w") as archive:
        archive.write("two.zip")
    assert "nested.zip/two.zip is an archive" in refused("fit", "nested.zip", "-o", "m")
    monkeypatch.setattr("sevenhills.decoding._ALWAYS_UNPACKED", 100)
    monkeypatch.setattr("sevenhills.decoding._LARGEST_RATIO", 0)
    for path in (TABLES / "packed.zip", "t.feather"):
        assert "unpacks to more than" in refused("fit", path, "-o", "m")


def test_columns_that_differ_by_rounding_only():
    cells = pandas.DataFrame({"x": [1.0, 2.0, 4.0], "c": [0.3, 0.1 + 0.2, 0.3]})
    found = samples_of(table_of_cells("t.csv", cells, has_names=True), Choices())
    assert found.left_out["constant_columns"] == ["c"]


def test_one_row(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n,4\n")
    assert refused("fit", "t.csv", "-o", "m").endswith(
        "t.csv has only one complete row; a density needs at least two"
    )


def test_the_terminal_text_of_every_table(tmp_path, monkeypatch):
    monkeypatch.chdir(TABLES)
    shown = []
    for path in sorted(TABLES.iterdir()):
        name, model = path.name, tmp_path / "m.sevenhills"
        result = done("fit", name, "-o", model, "--estimator", "kde")
        lines = [f"$ sevenhills fit {name} -o m.sevenhills --estimator kde", *remarks(result)]
        shown += [*lines, *result.stdout.replace(str(model), model.name).splitlines(), ""]
    assert "\n".join(shown) == (TABLES.parent / "terminal.txt").read_text("utf-8")


def test_rows_of_units_and_totals(tmp_path):
    found = samples("totals.csv")
    assert found.names == ["length", "speed", "mass"]
    assert found.frame.index.tolist() == list(range(1, 25))
    assert found.X.max() < 250
    assert found.left_out["unit_and_total_rows"] == 2
    assert found.remarks == (
        "left out row 1: no numbers, but words or units: '(mm)', 'm/s', 'g'",
        "left out row 26: it is called 'Total', and is no sample",
        "left out column site ('S0'): words, no numbers",
    )
    path, model = TABLES / "totals.csv", tmp_path / "m.sevenhills"
    done("fit", path, "-o", model, "--estimator", "kde")
    scores = done("score", model, path).stdout.splitlines()[1:]
    assert [row for row, score in enumerate(scores, 1) if not score.strip('"')] == [1, 26]


def test_rows_that_are_not_summaries():
    for cells in (["Total", "a", "Total"], ["Total", "a", "b"], ["a", "b", "totally"]):
        frame = pandas.DataFrame({"name": cells, "x": [1.0, 5.0, 2.0]})
        assert table_of_cells("t.csv", frame, has_names=True).label_rows == ()


def test_another_encoding_after_a_byte_order_mark():
    found = samples("latin1.csv")
    assert found.names == ["Größe", "Gewicht"]
    assert_array_equal(found.X[:2], [[176, 65.4], [169, 78.3]])
    first, second = found.remarks
    assert first.endswith("latin1.csv is not UTF-8; it was read as Windows-1252")
    assert second == "left out column Straße ('Königsallee'): words, no numbers"


def test_columns_that_are_mostly_empty():
    found = samples("sparse.csv")
    assert found.names == ["x", "y", "depth"]
    assert len(found.X) == 23
    assert found.left_out["empty_columns"] == ["remark", "salinity"]
    assert found.remarks == (
        "left out column remark: no values",
        "left out column salinity: 21 of its 24 values are missing; --keep salinity keeps it",
        "left out 1 of 24 rows with missing or infinite values, in depth (1)",
    )
    kept = samples("sparse.csv", keep=["salinity"])
    assert len(kept.X) == 3
    assert kept.remarks[-1] == (
        "warning: 21 of 24 rows were left out; --columns without the gaps keeps more of them"
    )
    with pytest.raises(ValueError, match="21 of 24 rows have missing"):
        samples("sparse.csv", missing="raise")


def test_columns_that_are_all_mostly_empty_are_kept():
    cells = pandas.DataFrame({"a": [1.0, 4.0, None, None, None], "b": [2.0, 3.0, None, None, None]})
    found = samples_of(table_of_cells("t.csv", cells, has_names=True), Choices())
    assert_array_equal(found.X, [[1, 2], [4, 3]])
    assert found.remarks[-1].startswith("warning: 3 of 5 rows were left out")


def test_warnings_come_before_the_model_is_saved(tmp_path):
    path, out = TABLES / "sparse.csv", tmp_path / "m.sevenhills"
    line = refused("fit", path, "-o", out, "--missing", "raise")
    assert line.endswith("first row 1; in salinity (21), depth (1); --missing skip leaves them out")
    options = ["--keep", "salinity", "--min-std", "1", "--estimator", "rome"]
    result = done("fit", path, "-o", out, *options)
    assert "warning: 21 of 24 rows were left out" in result.stderr
    assert f"saved as {out}" in result.stdout
    line = refused("outliers", path, "--model", out, "--calibration", path, "--keep", "x")
    assert "--keep" in line
    assert "no meaning with --model" in line


def test_measurements_with_units():
    found = samples("measured.csv")
    assert_array_equal(found.X[:2], [[61.5, -3.2, 180], [70.25, 14.0, 175]])
    assert found.remarks == (
        "column weight: measurements in kg",
        "column temperature: measurements in °C",
        "column height: measurements in cm",
        "left out column mixed: 12 of its 24 values are no numbers, first '5 lb' in row 1; --text "
        "missing keeps it",
    )


@pytest.mark.parametrize(
    "cells",
    [["10k", "3M", "4k", "5k"], ["1 kg", "2 lb"], ["6 pm", "7 pm"], ["1st", "2nd"], ["12 a b"]],
)
def test_words_that_are_no_measurements(cells):
    assert column(cells).words["a"].count == len(cells)


def test_a_title_above_the_header():
    found = samples("title.csv")
    assert found.names == ["length", "width"]
    assert found.remarks == ("left out the title above the header: 'Survey of 2024', 'Draft'",)
    assert len(found.X) == 24


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Survey\nx,y\n1,2\n3,5\n", ["x", "y"]),
        ("x\n1\n2\n", ["x"]),
        ("a,,\n1,2,3\n2,5,4\n", ["a", "x1", "x2"]),
        ("5,,\nx,y,z\n1,2,3\n", ["x0", "x1", "x2"]),
    ],
)
def test_rows_that_may_be_titles(text, names, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    assert read_table(str(tmp_path / "t.csv")).names == names


def test_nested_and_columnar_json():
    found = samples("nested.json")
    assert found.names == ["position.x", "position.y", "speed"]
    assert_array_equal(found.X[0], [0.4, 1.3, 12])
    assert found.remarks == ("left out column tags (['a', 'b']): words, no numbers",)


@pytest.mark.parametrize(
    "text",
    [
        '{"x": [1, 4], "y": [2, 3]}',
        '{"x": {"0": 1, "1": 4}, "y": {"0": 2, "1": 3}}',
        '{"data": [{"x": 1, "y": 2}, {"x": 4, "y": 3}]}',
    ],
)
def test_json_of_columns(text, tmp_path):
    (tmp_path / "t.json").write_text(text)
    frame = read_table(str(tmp_path / "t.json")).frame
    assert list(frame.columns) == ["x", "y"]
    assert_array_equal(frame, [[1, 2], [4, 3]])


def test_names_of_months():
    cells = ["5 Jan 2024", "05-jan-2024", "January 5, 2024", "Jan. 05 2024"]
    assert days_in(cells) == [days(2024, 1, 5)] * 4
    assert days_in(["5 Foo 2024", "31 Feb 2024", "Jan 2024"]) == [None] * 3


def test_durations():
    found = column(pandas.to_timedelta([90, 30], unit="min"))
    assert_array_equal(found.frame["a"], [1.5, 0.5])
    assert found.units == {"a": "hours"}


def test_long_words_are_quoted_to_their_end():
    table = column(["chevrolet chevelle malibu", "buick"])
    assert table.words["a"].example == "'chevrolet chevelle ...' in row 1"


def test_a_column_in_another_unit_changes_no_cluster_and_no_outlier(tmp_path):
    frame = pandas.read_csv(TABLES / "penguins.csv")
    frame["body_mass_g"] = pandas.to_numeric(frame["body_mass_g"], errors="coerce") * 1000
    frame.to_csv(tmp_path / "milligrams.csv", index=False)
    fits, found = [], []
    for path in (TABLES / "penguins.csv", tmp_path / "milligrams.csv"):
        options = ["--columns", "bill_length_mm,bill_depth_mm,body_mass_g"]
        done("fit", path, "-o", "m.sevenhills", *options)
        fits.append(sevenhills.load("m.sevenhills"))
        scores = json.loads(done("score", "m.sevenhills", path, "--json").stdout)["log_densities"]
        rows = json.loads(done("outliers", path, *options, "--rate", "0.1", "--json").stdout)
        found.append((np.array(scores, float), [row["row"] for row in rows["rows"]]))
    assert_array_equal(fits[0].labels_, fits[1].labels_)
    (scores, rows), (rescaled, same_rows) = found
    assert rows == same_rows != []
    assert_allclose(scores - rescaled, np.where(np.isnan(scores), np.nan, np.log(1000)), rtol=1e-6)
