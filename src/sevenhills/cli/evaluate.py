"""The command ``evaluate``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ..estimators import ESTIMATOR_NAMES
from ..texts import counted, text_table
from . import options
from .screen import listed, remark, working

if TYPE_CHECKING:
    from ..metrics import LikelihoodRanking
    from .model_files import Model
    from .samples import Samples

#: Estimators that are compared by default: the two of this package, and two of other packages.
_ESTIMATORS = "auto,rome,kde,gmm"


def evaluate(
    data: options.Data,
    choices: options.Choices,
    layout: options.Layout,
    models: Annotated[
        list[Path] | None, Argument(help="Models written by `sevenhills fit`, of the same columns.")
    ] = None,
    estimators: Annotated[
        str | None,
        Option(
            help=f"Without models: estimators to cross-validate, of {','.join(ESTIMATOR_NAMES)}. "
            f"{_ESTIMATORS} by default."
        ),
    ] = None,
    folds: Annotated[
        int | None, Option(min=2, help="Without models: number of folds, 5 by default.")
    ] = None,
    max_rows: Annotated[
        int, Option(min=10, help="Rows drawn from longer tables, to be cross-validated.")
    ] = 10_000,
    support: options.Support = None,
    scale: options.Scale = None,
    constant: options.Constant = "drop",
    confidence: Annotated[float, Option(help="Confidence of intervals and of all ranks.")] = 0.95,
    seed: Annotated[int, Option(help="Seed of the folds and the drawn rows.")] = 0,
    output: Annotated[
        str | None, Option("--output", "-o", help="A .csv, .npy, .parquet or .jsonl file to write.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Rank models, or estimators, by the mean log density of held-out rows.

    Models must not have been fitted to the rows of DATA: a model gives its own rows too high a
    density. Without models, estimators are cross-validated: each row of DATA is scored by a fit to
    the rows of other folds.

    All rows are scored by all models, and differences are those of the same rows. Two models can
    be told apart if the p-value of a t-test of their difference is at most 1 - confidence, after
    Holm's correction for all pairs. A rank like 1-2 is a range that the rows leave open.

    Only densities of the same columns in the same units are comparable.

    For example:
      sevenhills evaluate new.csv a.sevenhills b.sevenhills
      sevenhills evaluate data.csv
      sevenhills evaluate data.csv --estimators auto,kde,gmm --folds 10 -o ranking.csv
    """
    from .writing import check_output, write_json, write_table

    if output is not None:
        format = check_output(output, None)
    if models:
        given = (choices.columns, choices.keep, estimators, folds, support, scale)
        if any(each is not None for each in given):
            raise ValueError(
                "--columns, --keep, --estimators, --folds, --support and --scale have no meaning "
                "with models"
            )
        samples, ranking = _of_models(data, models, layout, confidence)
        note = "The rows must be new to the models: rows of their fits have too high a density."
    else:
        names = _names(estimators or _ESTIMATORS)
        samples = _samples(data, choices, layout, constant, max_rows, seed)
        n_folds = min(folds or 5, len(samples.frame))
        options = {"support": support, "scale": scale}
        ranking = _of_estimators(samples, names, options, n_folds, confidence, seed)
        note = f"Each row was scored by a fit to the other {n_folds - 1} of {n_folds} folds."
    _warn_of_few_values(samples)
    if output is not None:
        write_table(ranking.columns(), output, format)
    if json:
        write_json(_plain(data, samples, ranking, None if models else n_folds))
    elif output is None:
        columns = f"{counted(len(samples.names), 'column')}: {listed(samples.names)}"
        typer.echo(
            f"{counted(ranking.n_samples, 'row')} of {data} in {columns}\n{note}\n\n"
            f"{text_table(ranking.texts())}\n\n{_in_words(ranking)}"
        )


def _names(given: str) -> list[str]:
    names = [each.strip() for each in given.split(",")]
    if not set(names) <= set(ESTIMATOR_NAMES) or len(set(names)) < len(names):
        known = ", ".join(ESTIMATOR_NAMES)
        raise ValueError(f"--estimators must be different ones of {known}, got {given!r}")
    return names


def _of_models(
    data: str, paths: list[Path], layout: options.Layout, confidence: float
) -> "tuple[Samples, LikelihoodRanking]":
    """Rank models on the rows that have all of their columns."""
    from ..metrics import compare_likelihoods
    from .forecast import named_after_files
    from .model_files import read_complete_queries, read_model

    models = {name: read_model(path) for name, path in named_after_files(paths).items()}
    _check_same_columns(models)
    first = next(iter(models.values()))
    samples = read_complete_queries(first, data, layout)
    remark(*samples.remarks)
    _warn_of_equal_number(models, len(samples.frame))
    with working(f"scoring {counted(len(samples.frame), 'row')}"):
        densities = {name: model.density for name, model in models.items()}
        return samples, compare_likelihoods(densities, samples.frame, confidence=confidence)


