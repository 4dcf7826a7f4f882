"""The examples of all docstrings run.

pytest's own collection of doctests imports the whole package in every process, which costs more
than the examples.
"""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    found = doctest.testmod(import_module(name))
    assert found.attempted
    assert not found.failed
