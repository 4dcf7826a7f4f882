"""A fitted density in words and tables."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap

import numpy as np

from ..clustering import NOISE, Candidates
from ..density import KernelMixture, NeighborDensity
from .cluster_records import Cluster, StackedCluster

#: What densities of clusters are sums of.
_TERMS = {"kde": "kernels", "gaussian": "kernels", "knn": "neighbours", "mpw": "windows"}
_HEADINGS = ("cluster", "samples", "share", "widest std", "narrowest std", "bandwidth")
#: Rounded features that are named.
_MOST_FEATURES = 8
#: Together less than the 80 characters of a narrow terminal.
_WIDTHS = (9, 9, 8, 12, 15, 11)
#: Longer sentences are wrapped.
_WIDTH = 79


def describe_fit(
    clusters: Sequence[Cluster],
    min_std: float,
    candidates: Candidates | None,
    density: KernelMixture | NeighborDensity,
    estimator: str,
    rounded: str,
) -> str:
    """Return a fit as text: its clusters, and the candidates among which they were chosen.

    ``rounded`` is what :func:`describe_resolution` says.
    """
    lines = [
        f"{density.n_kernels} {_TERMS[estimator]} in {density.n_features} dimensions, "
        f"{_count(clusters)}, min_std = {min_std:.4g}",
        *wrap(rounded, _WIDTH),
        _line(_HEADINGS),
    ]
    lines += [_line(_cells(cluster)) for cluster in clusters]
    lines.append(describe_choice(candidates))
    if candidates is not None:
        lines.append(candidates.describe())
    return "\n".join(lines)


def describe_resolution(
    resolution: Sequence[float] | np.ndarray,
    names: Sequence[str] | None,
    exact: str = "resolution=None",
) -> str:
    """Return in a sentence which features are rounded, and to what; nothing if none is.

    Parameters
    ----------
    resolution : sequence of shape (n_features,)
        The unit of every feature, 0 where values are exact.
    names : sequence of str or None
        Of the features.
    exact : str
        How to take all values as exact.
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


def _line(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))


def cluster_table_html(
    clusters: Sequence[Cluster], candidates: Candidates | None, rounded: str
) -> str:
    """Return a fit as an HTML table of its clusters."""
    rows = [_row_html("th", _HEADINGS)]
    rows += [_row_html("td", _cells(cluster)) for cluster in clusters]
    text = f"{rounded} {describe_choice(candidates)}".strip()
    caption = f'<p style="margin: 0.7em 0 0.3em">{escape(text)}</p>'
    return f'{caption}<table style="border-collapse: collapse">{"".join(rows)}</table>'


def _row_html(tag: str, cells: Sequence[str]) -> str:
    style = "padding: 0.1em 0.9em; text-align: right"
    return "<tr>" + "".join(f'<{tag} style="{style}">{escape(c)}</{tag}>' for c in cells) + "</tr>"


def _cells(cluster: Cluster) -> tuple[str, ...]:
    return (
        cluster.name,
        str(cluster.n_members),
        f"{cluster.share:.1%}",
        f"{cluster.stds.max():.4g}",
        f"{cluster.stds.min():.4g}",
        "-" if cluster.bandwidth is None else f"{cluster.bandwidth:.4g}",
    )


def _count(clusters: Sequence[Cluster]) -> str:
    proper = [cluster for cluster in clusters if cluster.label >= 0]
    noise = sum(cluster.n_members for cluster in clusters if cluster.label < 0)
    text = f"{len(proper)} cluster{'' if len(proper) == 1 else 's'}"
    return f"{text} and {noise} noise samples" if noise else text


def describe_choice(candidates: Candidates | None) -> str:
    """Return in a sentence why these clusters were chosen."""
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


_MEMBER_HEADINGS = ("cluster", "samples", "share", "gain over a Gaussian", "members (weight)")


def describe_members(
    clusters: Sequence[StackedCluster],
    labels: np.ndarray,
    n_fragments: int,
    held_out: float,
    density: KernelMixture,
    rounded: str,
) -> str:
    """Return a stacked fit as text: what was put on every cluster, and what it gained."""
    lines = [
        f"{density.n_kernels} kernels in {density.n_features} dimensions, "
        f"{len(clusters)} cluster{'' if len(clusters) == 1 else 's'}",
        *wrap(rounded, _WIDTH),
        *_remarks(labels, n_fragments, held_out),
        "".join(f"{h:>{w}}" for h, w in zip(_MEMBER_HEADINGS[:4], (9, 9, 8, 22), strict=True))
        + f"  {_MEMBER_HEADINGS[4]}",
    ]
    for cluster in clusters:
        *cells, members = _member_cells(cluster)
        row = "".join(f"{cell:>{w}}" for cell, w in zip(cells, (9, 9, 8, 22), strict=True))
        lines += [f"{row}  {members[0]}", *(" " * 50 + each for each in members[1:])]
    return "\n".join(lines)


def member_table_html(
    clusters: Sequence[StackedCluster],
    labels: np.ndarray,
    n_fragments: int,
    held_out: float,
    rounded: str,
) -> str:
    """Return a stacked fit as an HTML table of its members."""
    rows = [_row_html("th", _MEMBER_HEADINGS)]
    for cluster in clusters:
        *cells, members = _member_cells(cluster)
        rows.append(_row_html("td", (*cells, "; ".join(members))))
    text = " ".join([rounded, *_remarks(labels, n_fragments, held_out)]).strip()
    caption = f'<p style="margin: 0.7em 0 0.3em">{escape(text)}</p>'
    return f'{caption}<table style="border-collapse: collapse">{"".join(rows)}</table>'


def _remarks(labels: np.ndarray, n_fragments: int, held_out: float) -> list[str]:
    remarks = [f"The mean log density of held-out samples is {held_out:.4g}."]
    if n_fragments:
        remarks.append(
            f"{n_fragments} clusters were found that fall apart otherwise without a fifth of the "
            "samples; they were put together."
        )
    n_strays = int(np.sum(labels == NOISE))
    if n_strays:
        remarks.append(f"Samples far from all clusters, with kernels of their own: {n_strays}.")
    return remarks


def _member_cells(cluster: StackedCluster) -> tuple[str, str, str, str, list[str]]:
    members = [
        f"{name} ({weight:.0%})"
        for name, weight in zip(cluster.members, cluster.weights, strict=True)
    ]
    if cluster.reason:
        members.append(f"[{cluster.reason}]")
    return (
        str(cluster.label),
        str(cluster.n_members),
        f"{cluster.share:.1%}",
        f"{cluster.gain:.3f} \N{PLUS-MINUS SIGN} {cluster.gain_error:.3f}",
        members,
    )
