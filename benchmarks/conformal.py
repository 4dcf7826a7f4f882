"""Conformal regions and outliers: coverage, false discoveries, and power beside other detectors.

``python -m benchmarks.conformal`` runs four parts and prints their tables as markdown; a name runs
one of them, as in ``python -m benchmarks.conformal coverage --draws 20 --cells "t3 2 100 ROME"``:

- ``coverage``: the share of new rows in regions of ``conformal``, with folds (``cv=5``) and with a
  split (``cv=0.5``), and in the highest-density region of the plain fit. A cell is a law, a number
  of features and a number of samples.
- ``discoveries``: false discoveries and power of ``DensityOutlierDetector`` on new rows.
- ``power``: ROC-AUC and power at 5 % false positives, beside other detectors, with clean training
  rows.
- ``clumps``: ROC-AUC of the training rows, some of which are outliers in a dense clump.

``--draws``, ``--large-draws`` and ``--auto-draws`` are the numbers of draws of a cell of ROME, of a
cell of ROME with 1000 samples, and of a cell of AutoROME. ``--fits`` is the number of fits of
``discoveries`` for each law, and ``--seeds`` the number of splits of ``power`` and ``clumps``.
Results become rows of ``--out``. Cases that are in that file are not computed again: delete the
file after a change of the package.
"""

import re
import sys
import time
from argparse import ArgumentParser
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.measuring import Bars
from benchmarks.tasks import PLANTED, clump, in_a_box, shuffled
from numpy.random import RandomState
from scipy.stats import skew
from sklearn import datasets as tables
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

from sevenhills import ROME, AutoROME, DensityOutlierDetector, conformal, datasets

# By chance, 0.00135 of all shares are more than 3 standard errors from what is expected of them.
BARS = Bars(
    at_most={
        "cells below their guarantee": 0,
        "cells above their range": 1,
        "share of excesses over alpha": 0.003,
        "false discovery rate, less 3 standard errors": 0.1,
    },
    at_least={"mean ROC-AUC of ours": 0.94, "mean ROC-AUC of clumps, best of ours": 0.93},
)
KEYS = ["part", "set", "features", "samples", "estimator"]
COLUMNS = [*KEYS, "method", "measure", "value", "std_error", "repeats"]
ALPHAS = (0.01, 0.05, 0.1, 0.2, 0.5)
ALPHA, RATE = 0.1, 0.1
#: A p-value that exceeds a level by less is equal to it.
ROUNDING = 1e-12
N_NEW, N_DENSITY_DRAWS = 200, 2000
ESTIMATORS = {"ROME": ROME, "AutoROME": AutoROME}
#: Features and samples of the cells of each estimator.
SIZES = {
    "ROME": ((30, 100, 1000), (1, 2, 5, 10, 24)),
    "AutoROME": ((30, 100, 300), (1, 2, 5, 10)),
}
report = partial(print, file=sys.stderr, flush=True)


# Laws: functions of the number of rows, a generator and the number of features


def _gaussian(n, rng, d):
    return rng.standard_normal((n, d))


def _correlated(n, rng, d):
    """Draw normal variables with correlations of 0.8 and different units."""
    common = rng.standard_normal((n, 1))
    return (np.sqrt(0.8) * common + np.sqrt(0.2) * _gaussian(n, rng, d)) * np.logspace(-1, 1, d)


def _student(n, rng, d, degrees):
    return _gaussian(n, rng, d) * np.sqrt(degrees / rng.chisquare(degrees, size=(n, 1)))


def _two_gaussians(n, rng, d):
    """Draw from two Gaussians whose centers are 10 standard deviations apart."""
    X = _gaussian(n, rng, d)
    X[:, 0] += rng.choice([-5.0, 5.0], size=n)
    return X


def _three_widths(n, rng, d):
    """Draw from three Gaussians with standard deviations of 0.3, 1 and 3."""
    which = rng.randint(3, size=n)
    X = _gaussian(n, rng, d) * np.array([0.3, 1.0, 3.0])[which][:, None]
    X[:, 0] += np.array([-5.0, 0.0, 10.0])[which]
    return X


def _lognormal(n, rng, d):
    return np.exp(_correlated(n, rng, d) / np.logspace(-1, 1, d))


