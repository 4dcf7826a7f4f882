"""Summaries of clusters, and of fits as text and HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

import numpy as np

from ..clustering import Candidates
from ..clustering.optics import NOISE
from ..clustering.selection import LIKELIHOOD, TRIVIAL_SCORE
from ..density import ChainMap, FeatureMap, KernelMixture, TableMap, YeoJohnson
from ..texts import counted, html_table
from ..validation import check_field

#: Longer lists of features are cut off.
_MAX_FEATURES = 8
#: The number of candidates that are listed.
_MAX_CANDIDATES = 5
#: The region whose share of held-out samples is given.
_CONFIDENCE = 0.95
#: Bounds on the samples by which the share is estimated, and on their pairs with kernels.
_MIN_SCORED, _MAX_SCORED, _MAX_PAIRS = 200, 2000, 10**8
#: Longer remarks are wrapped.
_WIDTH = 79
#: The narrowest column of a table.
_MIN_COLUMN = 8


@dataclass(frozen=True, eq=False)
class Cluster:
    """Summary of one fitted cluster."""

    label: int  #: -1 for noise
    n_members: int  #: the number of its samples
    share: float  #: of the weight of all samples, which is the weight in the density
    mean: np.ndarray  #: (n_features,)
    #: (n_features,) standard deviations along its axes, in data units; with a ``scale``, in the
    #: coordinates that are divided by it
    stds: np.ndarray
    bandwidth: float | None  #: of its kernels after whitening; None if they have no common width

    @property
    def name(self) -> str:
        """Display name: the label, or "noise"."""
        return "noise" if self.label == NOISE else str(self.label)

    def _validate(self) -> None:
        """Raise an error if a value is impossible, as one of a file might be."""
        check_field(self.mean, "mean", "f", (len(self.mean),))
        check_field(self.stds, "stds", "f", (len(self.mean),), least=0)
        if self.label < NOISE or self.n_members < 0 or self.share < 0:
            raise ValueError("label, n_members and share must not be negative, but for noise")
        if self.bandwidth is not None and self.bandwidth <= 0:
            raise ValueError(f"bandwidth must be positive, got {self.bandwidth}")


@dataclass(frozen=True)
class Summary:
    """A title, sentences, a table, a last sentence, and lines of details that HTML leaves out.

    If ``is_ragged``, the last column is left-aligned and its cells may have several lines.
    """

    title: str
    remarks: Sequence[str]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    conclusion: str = ""
    details: str = ""
    is_ragged: bool = False

    def to_text(self) -> str:
        """Return the summary as lines of text."""
        lines = [self.title, *(line for text in self.remarks for line in wrap(text, _WIDTH))]
        widths = [max(_MIN_COLUMN, len(heading) + 2) for heading in self.headings]
        for row in (self.headings, *self.rows):
            *cells, last = row
            line = "".join(f"{cell:>{w}}" for cell, w in zip(cells, widths, strict=False))
            first, *more = last.split("\n")
            lines.append(line + (f"  {first}" if self.is_ragged else f"{first:>{widths[-1]}}"))
            lines += [" " * (len(line) + 2) + each for each in more]
        return "\n".join([*lines, *filter(None, (self.conclusion, self.details))])

    def to_html(self) -> str:
        """Return the sentences and the table as HTML."""
        text = " ".join(filter(None, [*self.remarks, self.conclusion]))
        return html_table(text, self.headings, self.rows)


def describe_size(n_kernels: int, kind: str, n_features: int, n_clusters: int) -> str:
    """Return the numbers of kernels, dimensions and clusters as the start of a title."""
    return f"{n_kernels} {kind} in {n_features} dimensions, {counted(n_clusters, 'cluster')}"


def describe_resolution(
    resolution: Sequence[float] | np.ndarray,
    names: Sequence[str] | None,
    exact: str = "resolution=None",
    units: Mapping[str, str] | None = None,
) -> str:
    """Return a sentence that names the rounded features and their steps; empty if there are none.

    ``exact`` is the setting that takes all values as exact; ``units`` has those of features.
    """
    steps = {feature_name(j, names): step for j, step in enumerate(resolution) if step}
    known = units or {}
    listed = [f"{step:.4g} {known.get(name, '')}".rstrip() for name, step in steps.items()]
    listed = [f"{step} in {name}" for step, name in zip(listed, steps, strict=True)]
    if not listed:
        return ""
    return (
        f"Values come in steps: {_joined(listed)}. Equal values are spread evenly over a step; "
        f"{exact} takes them as exact."
    )


def describe_scale(scale: str | None) -> str:
    """Return a sentence that names the scales of features; empty if there are none."""
    if scale is None:
        return ""
    scales = {"auto": "typical differences between samples", "std": "standard deviations"}[scale]
    return f"Features are divided by their {scales}; scale=None leaves them as they are."


def describe_maps(maps: Sequence[FeatureMap] | None, names: Sequence[str] | None) -> str:
    """Return a sentence that names the features with power maps and tables; empty without any."""
    kinds = {}
    for j, each in enumerate(maps or ()):
        each = each.second if isinstance(each, ChainMap) else each
        if isinstance(each, YeoJohnson):
            kinds[j] = f"by the power {each.power:g}"
        elif isinstance(each, TableMap):
            kinds[j] = "to normal scores"
    listed = _listed(kinds, names)
    return f"Mapped features: {listed}; maps=None leaves all as they are." if listed else ""


def describe_coverage(density: KernelMixture, scores: np.ndarray, which: str) -> str:
    """Return a sentence with the share of samples in the 95 % region of the fit.

    ``scores`` are the log densities of samples in latent coordinates, by fits without them.
    """
    level = float(density._latent.hdr_level(_CONFIDENCE, _n_scored(density)))
    return f"{_CONFIDENCE:.0%} regions hold {np.mean(scores >= level):.1%} of {which}."


def _n_scored(density: KernelMixture) -> int:
    return int(np.clip(_MAX_PAIRS // density.n_kernels, _MIN_SCORED, _MAX_SCORED))


def leave_one_out_scores(density: KernelMixture) -> np.ndarray:
    """Return log densities in latent coordinates at kernels on samples, without one sample each.

    The covariances of the kernels are kept. Of many samples, a part is scored.
    """
    latent = density._latent
    sizes = np.ones(latent.n_kernels) if latent.counts is None else latent.counts
    ranks = np.arange(min(_n_scored(density), np.ceil(sizes.sum())))
    rows = np.searchsorted(np.cumsum(sizes), (ranks + 0.5) / len(ranks) * sizes.sum())
    group = np.searchsorted(latent.offsets, rows, side="right") - 1
    log_share = latent.log_weights[rows] - np.log(np.maximum(sizes[rows], 1.0))
    peaks = latent.log_dets[group] - 0.5 * latent.n_features * np.log(2 * np.pi)
    scores = latent.logpdf(latent.means[rows])
    with np.errstate(divide="ignore"):
        others = np.log1p(-np.exp(np.minimum(log_share + peaks - scores, 0.0)))
        return np.asarray(scores + others - np.log1p(-np.exp(log_share)))


def describe_categories(features: Sequence[int], names: Sequence[str] | None) -> str:
    """Return a sentence that names the features of few values; empty if there are none."""
    listed = _listed(dict.fromkeys(features, ""), names)
    if not listed:
        return ""
    return f"Features of few values, which group samples and are no part of clusters: {listed}."


def feature_name(j: int, names: Sequence[str] | None) -> str:
    """Return the name of a feature, by default its index."""
    return f"feature {j}" if names is None else str(names[j])


def _listed(remarks: Mapping[int, str], names: Sequence[str] | None) -> str:
    """Return the first features with remarks about them, and the number of the others."""
    return _joined([f"{feature_name(j, names)} {text}".rstrip() for j, text in remarks.items()])


def _joined(texts: Sequence[str]) -> str:
    """Return the first texts, and the number of the others."""
    more = len(texts) - _MAX_FEATURES
    return ", ".join(texts[:_MAX_FEATURES]) + (f" and {more} more" if more > 0 else "")


def describe_choice(candidates: Candidates | None) -> str:
    """Return a sentence that names the chosen candidate and its score."""
    if candidates is None:
        return "The clusters were not chosen among candidates."
    i = candidates.chosen
    distinct = f"{len(candidates)} distinct candidates from {int(candidates.n_cuts.sum())} cuts"
    if candidates.n_clusters[i] == 1 and candidates.noise_share[i] == 0:
        return f"One cluster: none of the {distinct} separates the samples."
    rule = {"dbscan": "a cut at height", "xi": "a cut at steepness"}[candidates.rules[i]]
    if candidates.criterion == LIKELIHOOD:
        return (
            f"From {rule} {candidates.parameters[i]:.4g}: its log likelihood is the best of "
            f"{distinct}, {candidates.scores[i]:.4f} per sample above that of one cluster. "
            "Clusters were then split and merged."
        )
    return (
        f"Chosen by {rule} {candidates.parameters[i]:.4g}: the best {candidates.criterion} score "
        f"({candidates.scores[i]:.4f}) of {distinct}."
    )


def describe_candidates(candidates: Candidates | None) -> str:
    """Return the best candidates as lines of text, the chosen one marked."""
    if candidates is None:
        return ""
    estimated = bool(candidates.errors.any())
    layout = "{:<2}{:<8}{:>11}{:>10}{:>8}{:>11}{:>6}" + ("{:>11}" if estimated else "")
    lines = [layout.format("", "rule", "parameter", "clusters", "noise", "score", "cuts", "error")]
    for i in candidates.ranking()[:_MAX_CANDIDATES]:
        score = candidates.scores[i]
        cells = (
            "*" if i == candidates.chosen else "",
            candidates.rules[i],
            f"{candidates.parameters[i]:.4g}",
            candidates.n_clusters[i],
            f"{candidates.noise_share[i]:.1%}",
            "one label" if score == TRIVIAL_SCORE else f"{score:.4f}",
            candidates.n_cuts[i],
            f"{candidates.errors[i]:.1e}",
        )
        lines.append(layout.format(*cells))
    return "\n".join(lines)
