"""The findings of a report about a fit, in sentences that are composed of measured quantities."""

from collections.abc import Mapping, Sequence
from math import isfinite, isnan, sqrt
from shlex import quote
from typing import NamedTuple

import numpy as np

from ..clustering.scaling import unequal_scales
from ..estimate import Estimate
from ..estimators import ROME, AutoROME, propose_support
from ..texts import counted, listed
from .outliers import Outliers
from .quality import CONFIDENCE, GAUSSIAN, KDE, MIXTURE, Quality
from .subject import Subject
from .views import separation

#: Differences beyond this multiple of their standard error are not taken as chance.
_SIGNIFICANT = 2.0
#: The same for numbers of rare samples, which are Poisson variables with longer tails.
_RARE = 3.0
#: Clusters whose shares and means are told one by one.
_MAX_LISTED = 4
#: Features that are named as those in which clusters differ, ...
_MAX_FEATURES = 3
#: ... which have at least these shares of their variance, and of the largest share, between them.
_LEAST_BETWEEN, _LEAST_OF_LARGEST = 0.3, 0.5
#: A feature of few values tells clusters apart if they remove this share of its impurity.
_TOLD_APART = 0.9
#: Labels with a smaller share of the samples of one value are chance.
_LEAST_SHARE = 0.05
#: Fewer samples for each feature are few.
_FEW_PER_FEATURE = 20
#: Names of simpler estimators on the command line.
_OPTIONS = {GAUSSIAN: "gmm", KDE: "kde", MIXTURE: "gmm"}


class Finding(NamedTuple):
    """A topic of the verdict, and sentences about it."""

    topic: str
    text: str


def fit_verdict(
    subject: Subject,
    n_modes: int | None,
    quality: Quality,
    outliers: Outliers,
    left_out: Mapping[str, str],
) -> list[Finding]:
    """Return what was found, how good the fit is, and what to try next."""
    differences, coverage = quality.differences(), None
    if quality.of_model is not None and quality.is_normalized:
        coverage = quality.coverage(quality.of_model)
    found = {
        "Found": _describe_subject(subject, n_modes),
        "Fit": quality.reason or describe_fit(subject.kind, differences, quality.left_out),
        "Regions": describe_regions(coverage),
        "Outliers": describe_outliers(
            outliers.count, outliers.rate, subject.n_samples or 0, _far(quality)
        ),
        "Left out": describe_left_out(left_out),
        "Next": describe_steps(_steps(subject, differences, coverage)),
    }
    return [Finding(topic, text) for topic, text in found.items() if text]


# Clusters


def _describe_subject(subject: Subject, n_modes: int | None) -> str:
    """Return sentences on clusters, the features that tell them apart, and modes."""
    if subject.labels is None or subject.X is None:
        n_clusters = None if subject.labels is None else int(subject.labels.max(initial=-1)) + 1
        return describe_found(subject.kind, _size(subject), n_clusters, [], n_modes)
    few, inside = subject.few_values, subject.labels >= 0
    X, labels = subject.X[inside], subject.labels[inside]
    sizes = np.unique(labels, return_counts=True)[1]
    shares = (sizes / len(subject.labels)).tolist()
    splitting = [j for j in few if tells_apart(X[:, j], labels)]
    measured = [j for j in range(X.shape[1]) if j not in few]
    names, groups = subject.names, {subject.names[j]: n for j, n in few.items()}
    sentences = [describe_found(subject.kind, _size(subject), len(sizes), shares, n_modes)]
    if splitting:
        n_within = clusters_within(X[:, splitting], labels)
        sentences.append(describe_split([names[j] for j in splitting], len(sizes), n_within))
    elif isinstance(subject.model, AutoROME) and measured:
        sentences.append(describe_groups(groups))
    if len(sizes) > 1 and not splitting:
        sentences.append(
            describe_means(_means(X[:, measured], labels, [names[j] for j in measured]))
        )
    n_noise = int((~inside).sum())
    if n_noise:
        are = "row is" if n_noise == 1 else "rows are"
        sentences.append(f"{n_noise:,} {are} far from all clusters.")
    return " ".join(filter(None, sentences))


def _size(subject: Subject) -> str:
    """Return the numbers of rows and columns in words."""
    columns = counted(len(subject.names), "column")
    if subject.n_samples is None:
        return columns
    rows = counted(subject.n_samples, "row")
    if subject.n_rows is not None:
        rows += f", drawn at random from {subject.n_rows:,},"
    return f"{rows} of {columns}"


