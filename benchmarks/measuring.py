"""CPU time and peak memory of a piece of work, and the bars that a benchmark has to meet."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path


def best_of(work, repeats):
    """The best CPU time of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def memory_mb(peak):
    """The memory that the process holds, or the most that it ever held."""
    try:
        with open("/proc/self/status") as status:
            field = "VmHWM" if peak else "VmRSS"
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))
    except OSError:  # not Linux: the peak is all that can be had
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_part(name, *arguments):
    """Run a part of a benchmark in a process of its own and return what it reports."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments)]
    root = Path(__file__).parent.parent
    output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout
    return json.loads(output.splitlines()[-1])


def report(work, repeats, parts=1):
    """Print the best CPU time of a part of the work, and the peak of memory above now."""
    start = memory_mb(peak=False)
    seconds = best_of(work, repeats) / parts
    print(json.dumps({"seconds": seconds, "peak_mb": memory_mb(peak=True) - start}))


class Bars:
    """Limits of what a benchmark measures, by name.

    ``--bar NAME=VALUE`` on the command line moves one; with ``--fail-fast`` the benchmark ends at
    the first that is missed.
    """

    def __init__(self, at_least=None, at_most=None):
        self.at_least, self.at_most = dict(at_least or {}), dict(at_most or {})
        self.fail_fast = False
        self.met, self.missed = 0, []

    def __getitem__(self, name):
        return self._side(name)[name]

    def _side(self, name):
        for side in (self.at_least, self.at_most):
            if name in side:
                return side
        raise KeyError(f"no bar {name!r}; there are {[*self.at_least, *self.at_most]}")

    def check(self, name, value, of=""):
        """Compare a value with a bar, and return the bar; NaN misses every bar."""
        bar = self[name]
        is_least = name in self.at_least
        if value >= bar if is_least else value <= bar:
            self.met += 1
        else:
            subject = f"{name} ({of})" if of else name
            side = "at least" if is_least else "at most"
            self.missed.append(f"bar missed: {subject} is {value:.4g}, must be {side} {bar:g}")
            if self.fail_fast:
                sys.exit(self.verdict())
        return bar

    def read(self, arguments):
        """Take the options of bars out of the arguments of a command."""
        while "--bar" in arguments:
            at = arguments.index("--bar")
            name, _, value = "".join(arguments[at + 1 : at + 2]).rpartition("=")
            try:
                self._side(name)[name] = float(value)
            except (KeyError, ValueError) as error:
                sys.exit(f"--bar {name}={value}: {error}")
            del arguments[at : at + 2]
        if "--fail-fast" in arguments:
            arguments.remove("--fail-fast")
            self.fail_fast = True

    def verdict(self):
        """Print the bars that were missed on the error output, and return the exit code."""
        print("\n".join(["", *self.missed, f"{self.met} bars met"]), file=sys.stderr)
        return 1 if self.missed else 0

    def run(self, main, parts=None):
        """Run a benchmark, or the part that the command line names, and end with the verdict."""
        self.read(sys.argv)
        if parts and "".join(sys.argv[1:2]) in parts:
            parts[sys.argv[1]](*sys.argv[2:])
        else:
            main()
            sys.exit(self.verdict())
