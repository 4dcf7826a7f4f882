import doctest
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import sevenhills

ROOT = Path(__file__).parents[1]


def run(code, folder=None):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)


def test_import_compiles_nothing_and_loads_no_extra():
    code = (
        "import sys, sevenhills\n"
        "assert 'numpy' not in sys.modules\n"
        "from sevenhills import *\n"
        "from sevenhills.kernels import ordering, silhouettes, mixture, cuts\n"
        "compiled = [f for m in (ordering, silhouettes, mixture, cuts) for f in vars(m).values()\n"
        "            if getattr(f, 'signatures', None)]\n"
        "assert not compiled, compiled\n"
        "extra = {'matplotlib', 'polars', 'sklearn.datasets'} & set(sys.modules)\n"
        "assert not extra, extra\n"
    )
    run(code)


def test_plotting_without_matplotlib_names_the_extra():
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.pyplot'] = None\n"
        "from sevenhills import plotting\n"
        "from sevenhills.plotting.canvas import current_axes\n"
        "try: current_axes(None)\n"
        "except ImportError as error: print(error)\n"
    )
    assert "pip install 'sevenhills[plot]'" in run(code).stdout


def test_everything_public_exists():
    for name in [*sevenhills.__all__, *sevenhills._PACKAGES]:
        assert getattr(sevenhills, name) is getattr(sevenhills, name)
        assert name in dir(sevenhills)
    with pytest.raises(AttributeError, match="no attribute 'eighth'"):
        sevenhills.eighth  # noqa: B018


def test_the_readme_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    each_by_itself = "\n".join(f"exec({block!r}, {{'__name__': '__main__'}})" for block in blocks)
    run(each_by_itself, tmp_path)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text()):
        assert (ROOT / target).exists(), target


def test_without_a_folder_for_its_cache_it_still_runs(monkeypatch):
    from sevenhills.kernels import compile as compiling

    def njit(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiling, "njit", njit)
    assert compiling.kernel(len) is len


PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_pages_run(name, tmp_path, monkeypatch):
    page = ROOT / "docs" / name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    assert doctest.testfile(str(page), module_relative=False, encoding="utf-8").failed == 0
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        run(block, tmp_path)


def test_pages_have_examples():
    examples = [
        doctest.DocTestParser().get_examples((ROOT / "docs" / n).read_text()) for n in PAGES
    ]
    assert sum(map(bool, examples)) >= 3


@pytest.mark.parametrize("name", PAGES)
def test_links_of_pages_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#:]+)[)#]", (ROOT / "docs" / name).read_text()):
        assert (ROOT / "docs" / target).exists(), target


def test_the_example_of_forecasts_runs(tmp_path, capsys):
    example = runpy.run_path(str(ROOT / "examples/forecast.py"))
    sizes = {"N_TRAINING": 100, "N_SCENES": 20, "N_SAMPLES": 20}
    example["main"].__globals__.update(sizes)
    example["main"](tmp_path)
    assert "constant velocity" in capsys.readouterr().out
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"report.html", "calibration.png", "forecasts.png"}
