"""Which published figures ours agree with, and why others do not."""

from collections.abc import Sequence
from dataclasses import dataclass

from .published import Published
from .tables import Entry, Table

#: Why a figure cannot be expected to agree, for whole groups of cells; the first that fits.
_VINE = (
    "the study wrote a vine of its own; ours is pyvinecopulib's, which does not collapse in 24 "
    "dimensions and reaches another likelihood on sheared data"
)
_ONE_CLUSTER = (
    "the study's DBCV seems to have left uni-modal data in one cluster; the score as defined "
    "prefers a cut into a core and noise"
)
_WALKS = (
    "our walks are rebuilt from six published paths, smooth in between, and not rejected near "
    "other agents"
)
_ONE_EACH = (
    "the study seems to take one draw from every window, which then share the sizes of the modes "
    "with the samples; see what the study got wrong"
)
UNEXPLAINED = "not explained"


@dataclass(frozen=True)
class Agreement:
    """How the published figures compare with ours.

    Attributes
    ----------
    agreeing, differing : tuple of Entry
        Those with both figures.
    missing : int
        The number of published figures that were not run.
    """

    agreeing: tuple[Entry, ...]
    differing: tuple[Entry, ...]
    missing: int

    @classmethod
    def of(cls, tables: Sequence[Table]) -> "Agreement":
        """Compare all entries of tables."""
        entries = [entry for table in tables for _, _, entry in table.places() if entry.published]
        return cls(
            tuple(entry for entry in entries if entry.agrees),
            tuple(entry for entry in entries if entry.agrees is False),
            sum(entry.agrees is None for entry in entries),
        )

    def within_reach(self) -> tuple[int, int]:
        """Return how many agree, and of how many, where nothing known stands in the way."""
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
    """Return what keeps us from reproducing a published figure, None if nothing known does."""
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
    """Return why a figure differs from the published one."""
    cell = entry.published
    if cell is not None and (cell.method, cell.metric) == ("mpw", "W_hat"):
        return obstacle(cell) or _ONE_EACH
    return obstacle(cell) or UNEXPLAINED


_UNIMODAL = ("gaussian", "elliptical", "rotated_elliptical", "unimodal_trajectories")