def describe_found(
    kind: str, size: str, n_clusters: int | None, shares: Sequence[float], n_modes: int | None
) -> str:
    """Return a sentence on the numbers of clusters and modes; None stands for unknown numbers.

    Examples
    --------
    >>> describe_found("ROME", "333 rows of 4 columns", 2, [0.64, 0.36], 3)
    'ROME found 2 clusters in 333 rows of 4 columns (64% and 36%); the density has 3 modes.'
    """
    end = "." if n_modes is None else f"; the density has {counted(n_modes, 'mode')}."
    if n_clusters is None:
        return f"{kind} is one density of {size}, without clusters{end}"
    if n_clusters == 0:
        return f"{kind} found no clusters in {size}{end}"
    if n_clusters == 1:
        return f"{kind} found one cluster in {size}{end}"
    if len(shares) > _MAX_LISTED:
        sizes = f" ({_percent(max(shares))} to {_percent(min(shares))})"
    else:
        sizes = f" ({listed([_percent(each) for each in shares])})" if shares else ""
    return f"{kind} found {n_clusters:,} clusters in {size}{sizes}{end}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def tells_apart(values: np.ndarray, labels: np.ndarray) -> bool:
    """Return whether nearly every cluster has one value of a feature of few values."""
    if len(np.unique(labels)) < 2:
        return False
    _, codes = np.unique(values, return_inverse=True)
    table = np.zeros((labels.max() + 1, codes.max() + 1))
    np.add.at(table, (labels, codes), 1.0)
    impure, before = (1.0 - each / len(values) for each in (table.max(1).sum(), table.sum(0).max()))
    return bool(impure <= (1 - _TOLD_APART) * before)


def clusters_within(values: np.ndarray, labels: np.ndarray) -> int:
    """Return the largest number of clusters among samples with equal values."""
    _, codes = np.unique(values, axis=0, return_inverse=True)
    parts = (labels[codes.ravel() == code] for code in range(codes.max() + 1))
    sizes = (np.unique(part, return_counts=True)[1] for part in parts)
    return max(int((each >= _LEAST_SHARE * each.sum()).sum()) for each in sizes)


def describe_split(names: Sequence[str], n_clusters: int, n_within: int) -> str:
    """Return a sentence on clusters that are the values of some features.

    Examples
    --------
    >>> describe_split(["year"], 3, 1)
    'The clusters are the values of year, a column of few values, and no clusters of measurements.'
    """
    which = "a column of few values" if len(names) == 1 else "columns of few values"
    if n_within == 1:
        return (
            f"The clusters are the values of {listed(names)}, {which}, and no clusters of "
            "measurements."
        )
    return (
        f"{listed(names)}, {which}, {'splits' if len(names) == 1 else 'split'} the data into most "
        f"of these clusters: rows of equal values have at most {n_within} of the {n_clusters:,}."
    )


def describe_groups(groups: Mapping[str, int]) -> str:
    """Return a sentence on features of few values that were no part of the clustering.

    Examples
    --------
    >>> describe_groups({"year": 3})
    'year (3 values) groups rows and is no part of the clusters.'
    """
    if not groups:
        return ""
    names = listed([f"{name} ({number} values)" for name, number in groups.items()])
    verbs = ("groups", "is") if len(groups) == 1 else ("group", "are")
    return f"{names} {verbs[0]} rows and {verbs[1]} no part of the clusters."


