import subprocess
import sys

import pytest

import sevenhills
from sevenhills.plotting.canvas import current_axes


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
        "from sevenhills import metrics, plotting\n"
        "extra = {'matplotlib', 'ot', 'polars', 'sklearn.datasets'} & set(sys.modules)\n"
        "assert not extra, extra\n"
    )
    run(code)


def test_plotting_without_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sevenhills\[plot\]'"):
        current_axes(None)


def test_everything_public_exists():
    for name in [*sevenhills.__all__, *sevenhills._PACKAGES]:
        assert getattr(sevenhills, name) is getattr(sevenhills, name)
        assert name in dir(sevenhills)
    with pytest.raises(AttributeError, match="no attribute 'eighth'"):
        sevenhills.eighth  # noqa: B018


def test_the_command_without_typer_names_the_extra():
    code = "import sys; sys.modules['typer'] = None; from sevenhills.cli import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("pip install 'sevenhills[cli]'")
