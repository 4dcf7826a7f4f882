"""What romepy computes, and how long it takes. Runs in an environment of its own.

python peer.py fit INPUT.npz OUTPUT.npz      labels, log densities and ordering
python peer.py time JOB INPUT.npz REPEATS    best CPU seconds and peak memory, as JSON
python peer.py scenes INPUT.npz              CPU seconds and log density of every scene, as JSON
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


def score_scenes(source):
    data = np.load(source)
    samples, truth = (data[name].reshape(*data[name].shape[:-2], -1) for name in ("train", "test"))
    min_std = float(data["min_std"])
    ROME(min_std=min_std).fit(samples[0])
    start = time.process_time()
    found = [
        float(ROME(min_std=min_std).fit(X).score_samples(y[None])[0])
        for X, y in zip(samples, truth, strict=True)
    ]
    seconds = (time.process_time() - start) / len(samples)
    print(json.dumps({"seconds": seconds, "log_densities": found}))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "fit":
        fit(*arguments)
    elif command == "scenes":
        score_scenes(*arguments)
    else:
        measure(arguments[0], arguments[1], int(arguments[2]))
