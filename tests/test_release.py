"""What is released: the wheel alone works, and a tag must be the version."""

import email
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import sevenhills

ROOT = Path(__file__).parents[1]
EXTRAS = ("matplotlib", "ot", "pandas", "pyarrow", "pyvinecopulib", "rich", "torch", "typer")
#: The extras that the study needs.
LOCKED = ("cli", "ot", "parquet", "plot", "report", "vine")
USE = """
import importlib.util
found = [name for name in {extras!r} if importlib.util.find_spec(name)]
assert not found, found
import sevenhills, sevenhills.cli
from sevenhills import *
from sevenhills import compat, datasets, forecast, metrics, plotting, scale
train, test = datasets.load("aniso").split(run=0, n_samples=300)
rome = ROME().fit(train)
assert -3.5 < rome.score(test) < -2
assert rome.sample(5, random_state=0).shape == (5, 2)
save(rome, "rome.sevenhills")
assert load("rome.sevenhills").score(test) == rome.score(test)
print(sevenhills.__file__)
"""
#: The first screen of the README, to the first picture and a little further.
FIRST = """
import matplotlib.pyplot as plt
from sevenhills import AutoROME, DensityOutlierDetector
from sklearn.datasets import load_wine

wine = load_wine(as_frame=True).data
model = AutoROME().fit(wine)
print(model.summary())
model.plot(wine)
plt.savefig("wine.png")

outliers = wine[DensityOutlierDetector().fit_predict(wine) == -1]
print(f"{len(outliers)} of {len(wine)} wines are outliers:")
print(outliers[["alcohol", "malic_acid", "proline"]])
"""


def run(*command, **options):
    return subprocess.run(
        [str(each) for each in command], check=True, capture_output=True, text=True, **options
    )


@pytest.mark.parametrize("tag", ["v9.9.9", "0.1.0", ""])
def test_a_tag_must_be_the_version(tag):
    check = [sys.executable, ROOT / "docs" / "release.py"]
    run(*check, f"v{sevenhills.__version__}")
    refused = subprocess.run([*check, tag], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert f"must be v{sevenhills.__version__}" in refused.stderr


def test_the_lock_of_the_study_has_a_version_for_every_dependency():
    text = (ROOT / "study" / "requirements.lock").read_text("utf-8")
    assert "://" not in text
    locked = set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(each for name in LOCKED for each in extras[name])]
    names = {re.split(r"[\[>]", each)[0].lower() for each in needed} - {"sevenhills"}
    assert names <= locked


@pytest.mark.slow
def test_the_wheel_works_alone_and_with_the_extras_of_the_readme(tmp_path):
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        described = email.message_from_bytes(archive.read(metadata))
    required = [each for each in described.get_all("Requires-Dist") if "extra ==" not in each]
    assert sorted(each.split(">")[0] for each in required) == [
        "joblib",
        "numba",
        "numpy",
        "scikit-learn",
        "scipy",
        "threadpoolctl",
    ]
    assert described["Version"] == sevenhills.__version__
    assert described["License-Expression"] == "BSD-3-Clause"
    assert described.get_all("License-File") == ["LICENSE"]
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    binaries = tmp_path / "empty" / ("Scripts" if os.name == "nt" else "bin")
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run(binaries / "python", "-m", "pip", "install", wheel, env=clean)
    script = USE.format(extras=EXTRAS)
    used = run(binaries / "python", "-c", script, cwd=tmp_path, env=clean)
    assert str(tmp_path) in used.stdout
    command = [binaries / "sevenhills", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, env=clean, check=False)
    assert told.returncode == 2
    assert told.stderr.strip().endswith("pip install 'sevenhills[cli]'")
    run(binaries / "python", "-m", "pip", "install", f"{wheel}[cli,plot]", env=clean)
    used = run(binaries / "python", "-c", FIRST, cwd=tmp_path, env={**clean, "MPLBACKEND": "Agg"})
    assert "of 178 wines are outliers" in used.stdout
    assert (tmp_path / "wine.png").stat().st_size > 20_000
