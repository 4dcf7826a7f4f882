"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Data = Annotated[
    str,
    typer.Argument(help="csv, parquet, npy, npz or JSON lines, also .gz; - is standard input."),
]
ModelFile = Annotated[Path, typer.Argument(help="A model that `sevenhills fit` has written.")]

Columns = Annotated[
    str | None,
    typer.Option(help="The columns to use, by name or index, with commas; all by default."),
]
Text = Annotated[
    Literal["drop", "error", "missing"],
    typer.Option(
        help="Columns with words: leave them out, refuse them, or take words as missing values."
    ),
]
Missing = Annotated[
    Literal["drop", "error"],
    typer.Option(help="Rows with missing or infinite values: leave them out or refuse them."),
]
Constant = Annotated[
    Literal["drop", "keep", "error"],
    typer.Option(help="Columns that have one value only: leave them out, keep or refuse them."),
]
Duplicates = Annotated[
    Literal["keep", "drop"],
    typer.Option(help="Rows that repeat others: count them as they are, or once."),
]
Separator = Annotated[
    str | None,
    typer.Option(help="What separates the cells of csv: , ; | tab or space; found if not given."),
]
Decimal = Annotated[
    Literal["auto", ".", ","], typer.Option(help="The decimal mark of numbers in csv.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first row of csv has names; found if not given."
    ),
]

Mode = Annotated[
    Literal["rome", "auto", "kde", "kde-cv", "mpw", "gmm", "vine"],
    typer.Option(
        help="The estimator: ROME, AutoROME, Gaussian KDE, KDE with a cross-validated bandwidth, "
        "manifold Parzen windows, a Gaussian mixture, a vine copula (extra vine)."
    ),
]
MinStd = Annotated[
    str | None,
    typer.Option(help="The smallest standard deviation in data units, or auto, if it has one."),
]
Resolution = Annotated[
    str | None,
    typer.Option(
        help="The unit to which values are rounded: auto recognizes it for every column, none "
        "takes all values as exact, a number is that of all columns."
    ),
]
Jobs = Annotated[int | None, typer.Option(help="Number of threads, -1 for one per core.")]
Seed = Annotated[int | None, typer.Option(help="Makes the random numbers repeatable.")]

Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        help="Where to write; .csv, .npy, .parquet or .jsonl; - is standard output.",
    ),
]
Format = Annotated[
    Literal["csv", "npy", "parquet", "jsonl"] | None,
    typer.Option(help="The format of the output, if its name does not tell; csv by default."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]
