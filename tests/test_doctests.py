"""The examples of all docstrings run.

pytest's own collection of doctests imports the whole package in every process, which costs more
than the examples.
"""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
    for folder in (ROOT / "src" / "sevenhills", ROOT / "study")
    for path in sorted(folder.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    found = doctest.testmod(import_module(name))
    assert found.attempted
    assert not found.failed
