"""Agreement with the published figures, and the page and files of a rerun."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sevenhills.atomic_write import atomic_write

from .catalogue import RECIPES, Published
from .findings import findings
from .plan import Plan
from .store import Row
from .tables import (
    Entry,
    Table,
    beyond_tables,
    likelihood_factors,
    paper_tables,
    summaries,
    to_csv,
    to_latex,
    to_markdown,
)

#: Reasons why groups of published figures cannot be reproduced.
_VINE = (
    "the study has its own implementation of a vine copula; that of pyvinecopulib does not "
    "collapse in 24 dimensions and has another likelihood on sheared data"
)
_ONE_CLUSTER = (
    "the study's DBCV seems to keep unimodal data in one cluster; the score as defined prefers a "
    "cut into a core and noise"
)
_WALKS = (
    "our walks are splines through six published paths, without the study's rejection of walks "
    "near other agents"
)
_ONE_EACH = (
    "the study seems to draw one sample from every window, so that the draws have the mode sizes "
    "of the data; see errors of the study"
)
UNEXPLAINED = "not explained"


@dataclass(frozen=True)
class Agreement:
    """Published figures that agree with ours, and those that differ.

    Attributes
    ----------
    agreeing, differing : tuple of Entry
        Entries with both figures.
    missing : int
        The number of published figures that were not run.
    """

    agreeing: tuple[Entry, ...]
    differing: tuple[Entry, ...]
    missing: int

    @classmethod
    def from_tables(cls, tables: Sequence[Table]) -> "Agreement":
        """Compare all entries of tables."""
        entries = [entry for table in tables for _, _, entry in table.places() if entry.published]
        return cls(
            tuple(entry for entry in entries if entry.agrees),
            tuple(entry for entry in entries if entry.agrees is False),
            sum(entry.agrees is None for entry in entries),
        )

    def within_reach(self) -> tuple[int, int]:
        """Return the numbers of agreeing and of all figures that can be reproduced."""
        agreeing = sum(obstacle(entry.published) is None for entry in self.agreeing)
        differing = sum(obstacle(entry.published) is None for entry in self.differing)
        return agreeing, agreeing + differing

    def describe(self) -> str:
        """Return the counts in one sentence."""
        n = len(self.agreeing) + len(self.differing)
        agreeing, reachable = self.within_reach()
        text = (
            f"{len(self.agreeing)} of {n} published cells agree, {len(self.differing)} differ; of "
            f"the {reachable} that our data sets and libraries can reproduce, {agreeing} agree"
        )
        if reachable:
            text += f" ({agreeing / reachable:.0%})"
        return f"{text}; {self.missing} were not run." if self.missing else f"{text}."


def obstacle(cell: Published | None) -> str | None:
    """Return why a published figure cannot be reproduced, None if it can."""
    if cell is None:
        return None
    if cell.method == "vine":
        return _VINE
    if cell.selection == "dbcv" and cell.distribution in _UNIMODAL:
        return _ONE_CLUSTER
    if "trajectories" in cell.distribution:
        return _WALKS
    return None


def reason(entry: Entry) -> str:
    """Return the reason of a difference."""
    cell = entry.published
    if cell is not None and (cell.method, cell.metric) == ("mpw", "W_hat"):
        return obstacle(cell) or _ONE_EACH
    return obstacle(cell) or UNEXPLAINED


_UNIMODAL = ("gaussian", "elliptical", "rotated_elliptical", "unimodal_trajectories")


#: CPU seconds of one fit of 3000 samples by romepy, as ``make bench`` prints them.
ROMEPY_SECONDS = 23.0


class Picture(Protocol):
    """A figure in a file."""

    @property
    def stem(self) -> str:
        """The name of its file without the extension."""

    @property
    def title(self) -> str:
        """Its title."""

    @property
    def caption(self) -> str:
        """The text below it."""


def write_tables(folder: Path, rows: Sequence[Row]) -> list[Table]:
    """Write all tables as Markdown, CSV and LaTeX; return them.

    Parameters
    ----------
    folder : Path
        Gets ``tables.md``, ``tables.csv`` and ``tables.tex``.
    rows : sequence of Row
    """
    tables = [*paper_tables(rows), *beyond_tables(rows)]
    folder.mkdir(parents=True, exist_ok=True)
    markdown = "\n\n".join(_section(table) for table in tables)
    _write(folder / "tables.md", f"{markdown}\n")
    _write(folder / "tables.csv", to_csv(tables))
    latex = "\n".join(f"% {table.title}\n{to_latex(table)}" for table in tables)
    _write(folder / "tables.tex", latex)
    return tables


def write_page(
    path: Path, plan: Plan, rows: Sequence[Row], pictures: Sequence[Picture], image_folder: str
) -> None:
    """Write the results of a rerun as a page of Markdown.

    Parameters
    ----------
    path : Path
        The page.
    plan : Plan
    rows : sequence of Row
        Its results.
    pictures : sequence of Picture
    image_folder : str
        Their folder, relative to the page.
    """
    tables = paper_tables(rows)
    agreement = Agreement.from_tables(tables)
    parts = [
        "# The study, rerun",
        _introduction(plan, rows),
        "## What agrees",
        agreement.describe(),
        _RULE,
        _reasons(agreement),
        "## Errors of the study",
        *(f"**{each.title}.** {each.text}" for each in findings(summaries(rows))),
        "## The study's tables",
        _LEGEND,
        *(_section(table, level=3) for table in tables),
        *_differences(agreement),
        "## Beyond the study",
        _BEYOND_TEXT,
        *(_section(table, level=3) for table in beyond_tables(rows)),
        _factors(rows),
        *(["## Figures"] if pictures else []),
        *(
            f"### {each.title}\n\n![{each.title}]({image_folder}/{each.stem}.png)\n\n{each.caption}"
            for each in pictures
        ),
        *_failures(rows),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, "\n\n".join(filter(None, parts)) + "\n")


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())


_RULE = (
    "A cell agrees if the difference of the means is at most two published standard deviations, "
    "plus our standard error, plus half a unit of the last published digit."
)
_LEGEND = (
    "Mean and standard deviation over runs; published figures in brackets; ✓ agrees, ✗ differs. "
    "L_hat is the mean log-likelihood of held-out samples, W_hat the Wasserstein indicator, D_JS "
    "the Jensen-Shannon divergence between two fits, and D_JS_true that from the truth. "
    "k-nearest-neighbor densities (knn) are not normalized, so their divergences cannot be "
    "interpreted. The column Gaussian is the study's f_GMM: one Gaussian for each cluster."
)
_BEYOND_TEXT = (
    "The oracle is the true density. AutoROME selects the density of every cluster, with default "
    "parameters; see [its page](auto.md). gaussian_kde is that of scipy, KDE-CV that of "
    "scikit-learn with a bandwidth by cross-validation, GMM-BIC that of scikit-learn with a number "
    "of components by the BIC. A Wasserstein indicator between -.3 and .3 is noise: new samples of "
    "the truth have such values."
)


def _introduction(plan: Plan, rows: Sequence[Row]) -> str:
    seconds = sum(row.seconds for row in rows)
    n_fits = _rome_fits(rows)
    versions = Counter(row.versions for row in rows).most_common(1)
    return (
        "This page compares the published figures of ROME with a rerun, cell by cell. "
        "`make reproduce` writes it from the stored results.\n\n"
        "The study: A. Mészáros, J. F. Schumann, J. Alonso-Mora, A. Zgonnikov, J. Kober: ROME: "
        "Robust Multi-Modal Density Estimator. IJCAI 2024; its figures are means over 100 runs. "
        f"Ours: {plan.runs} runs of {plan.n_samples} samples, "
        f"{len(plan.distributions)} distributions, "
        f"{len(plan.estimators)} estimators, {len(rows)} figures, {seconds / 60:.0f} minutes of "
        f"CPU time. They include {n_fits} clusterings of data sets, for which `romepy` would "
        f"need about {n_fits * ROMEPY_SECONDS / 3600:.0f} hours at {ROMEPY_SECONDS:.0f} s each "
        f"(`make bench`). {versions[0][0] if versions else ''}."
    )


def _rome_fits(rows: Iterable[Row]) -> int:
    """Return the number of clusterings: two data sets in every run, for every score."""
    clusterings = {
        (row.distribution, row.run, RECIPES[row.estimator].settings()["selection"])
        for row in rows
        if RECIPES[row.estimator].is_rome
    }
    return 2 * sum(selection is not None for _, _, selection in clusterings)


def _section(table: Table, level: int = 2) -> str:
    return f"{'#' * level} {table.title}\n\n{to_markdown(table)}"


def _reasons(agreement: Agreement) -> str:
    """Return the number of differing cells by reason."""
    counts = Counter(reason(entry) for entry in agreement.differing)
    if not counts:
        return ""
    known = sum(counts.values()) - counts[UNEXPLAINED]
    lines = [f"| {text} | {n} |" for text, n in sorted(counts.items())]
    return "\n".join(
        [
            f"{known} of {sum(counts.values())} differences have a known reason; "
            "[the cells](#cells-that-differ) are below.",
            "",
            "| reason | cells |",
            "|---|---|",
            *lines,
        ]
    )


def _differences(agreement: Agreement) -> list[str]:
    """Return a table of the differing cells of every reason."""
    by_reason: dict[str, list[Entry]] = {}
    for entry in sorted(agreement.differing, key=lambda e: (reason(e), str(e.published))):
        by_reason.setdefault(reason(entry), []).append(entry)
    tables = [
        "\n".join(
            [
                f"{text[0].upper()}{text[1:]}:",
                "",
                "| table | cell | published | ours | allowed |",
                "|---|---|---|---|---|",
                *filter(None, map(_difference, entries)),
            ]
        )
        for text, entries in by_reason.items()
    ]
    return ["## Cells that differ", *tables] if tables else []


def _difference(entry: Entry) -> str:
    cell, ours = entry.published, entry.ours
    if cell is None or ours is None:
        return ""
    settings = [cell.method, cell.selection or "", cell.estimator or ""]
    settings += [
        name for name, flag in (("decorr.", cell.decorrelate), ("norm.", cell.normalize)) if flag
    ]
    name = f"{cell.distribution}, {cell.metric}, {' '.join(filter(None, settings))}"
    return (
        f"| {cell.table} | {name} | {entry.expected[0]:.4g} ± {entry.expected[1]:.4g} | "
        f"{ours.mean:.4g} | {entry.allowed:.2g} |"
    )


def _factors(rows: Sequence[Row]) -> str:
    factors = likelihood_factors(rows)
    if not factors:
        return ""
    names = list(dict.fromkeys(factor.distribution for factor in factors))
    others = [
        name
        for name in ("auto", "parzen", "vine", "kde", "kde_cv", "gmm", "oracle")
        if any(factor.other == name for factor in factors)
    ]
    at = {(factor.distribution, factor.other): factor for factor in factors}
    lines = [
        "### Likelihood factors",
        "",
        "The mean ratio of the likelihoods of a sample under ROME and under another estimator; * "
        "where it is above one with p < .05 by a one-sided t-test over runs.",
        "",
        "| | " + " | ".join(RECIPES[other].title for other in others) + " |",
        "|---" * (len(others) + 1) + "|",
    ]
    for name in names:
        cells = [
            f"{at[name, other].value:.3g}{'*' if at[name, other].p_value < 0.05 else ''}"
            if (name, other) in at
            else ""
            for other in others
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _failures(rows: Sequence[Row]) -> list[str]:
    failed = [row for row in rows if row.error]
    if not failed:
        return []
    lines = [
        f"- {row.distribution}, run {row.run}, {row.estimator}, {row.metric}: {row.error}"
        for row in failed
    ]
    return ["## Figures that failed", "\n".join(lines)]
