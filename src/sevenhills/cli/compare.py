"""The command ``compare``."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import options
from .failures import FINDING
from .screen import counted, listed, remark, working

if TYPE_CHECKING:
    import numpy as np

    from .samples import Samples

_TESTS = ("energy", "wasserstein", "divergence")
_SPOKEN = {
    "energy": "energy distance",
    "wasserstein": "Wasserstein distance",
    "divergence": "Jensen-Shannon divergence",
}
#: How often rows are shuffled: a transport or two fits for every shuffle take their time.
_SHUFFLES = {"energy": 999, "wasserstein": 99, "divergence": 99}
#: So many shuffles with as large a distance show that there is no difference.
_ENOUGH = 10


def compare(
    a: Annotated[str, typer.Argument(help="The first table; - is standard input.")],
    b: Annotated[str, typer.Argument(help="The second table; - is standard input.")],
    tests: Annotated[
        str | None,
        typer.Option(help="Of energy, wasserstein and divergence, with commas; all by default."),
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="How often equal samples may be called different.")
    ] = 0.05,
    permutations: Annotated[
        int | None,
        typer.Option(min=1, help="The number of shuffles; 999 for energy, 99 for the others."),
    ] = None,
    max_rows: Annotated[
        int, typer.Option(min=5, help="Of longer tables, so many rows are drawn at random.")
    ] = 1000,
    units: Annotated[
        Literal["std", "data"],
        typer.Option(help="Measure columns in standard deviations of both tables, or as they are."),
    ] = "std",
    seed: Annotated[int, typer.Option(help="Of the shuffles and the draws.")] = 0,
    columns: options.Columns = None,
    text: options.Text = "drop",
    missing: options.Missing = "drop",
    duplicates: options.Duplicates = "keep",
    separator: options.Separator = None,
    decimal: options.Decimal = "auto",
    header: options.Header = None,
    json: options.Json = False,
) -> None:
    """Tell whether two tables have the same distribution.

    Three distances are measured and compared with what they are after the rows of both tables
    have been shuffled. The Jensen-Shannon divergence is that of two ROME fits, from 0 to 1; the
    Wasserstein distance needs the extra `ot`. The tables are called different if the smallest
    p-value, times the number of tests, is below alpha; the exit code is then 1. Where
    shuffled tables are as far apart as the given ones again and again, shuffling ends early, and
    the p-value allows for that.

    For example:
      sevenhills compare before.csv after.csv
      sevenhills compare a.npy b.npy --tests energy --permutations 999 --alpha 0.01
      sevenhills compare a.csv b.csv --json | jq .different
    """
    from .samples import Choices
    from .text_files import Layout
    from .writing import write_json

    wanted = _wanted_tests(tests)
    planned = {name: permutations or _SHUFFLES[name] for name in wanted}
    _check_shuffles(max(planned.values()), len(wanted), alpha)
    # What is constant in one table may differ from the other.
    choices = Choices(columns, None, text, missing, "keep", duplicates)
    first, second = _read(a, b, choices, Layout(separator, decimal, header))
    names, X, Y = _shared(first, second)
    X, Y = _drawn(first, X, max_rows, seed), _drawn(second, Y, max_rows, seed + 1)
    if units == "std":
        X, Y = _standardised(X, Y)
    results = [_test(name, X, Y, n, alpha, seed) for name, n in planned.items()]
    p_value = min(1.0, len(results) * min(result["p_value"] for result in results))
    found = {
        "a": {"data": a, "n_rows": len(first.X), "n_compared": len(X)},
        "b": {"data": b, "n_rows": len(second.X), "n_compared": len(Y)},
        "columns": names,
        "units": units,
        "n_permutations": max(planned.values()),
        "tests": results,
        "p_value": p_value,
        "alpha": alpha,
        "different": p_value < alpha,
    }
    if json:
        write_json(found)
    else:
        typer.echo(_in_words(found))
    if found["different"]:
        raise typer.Exit(FINDING)


def _check_shuffles(permutations: int, n_tests: int, alpha: float) -> None:
    """Refuse shuffles that are too few to find anything."""
    if not 0 < alpha < 1:
        raise ValueError(f"--alpha must lie between 0 and 1, got {alpha:g}")
    if n_tests / (permutations + 1) >= alpha:
        raise ValueError(
            f"no p-value of {counted(n_tests, 'test')} can be below alpha = {alpha:g} with "
            f"{counted(permutations, 'shuffle')}; it takes --permutations {int(n_tests / alpha)}"
        )


def _wanted_tests(tests: str | None) -> list[str]:
    """Return the tests to make; if none is named, all that the installed libraries allow."""
    from ..extras import import_extra

    wanted = list(_TESTS) if tests is None else [each.strip() for each in tests.split(",")]
    unknown = [each for each in wanted if each not in _TESTS]
    if unknown or len(set(wanted)) < len(wanted):
        raise ValueError(f"--tests must be different ones of {', '.join(_TESTS)}, got {tests!r}")
    if "wasserstein" in wanted:
        try:
            import_extra("ot", "ot", "the Wasserstein distance needs POT")
        except ImportError as error:
            if tests is not None:
                raise
            remark(f"left out: {error}")
            wanted.remove("wasserstein")
    return wanted


def _read(a: str, b: str, choices: Any, layout: Any) -> "tuple[Samples, Samples]":
    from .reading import read_table
    from .samples import samples_of

    if a == b == "-":
        raise ValueError("only one of the tables can come from standard input")
    first, second = (samples_of(read_table(path, layout), choices) for path in (a, b))
    for samples in (first, second):
        remark(
            *(
                f"{samples.source}: {each}" if not each.startswith(samples.source) else each
                for each in samples.remarks
            )
        )
    return first, second


def _shared(first: "Samples", second: "Samples") -> "tuple[list[str], np.ndarray, np.ndarray]":
    """Return the columns that both tables have, by name, or by position if they have no names."""
    by_name = first.has_names and second.has_names
    if not by_name and first.X.shape[1] != second.X.shape[1]:
        raise ValueError(
            f"{first.source} has {first.X.shape[1]} columns and {second.source} has "
            f"{second.X.shape[1]}, and not both have names to tell which is which"
        )
    names = [name for name in first.names if name in second.names] if by_name else first.names
    if not names:
        raise ValueError(f"{first.source} and {second.source} have no column of numbers in common")
    lonely = sorted(set(first.names) ^ set(second.names)) if by_name else []
    if lonely:
        remark(f"not compared, because only one of the tables has them: {listed(lonely)}")
    X = first.X[:, [first.names.index(name) for name in names]]
    Y = second.X[:, [second.names.index(name) for name in names]] if by_name else second.X
    return _varying(names, X, Y)


def _varying(
    names: list[str], X: "np.ndarray", Y: "np.ndarray"
) -> "tuple[list[str], np.ndarray, np.ndarray]":
    """Leave out columns that have the same value everywhere."""
    first = X[0]
    varies = (first != X).any(axis=0) | (first != Y).any(axis=0)
    if not varies.any():
        raise ValueError("every column has the same value in both tables: nothing to compare")
    if not varies.all():
        flat = [name for name, each in zip(names, varies, strict=True) if not each]
        remark(f"not compared, because they have one value only: {listed(flat)}")
    kept = [name for name, each in zip(names, varies, strict=True) if each]
    return kept, X[:, varies], Y[:, varies]


def _drawn(samples: "Samples", X: "np.ndarray", most: int, seed: int) -> "np.ndarray":
    """Return no more than so many rows."""
    import numpy as np

    if len(X) <= most:
        return X
    remark(f"{samples.source}: {most:,} of {counted(len(X), 'row')} drawn (--max-rows)")
    return X[np.sort(np.random.RandomState(seed).choice(len(X), most, replace=False))]


def _standardised(X: "np.ndarray", Y: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
    """Return both tables in standard deviations of their columns, those of one value as zeros."""
    import numpy as np

    pooled = np.concatenate([X, Y])
    centre, unit = pooled.mean(axis=0), pooled.std(axis=0)
    unit[unit == 0] = 1.0
    return (X - centre) / unit, (Y - centre) / unit


def _test(
    name: str, X: "np.ndarray", Y: "np.ndarray", n_permutations: int, alpha: float, seed: int
) -> dict[str, Any]:
    """Measure one distance, and how it compares with those after shuffling."""
    from math import ceil

    from ..metrics import energy_test, permutation_test

    with working(_SPOKEN[name]) as progress:
        if name == "energy":
            found = energy_test(X, Y, n_permutations=n_permutations, random_state=seed)
        else:
            found = permutation_test(
                _wasserstein if name == "wasserstein" else _divergence,
                X,
                Y,
                n_permutations=n_permutations,
                # Fewer could end what all shuffles would have called a difference.
                max_exceedances=max(_ENOUGH, ceil(alpha * (n_permutations + 1))),
                random_state=seed,
                progress=progress,
            )
    return {
        "name": name,
        "statistic": found.statistic,
        "p_value": found.p_value,
        "n_permutations": len(found.null),
    }


def _wasserstein(X: "np.ndarray", Y: "np.ndarray") -> float:
    from ..metrics import wasserstein

    return wasserstein(X, Y)


def _divergence(X: "np.ndarray", Y: "np.ndarray") -> float:
    """Return the divergence of the densities of two tables, at their own rows."""
    from ..estimators import ROME
    from ..metrics import jensen_shannon

    return jensen_shannon(ROME().fit(X), ROME().fit(Y), X, Y)


def _in_words(found: dict[str, Any]) -> str:
    unit = "standard deviations" if found["units"] == "std" else "data units"
    lines = [
        f"{counted(found['a']['n_compared'], 'row')} of {found['a']['data']} and "
        f"{found['b']['n_compared']:,} of {found['b']['data']}, in "
        f"{counted(len(found['columns']), 'column')}: {listed(found['columns'])}",
        f"{'':<27}{'distance':>10}{'p-value':>10}{'shuffles':>10}",
    ]
    lines += [
        f"{_SPOKEN[each['name']]:<27}{each['statistic']:>10.4g}{each['p_value']:>10.4g}"
        f"{each['n_permutations']:>10,}"
        for each in found["tests"]
    ]
    has_divergence = any(each["name"] == "divergence" for each in found["tests"])
    lines.append(f"(distances in {unit}{'; the divergence has no unit' * has_divergence})")
    n_tests = len(found["tests"])
    why = f"p = {found['p_value']:.3g}" + (f" over {n_tests} tests" if n_tests > 1 else "")
    if found["different"]:
        lines.append(f"different distributions: {why}, below alpha = {found['alpha']:g}")
    else:
        lines.append(f"no difference found: {why}, not below alpha = {found['alpha']:g}")
    return "\n".join(lines)
