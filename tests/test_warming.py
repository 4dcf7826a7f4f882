"""Compiling ahead, and the time it takes."""

import json
import subprocess
import sys

import pytest

#: Kernels for rare data: overlapping clusters.
RARE = {"valley_depth", "contact_mass"}
COMPILED = """
import json, pkgutil, sevenhills.kernels as kernels
from importlib import import_module
import sevenhills
seconds = [sevenhills.warm(), sevenhills.warm()]
missing = []
for each in pkgutil.iter_modules(kernels.__path__):
    module = import_module(f"sevenhills.kernels.{each.name}")
    for name, value in vars(module).items():
        is_kernel = hasattr(value, "signatures") and "no_cpython_wrapper" not in value.targetoptions
        if is_kernel and not value.signatures:
            missing.append(name)
print(json.dumps([seconds, sorted(set(missing))]))
"""


@pytest.mark.slow
def test_warm_compiles_every_kernel_that_is_not_rare():
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True)
    seconds, missing = json.loads(done.stdout)
    assert set(missing) <= RARE
    assert seconds[1] == 0


def test_compile_seconds_counts_nested_compilations_once():
    from sevenhills.kernels.compile import _Stopwatch

    watch = _Stopwatch()
    watch.on_start(None)
    watch.on_start(None)
    watch.on_end(None)
    assert watch.seconds == 0
    watch.on_end(None)
    assert watch.seconds > 0
