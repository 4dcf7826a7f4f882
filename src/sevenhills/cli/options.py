"""Options that several commands share, one by one and in groups."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from ..estimators import ESTIMATOR_NAMES

_NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}

Data = Annotated[
    str,
    Argument(
        help="csv, xlsx, xls, ods, parquet, feather, npy, npz or JSON lines, also .gz or .zip; - "
        "is stdin."
    ),
]
ModelFile = Annotated[Path, Argument(help="A model written by `sevenhills fit`.")]
Constant = Annotated[
    Literal["drop", "keep", "raise"],
    Option(help="Columns with one value only: leave them out, keep or refuse them."),
]
if TYPE_CHECKING:  # A type checker cannot read the names of the registry.
    EstimatorName = str
else:
    EstimatorName = Literal[ESTIMATOR_NAMES]
_ESTIMATORS = (
    "ROME, AutoROME, Gaussian KDE, KDE with a cross-validated bandwidth, Gaussian mixture, "
    "manifold Parzen windows, or vine copula (extra vine)"
)
Estimator = Annotated[
    EstimatorName | None,
    Option(
        help=f"{_ESTIMATORS}. By default AutoROME or, for tables of more than 50,000 values, ROME."
    ),
]
By = Annotated[
    str | None,
    Option(metavar="COLUMN", help="Column of categories or few values: a density for each."),
]
Support = Annotated[
    list[str] | None,
    Option(
        metavar="COLUMN=SUPPORT",
        help="Bounds or circle of a column: age=0:, share=0:1, heading=circular:360; or auto. "
        "Repeat it for several columns.",
    ),
]
Scale = Annotated[
    Literal["auto", "std", "none"] | None,
    Option(
        help="Scales of columns in ROME and AutoROME: typical differences between rows (auto, the "
        "default but for --density knn), standard deviations, or none."
    ),
]
Jobs = Annotated[int | None, Option(help="Number of threads, -1 for one per core.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True)
class Layout:
    """The layout of a table, as far as the user has set it."""

    separator: Annotated[str | None, Option(help="Separator of csv; recognized by default.")] = None
    decimal: Annotated[Literal["auto", ".", ","], Option(help="Decimal mark of csv.")] = "auto"
    header: Annotated[bool | None, Option(help="Row 1 has names; recognized by default.")] = None
    sheet: Annotated[
        str | None, Option(help="Sheet of a spreadsheet; the first with numbers by default.")
    ] = None

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

    columns: Annotated[
        str | None, Option(help="Names or indices separated by commas; all by default.")
    ] = None
    keep: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN",
            help="Keep a column that is left out as row numbers, identifiers or mostly empty. "
            "Repeat it for several columns.",
        ),
    ] = None
    text: Annotated[
        Literal["auto", "drop", "raise", "missing"],
        Option(
            help="Columns with words: leave them out, refuse them, or take words as missing; auto "
            "takes words as missing where at least 80 % of the values are numbers."
        ),
    ] = "auto"
    missing: Annotated[
        Literal["skip", "raise"],
        Option(help="Rows with missing or infinite values: leave them out or refuse them."),
    ] = "skip"
    duplicates: Annotated[
        Literal["keep", "drop"],
        Option(help="Rows that repeat others: keep all of them, or one of each."),
    ] = "keep"


@dataclass(frozen=True)
class Destination:
    """Destination of rows: a file, standard output, or one JSON object."""

    output: Annotated[
        str, Option("--output", "-o", help="A .csv, .npy, .parquet or .jsonl file; - is stdout.")
    ] = "-"
    format: Annotated[
        Literal["csv", "npy", "parquet", "jsonl"] | None,
        Option(help="Format of the output if its name has no suffix; csv by default."),
    ] = None
    json: Json = False


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which every group of options is replaced by its options."""
    given = signature(command)
    groups: dict[str, Any] = {}
    parameters = []
    for parameter in given.parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += [
                Parameter(each.name, parameter.kind, default=each.default, annotation=each.type)
                for each in fields(parameter.annotation)
            ]
        else:
            parameters.append(parameter)

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = given.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