def _check_same_columns(models: "dict[str, Model]") -> None:
    """Refuse models of other columns than the first."""
    first, *others = models
    for name in others:
        if models[first].names is None or models[name].names is None:
            sizes = [models[each].density.n_features for each in (first, name)]
            differ = [f"{sizes[0]} and {sizes[1]} columns"] if sizes[0] != sizes[1] else []
        else:
            pairs = ((first, name), (name, first))
            only = {a: _without(models[a].shown_names, models[b].shown_names) for a, b in pairs}
            differ = [f"only {who} has {listed(has)}" for who, has in only.items() if has]
        if differ:
            raise ValueError(
                f"{first} and {name} have different columns, which makes their densities "
                f"incomparable: {', '.join(differ)}"
            )


def _without(names: list[str], others: list[str]) -> list[str]:
    return [name for name in names if name not in others]


def _warn_of_equal_number(models: "dict[str, Model]", n_rows: int) -> None:
    """Warn of models that were fitted to as many rows as there are: they may be the same."""
    counts = {name: getattr(model.density, "counts", None) for name, model in models.items()}
    equal = [n for n, each in counts.items() if each is not None and round(each.sum()) == n_rows]
    if equal:
        remark(
            f"warning: {listed(equal)} {'was' if len(equal) == 1 else 'were'} fitted to "
            f"{n_rows:,} rows, as many as there are here; for the same rows, the mean log density "
            "is too high"
        )


def _warn_of_few_values(samples: "Samples") -> None:
    """Warn of columns with few values, on which a density may have spikes of any height."""
    import numpy as np

    from ..stacking.partition import categories

    few = [samples.names[j] for j in categories(samples.X, np.ones(len(samples.frame)))]
    if few:
        remark(
            f"warning: few different values in {listed(few)}: a density with a spike on each value "
            "comes first; --columns without them compares the densities of the others"
        )


def _samples(
    data: str,
    choices: options.Choices,
    layout: options.Layout,
    constant: str,
    max_rows: int,
    seed: int,
) -> "Samples":
    """Return the rows of a table, at most a number of them."""
    from dataclasses import replace

    from .samples import samples_of
    from .table_files import read_table

    samples = samples_of(read_table(data, layout), choices, constant)
    remark(*samples.remarks)
    if len(samples.frame) <= max_rows:
        return samples
    remark(f"{max_rows:,} of {counted(len(samples.frame), 'row')} drawn (--max-rows)")
    return replace(samples, frame=samples.frame.sample(max_rows, random_state=seed).sort_index())


def _of_estimators(
    samples: "Samples",
    names: list[str],
    options: dict[str, Any],
    n_folds: int,
    confidence: float,
    seed: int,
) -> "LikelihoodRanking":
    """Rank estimators by cross-validation."""
    with working(f"cross-validating {counted(len(names), 'estimator')}"):
        from ..estimators import ESTIMATORS
        from ..metrics import compare_likelihoods
        from .model_files import make_recipe, parse_support

        bounds = parse_support(options["support"], samples.frame)
        recipes = {}
        for name in names:
            known = ESTIMATORS[name]().get_params()
            given = {"support": bounds, "scale": options["scale"]}
            own = {option: value for option, value in given.items() if option in known}
            recipes[name] = make_recipe(name, samples.frame.shape, **own).estimator
        try:
            return compare_likelihoods(
                recipes, samples.frame, cv=n_folds, confidence=confidence, random_state=seed
            )
        except ValueError as error:
            raise ValueError(f"{error}; --estimators names the others") from error


def _in_words(ranking: "LikelihoodRanking") -> str:
    """Return sentences on the best and on those that cannot be told apart from it."""
    first = ranking.summary[0].model
    if len(ranking.summary) == 1:
        return "Differences are in nats; there is one model, and nothing to compare it with."
    said = ranking.resolution.replace("samples", "rows")
    return f"{first} is first. {said}\nDifferences from {first} are in nats, of the same rows."


def _plain(
    data: str, samples: "Samples", ranking: "LikelihoodRanking", n_folds: int | None
) -> dict[str, Any]:
    return {
        "data": data,
        "n_rows": ranking.n_samples,
        "columns": samples.names,
        "left_out": samples.left_out,
        "folds": n_folds,
        "confidence": ranking.confidence,
        "ranking": [vars(row) for row in ranking.summary],
        "ties": ranking.ties,
    }
