"""The command ``compare``."""

from functools import partial
from itertools import combinations
from math import ceil, comb
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from ..texts import counted, text_table
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
    tables: Annotated[
        list[str],
        Argument(
            help="Two or more of csv, xlsx, parquet, npy, npz or JSON lines, also .gz; - is stdin."
        ),
    ],
    choices: options.Choices,
    layout: options.Layout,
    tests: Annotated[
        str | None,
        Option(
            help="Of energy,wasserstein,divergence; all for two tables by default, else energy."
        ),
    ] = None,
    alpha: Annotated[float, Option(help="Significance level: the rate of false alarms.")] = 0.05,
    permutations: Annotated[
        int | None,
        Option(
            min=1,
            help="Number of permutations; 999 or more for energy, 99 for the others.",
        ),
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
    """Test whether two or more tables have the same distribution.

    Three distances are compared with their values after random permutations of the rows of both
    tables. The Jensen-Shannon divergence is that of two ROME fits, from 0 to 1, which alone depend
    on --support; the Wasserstein distance needs the extra `ot`. The tables are called different if
    the smallest p-value, times the number of tests, is below alpha; the exit code is then 1. A
    test stops early if permuted tables are often as far apart as the given ones; the p-value
    accounts for this.

    Of more than two tables, all pairs are compared, by the energy distance unless --tests names
    others. The p-values of pairs are adjusted for the number of pairs by Holm's method, so that
    alpha is the rate of any false alarm. The exit code is 1 if any pair differs.

    For example:
      sevenhills compare before.csv after.csv
      sevenhills compare monday.csv tuesday.csv wednesday.csv
      sevenhills compare a.npy b.npy --tests energy --permutations 999 --alpha 0.01
      sevenhills compare a.csv b.csv --json | jq .different
    """
    from .writing import write_json

    if len(tables) < 2:
        raise ValueError(f"at least two tables are needed, got {tables[0]}")
    n_pairs = comb(len(tables), 2)
    planned = _planned(tests, permutations, n_pairs, alpha)
    samples = _read(tables, choices, layout)
    frames = _common_columns(samples)
    rows = [
        _drawn_rows(each.source, frame, max_rows, seed + i)
        for i, (each, frame) in enumerate(zip(samples, frames, strict=True))
    ]
    maps = _support_of(support, frames)
    if units == "std":
        mean, unit = _units(rows)
        maps = _rescaled(maps, mean, unit)
        rows = [_clipped((each - mean) / unit, maps) for each in rows]
    pairs: list[dict[str, Any]] = []
    for i, j in combinations(range(len(tables)), 2):
        titled = "" if n_pairs == 1 else f"pair {len(pairs) + 1} of {n_pairs}, "
        results = [
            _run_test(name, rows[i], rows[j], n, alpha, seed, maps, titled)
            for name, n in planned.items()
        ]
        p_value = min(1.0, len(results) * min(result["p_value"] for result in results))
        pairs.append({"a": tables[i], "b": tables[j], "tests": results, "p_value": p_value})
    described = [
        {"data": path, "n_rows": len(each.frame), "n_compared": len(some)}
        for path, each, some in zip(tables, samples, rows, strict=True)
    ]
    common = {
        "columns": list(frames[0].columns),
        "units": units,
        "n_permutations": max(planned.values()),
    }
    found = (_one_pair if n_pairs == 1 else _all_pairs)(described, common, pairs, alpha)
    if json:
        write_json(found)
    else:
        typer.echo((_in_words if n_pairs == 1 else _pairs_in_words)(found))
    if found["different"]:
        raise typer.Exit(FINDING)


def _one_pair(
    described: list[dict[str, Any]],
    common: dict[str, Any],
    pairs: list[dict[str, Any]],
    alpha: float,
) -> dict[str, Any]:
    """Return the result for two tables."""
    (pair,), (a, b) = pairs, described
    tests, p_value = pair["tests"], pair["p_value"]
    verdict = {"p_value": p_value, "alpha": alpha, "different": p_value < alpha}
    return {"a": a, "b": b, **common, "tests": tests, **verdict}


def _all_pairs(
    described: list[dict[str, Any]],
    common: dict[str, Any],
    pairs: list[dict[str, Any]],
    alpha: float,
) -> dict[str, Any]:
    """Return the result for all pairs of more than two tables, with adjusted p-values."""
    from ..metrics.ranks import holm

    adjusted = holm([pair["p_value"] for pair in pairs]).tolist()
    pairs = [
        {**pair, "adjusted_p_value": p_value, "different": p_value < alpha}
        for pair, p_value in zip(pairs, adjusted, strict=True)
    ]
    different = any(pair["different"] for pair in pairs)
    return {"tables": described, **common, "pairs": pairs, "alpha": alpha, "different": different}


def _planned(
    tests: str | None, permutations: int | None, n_pairs: int, alpha: float
) -> dict[str, int]:
    """Return the number of permutations of every test."""
    if not 0 < alpha < 1:
        raise ValueError(f"--alpha must lie between 0 and 1, got {alpha:g}")
    names = _tests_to_run("energy" if tests is None and n_pairs > 1 else tests)
    planned = {name: permutations or _N_PERMUTATIONS[name] for name in names}
    if n_pairs > 1 and permutations is None and "energy" in planned:
        # Twice as many as the smallest adjusted p-value needs to be below alpha.
        planned["energy"] = max(planned["energy"], ceil(2 * len(names) * n_pairs / alpha))
    _check_permutations(max(planned.values()), len(names), n_pairs, alpha)
    return planned


def _check_permutations(permutations: int, n_tests: int, n_pairs: int, alpha: float) -> None:
    """Refuse a number of permutations with which no p-value can be below alpha."""
    if n_tests * n_pairs / (permutations + 1) >= alpha:
        pairs = "" if n_pairs == 1 else f" of {n_pairs} pairs"
        raise ValueError(
            f"no p-value of {counted(n_tests, 'test')}{pairs} can be below alpha = {alpha:g} with "
            f"{counted(permutations, 'permutation')}; use --permutations "
            f"{int(n_tests * n_pairs / alpha)}"
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


def _read(tables: list[str], choices: options.Choices, layout: options.Layout) -> "list[Samples]":
    from .samples import samples_of
    from .table_files import read_table

    if tables.count("-") > 1:
        raise ValueError("only one of the tables can come from standard input")
    # A column that is constant in one table may have another value in another.
    found = [samples_of(read_table(path, layout), choices, "keep") for path in tables]
    for samples in found:
        source = samples.source
        remark(*(s if s.startswith(source) else f"{source}: {s}" for s in samples.remarks))
    return found


def _common_columns(tables: "list[Samples]") -> list[Any]:
    """Return frames of the common columns, by name, or by position if a table has no names."""
    frames = [table.frame for table in tables]
    sources = [table.source for table in tables]
    if all(table.has_names for table in tables):
        names = [name for name in frames[0].columns if all(name in f.columns for f in frames)]
        if not names:
            joined = f"{', '.join(sources[:-1])} and {sources[-1]}"
            raise ValueError(f"{joined} have no column of numbers in common")
        unmatched = sorted({name for f in frames for name in f.columns if name not in names})
        if unmatched:
            having = "only one table has" if len(frames) == 2 else "not all tables have"
            remark(f"not compared, because {having} them: {listed(unmatched)}")
        frames = [frame[names] for frame in frames]
    for source, frame in zip(sources, frames, strict=True):
        if frame.shape[1] != frames[0].shape[1]:
            raise ValueError(
                f"{sources[0]} has {frames[0].shape[1]} columns and {source} has "
                f"{frame.shape[1]}, and not all tables have names to match columns by"
            )
    frames = [frame.set_axis(frames[0].columns, axis=1) for frame in frames]
    first = frames[0].iloc[0]
    is_flat = sum((frame != first).any() for frame in frames).to_numpy() == 0
    if is_flat.all():
        raise ValueError("every column has the same value in all tables: nothing to compare")
    if is_flat.any():
        flat = frames[0].columns[is_flat]
        remark(f"not compared, because they have one value only: {listed(flat)}")
    return [frame.loc[:, ~is_flat] for frame in frames]


def _drawn_rows(source: str, frame: Any, max_rows: int, seed: int) -> "np.ndarray":
    """Return a random subset of the rows if there are more than ``max_rows``."""
    import numpy as np

    if len(frame) > max_rows:
        remark(f"{source}: {max_rows:,} of {counted(len(frame), 'row')} drawn (--max-rows)")
        frame = frame.sample(max_rows, random_state=seed).sort_index()
    return np.ascontiguousarray(frame)


def _units(rows: "list[np.ndarray]") -> "tuple[np.ndarray, np.ndarray]":
    """Return the pooled means and standard deviations of all tables."""
    import numpy as np

    pooled = np.concatenate(rows)
    mean, unit = pooled.mean(axis=0), pooled.std(axis=0)
    unit[unit == 0] = 1.0  # the drawn rows of a column can be equal
    return mean, unit


def _support_of(given: list[str] | None, frames: list[Any]) -> dict[int, Any]:
    """Return the maps of columns with a support, which the rows of all tables choose."""
    import numpy as np

    from ..estimators.support import Support
    from .model_files import parse_support

    first, *others = (parse_support(given, frame) or {} for frame in frames)
    common = {j: each for j, each in first.items() if all(o.get(j) == each for o in others)}
    known = Support.from_samples(common, np.concatenate(frames), None, list(frames[0].columns))
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
    titled: str,
) -> dict[str, Any]:
    """Measure one distance and its p-value."""
    from ..metrics import energy_test, permutation_test, wasserstein

    with working(f"{titled}{_TITLES[name]}"):
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
    lines.append(_unit_of(found["units"], tests))
    why = f"p = {found['p_value']:.3g}" + (f" over {len(tests)} tests" if len(tests) > 1 else "")
    verdict, below = "no difference found", "not below"
    if found["different"]:
        verdict, below = "different distributions", "below"
    return "\n".join([*lines, f"{verdict}: {why}, {below} alpha = {found['alpha']:g}"])


def _unit_of(units: str, tests: list[dict[str, Any]]) -> str:
    unit = "standard deviations" if units == "std" else "data units"
    has_divergence = any(each["name"] == "divergence" for each in tests)
    return f"(distances in {unit}{'; the divergence has no unit' * has_divergence})"


def _pairs_in_words(found: dict[str, Any]) -> str:
    tables, pairs, alpha = found["tables"], found["pairs"], found["alpha"]
    names = [each["name"] for each in pairs[0]["tests"]]
    rows = [["pair", *(_TITLES[name] for name in names), "p-value", "adjusted", "verdict"]]
    for pair in pairs:
        distances = [f"{each['statistic']:.4g}" for each in pair["tests"]]
        p_values = [f"{pair[key]:.4g}" for key in ("p_value", "adjusted_p_value")]
        verdict = "different" if pair["different"] else "no difference found"
        rows.append([f"{pair['a']} and {pair['b']}", *distances, *p_values, verdict])
    sizes = [f"{each['n_compared']:,} of {each['data']}" for each in tables]
    n_different = sum(pair["different"] for pair in pairs)
    return "\n".join(
        [
            f"rows: {listed(sizes, 10)}",
            f"{counted(len(found['columns']), 'column')}: {listed(found['columns'])}",
            text_table(rows),
            _unit_of(found["units"], pairs[0]["tests"]),
            f"{n_different} of {len(pairs)} pairs differ, at alpha = {alpha:g} after Holm's "
            "correction for all pairs",
        ]
    )
