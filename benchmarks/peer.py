"""What romepy computes, and how long it takes. Runs in an environment of its own.

python peer.py fit INPUT.npz OUTPUT.npz      labels, log densities and ordering
python peer.py time JOB INPUT.npz REPEATS    best CPU seconds and peak memory, as JSON
python peer.py judge INPUT.npz               mean held-out log density, CPU seconds of fit and score
"""

import json
import sys
import time
import warnings

import numpy as np
from rome.ROME import ROME

from measuring import report

warnings.simplefilter("ignore")


def fit(source, target):
    data = np.load(source)
    model = ROME(min_std=float(data["min_std"])).fit(data["train"])
    ordering = {
        name: getattr(model.optics, name + "_")
        for name in ("ordering", "reachability", "core_distances", "predecessor")
        if hasattr(model, "optics")
    }
    log_density = model.score_samples(data["test"])
    np.savez_compressed(target, labels=model.labels_, log_density=log_density, **ordering)


def judge(source):
    data = np.load(source)
    start = time.process_time()
    model = ROME(min_std=float(data["min_std"])).fit(data["train"])
    fitted = time.process_time()
    log_density = model.score_samples(data["test"])
    times = fitted - start, time.process_time() - fitted
    print(json.dumps([float(log_density.mean()), *times]))


def measure(job, source, repeats):
    data = np.load(source)
    train, test, min_std = data["train"], data["test"], float(data["min_std"])
    if job == "fit":
        report(lambda: ROME(min_std=min_std).fit(train), repeats)
    elif job == "score":
        model = ROME(min_std=min_std).fit(train, clusters=data["labels"])
        report(lambda: model.score_samples(test), repeats)
    else:
        sets = train.reshape(-1, 100, train.shape[1])
        report(lambda: [ROME(min_std=min_std).fit(X) for X in sets], repeats, len(sets))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command in ("fit", "judge"):
        {"fit": fit, "judge": judge}[command](*arguments)
    else:
        measure(arguments[0], arguments[1], int(arguments[2]))
