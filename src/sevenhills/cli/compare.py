"""The command ``compare``."""

from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from ..texts import counted
from . import options
from .screen import FINDING, listed, remark, working

if TYPE_CHECKING:
    import numpy as np

    from .samples import Samples

#: The tests, with the titles of their distances.
_TITLES = {
    "energy": "energy distance",
    "wasserstein": "Wasserstein distance",
    "divergence": "Jensen-Shannon divergence",
}
#: Permutations by default; all but the energy distance solve a transport or fit twice for each.
_N_PERMUTATIONS = {"energy": 999, "wasserstein": 99, "divergence": 99}
#: Sequential tests stop after this number of permutations with a distance at least as large.
_MIN_EXCEEDANCES = 10


def compare(
    a: options.Data,
    b: options.Data,
    choices: options.Choices,
    layout: options.Layout,
    tests: Annotated[
        str | None, Option(help="Of energy,wasserstein,divergence; all by default.")
    ] = None,
    alpha: Annotated[float, Option(help="Significance level: the rate of false alarms.")] = 0.05,
    permutations: Annotated[
        int | None, Option(min=1, help="Number of permutations; 999 for energy, 99 for the others.")
    ] = None,
    max_rows: Annotated[int, Option(min=5, help="Rows drawn from longer tables.")] = 1000,
    units: Annotated[
        Literal["std", "data"],
        Option(help="Measure columns in pooled standard deviations or in data units."),
    ] = "std",
    support: options.Support = None,
    seed: Annotated[int, Option(help="Seed of the permutations and the drawn rows.")] = 0,
    json: options.Json = False,
) -> None:
    """Test whether two tables have the same distribution.

    Three distances are compared with their values after random permutations of the rows of both
    tables. The Jensen-Shannon divergence is that of two ROME fits, from 0 to 1, which alone depend
    on --support; the Wasserstein distance needs the extra `ot`. The tables are called different if
    the smallest p-value, times the number of tests, is below alpha; the exit code is then 1. A
    test stops early if permuted tables are often as far apart as the given ones; the p-value
    accounts for this.

    For example:
      sevenhills compare before.csv after.csv
      sevenhills compare a.npy b.npy --tests energy --permutations 999 --alpha 0.01
      sevenhills compare a.csv b.csv --json | jq .different
    """
    from .writing import write_json

    planned = {name: permutations or _N_PERMUTATIONS[name] for name in _tests_to_run(tests)}
    _check_permutations(max(planned.values()), len(planned), alpha)
    first, second = _read(a, b, choices, layout)
    A, B = _common_columns(first, second)
    X = _drawn_rows(first.source, A, max_rows, seed)
    Y = _drawn_rows(second.source, B, max_rows, seed + 1)
    maps = _support_of(support, A, B.set_axis(A.columns, axis=1))
    if units == "std":
        mean, unit = _units(X, Y)
        maps = _rescaled(maps, mean, unit)
        X, Y = (_clipped((each - mean) / unit, maps) for each in (X, Y))
    results = [_run_test(name, X, Y, n, alpha, seed, maps) for name, n in planned.items()]
    p_value = min(1.0, len(results) * min(result["p_value"] for result in results))
    found = {
        "a": {"data": a, "n_rows": len(first.frame), "n_compared": len(X)},
        "b": {"data": b, "n_rows": len(second.frame), "n_compared": len(Y)},
        "columns": list(A.columns),
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


def _check_permutations(permutations: int, n_tests: int, alpha: float) -> None:
    """Refuse a number of permutations with which no p-value can be below alpha."""
    if not 0 < alpha < 1:
        raise ValueError(f"--alpha must lie between 0 and 1, got {alpha:g}")
    if n_tests / (permutations + 1) >= alpha:
        raise ValueError(
            f"no p-value of {counted(n_tests, 'test')} can be below alpha = {alpha:g} with "
            f"{counted(permutations, 'permutation')}; use --permutations {int(n_tests / alpha)}"
        )


def _tests_to_run(tests: str | None) -> list[str]:
    """Return the tests to run; by default all that the installed libraries allow."""
    from ..extras import import_extra

    chosen = list(_TITLES) if tests is None else [each.strip() for each in tests.split(",")]
    if not set(chosen) <= set(_TITLES) or len(set(chosen)) < len(chosen):
        raise ValueError(f"--tests must be different ones of {', '.join(_TITLES)}, got {tests!r}")
    if "wasserstein" in chosen:
        try:
            import_extra("ot", "ot", "the Wasserstein distance needs POT")
        except ImportError as error:
            if tests is not None:
                raise
            remark(f"left out: {error}")
            chosen.remove("wasserstein")
    return chosen


def _read(
    a: str, b: str, choices: options.Choices, layout: options.Layout
) -> "tuple[Samples, Samples]":
    from .samples import samples_of
    from .table_files import read_table

    if a == b == "-":
        raise ValueError("only one of the tables can come from standard input")
    # A column that is constant in one table may have another value in the other.
    first, second = (samples_of(read_table(path, layout), choices, "keep") for path in (a, b))
    for samples in (first, second):
        source = samples.source
        remark(*(s if s.startswith(source) else f"{source}: {s}" for s in samples.remarks))
    return first, second


def _common_columns(first: "Samples", second: "Samples") -> tuple[Any, Any]:
    """Return frames of the common columns, by name, or by position if a table has no names."""
    A, B = first.frame, second.frame
    if first.has_names and second.has_names:
        names = [name for name in A.columns if name in B.columns]
        if not names:
            raise ValueError(
                f"{first.source} and {second.source} have no column of numbers in common"
            )
        unmatched = sorted(A.columns.symmetric_difference(B.columns))
        if unmatched:
            remark(f"not compared, because only one table has them: {listed(unmatched)}")
        A, B = A[names], B[names]
    elif A.shape[1] != B.shape[1]:
        raise ValueError(
            f"{first.source} has {A.shape[1]} columns and {second.source} has {B.shape[1]}, and "
            "not both have names to match columns by"
        )
    is_flat = ((A.iloc[0] == A).all() & (B.set_axis(A.columns, axis=1) == A.iloc[0]).all()).array
    if is_flat.all():
        raise ValueError("every column has the same value in both tables: nothing to compare")
    if is_flat.any():
        flat = A.columns[is_flat]
        remark(f"not compared, because they have one value only: {listed(flat)}")
    return A.loc[:, ~is_flat], B.loc[:, ~is_flat]


def _drawn_rows(source: str, frame: Any, max_rows: int, seed: int) -> "np.ndarray":
    """Return a random subset of the rows if there are more than ``max_rows``."""
    import numpy as np

    if len(frame) > max_rows:
        remark(f"{source}: {max_rows:,} of {counted(len(frame), 'row')} drawn (--max-rows)")
        frame = frame.sample(max_rows, random_state=seed).sort_index()
    return np.ascontiguousarray(frame)


def _units(X: "np.ndarray", Y: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
    """Return the pooled means and standard deviations of both tables."""
    import numpy as np

    pooled = np.concatenate([X, Y])
    mean, unit = pooled.mean(axis=0), pooled.std(axis=0)
    unit[unit == 0] = 1.0  # the drawn rows of a column can be equal
    return mean, unit


def _support_of(given: list[str] | None, A: Any, B: Any) -> dict[int, Any]:
    """Return the maps of columns with a support, which the rows of both tables choose."""
    import numpy as np

    from ..estimators.support import Support
    from .model_files import parse_support

    first, second = (parse_support(given, frame) or {} for frame in (A, B))
    common = {j: each for j, each in first.items() if second.get(j) == each}
    known = Support.from_samples(common, np.concatenate([A, B]), None, list(A.columns))
    return {each.feature: each.map for each in known.features}


def _rescaled(maps: dict[int, Any], mean: "np.ndarray", unit: "np.ndarray") -> dict[int, Any]:
    """Return the maps of standardized columns."""
    return {j: each.affine(1 / unit[j], -mean[j] / unit[j]) for j, each in maps.items()}


def _clipped(X: "np.ndarray", maps: dict[int, Any]) -> "np.ndarray":
    """Move values that rounding has put beyond a bound back to it."""
    for j, each in maps.items():
        if not hasattr(each, "period"):
            X[:, j] = X[:, j].clip(*each.bounds)
    return X


def _run_test(
    name: str,
    X: "np.ndarray",
    Y: "np.ndarray",
    n_permutations: int,
    alpha: float,
    seed: int,
    maps: dict[int, Any],
) -> dict[str, Any]:
    """Measure one distance and its p-value."""
    from ..metrics import energy_test, permutation_test, wasserstein

    with working(_TITLES[name]):
        if name == "energy":
            found = energy_test(X, Y, n_permutations=n_permutations, random_state=seed)
        else:
            found = permutation_test(
                wasserstein if name == "wasserstein" else partial(_divergence, maps=maps),
                X,
                Y,
                n_permutations=n_permutations,
                # A lower limit could stop a test that all permutations would call significant.
                max_exceedances=max(_MIN_EXCEEDANCES, ceil(alpha * (n_permutations + 1))),
                random_state=seed,
            )
    return {
        "name": name,
        "statistic": found.statistic,
        "p_value": found.p_value,
        "n_permutations": len(found.null),
    }


def _divergence(X: "np.ndarray", Y: "np.ndarray", maps: dict[int, Any]) -> float:
    """Return the divergence of ROME fits to two tables, estimated at their rows."""
    from sklearn.base import clone

    from ..estimators import ROME
    from ..estimators.support import declared
    from ..metrics import jensen_shannon

    recipe = ROME(support={j: declared(each) for j, each in maps.items()} or None)
    return jensen_shannon(clone(recipe).fit(X), clone(recipe).fit(Y), X, Y)


def _in_words(found: dict[str, Any]) -> str:
    a, b, tests = found["a"], found["b"], found["tests"]
    lines = [
        f"{counted(a['n_compared'], 'row')} of {a['data']} and {b['n_compared']:,} of {b['data']}, "
        f"in {counted(len(found['columns']), 'column')}: {listed(found['columns'])}",
        f"{'':<27}{'distance':>10}{'p-value':>10}{'permutations':>14}",
    ]
    lines += [
        f"{_TITLES[each['name']]:<27}{each['statistic']:>10.4g}{each['p_value']:>10.4g}"
        f"{each['n_permutations']:>14,}"
        for each in tests
    ]
    unit = "standard deviations" if found["units"] == "std" else "data units"
    has_divergence = any(each["name"] == "divergence" for each in tests)
    lines.append(f"(distances in {unit}{'; the divergence has no unit' * has_divergence})")
    why = f"p = {found['p_value']:.3g}" + (f" over {len(tests)} tests" if len(tests) > 1 else "")
    verdict, below = "no difference found", "not below"
    if found["different"]:
        verdict, below = "different distributions", "below"
    return "\n".join([*lines, f"{verdict}: {why}, {below} alpha = {found['alpha']:g}"])