def _moons(n, rng, d):
    """Draw two moons, rotated in d dimensions; in one dimension, two narrow peaks."""
    if d == 1:
        return rng.choice([-1.0, 1.0], size=(n, 1)) + 0.2 * _gaussian(n, rng, 1)
    angle = rng.uniform(0, np.pi, size=n)
    moon = np.column_stack([np.cos(angle), np.sin(angle)])
    X = 0.1 * _gaussian(n, rng, d)
    X[:, :2] += np.where(rng.uniform(size=(n, 1)) < 0.5, moon, [1.0, 0.5] - moon)
    return X @ np.linalg.qr(RandomState(d).standard_normal((d, d)))[0]


def _shell(n, rng, d):
    """Draw near the unit sphere."""
    X = _gaussian(n, rng, d)
    return X / np.linalg.norm(X, axis=1, keepdims=True) * (1 + 0.05 * _gaussian(n, rng, 1))


def _atoms(n, rng, d):
    """Draw from a Gaussian, or one of three points."""
    points = RandomState(d).standard_normal((3, d))
    return np.where(
        rng.uniform(size=(n, 1)) < 0.5, _gaussian(n, rng, d), points[rng.randint(3, size=n)]
    )


LAWS = {
    "Gaussian": _gaussian,
    "correlated": _correlated,
    "t3": partial(_student, degrees=3),
    "two Gaussians": _two_gaussians,
    "three widths": _three_widths,
    "lognormal": _lognormal,
    "gamma": lambda n, rng, d: rng.gamma(2.0, size=(n, d)),
    "moons": _moons,
    "box": lambda n, rng, d: rng.uniform(size=(n, d)),
    "shell": _shell,
    "rounded": lambda n, rng, d: np.round(2 * _gaussian(n, rng, d)) / 2,
    "atoms": _atoms,
}
TIED = ("rounded", "atoms")
#: The laws of AutoROME, whose fits take longer, and those of discoveries.
FEW_LAWS = ("Gaussian", "t3", "two Gaussians", "lognormal", "moons", "rounded")
DISCOVERY_LAWS = {
    **{name: LAWS[name] for name in ("two Gaussians", "moons", "correlated")},
    "t5": partial(_student, degrees=5),
}


# Results


def fill(out, part, cases, measure):
    """Append the cases that a file does not have.

    ``measure(case)`` returns a dictionary of values over repeats, by method and measure.
    """
    if not out.exists():
        out.write_text(",".join(COLUMNS) + "\n")
    rows = pd.read_csv(out, dtype=str, keep_default_na=False)
    done = set(rows[KEYS].itertuples(index=False, name=None))
    for i, case in enumerate(cases):
        key = (part, *map(str, case))
        if key in done:
            continue
        start = time.process_time()
        rows = [
            (*key, *names, np.mean(values), _std_error(values), len(values))
            for names, values in measure(case).items()
        ]
        table = pd.DataFrame(rows, columns=COLUMNS)
        table.to_csv(out, mode="a", header=False, index=False, float_format="%.5g")
        seconds = time.process_time() - start
        report(f"{part} {i + 1} of {len(cases)}, {', '.join(key[1:])}: {seconds:.1f} s")


def _std_error(values):
    return np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan


def read(out, part):
    """Return the rows of a part."""
    rows = pd.read_csv(out, dtype={"features": "Int64", "samples": "Int64"})
    return rows[rows["part"] == part].reset_index(drop=True)


