import subprocess
import sys

import pytest

import sevenhills


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


def test_the_command_without_typer_names_the_extra():
    code = "import sys; sys.modules['typer'] = None; from sevenhills.cli import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("pip install 'sevenhills[cli]'")
