"""Progress callbacks of long computations."""

import time
from collections.abc import Callable

#: A callback that is called with the name of a stage and the fraction of it that is done.
Progress = Callable[[str, float], None]

#: Seconds between two lines about one stage.
_PAUSE = 2.0


def no_progress(stage: str, fraction: float) -> None:
    """Ignore progress."""


def print_progress() -> Progress:
    """Return a callback that prints the beginning of every stage, and its progress at times."""
    start = time.monotonic()
    last = ("", start)

    def show(stage: str, fraction: float) -> None:
        nonlocal last
        now = time.monotonic()
        if stage != last[0] or now - last[1] >= _PAUSE:
            print(f"{now - start:8.1f} s  {stage}: {fraction:.0%}", flush=True)
            last = (stage, now)

    return show
