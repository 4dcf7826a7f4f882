"""What a long piece of work says while it goes on."""

import time
from collections.abc import Callable

#: Told the name of a stage and which part of it is done, from 0 to 1.
Report = Callable[[str, float], None]

#: Seconds between two lines about one stage.
_PAUSE = 2.0


def silent(stage: str, part: float) -> None:
    """Say nothing."""


def spoken() -> Report:
    """Return a report that prints when a stage begins, and now and then how far it is."""
    start = time.monotonic()
    last = ("", start)

    def say(stage: str, part: float) -> None:
        nonlocal last
        now = time.monotonic()
        if stage != last[0] or now - last[1] >= _PAUSE:
            print(f"{now - start:8.1f} s  {stage}: {part:.0%}", flush=True)
            last = (stage, now)

    return say
