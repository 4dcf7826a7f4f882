"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Data = Annotated[
    str,
    typer.Argument(
        help="csv, xlsx, parquet, npy, npz or JSON lines, also .gz; - is standard input."
    ),
]
ModelFile = Annotated[Path, typer.Argument(help="A model written by `sevenhills fit`.")]

Columns = Annotated[
    str | None,
    typer.Option(help="Columns to use, names or indices separated by commas; all by default."),
]
Text = Annotated[
    Literal["drop", "raise", "missing"],
    typer.Option(
        help="Columns with words: leave them out, refuse them, or take words as missing values."
    ),
]
Missing = Annotated[
    Literal["skip", "raise"],
    typer.Option(help="Rows with missing or infinite values: leave them out or refuse them."),
]
Constant = Annotated[
    Literal["drop", "keep", "raise"],
    typer.Option(help="Columns with one value only: leave them out, keep or refuse them."),
]
Duplicates = Annotated[
    Literal["keep", "drop"],
    typer.Option(help="Rows that repeat others: keep all of them, or one of each."),
]
Separator = Annotated[
    str | None,
    typer.Option(help="Separator of csv: , ; | tab or space; recognized by default."),
]
Decimal = Annotated[
    Literal["auto", ".", ","],
    typer.Option(help="Decimal mark of csv; auto recognizes it."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first row of csv holds names; recognized by default.",
    ),
]

Estimator = Annotated[
    Literal["rome", "auto", "kde", "kde_cv", "gmm", "parzen", "vine"],
    typer.Option(
        help="ROME, AutoROME, Gaussian KDE, KDE with a cross-validated bandwidth, Gaussian "
        "mixture, manifold Parzen windows, or vine copula (extra vine)."
    ),
]
MinStd = Annotated[
    str | None,
    typer.Option(help="Smallest standard deviation in data units, or auto."),
]
Resolution = Annotated[
    str | None,
    typer.Option(
        help="Unit to which values are rounded: auto recognizes it for every column, none takes "
        "all values as exact, a number applies to all columns."
    ),
]
Jobs = Annotated[int | None, typer.Option(help="Number of threads, -1 for one per core.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the random numbers.")]

Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        help="File to write: .csv, .npy, .parquet or .jsonl; - is standard output.",
    ),
]
Format = Annotated[
    Literal["csv", "npy", "parquet", "jsonl"] | None,
    typer.Option(help="Format of the output if its name has no suffix; csv by default."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
