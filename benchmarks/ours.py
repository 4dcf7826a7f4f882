"""The same jobs as in peer.py, done by sevenhills; prints the same JSON."""

import sys

import numpy as np

from measuring import report
from sevenhills import ROME


def measure(job, source, repeats):
    data = np.load(source)
    train, test, min_std = data["train"], data["test"], float(data["min_std"])
    model = ROME(min_std=min_std)
    if job == "fit":
        report(lambda: model.fit(train), repeats)
    elif job == "score":
        model.fit(train, labels=data["labels"])
        report(lambda: model.score_samples(test), repeats)
    else:
        sets = train.reshape(-1, 100, train.shape[1])
        model.fit(sets[0])
        report(lambda: [ROME(min_std=min_std).fit(X) for X in sets], repeats, len(sets))


if __name__ == "__main__":
    measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))
