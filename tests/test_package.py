import doctest
import re
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
    for name in sevenhills.__all__:
        assert hasattr(sevenhills, name)


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


def test_the_page_of_questions_runs():
    result = doctest.testfile(str(ROOT / "docs/questions.md"), module_relative=False)
    assert result.attempted > 20
    assert result.failed == 0
