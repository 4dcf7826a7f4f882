"""Summaries of fits, as text and as HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

import numpy as np

from ..clustering import Candidates
from ..clustering.optics import NOISE
from ..clustering.selection import TRIVIAL_SCORE
from .cluster_records import Cluster, StackedCluster

#: The parts of the density of a cluster, for every choice of ``density``.
_PARTS = {"kde": "kernels", "gaussian": "kernels", "knn": "neighbors", "mpw": "windows"}
#: Longer lists of rounded features are cut off.
_MOST_FEATURES = 8
#: The number of candidates that are listed.
_MOST_CANDIDATES = 5
#: Longer remarks are wrapped.
_WIDTH = 79
#: The narrowest column of a table.
_LEAST_WIDTH = 8


@dataclass(frozen=True)
class Summary:
    """A fit in a few sentences and a table.

    Attributes
    ----------
    title : str
    remarks : sequence of str
        Sentences that stand before the table.
    headings : sequence of str
    rows : sequence of sequences of str
        The cells of the table.
    conclusion : str
        A sentence that stands behind the table.
    details : str
        Lines of text, which HTML does not have.
    is_ragged : bool
        Whether the cells of the last column are left-aligned and may have several lines.
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
        widths = [max(_LEAST_WIDTH, len(heading) + 2) for heading in self.headings]
        for row in (self.headings, *self.rows):
            *cells, last = row
            line = "".join(f"{cell:>{w}}" for cell, w in zip(cells, widths, strict=False))
            first, *more = last.split("\n")
            lines.append(line + (f"  {first}" if self.is_ragged else f"{first:>{widths[-1]}}"))
            lines += [" " * (len(line) + 2) + each for each in more]
        return "\n".join([*lines, *filter(None, (self.conclusion, self.details))])

    def to_html(self) -> str:
        """Return the sentences and the table as HTML."""
        text = escape(" ".join(filter(None, [*self.remarks, self.conclusion])))
        rows = [_row_html("th", self.headings), *(_row_html("td", row) for row in self.rows)]
        return (
            f'<p style="margin: 0.7em 0 0.3em">{text}</p>'
            f'<table style="border-collapse: collapse">{"".join(rows)}</table>'
        )


def _row_html(tag: str, cells: Sequence[str]) -> str:
    style = "padding: 0.1em 0.9em; text-align: right"
    texts = (escape(cell).replace("\n", "; ") for cell in cells)
    return "<tr>" + "".join(f'<{tag} style="{style}">{text}</{tag}>' for text in texts) + "</tr>"


def summarize_clusters(
    clusters: Sequence[Cluster],
    candidates: Candidates | None,
    *,
    density: str,
    n_kernels: int,
    min_std: float,
    rounded: str,
) -> Summary:
    """Return the summary of a ROME: its clusters, and the candidates among which it chose.

    Parameters
    ----------
    clusters : sequence of Cluster
    candidates : Candidates or None
    density : {"kde", "gaussian", "knn", "mpw"}
    n_kernels : int
    min_std : float
    rounded : str
        The sentence of :func:`describe_resolution`.
    """
    proper = [cluster for cluster in clusters if cluster.label != NOISE]
    noise = sum(cluster.n_members for cluster in clusters if cluster.label == NOISE)
    found = _count(len(proper)) + (f" and {noise} noise samples" if noise else "")
    return Summary(
        title=f"{n_kernels} {_PARTS[density]} in {len(clusters[0].mean)} dimensions, {found}, "
        f"min_std = {min_std:.4g}",
        remarks=[rounded],
        headings=("cluster", "samples", "share", "widest std", "narrowest std", "bandwidth"),
        rows=[
            (
                cluster.name,
                str(cluster.n_members),
                f"{cluster.share:.1%}",
                f"{cluster.stds.max():.4g}",
                f"{cluster.stds.min():.4g}",
                "-" if cluster.bandwidth is None else f"{cluster.bandwidth:.4g}",
            )
            for cluster in clusters
        ],
        conclusion=describe_choice(candidates),
        details="" if candidates is None else describe_candidates(candidates),
    )


