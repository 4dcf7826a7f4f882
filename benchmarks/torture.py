"""What careful users expect of a density estimator: who meets it, and who does not.

``python -m benchmarks.torture`` prints one row for each estimator, ours and for comparison those of
scikit-learn and scipy. ``--failures`` lists every failure after it, ``--markdown`` prints the table
for a page, ``--only ROME`` keeps the estimators with that in their name. The cases are those of
``tests/laws/torture``, each with a time limit.
"""

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks.measuring import Bars
from tests.laws.torture import CASES, OURS, PEERS, Case, Subject, run, why_not

SECONDS = 20
BARS = Bars(at_most={"failures of ours": 0})


class Result(NamedTuple):
    """What came of one case: ``problem`` is empty if it was met, None if it is not offered."""

    case: Case
    subject: Subject
    problem: str | None


class TooSlow(BaseException):
    """Not to be caught by what runs too long."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise in a block that takes longer."""

    def stop(*_):
        raise TooSlow(f"took more than {seconds} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def result_of(case: Case, subject: Subject) -> Result:
    """Run one case, and take whatever goes wrong for its result."""
    if why_not(case, subject) is not None:
        return Result(case, subject, None)
    try:
        with time_limit(SECONDS):
            run(case, subject)
    except (Exception, TooSlow) as error:
        return Result(case, subject, f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Result(case, subject, "")


def share(results: list[Result]) -> str:
    """Return how many of the cases that were run were met."""
    ran = [each for each in results if each.problem is not None]
    return f"{sum(each.problem == '' for each in ran)}/{len(ran)}" if ran else "-"


def rows_of(results: list[Result]) -> Iterator[list[str]]:
    """Return the table: its head, and one row for each estimator."""
    groups = list(dict.fromkeys(case.group for case in CASES.values()))
    yield ["estimator", "met", "not offered", *groups]
    for subject in dict.fromkeys(each.subject for each in results):
        own = [each for each in results if each.subject is subject]
        missing = sum(each.problem is None for each in own)
        by_group = [share([each for each in own if each.case.group == group]) for group in groups]
        yield [subject.name, share(own), str(missing), *by_group]


def print_table(rows: list[list[str]], markdown: bool) -> None:
    """Print rows under each other, or as a table of markdown."""
    if markdown:
        head, *body = rows
        for row in (head, ["---"] * len(head), *body):
            print("| " + " | ".join(row) + " |")
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def print_failures(results: list[Result], width: int | None) -> None:
    """Print one line for each case that was not met."""
    for each in results:
        if each.problem:
            print(f"{each.subject.name}: {each.case.name}: {each.problem[:width]}")


def main() -> None:
    """Run all cases and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--markdown", action="store_true", help="print the table as markdown")
    parser.add_argument("--failures", action="store_true", help="print failures in full length")
    parser.add_argument("--only", default="", help="part of the names of estimators to keep")
    given = parser.parse_args()
    subjects = [each for each in (*OURS, *PEERS) if given.only in each.name]
    results = [result_of(case, subject) for subject in subjects for case in CASES.values()]
    for subject in OURS:
        own = [each for each in results if each.subject is subject]
        BARS.check("failures of ours", sum(bool(each.problem) for each in own), subject.name)
    print(f"{len(CASES)} cases\n")
    print_table(list(rows_of(results)), given.markdown)
    print()
    print_failures(results, None if given.failures else 110)


if __name__ == "__main__":
    BARS.run(main)
