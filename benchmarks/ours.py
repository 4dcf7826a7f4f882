"""The same jobs as in peer.py, done by sevenhills; prints the same JSON."""

import json
import resource
import sys
import time

import numpy as np

from sevenhills import ROME


def best_of(work, repeats):
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measure(job, source, repeats):
    data = np.load(source)
    train, test, min_std = data["train"], data["test"], float(data["min_std"])
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = ROME(min_std=min_std)
    if job == "fit":
        seconds = best_of(lambda: model.fit(train), repeats)
    elif job == "score":
        model.fit(train, labels=data["labels"])
        seconds = best_of(lambda: model.score_samples(test), repeats)
    else:
        sets = train.reshape(-1, 100, train.shape[1])
        model.fit(sets[0])
        seconds = best_of(lambda: [ROME(min_std=min_std).fit(X) for X in sets], repeats) / len(sets)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "peak_mb": (peak - start) / 1024}))


if __name__ == "__main__":
    measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))
