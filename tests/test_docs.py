"""The pages: every block of code in them runs, links lead somewhere, nothing public is missing."""

import doctest
import re
import runpy
import shlex
import sys
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sevenhills
from sevenhills import datasets
from sevenhills.cli.app import app
from sevenhills.estimators.defaults import AFFORDABLE

from .cli.runner import remarks

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README, LANDING, RECORDED = ROOT / "README.md", DOCS / "index.md", DOCS / "terminal.md"
PAGES = sorted(DOCS.glob("*.md"))
ALL = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: Pages whose commands are run, on a table data.csv.
WITH_COMMANDS = [DOCS / "cli.md", README]

#: What is not run, beside targets of make: it needs a network, or changes the environment.
NOT_RUN = {
    "python -m venv .venv",
    ". .venv/bin/activate",
    'pip install ".[cli,plot]"',
    'python -c "import sevenhills; print(sevenhills.warm())"',
    'pip wheel --wheel-dir wheels ".[cli,plot]"',
    'pip install --no-index --find-links wheels "sevenhills[cli,plot]"',
}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
each_text = pytest.mark.parametrize("page", ALL, ids=lambda page: page.name)


def fenced(page):
    """Return language and text of every block between fences."""
    text = page.read_text("utf-8")
    return re.findall(r"^```(.*)\n((?:.*\n)*?)^```$", text, re.MULTILINE)


