"""Options that several commands share, one by one and in groups."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..estimators import ESTIMATORS

_NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}

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

if TYPE_CHECKING:  # A type checker cannot read the names of the registry.
    EstimatorName = str
else:
    EstimatorName = Literal[tuple(ESTIMATORS)]
Estimator = Annotated[
    EstimatorName,
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


@dataclass(frozen=True)
class Layout:
    """The layout of a CSV file, as far as the user has set it."""

    separator: Separator = None
    decimal: Decimal = "auto"
    header: Header = None

    def __post_init__(self) -> None:
        separator = _NAMED_SEPARATORS.get(self.separator or "", self.separator)
        if separator is not None and len(separator) != 1:
            raise ValueError(
                f"--separator must be one character, tab or space, got {self.separator!r}"
            )
        object.__setattr__(self, "separator", separator)


@dataclass(frozen=True)
class Choices:
    """The columns to use, and the treatment of values that a density cannot use."""

    columns: Columns = None
    text: Text = "drop"
    missing: Missing = "skip"
    duplicates: Duplicates = "keep"


@dataclass(frozen=True)
class Destination:
    """Destination of rows: a file, standard output, or one JSON object."""

    output: Output = "-"
    format: Format = None
    json: Json = False


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which every group of options is replaced by its options."""
    given = signature(command).parameters.values()
    groups: dict[str, Any] = {
        each.name: each.annotation for each in given if is_dataclass(each.annotation)
    }

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    parameters = []
    for parameter in given:
        if parameter.name not in groups:
            parameters.append(parameter)
            continue
        for field in fields(groups[parameter.name]):
            option = Parameter(
                field.name, parameter.kind, default=field.default, annotation=field.type
            )
            parameters.append(option)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run