def summarize_members(
    clusters: Sequence[StackedCluster],
    labels: np.ndarray,
    *,
    n_kernels: int,
    n_fragments: int,
    held_out: float,
    rounded: str,
) -> Summary:
    """Return the summary of an AutoROME: the members of every cluster, and their gain.

    Parameters
    ----------
    clusters : sequence of StackedCluster
    labels : ndarray of shape (n_samples,)
    n_kernels : int
    n_fragments : int
        The number of clusters that were merged because they were not stable.
    held_out : float
        The mean log density of held-out samples.
    rounded : str
        The sentence of :func:`describe_resolution`.
    """
    remarks = [rounded, f"The mean log density of held-out samples is {held_out:.4g}."]
    if n_fragments:
        remarks.append(
            f"{n_fragments} clusters were merged: they were not stable when a fifth of the samples "
            "was left out."
        )
    n_outliers = int(np.sum(labels == NOISE))
    if n_outliers:
        remarks.append(f"Samples far from all clusters, with kernels of their own: {n_outliers}.")
    return Summary(
        title=f"{n_kernels} kernels in {len(clusters[0].mean)} dimensions, {_count(len(clusters))}",
        remarks=remarks,
        headings=("cluster", "samples", "share", "gain over a Gaussian", "members (weight)"),
        rows=[
            (
                str(cluster.label),
                str(cluster.n_members),
                f"{cluster.share:.1%}",
                f"{cluster.gain:.3f} \N{PLUS-MINUS SIGN} {cluster.gain_error:.3f}",
                _members(cluster),
            )
            for cluster in clusters
        ],
        is_ragged=True,
    )


def _members(cluster: StackedCluster) -> str:
    pairs = zip(cluster.members, cluster.weights, strict=True)
    lines = [f"{name} ({weight:.0%})" for name, weight in pairs]
    return "\n".join([*lines, f"[{cluster.reason}]"] if cluster.reason else lines)


def _count(n_clusters: int) -> str:
    return f"{n_clusters} cluster{'' if n_clusters == 1 else 's'}"


def describe_resolution(
    resolution: Sequence[float] | np.ndarray,
    names: Sequence[str] | None,
    exact: str = "resolution=None",
) -> str:
    """Return a sentence that names the rounded features and their units; empty if there are none.

    Parameters
    ----------
    resolution : sequence of shape (n_features,)
        The unit of every feature, 0 where values are exact.
    names : sequence of str or None
        The names of the features.
    exact : str
        The setting that takes all values as exact.
    """
    rounded = np.flatnonzero(resolution)
    if not len(rounded):
        return ""
    units = [
        f"{f'feature {j}' if names is None else names[j]} to {resolution[j]:.4g}"
        for j in rounded[:_MOST_FEATURES]
    ]
    more = len(rounded) - len(units)
    listed = ", ".join(units) + (f" and {more} more" if more else "")
    return (
        f"Rounded values: {listed}. Equal ones are spread evenly over their unit; {exact} "
        "takes them as exact."
    )


def describe_choice(candidates: Candidates | None) -> str:
    """Return a sentence that names the chosen candidate and its score."""
    if candidates is None:
        return "The clusters were not chosen among candidates."
    i = candidates.chosen
    distinct = f"{len(candidates)} distinct candidates from {int(candidates.n_cuts.sum())} cuts"
    if candidates.n_clusters[i] == 1 and candidates.noise_share[i] == 0:
        return f"One cluster: none of the {distinct} separates the samples."
    rule = {"dbscan": "a cut at height", "xi": "a cut at steepness"}[candidates.rules[i]]
    return (
        f"Chosen by {rule} {candidates.parameters[i]:.4g}: the best {candidates.criterion} score "
        f"({candidates.scores[i]:.4f}) of {distinct}."
    )


def describe_candidates(candidates: Candidates) -> str:
    """Return the best candidates as lines of text, the chosen one marked."""
    estimated = bool(candidates.errors.any())
    lines = [
        f"  {'rule':<8}{'parameter':>11}{'clusters':>10}{'noise':>8}{'score':>11}{'cuts':>6}"
        + (f"{'error':>11}" if estimated else "")
    ]
    for i in candidates.ranking()[:_MOST_CANDIDATES]:
        score = candidates.scores[i]
        lines.append(
            f"{'*' if i == candidates.chosen else ' '} {candidates.rules[i]:<8}"
            f"{candidates.parameters[i]:>11.4g}{candidates.n_clusters[i]:>10}"
            f"{candidates.noise_share[i]:>8.1%}"
            f"{'one label' if score == TRIVIAL_SCORE else f'{score:.4f}':>11}"
            f"{candidates.n_cuts[i]:>6}" + (f"{candidates.errors[i]:>11.1e}" if estimated else "")
        )
    return "\n".join(lines)
