"""CPU time and peak memory of a piece of work."""

import json
import resource
import subprocess
import sys
import time


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


def run_part(script, *arguments):
    """Run a part of a script in a process of its own and return what it reports."""
    command = [sys.executable, script, *map(str, arguments)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def report(work, repeats, parts=1):
    """Print the best CPU time of a part of the work, and the peak of memory above now."""
    start = memory_mb(peak=False)
    seconds = best_of(work, repeats) / parts
    print(json.dumps({"seconds": seconds, "peak_mb": memory_mb(peak=True) - start}))
