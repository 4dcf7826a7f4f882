"""A small plan, and rows of results."""

from study import Cell, Plan, Row, published
from study.catalogue import name_of

SMALL = Plan(("aniso", "varied"), ("rome", "parzen", "rome-dbcv-n-knn"), runs=2, n_samples=60)


def row(cell, value, error="", **others):
    values = {"seed": 1, "fit_seconds": 0.1, "seconds": 0.2, "peak_mb": 9.0, "versions": "x 1"}
    return Row(
        cell.distribution,
        cell.run,
        cell.n_samples,
        cell.estimator,
        cell.metric,
        value,
        error,
        **{**values, **others},
    )


def as_published(shift=0.0, runs=3):
    """Rows that repeat the published figures."""
    rows = []
    for each in published():
        metric = each.metric
        if metric == "D_JS_true" and each.distribution == "varied":
            metric = "D_JS_as_published"
        unit = 0.1 if each.table == "ablation_JS_unimodal_trajectories" else 1.0
        for number in range(runs):
            cell = Cell(each.distribution, number, 3000, name_of(each), metric)
            rows.append(row(cell, unit * (each.mean + shift)))
    return list({each.cell: each for each in rows}.values())