def print_table(title, head, rows):
    """Print a table of markdown; numbers have three decimals, and missing ones are dashes."""
    print(f"\n{title}\n\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for row in rows:
        cells = (f"{each:.3f}" if isinstance(each, float) else str(each) for each in row)
        print("|", " | ".join("-" if each == "nan" else each for each in cells), "|")


# Coverage


def n_draws(case, options):
    """Return the number of draws of a cell."""
    _, _, n, estimator = case
    if estimator == "AutoROME":
        return options.auto_draws
    return options.large_draws if n == 1000 else options.draws


def rejected(case, draw):
    """Return the shares of new rows outside of regions, by method and level."""
    law, d, n, estimator = case
    rng = RandomState([list(LAWS).index(law), d, n, draw])
    X, new = LAWS[law](n, rng, d), LAWS[law](N_NEW, rng, d)
    folds, split = (conformal(ESTIMATORS[estimator](), X, cv=cv) for cv in (5, 0.5))
    plain, scores = folds.estimator_, folds.log_density(new)
    return {
        "folds": _shares_up_to(folds.p_value(new)),
        "split": _shares_up_to(split.p_value(new)),
        "plain": [
            np.mean(scores < plain.hdr_level(1 - alpha, n_draws=N_DENSITY_DRAWS))
            for alpha in ALPHAS
        ],
    }


def _shares_up_to(p_values):
    return [np.mean(p_values <= alpha + ROUNDING) for alpha in ALPHAS]


def measure_coverage(case, options):
    """Return the shares of new rows outside of regions in every draw of a cell."""
    all_draws = [rejected(case, draw) for draw in range(n_draws(case, options))]
    return {
        (method, f"P(p <= {alpha:g})"): [shares[method][i] for shares in all_draws]
        for method in all_draws[0]
        for i, alpha in enumerate(ALPHAS)
    }


def guaranteed(method, n):
    """Return the share of new rows that a region of a method holds at least, and at most."""
    if method == "plain":
        return np.nan, np.nan
    X = RandomState(0).standard_normal((n, 1))
    calibrated = conformal(ROME(), X, cv=5 if method == "folds" else 0.5)
    most = 1 - ALPHA + 1 / (calibrated.n_samples + 1) if method == "split" else np.nan
    return calibrated.guarantee(1 - ALPHA), most


def coverage_cells(out):
    """Return a row for every cell and method, with its bounds."""
    cells = read(out, "coverage").query(f"measure == 'P(p <= {ALPHA:g})'").copy()
    for (method, n), part in cells.groupby(["method", "samples"]):
        cells.loc[part.index, ["least", "most"]] = guaranteed(method, n)
    cells.loc[cells["set"].isin(TIED), "most"] = np.nan
    cells["coverage"], slack = 1 - cells["value"], 3 * cells["std_error"]
    cells["below guarantee"] = cells["coverage"] < cells["least"] - slack
    cells["below confidence"] = cells["coverage"] < 1 - ALPHA - slack
    cells["above range"] = cells["coverage"] > cells["most"] + slack
    return cells


def print_coverage(out):
    """Print the coverage of all cells, and those outside of their bounds."""
    cells = coverage_cells(out)
    methods = ("folds", "split", "plain")
    sizes = cells.groupby(["estimator", "samples", "features"], sort=False)
    print_table(
        f"Coverage of regions of confidence {1 - ALPHA:g}: mean over laws (lowest law)",
        ["estimator", "samples", "features", "draws", *methods, "guarantee of folds"],
        [
            (
                *map(str, size),
                str(part["repeats"].iloc[0]),
                *_means(part, methods),
                part.loc[part["method"] == "folds", "least"].iloc[0],
            )
            for size, part in sizes
        ],
    )
    flags = ["below guarantee", "below confidence", "above range"]
    counts = cells.groupby(["estimator", "method"], sort=False)
    print_table(
        "Cells outside of a bound by more than 3 standard errors",
        ["estimator", "method", "cells", *flags],
        [(*key, len(part), *(int(part[flag].sum()) for flag in flags)) for key, part in counts],
    )
    odd = cells[(cells["method"] != "plain") & cells[flags].any(axis=1)]
    print_table(
        "These cells",
        ["cell", "method", "coverage", "std error", "at least", "at most", "fails"],
        [
            (
                f"{row['estimator']}; {row['set']}; {row['samples']} x {row['features']}",
                row["method"],
                row["coverage"],
                row["std_error"],
                row["least"],
                row["most"],
                ", ".join(flag for flag in flags if row[flag]),
            )
            for _, row in odd.iterrows()
        ],
    )
    BARS.check("cells below their guarantee", int(cells["below guarantee"].sum()))
    BARS.check("cells above their range", int(cells["above range"].sum()))
    print_excesses(out)


def _means(part, methods):
    by_method = part.groupby("method")["coverage"]
    mean, least = by_method.mean(), by_method.min()
    return [f"{mean[method]:.3f} ({least[method]:.3f})" for method in methods]


def print_excesses(out):
    """Print in how many cells p-values are too often small."""
    rows = read(out, "coverage").query("method != 'plain'")
    alpha = rows["measure"].str.extract(r"([\d.]+)\)")[0].astype(float)
    excess = (rows["value"] - alpha) / rows["std_error"].clip(lower=1e-9)
    rows = rows.assign(alpha=alpha, ratio=rows["value"] / alpha, excess=excess > 3)
    groups = rows.groupby(["estimator", "method", "alpha"], sort=False)
    print_table(
        "P(p <= alpha) / alpha, and the cells where it is above 1 by more than 3 standard errors",
        ["estimator", "method", "alpha", "cells", "mean ratio", "largest", "cells above 1"],
        [
            (
                *map(str, key),
                len(part),
                part["ratio"].mean(),
                part["ratio"].max(),
                int(part["excess"].sum()),
            )
            for key, part in groups
        ],
    )
    for _, row in rows[rows["excess"]].iterrows():
        print(
            f"- {row['estimator']}, {row['method']}, {row['set']}, {row['samples']} x "
            f"{row['features']}: {row['measure']} is {row['value']} ± {row['std_error']}"
        )
    BARS.check("share of excesses over alpha", rows["excess"].mean())


def run_coverage(options):
    """Measure the coverage of all cells."""
    cases = [
        (law, d, n, estimator)
        for estimator, (samples, features) in SIZES.items()
        for n, d, law in product(samples, features, LAWS if estimator == "ROME" else FEW_LAWS)
    ]
    cases = [case for case in cases if re.search(options.cells, " ".join(map(str, case)))]
    fill(options.out, "coverage", cases, partial(measure_coverage, options=options))
    print_coverage(options.out)


# Discoveries: new rows of which a tenth are outliers, in many batches for every fit

N_TRAIN, N_BATCHES, N_OUTLIERS = 1000, 10, 20
#: Functions of training rows, classes (unused), the number of outliers and a generator.
KINDS = {"box": in_a_box, "clump": clump, "shuffled": shuffled}
RATES = (0.01, 0.05)
SCALED = ROME(scale="auto", shrinkage="auto")


def discoveries_of(detector, batches):
    """Return means over batches: false discovery rate, power, and power for every kind."""
    found = {"FDR": [], "power": [], **{f"power, {kind}": [] for kind in KINDS}}
    for kind, rows, is_outlier in batches:
        flagged = detector.predict(rows) == -1
        power = flagged[is_outlier].mean()
        found["FDR"].append(flagged[~is_outlier].sum() / max(flagged.sum(), 1))
        found["power"].append(power)
        found[f"power, {kind}"].append(power)
    return {name: np.mean(values) for name, values in found.items()}


def batches_of(law, d, train, rng):
    """Return batches of new rows: the kind of their outliers, the rows, and the outliers."""
    is_outlier = np.arange(N_NEW) < N_OUTLIERS
    for i in range(N_BATCHES):
        kind = list(KINDS)[i % len(KINDS)]
        outliers = KINDS[kind](train, None, N_OUTLIERS, rng)
        regular = DISCOVERY_LAWS[law](N_NEW - N_OUTLIERS, rng, d)
        yield kind, np.concatenate([outliers, regular]), is_outlier


def measure_discoveries(case, options):
    """Return false discoveries, power and false positives, a value for every fit."""
    law, d, n, _ = case
    values = {}
    for fit in range(options.fits):
        rng = RandomState([list(DISCOVERY_LAWS).index(law), d, fit])
        train = DISCOVERY_LAWS[law](n, rng, d)
        batches = list(batches_of(law, d, train, rng))
        clean = DISCOVERY_LAWS[law](N_BATCHES * N_NEW, rng, d)
        for method, cv in (("folds", 5), ("split", 0.5)):
            detector = DensityOutlierDetector(SCALED, control="fdr", rate=RATE, calibration=cv).fit(
                train
            )
            p_values = detector.p_value(clean)
            found = discoveries_of(detector, batches)
            found |= {f"FPR at {rate}": np.mean(p_values <= rate + ROUNDING) for rate in RATES}
            for name, value in found.items():
                values.setdefault((method, name), []).append(value)
    return values


def run_discoveries(options):
    """Measure false discoveries, and print them."""
    cases = [(law, d, N_TRAIN, "ROME") for d, law in product((2, 5, 10, 24), DISCOVERY_LAWS)]
    fill(options.out, "discoveries", cases, partial(measure_discoveries, options=options))
    rows = read(options.out, "discoveries")
    names = list(dict.fromkeys(rows["measure"]))
    print_table(
        f"False discoveries at a rate of {RATE:g}, mean over laws ± standard error over fits",
        ["features", "method", "plantings", *names],
        [
            (
                *map(str, key),
                int(part.query("measure == 'FDR'")["repeats"].sum()) * N_BATCHES,
                *(_over_laws(part[part["measure"] == name]) for name in names),
            )
            for key, part in rows.groupby(["features", "method"])
        ],
    )
    rates = rows[rows["measure"] == "FDR"]
    print_table(
        "False discovery rate of every law",
        ["law", "features", "method", "FDR", "std error"],
        rates[["set", "features", "method", "value", "std_error"]].itertuples(index=False),
    )
    for _, row in rates.iterrows():
        of = f"{row['set']}, {row['features']} features, {row['method']}"
        least = row["value"] - 3 * row["std_error"]
        BARS.check("false discovery rate, less 3 standard errors", least, of)


def _over_laws(part):
    error = np.sqrt((part["std_error"] ** 2).sum()) / len(part)
    return f"{part['value'].mean():.4f} ± {error:.4f}"


# Power: detectors fitted to regular rows


def _tails(train, test):
    """Return minus the log of both empirical tails of every value."""
    tails = []
    for sign in (1, -1):
        pairs = zip(sign * train.T, sign * test.T, strict=True)
        counts = [np.searchsorted(np.sort(old), new, "right") for old, new in pairs]
        tails.append(-np.log((1 + np.transpose(counts)) / (1 + len(train))))
    return tails


def by_ecod(train, test, seed):
    """Score rows by the smaller tail of every feature (Li et al., 2022)."""
    return -np.maximum(*_tails(train, test)).sum(axis=1)


def by_copod(train, test, seed):
    """Score rows by lower tails, upper tails, or those on the skewed side (Li et al., 2020)."""
    lower, upper = _tails(train, test)
    skewed = np.where(skew(train) < 0, lower, upper)
    return -np.max([each.sum(axis=1) for each in (lower, upper, skewed)], axis=0)


def by_density(train, test, seed, **parameters):
    # Folds change only p-values of new rows, not their scores: two are enough.
    return DensityOutlierDetector(**parameters, calibration=2).fit(train).score_samples(test)


def by_forest(train, test, seed):
    return IsolationForest(random_state=seed).fit(train).score_samples(test)


def by_local_factor(train, test, seed):
    return LocalOutlierFactor(novelty=True).fit(train).score_samples(test)


#: Parameters of DensityOutlierDetector; the estimator is AutoROME where none is given.
OURS = {
    "ours": {},
    "ours, min_share=0.05": {"min_share": 0.05},
    "ours, min_share=0.1": {"min_share": 0.1},
    "ROME": {"estimator": SCALED},
    "ROME, min_share=0.1": {"estimator": SCALED, "min_share": 0.1},
}
OTHERS = {
    "IsolationForest": by_forest,
    "LOF": by_local_factor,
    "ECOD": by_ecod,
    "COPOD": by_copod,
}
#: Functions of training rows, test rows and a seed that return scores, low for outliers.
DETECTORS = {name: partial(by_density, **each) for name, each in OURS.items()} | OTHERS
MAX_ROWS, FALSE_POSITIVES = 800, 0.05


def _table(name):
    """Return rows and classes of a table of scikit-learn, along ten axes if there are more."""
    X, y = getattr(tables, f"load_{name}")(return_X_y=True)
    if X.shape[1] > 13:
        X = PCA(10, svd_solver="full").fit_transform(StandardScaler().fit_transform(X))
    return X, y


TABLES = ("iris", "wine", "breast_cancer", "digits", "diabetes")
STUDY = ("aniso", "varied", "two_moons", "rotated_elliptical", "trajectories")
#: Tables, the classes of their regular rows, and those of their outliers.
ONE_CLASS = {
    "iris 1 or 2": ("iris", [1], [2]),
    "iris 0-1 or 2": ("iris", [0, 1], [2]),
    "wine 0-1 or 2": ("wine", [0, 1], [2]),
    "wine 1 or 0": ("wine", [1], [0]),
    "breast_cancer 1 or 0": ("breast_cancer", [1], [0]),
    "digits 1 or 7": ("digits", [1], [7]),
    "digits 0-4 or 5-9": ("digits", [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]),
}


def rows_of(name, rng):
    """Return the regular rows of a set in random order, and those of other classes or None."""
    if name in STUDY:
        return datasets.load(name).sample(MAX_ROWS, random_state=rng), None
    table, regular, other = ONE_CLASS.get(name, (name, None, None))
    X, y = _table(table)
    if regular is None:
        return rng.permutation(X)[:MAX_ROWS], None
    return rng.permutation(X[np.isin(y, regular)])[:MAX_ROWS], X[np.isin(y, other)]


def power_trial(name, seed):
    """Return training rows, regular test rows and outliers by their kind, standardized."""
    rng = RandomState(seed)
    regular, other = rows_of(name, rng)
    scale = StandardScaler().fit(regular[::2])
    train, clean = scale.transform(regular[::2]), scale.transform(regular[1::2])
    if other is not None:
        return train, clean, {"class": scale.transform(other)}
    return train, clean, {kind: plant(train, None, 50, rng) for kind, plant in KINDS.items()}


def measure_power(case, options):
    """Return ROC-AUC and power of every detector, a value for every seed."""
    values = {}
    for seed in range(options.seeds):
        train, clean, outliers = power_trial(case[0], seed)
        test = np.concatenate([clean, *outliers.values()])
        ends = np.cumsum([len(clean), *map(len, outliers.values())])[:-1]
        for method, detect in DETECTORS.items():
            regular, *planted = np.split(detect(train, test, seed), ends)
            for kind, scores in zip(outliers, planted, strict=True):
                found = {"AUC": ranking(regular, scores), "TPR": power(regular, scores)}
                for name, value in found.items():
                    values.setdefault((method, f"{name}, {kind}"), []).append(value)
    return values


def ranking(regular, outliers):
    """Return the ROC-AUC of scores, which are low for outliers."""
    is_regular = np.arange(len(regular) + len(outliers)) < len(regular)
    return roc_auc_score(is_regular, np.concatenate([regular, outliers]))


def power(regular, outliers):
    """Return the share of outliers that are found with 5 % false positives."""
    threshold = np.sort(regular)[int(FALSE_POSITIVES * len(regular))]
    return np.mean(outliers < threshold)


def run_power(options):
    """Measure the power of all detectors, and print it."""
    cases = [(name, "", "", "AutoROME") for name in (*TABLES, *STUDY, *ONE_CLASS)]
    fill(options.out, "power", cases, partial(measure_power, options=options))
    rows = read(options.out, "power")
    rows[["measure", "kind"]] = rows["measure"].str.split(", ", expand=True)
    for measure, title in (
        ("AUC", "ROC-AUC of new rows, clean training rows"),
        ("TPR", f"Power at {FALSE_POSITIVES:.0%} false positives"),
    ):
        table = rows[rows["measure"] == measure].pivot_table(
            index=["set", "kind"], columns="method", values="value", sort=False
        )
        print_methods(title, table[list(DETECTORS)])
        if measure == "AUC":
            BARS.check("mean ROC-AUC of ours", table["ours"].mean())


def print_methods(title, table):
    """Print a table with a column for every method, its means, and the sets each is best on."""
    print_table(
        title,
        [*table.index.names, *table],
        [
            *((*key, *row) for key, row in table.iterrows()),
            ("mean", "", *table.mean()),
            ("best of all, or equal", "", *_best(table)),
        ],
    )


def _best(table):
    """Return on how many sets each method is the best, but for 0.005."""
    return [int(each) for each in (table.ge(table.max(axis=1) - 0.005, axis=0)).sum()]


# Clumps: training rows of which some are outliers that lie together

#: Outliers of a real class among two others, as (table, regular classes, class, rows).
SMALL_CLASSES = {
    "iris, 10 of 0": ("iris", [1, 2], 0, 10),
    "iris, 10 of 2": ("iris", [0, 1], 2, 10),
    "wine, 10 of 0": ("wine", [1, 2], 0, 10),
    "wine, 10 of 2": ("wine", [0, 1], 2, 10),
    "breast_cancer, 10 of 0": ("breast_cancer", [1], 0, 10),
    "digits, 20 of 0": ("digits", [1, 2, 3], 0, 20),
}
MAX_CLUMP_ROWS = 400


def clump_trial(name, seed):
    """Return standardized rows in random order, and which of them are outliers."""
    rng = RandomState(seed)
    if name in SMALL_CLASSES:
        table, regular, own, n = SMALL_CLASSES[name]
        X, y = _table(table)
        rows = rng.permutation(X[np.isin(y, regular)])[:MAX_CLUMP_ROWS]
        outliers = rng.permutation(X[y == own])[:n]
    else:
        rows = StandardScaler().fit_transform(rows_of(name, rng)[0][:MAX_CLUMP_ROWS])
        outliers = clump(rows, None, round(len(rows) * PLANTED / (1 - PLANTED)), rng)
    X = StandardScaler().fit_transform(np.concatenate([rows, outliers]))
    order = rng.permutation(len(X))
    return X[order], order >= len(rows)


def training_scores(method, X, seed):
    """Return the scores of training rows."""
    if method in OURS:
        return DensityOutlierDetector(**OURS[method]).fit(X).training_scores_
    if method == "LOF":
        return LocalOutlierFactor().fit(X).negative_outlier_factor_
    return OTHERS[method](X, X, seed)


def measure_clumps(case, options):
    """Return the ROC-AUC of training rows, a value for every method and seed."""
    values = {}
    for seed in range(options.seeds):
        X, is_outlier = clump_trial(case[0], seed)
        for method in DETECTORS:
            scores = training_scores(method, X, seed)
            area = ranking(scores[~is_outlier], scores[is_outlier])
            values.setdefault((method, "AUC"), []).append(area)
    return values


def run_clumps(options):
    """Measure how well training rows are ranked, and print it."""
    kinds = dict.fromkeys((*TABLES, *STUDY), "5 % in a clump")
    kinds |= dict.fromkeys(SMALL_CLASSES, "small class")
    cases = [(name, "", "", "AutoROME") for name in kinds]
    fill(options.out, "clumps", cases, partial(measure_clumps, options=options))
    rows = read(options.out, "clumps")
    rows["kind"] = rows["set"].map(kinds)
    table = rows.pivot_table(index=["kind", "set"], columns="method", values="value", sort=False)
    print_methods("ROC-AUC of training rows with a clump of outliers", table[list(DETECTORS)])
    BARS.check("mean ROC-AUC of clumps, best of ours", table[list(OURS)].mean().max())


PARTS = {
    "coverage": run_coverage,
    "discoveries": run_discoveries,
    "power": run_power,
    "clumps": run_clumps,
}


def main():
    """Run the parts that the command line names."""
    parser = ArgumentParser(prog="python -m benchmarks.conformal")
    parser.add_argument("part", nargs="?", choices=PARTS, help="all parts by default")
    parser.add_argument("--draws", type=int, default=200, help="draws of a cell of ROME")
    parser.add_argument("--large-draws", type=int, default=60, help="draws of 1000 samples")
    parser.add_argument("--auto-draws", type=int, default=20, help="draws of a cell of AutoROME")
    parser.add_argument("--fits", type=int, default=13, help="fits of discoveries for each law")
    parser.add_argument("--seeds", type=int, default=3, help="splits of power and clumps")
    parser.add_argument("--cells", default="", help="a pattern of law, features, samples, ROME")
    parser.add_argument("--out", type=Path, default=Path(".bench-earlier/conformal.csv"))
    options = parser.parse_args()
    for name, run in PARTS.items():
        if options.part in (None, name):
            run(options)


if __name__ == "__main__":
    BARS.run(main)