def without_fences(page):
    return re.sub(r"^```(?:.*\n)*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE)


def commands(page):
    """Return what a page tells to type into a shell: blocks of sh, and indented ones."""
    blocks = [text for language, text in fenced(page) if language == "sh"]
    blocks += re.findall(r"(?<=\n\n)(?: {4}\S.*\n)+", without_fences(page))
    lines = [line.split(" #")[0].strip() for text in blocks for line in text.splitlines()]
    return [line for line in lines if line]


def targets():
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def run_python(page):
    """Run every block of Python, each by itself, and return how many there are."""
    blocks = [text for language, text in fenced(page) if language == "python"]
    for text in blocks:
        exec(compile(text, page.name, "exec"), {"__name__": "__main__"})
    return len(blocks)


def call(command, given=None):
    """Run a command of ours in this process."""
    arguments = shlex.split(command.removeprefix("sevenhills "))
    return CliRunner().invoke(app, arguments, input=given, prog_name="sevenhills")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, and no windows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


# Blocks of code


@each_text
def test_every_block_is_one_that_is_run(page):
    known = {"python", "pycon", "sh", "bibtex"} | ({"text"} if page == RECORDED else set())
    for language, text in fenced(page):
        assert language in known or language.startswith("{"), text
        assert language != "pycon" or ">>> " in text


@each_text
def test_commands_run_or_say_why_not(page):
    for command in commands(page):
        if command.startswith("make "):
            assert command.removeprefix("make ") in targets()
        elif not command.startswith("sevenhills ") or page not in WITH_COMMANDS:
            assert command in NOT_RUN


def test_the_python_of_the_readme_is_that_of_the_landing_page():
    of_readme, of_landing = (
        [text for language, text in fenced(page) if language == "python"]
        for page in (README, LANDING)
    )
    assert of_readme == of_landing
    assert len(of_readme) == 1


def test_the_figures_of_the_readme_are_those_of_the_comparison():
    compared = (DOCS / "comparison.md").read_text("utf-8")
    for page in (README, LANDING):
        rows = re.findall(r"^\| .*, \d+ columns \| (.*) \|$", page.read_text("utf-8"), re.MULTILINE)
        assert len(rows) == 4
        assert all(figure in compared for row in rows for figure in row.split(" | "))


@pytest.mark.parametrize("name", ["auto", "choosing", "cli", "faq", "quickstart", "robustness"])
def test_pages_state_the_rule_of_the_default_estimator(name):
    rule = f"{AFFORDABLE:,} values"
    for page in (README, DOCS / f"{name}.md"):
        assert rule in " ".join(page.read_text("utf-8").split())


def test_the_commands_of_pages_run(folder):
    rows = datasets.load("aniso").sample(60, random_state=0)
    lines = ["x,y", *(f"{x},{y}" for x, y in rows)]
    Path("data.csv").write_text("\n".join(lines), encoding="utf-8")
    # A command that stands on both pages runs once.
    typed = dict.fromkeys(command for page in WITH_COMMANDS for command in commands(page))
    ours = [each for each in typed if each.startswith("sevenhills ")]
    assert ours
    for command in ours:
        result = call(command)
        assert result.exit_code == 0, result.output


@each_page
def test_the_examples_of_pages_run(page, folder):
    assert doctest.testfile(str(page), module_relative=False, encoding="utf-8").failed == 0
    run_python(page)


@pytest.mark.slow  # `make docs` runs them, too
@pytest.mark.usefixtures("_no_place_is_searched_for_a_legend")
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_the_scripts_of_the_gallery_run(script, folder, capsys, monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    runpy.run_path(str(script))
    assert plt.get_fignums()
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")
    assert capsys.readouterr().out
    assert not list(folder.iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("_no_place_is_searched_for_a_legend")
def test_the_pictures_of_the_pages_can_be_drawn(tmp_path):
    runpy.run_path(str(DOCS / "pictures.py"))["main"](tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    expected = {"auto", "clusters", "questions", "steps", "supports"}
    expected |= {"job-table", "job-outliers", "job-forecasts"}
    assert drawn == {f"{name}.png" for name in expected}


# The recorded terminal

WALK = runpy.run_path(str(DOCS / "walk.py"))
#: A minute of optimal transport.
SLOW = 'sevenhills compare demo/aniso.csv demo/aniso_new.csv; echo "exit code $?"'
TYPED = re.compile(
    r"(?:cat (\S+) \| )?(sevenhills .*?)(?: \| head -(\d+))?(; echo \"exit code \$\?\")?"
)


def recorded():
    """Return commands, and what the terminal showed."""
    return [text[2:].split("\n", 1) for language, text in fenced(RECORDED) if language == "text"]


def shown(command):
    """Return what a command writes to standard error and to standard output, as a shell would."""
    if command.startswith("head "):
        _, n_lines, path = command.split()
        return "", "".join(Path(path).read_text("utf-8-sig").splitlines(True)[: -int(n_lines)])
    given, ours, n_lines, told = TYPED.fullmatch(command).groups()
    result = call(ours, Path(given).read_bytes() if given else None)
    out = "".join(result.stdout.splitlines(True)[: int(n_lines) if n_lines else None])
    return "\n".join(remarks(result)), out + (f"exit code {result.exit_code}" if told else "")


NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def tokens(text):
    """Return words and numbers; neither the width of the terminal nor the time taken counts."""
    words = re.sub(r"compiled in \d+\.\d+ s, |in \d+\.\d+ s", "", text).split()
    return [token for word in words for token in re.split(f"({NUMBER.pattern})", word) if token]


def same(recorded, now):
    """Compare words and counts exactly, other numbers to one unit of the last recorded digit."""
    if not NUMBER.fullmatch(now) or not re.search(r"\d[.e]", recorded):
        return recorded == now
    unit = Decimal(1).scaleb(Decimal(recorded).as_tuple().exponent)
    return abs(Decimal(recorded) - Decimal(now)) <= unit


def all_same(recorded, now):
    return len(recorded) == len(now) and all(map(same, recorded, now))


def rest_of(recorded, errors, command):
    """Return what was recorded without the lines of standard error, which may stand anywhere."""
    rest = tokens(recorded)
    for line in filter(None, map(tokens, errors.splitlines())):
        starts = range(len(rest) - len(line) + 1)
        found = [i for i in starts if all_same(rest[i : i + len(line)], line)]
        assert found, (command, line)
        del rest[found[0] : found[0] + len(line)]
    return rest


def assert_is_shown(command, expected):
    """Hold what was recorded, both streams mixed, against what is written to either now."""
    errors, out = shown(command)
    if command.startswith("sevenhills sample") and "--seed" not in command:
        return
    rest = rest_of(expected, errors, command)
    if command.startswith("sevenhills report"):
        # A verdict is about many fits, which differ a little between processors.
        out = out.partition("\n")[0]
        rest = rest[: len(tokens(out))]
    assert all_same(rest, tokens(out)), (command, rest, out)


@pytest.mark.parametrize(
    ("now", "is_same"),
    [
        ("-1.844807450835393 of 3,000 rows\n", True),
        ("-1.84480745 of 3,000\n  rows", True),
        ("-1.844809 of 3,000 rows", False),
        ("-1.844807 of 3,001 rows", False),
        ("1.844807 of 3,000 rows", False),
        ("-1.844807 of 3,000 rows, -1", False),
        ("-1.844807 of 3,000 row", False),
        ("nan of 3,000 rows", False),
        ("-1.844807 of 3,000", False),
    ],
)
def test_recorded_text_is_compared_at_the_digits_that_it_has(now, is_same):
    assert all_same(tokens("-1.844807 of 3,000 rows"), tokens(now)) is is_same


def test_no_recorded_number_has_the_last_digits_of_one_processor():
    for page in ALL:
        text = page.read_text("utf-8")
        assert WALK["shortened"](text) == text, page.name


def test_the_recorded_commands_are_those_that_would_be_typed():
    sections = ("EMBEDDED", "MESSY", "REPORTS", "MISTAKES")
    assert [command for command, _ in recorded()] == [c for name in sections for c in WALK[name]]


@pytest.mark.skipif(sys.platform != "linux", reason="recorded on Linux")
@pytest.mark.whole
def test_the_terminal_shows_what_was_recorded(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WALK["WIDTH"]))
    WALK["write_tables"](folder)
    (tour, whole), *others = recorded()
    show_the_plane_alone(monkeypatch)
    errors, out = shown(tour)
    assert all_same(rest_of(whole, errors, tour)[: len(tokens(out))], tokens(out))
    for command, expected in others:
        if command != SLOW:
            assert_is_shown(command, expected)


def show_the_plane_alone(monkeypatch):
    """Leave the pages out of the demo, which has its own tests."""
    for name in ("_draw", "_show_table", "_show_forecasts", "_propose"):
        monkeypatch.setattr(f"sevenhills.cli.demo.{name}", lambda *_: None)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="recorded on Linux")
def test_the_terminal_shows_the_slow_comparison(folder, monkeypatch):
    show_the_plane_alone(monkeypatch)
    call("sevenhills demo")
    assert_is_shown(SLOW, dict(recorded())[SLOW])


# Links


def anchors(page):
    """Return the anchors of headings, as hosts of Markdown name them."""
    titles = re.findall(r"^#+ (.*)$", without_fences(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@each_text
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_fences(page)):
        assert not re.match(r"[a-z]+:", target), "no page depends on another site"
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


@each_text
def test_targets_of_make_exist(page):
    named = re.findall(r"`make ([a-z-]+)`", page.read_text("utf-8"))
    assert set(named) <= targets()


def test_every_page_is_in_the_contents():
    listed = "\n".join(text for language, text in fenced(DOCS / "index.md"))
    assert {page.stem for page in PAGES} - set(listed.split()) == {"index"}


def test_the_side_bar_is_short():
    listed = [text.split() for language, text in fenced(LANDING) if language == "{toctree}"]
    assert sum(not word.startswith(":") for words in listed for word in words) <= 30 + len(listed)


# The reference


def documented():
    """Return the full names of what the reference lists."""
    names = []
    for module, listed in re.findall(
        r"currentmodule:: (\S+)\n\n.. autosummary::\n(?:   :.*\n)+\n((?:   \S+\n)+)",
        (DOCS / "api.md").read_text("utf-8"),
    ):
        names += [f"{module}.{name}" for name in listed.split()]
    return names


def test_everything_public_is_in_the_reference():
    def resolve(name):
        home, _, attribute = name.rpartition(".")
        return getattr(import_module(home), attribute)

    names = documented()
    assert len(set(names)) == len(names)
    found = {id(resolve(name)) for name in names}
    for package in (sevenhills, *(getattr(sevenhills, name) for name in sevenhills._PACKAGES)):
        for name in getattr(package, "__all__", ["ROME"]):
            assert name == "__version__" or id(getattr(package, name)) in found, (package, name)