def _means(X: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> dict[str, list[float]]:
    """Return the features in which clusters differ most, and their means in all clusters."""
    between = separation(X, labels)
    least = max(_LEAST_BETWEEN, _LEAST_OF_LARGEST * between.max(initial=0.0))
    order = np.argsort(-between, kind="stable")[:_MAX_FEATURES]
    return {
        names[j]: [float(X[labels == label, j].mean()) for label in np.unique(labels)]
        for j in order
        if between[j] >= least
    }


def describe_means(means: Mapping[str, Sequence[float]]) -> str:
    """Return a sentence on the features in which clusters differ.

    Examples
    --------
    >>> describe_means({"mass": [3706.0, 5076.0], "depth": [18.3, 15.0]})
    'The clusters differ most in mass (means 3,710 and 5,080) and depth (means 18.3 and 15).'
    """
    if not means:
        return "No single column tells the clusters apart."
    texts = []
    for name, values in means.items():
        if len(values) <= _MAX_LISTED:
            shown = listed([_number(value) for value in values])
        else:
            shown = f"from {_number(min(values))} to {_number(max(values))}"
        texts.append(f"{name} (means {shown})")
    return f"The clusters differ most in {listed(texts)}."


def _number(value: float) -> str:
    """Return three significant digits, without an exponent for usual numbers."""
    return f"{float(f'{value:.3g}'):,.12g}"


# The quality of the fit


def describe_fit(
    kind: str, differences: Mapping[str, Estimate], left_out: Sequence[str] = ()
) -> str:
    """Return a sentence on the fit beside others, by differences of mean log densities.

    ``left_out`` are features without a part in the comparison.

    Examples
    --------
    >>> describe_fit("ROME", {"a plain KDE": Estimate(0.4, 0.1, 99)})
    'A good fit: on 99 held-out rows, ROME is better than a plain KDE by 0.40 ± 0.10 nats per row.'
    """
    known = {name: each for name, each in differences.items() if not isnan(each)}
    if not known:
        return "The fit could not be compared with simpler densities."
    n_rows = max(each.n for each in known.values())
    kinds: dict[str, list[str]] = {"better": [], "same": [], "worse": []}
    for name, each in known.items():
        kinds[judge(each)].append(_beside(name, each, judge(each)))
    clauses = []
    if kinds["better"]:
        clauses.append(f"{kind} is better than {listed(kinds['better'])} nats per row")
    if kinds["same"]:
        subject = "it" if clauses else kind
        clauses.append(f"{subject} cannot be told apart from {listed(kinds['same'])}")
    if kinds["worse"]:
        subject = "it" if clauses else kind
        clauses.append(f"{subject} is worse than {listed(kinds['worse'])} nats per row")
    opening = "No better than simpler densities"
    if kinds["worse"]:
        opening = "Not the best fit"
    elif kinds["better"]:
        opening = "A good fit"
    where = f" (without {listed(left_out)})" if left_out else ""
    return f"{opening}: on {n_rows:,} held-out rows{where}, {'; '.join(clauses)}."


def judge(difference: Estimate) -> str:
    """Return whether a difference is "better", "worse" or, but for chance, the "same"."""
    if not isfinite(difference):
        return "better" if difference > 0 else "worse"
    if not abs(difference) > _SIGNIFICANT * difference.std_error:
        return "same"
    return "better" if difference > 0 else "worse"


def _beside(name: str, difference: Estimate, kind: str) -> str:
    if kind == "same":
        return f"{name} ({_signed(difference)})"
    if not isfinite(difference):
        return f"{name} by infinitely many"
    return f"{name} by {Estimate(abs(difference), difference.std_error)}"


def _signed(difference: Estimate) -> str:
    return str(difference).replace("-", "\N{MINUS SIGN}")


def describe_regions(coverage: Estimate | None) -> str:
    """Return a sentence on the share of held-out samples in regions of a nominal confidence.

    Examples
    --------
    >>> describe_regions(Estimate(0.913, 0.016, 333))
    'Regions hold what they say: those of 90% have 91.3 ± 1.6% of the held-out rows.'
    """
    if coverage is None:
        return ""
    opening = {
        "same": "Regions hold what they say",
        "better": "Regions are larger than they say",
        "worse": "Regions are smaller than they say",
    }[judge(_excess(coverage))]
    share = Estimate(100 * coverage, 100 * coverage.std_error)
    return f"{opening}: those of {CONFIDENCE:.0%} have {share}% of the held-out rows."


def _excess(coverage: Estimate) -> Estimate:
    return Estimate(coverage - CONFIDENCE, coverage.std_error)


# Outliers, columns that were left out, and what to try


def _far(quality: Quality) -> tuple[int, float] | None:
    """Return how many samples are less dense than all draws of their fit, and how many by chance.

    None if the fit cannot be sampled.
    """
    held_out = quality.of_model
    if held_out is None or held_out.n_draws == 0:
        return None
    n_far = int((held_out.probabilities >= 1).sum())
    return n_far, len(held_out.probabilities) * len(quality.folds) / held_out.n_draws


def describe_outliers(
    count: int | None, rate: float | None, n_rows: int, far: tuple[int, float] | None
) -> str:
    """Return sentences on the number of outliers, and on samples beyond all draws of the fit.

    ``rate`` is the share of samples that the rule flags in any table, None if it has none; ``far``
    has the number of samples beyond all draws, and the number that is expected by chance.

    Examples
    --------
    >>> describe_outliers(3, 0.01, 333, (2, 0.2))
    '3 of 333 rows are listed as outliers; the rule flags 1% of any table. 2 rows are less likely \
than every draw from their fit, where chance explains 0.2: look at them first.'
    """
    if count is None:
        return ""
    are = "is listed as an outlier" if count == 1 else "are listed as outliers"
    of_any = "" if rate is None else f"; the rule flags {_percent(rate)} of any table"
    text = f"{count:,} of {counted(n_rows, 'row')} {are}{of_any}."
    if far is None:
        return text
    number, expected = far
    if number <= expected + _RARE * sqrt(expected):
        return f"{text} None stands out beyond chance."
    are = "row is" if number == 1 else "rows are"
    return (
        f"{text} {number:,} {are} less likely than every draw from their fit, where chance "
        f"explains {expected:.1f}: look at them first."
    )


def describe_left_out(left_out: Mapping[str, str]) -> str:
    """Return a sentence on columns and rows that were left out, with the reasons.

    Examples
    --------
    >>> describe_left_out({"species": "words", "island": "words", "2 rows": "missing values"})
    'Left out: species and island (words); 2 rows (missing values).'
    """
    reasons: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        reasons.setdefault(reason, []).append(name)
    texts = []
    for reason, names in reasons.items():
        more = len(names) - 2 * _MAX_LISTED
        if more > 0:
            names = [*names[: 2 * _MAX_LISTED], f"{more} more"]
        texts.append(f"{listed(names)} ({reason})")
    return f"Left out: {'; '.join(texts)}." if texts else ""


def _steps(
    subject: Subject, differences: Mapping[str, Estimate], coverage: Estimate | None
) -> list[str]:
    """Return what may give a better fit."""
    X, names = subject.X, subject.names
    if X is None:
        return ["the samples of the fit (X, or --data on the command line), by which it is judged"]
    ahead = [name for name, each in differences.items() if judge(each) == "worse"]
    is_small = coverage is not None and judge(_excess(coverage)) == "worse"
    model, few = subject.model, [names[j] for j in subject.few_values]
    steps = []
    if ahead and isinstance(model, ROME):
        steps += rome_steps(model.scale is None and unequal_scales(X) is not None)
    elif ahead and subject.is_estimator:
        steps.append(f"{listed(ahead)} (--estimator {_OPTIONS[ahead[0]]})")
    if (ahead or is_small) and getattr(model, "support", 0) is None:
        steps += support_steps([names[j] for j in propose_support(X)])
    if (ahead or is_small) and len(X) < _FEW_PER_FEATURE * len(names):
        size = f"{len(X):,} rows are few for {counted(len(names), 'column')}"
        steps.append(f"more rows, or fewer columns (--columns): {size}")
    if is_small:
        steps.append("conformal(), whose regions hold their share whatever the fit")
    if 0 < len(few) < len(names):
        steps.append(group_step(few))
    if subject.n_rows is not None:
        steps.append(
            "a fit to all rows (`sevenhills fit`), as `sevenhills report MODEL --data` shows it"
        )
    return steps


def rome_steps(has_unequal_scales: bool) -> list[str]:
    """Return what may improve a fit of ROME."""
    steps = ["AutoROME (--estimator auto), which chooses the density of every cluster"]
    if has_unequal_scales:
        remedy = 'scale="auto" (--scale auto), because the scales of columns differ'
        return [remedy, *steps]
    return steps


def support_steps(names: Sequence[str]) -> list[str]:
    """Return a support to declare, if some features seem to be bounded by zero."""
    if not names:
        return []
    shown = listed([*names[:_MAX_LISTED], *(["others"] if len(names) > _MAX_LISTED else [])])
    option = quote(f"{names[0]}=0:")
    return [f"a support (--support {option}), if {shown} cannot be negative"]


def group_step(names: Sequence[str]) -> str:
    """Return the offer of a density for each value of a feature."""
    return f"a density for each value of {' or '.join(names)} (--by {quote(names[0])})"


def describe_steps(steps: Sequence[str]) -> str:
    """Return a sentence on what to try.

    Examples
    --------
    >>> describe_steps(["a density for each value of year (--by year)"])
    'Try a density for each value of year (--by year).'
    """
    return f"Try {'; '.join(steps)}." if steps else ""
