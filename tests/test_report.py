import json
import re
import shutil
from base64 import b64decode, b64encode
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.neighbors import KernelDensity

from sevenhills import (
    ROME,
    AutoROME,
    GaussianKDE,
    GaussianMixtureBIC,
    VineDensity,
    datasets,
)
from sevenhills.datasets import make_walks
from sevenhills.forecast import evaluate
from sevenhills.report import Report, build_report, forecast_report, report
from sevenhills.report.clusters import ordering_data, positions
from sevenhills.report.coordinates import PrincipalAxes, features_to_show
from sevenhills.report.packing import DEPTH, pack, pack_heights, pack_rows, to_json
from sevenhills.report.subject import subject_of
from sevenhills.report.thinning import thin

ESTIMATORS = [
    (ROME(), []),
    (ROME(density="knn"), ["cannot be drawn along pairs", "does not integrate to one"]),
    (ROME(selection=None), ["were not ordered"]),
    (AutoROME(), []),
    (VineDensity(), ["no modes to list", "cannot be drawn along single", "finds no clusters"]),
    (GaussianMixtureBIC(max_components=3), ["GaussianMixtureBIC finds no clusters"]),
]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
#: Milliseconds to wait for a page, for other tests may keep all cores busy.
_PATIENCE = 180_000
#: Fonts by name: a file that matplotlib brings, its size and the space between letters. The browser
#: has one of its own, DejaVu is wide, STIX is narrow; Liberation and Noto are between them.
FONTS = {
    "default": None,
    "DejaVu": ("DejaVuSans.ttf", "100%", "0"),
    "wide": ("DejaVuSans.ttf", "115%", "0.06em"),
    "narrow": ("STIXGeneral.ttf", "85%", "0"),
}
EVIL = '<script>alert("x")</script>'
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Checker(HTMLParser):
    """Refuses tags that are not closed in order, and keeps what there is."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text.append(data)


def parsed(page):
    checker = Checker()
    checker.feed(page.html)
    checker.close()
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    return checker


def data_of(page):
    text = re.search(r'id="data">(.*?)</script>', page.html, re.DOTALL)[1]
    return json.loads(text, parse_constant=refuse)


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def unpacked(packed):
    kinds = {"f4": "<f4", "u2": "<u2", "i4": "<i4"}
    flat = np.frombuffer(b64decode(packed["bytes"]), kinds[packed["kind"]])
    return flat.reshape(packed["shape"])


def aniso(n):
    return datasets.load("aniso").sample(n, random_state=0)


# The page, without a browser.


@pytest.mark.parametrize(("estimator", "missing"), ESTIMATORS, ids=str)
def test_every_estimator_has_a_page_and_says_what_it_lacks(estimator, missing):
    page = build_report(estimator, X=aniso(60))
    checker = parsed(page)
    assert [tag for tag, _ in checker.tags].count("section") == 9
    assert type(estimator).__name__ in page.title
    for tag, attributes in checker.tags:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), tag
    said = " ".join(checker.text)
    for each in missing:
        assert each in said
    if not missing:
        assert "cannot be drawn" not in said


def degenerate():
    rng = np.random.RandomState(0)
    two = rng.normal(size=(40, 2))
    slow = pytest.mark.slow
    cases = {
        "one feature": two[:, :1],
        "constant feature": np.column_stack([two, np.full(40, 7.0)]),
        "ties": np.repeat(rng.randint(0, 3, size=(15, 2)).astype(float), 4, axis=0),
        "five samples": two[:5],
        "four samples": two[:4],
        "far outlier": np.concatenate([two, [[1e9, 0.0]]]),
    }
    rare = {
        "large numbers": two + 1e9,
        "small numbers": two * 1e-200,
        "a line": two[:, :1] @ [[1.0, 2.0]],
        "more features than samples": rng.normal(size=(12, 30)),
    }
    yield from (pytest.param(X, id=name) for name, X in cases.items())
    yield from (pytest.param(X, id=name, marks=slow) for name, X in rare.items())


@pytest.mark.parametrize("X", list(degenerate()))
def test_degenerate_samples_have_a_page(X):
    page = build_report(X)
    parsed(page)
    data_of(page)


def test_same_input_same_bytes():
    X = aniso(40)
    model = ROME().fit(X)
    assert build_report(model, X=X).html == build_report(X.copy()).html


def test_names_are_escaped_everywhere():
    X = pd.DataFrame(aniso(60), columns=[EVIL, 'a & b "c" </script>'])
    page = build_report(X, title=EVIL)
    checker = parsed(page)
    assert EVIL not in page.html
    assert page.html.count("<script") == 3
    assert EVIL in "".join(checker.text)
    assert data_of(page)["features"]["names"] == list(X.columns)


def test_names_come_from_frames_models_and_arguments():
    X = aniso(60)
    frame = pd.DataFrame(X, columns=["east", "north"])
    model = GaussianMixtureBIC(max_components=2).fit(frame)
    plain = GaussianMixtureBIC(max_components=2).fit(X)
    for subject in (
        subject_of(model, None, None),
        subject_of(model.density_, None, None),
        subject_of(pl.DataFrame(X, schema=["east", "north"]), None, None),
        subject_of(plain, frame, None),
        subject_of(plain, X, ["east", "north"]),
    ):
        assert subject.names == ("east", "north")
    assert subject_of(plain, X, None).names == ("feature 0", "feature 1")


def test_features_can_be_chosen():
    X = pd.DataFrame(np.random.RandomState(0).normal(size=(60, 4)), columns=list("abcd"))
    model = GaussianKDE().fit(X)
    page = build_report(model, features=["d", 0])
    assert data_of(page)["features"]["names"] == ["d", "a"]
    with pytest.raises(ValueError, match="features has 'e'"):
        build_report(model, features=["e"])
    with pytest.raises(ValueError, match="from 0 to 3, got 4"):
        build_report(model, features=[4])


def test_of_many_features_those_that_tell_clusters_apart_are_shown():
    X = np.random.RandomState(0).normal(size=(60, 40))
    X[:30, 33] += 100
    subject = subject_of(ROME().fit(X), X, None)
    shown = features_to_show(subject, None)
    assert len(shown) == 24
    assert 33 in shown


@pytest.mark.parametrize(
    ("given", "X", "error", "message"),
    [
        (ROME, None, TypeError, "got the class ROME"),
        (ROME(), None, ValueError, "X is missing: this ROME is not fitted"),
        (aniso(20), aniso(20), ValueError, "must be a model where X is given"),
        (ROME().fit(aniso(20)), aniso(19), ValueError, "the 20 samples .* got 19"),
        (GaussianKDE().fit(aniso(20)), np.ones((3, 5)), ValueError, "X has 5 features"),
        (ROME(density="knn").fit(aniso(20)), None, ValueError, "X is missing: a Neighbour"),
        (KernelDensity().fit(aniso(20)), aniso(20), TypeError, "of this package .*KernelDensity"),
    ],
    ids=range(7),
)
def test_bad_input_is_refused(given, X, error, message):
    with pytest.raises(error, match=message):
        build_report(given, X=X)


def test_names_must_fit():
    with pytest.raises(ValueError, match="feature_names must be 2 names, got 1"):
        build_report(aniso(20), feature_names=["east"])


def test_it_is_written_and_shown_in_notebooks(tmp_path):
    X = aniso(40)
    path = report(GaussianKDE(), str(tmp_path / "a.html"), X=X, title="Hills & dales")
    assert path == tmp_path / "a.html"
    page = build_report(GaussianKDE(), X=X, title="Hills & dales")
    assert path.read_text(encoding="utf-8") == page.html
    assert page == Report("Hills & dales", page.html)
    assert "MB" in repr(page)
    assert 'title="Hills &amp; dales" srcdoc="&lt;!DOCTYPE' in page._repr_html_()


def test_the_code_makes_the_same_report(tmp_path):
    X = aniso(60)
    np.save(tmp_path / "hills.npy", X)
    source = str(tmp_path / "hills.npy")
    options = {"title": "Hills", "feature_names": ["x", "y"], "source": source}
    page = build_report(ROME(min_std=0.1), X=X, **options)
    code = "".join(parsed(page).text).partition("Copy the code")[2].partition("Made with")[0]
    assert "ROME(min_std=0.1)" in code
    exec(code.replace("report.html", str(tmp_path / "report.html")), {})
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page.html


def test_given_labels_are_in_the_code():
    X = aniso(40)
    model = ROME().fit(X, labels=np.arange(40) % 2)
    said = "".join(parsed(build_report(model, X=X)).text)
    assert "fit(X, labels=labels)" in said
    assert "were not ordered" in said


def test_ten_thousand_points_stay_below_five_megabytes():
    X = aniso(10_000)
    density = GaussianMixtureBIC(max_components=3).fit(X).density_
    assert len(build_report(density, X=X).html.encode()) < 3e6


@pytest.mark.slow
def test_ten_thousand_walks_stay_below_five_megabytes():
    X = datasets.load("trajectories").sample(10_000, random_state=0)
    assert len(build_report(ROME(min_std=0.1), X=X).html.encode()) < 5e6


# What is packed into it.


def test_arrays_survive_packing():
    rng = np.random.RandomState(0)
    rows = rng.normal(size=(3, 50)) + np.array([[0.0], [1e12], [-1e6]])
    packed = pack_rows(rows)
    back = unpacked(packed["rest"]) + np.array(packed["middles"])[:, None]
    np.testing.assert_allclose(back - rows, 0, atol=1e-3)
    heights = rng.normal(size=(5, 4)) * 3
    steps = (unpacked(pack_heights(heights)) / 65535 - 1) * DEPTH
    np.testing.assert_allclose(
        steps, np.maximum(heights - heights.max(), -DEPTH), atol=DEPTH / 65535
    )
    np.testing.assert_array_equal(unpacked(pack(np.arange(4), "i4")), np.arange(4))
    assert pack_rows(np.empty((2, 0)))["rest"]["shape"] == [2, 0]


def test_json_is_safe_and_has_no_nan():
    assert to_json({"a": [np.nan, np.float64(1), np.int64(2), np.bool_(True)]}) == (
        '{"a":[null,1.0,2,true]}'
    )
    assert json.loads(to_json(["</script>&"])) == ["</script>&"]
    assert "<" not in to_json("</script>")


def test_cuts_are_the_candidates():
    X = aniso(300)
    model = ROME().fit(X)
    ordering = ordering_data(subject_of(model, X, None))
    ranking = model.candidates_.ranking()
    assert len(ordering["cuts"]) == len(ranking)
    for cut, index in zip(ordering["cuts"], ranking, strict=True):
        ends, labels = unpacked(cut["runs"])
        by_place = np.repeat(labels, np.diff(ends, prepend=0))
        expected = model.candidates_.labels(int(index))
        np.testing.assert_array_equal(by_place, expected[model.ordering_.order])
    rows = np.array([7, 3, 250])
    np.testing.assert_array_equal(model.ordering_.order[positions(model.ordering_, rows)], rows)
    heights = model.ordering_.reachability[model.ordering_.order][1:]
    np.testing.assert_allclose(unpacked(ordering["heights"])[1:], heights, rtol=1e-6)


def test_joined_clusters_stand_before_the_candidates():
    X = np.random.RandomState(0).normal(size=(60, 2))
    X[:6] += 12
    model = AutoROME().fit(X)
    cuts = ordering_data(subject_of(model, X, None))["cuts"]
    ends, labels = unpacked(cuts[0]["runs"])
    by_place = np.repeat(labels, np.diff(ends, prepend=0))
    np.testing.assert_array_equal(by_place, model.labels_[model.ordering_.order])
    assert (model.labels_ != model.candidates_.labels()).any()
    assert [cut["place"] for cut in cuts[:2]] == [0, 1]


def test_curves_and_levels_are_those_of_the_density():
    X = aniso(200)
    model = ROME().fit(X)
    view = data_of(build_report(model))["features"]
    line = view["lines"][1]
    x = unpacked(line["x"]["rest"])[0] + line["x"]["middles"][0]
    marginal = model.marginal(1)
    np.testing.assert_allclose(unpacked(line["y"]), marginal.pdf(x[:, None]), rtol=1e-3, atol=1e-6)
    parts = sum(unpacked(part["y"]) for part in line["parts"])
    np.testing.assert_allclose(parts, unpacked(line["y"]), rtol=1e-4)
    x, y = (unpacked(g["rest"])[0] + g["middles"][0] for g in view["pairs"]["grids"])
    nodes = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    levels = np.array(view["pairs"]["levels"]["0,1"]) + model.score_samples(nodes).max()
    expected = [float(model.hdr_level(mass)) for mass in (0.5, 0.8, 0.95)]
    np.testing.assert_allclose(levels, expected, atol=0.15)


def test_rows_and_notes_of_a_table():
    X = np.concatenate([aniso(60), [[60.0, 60.0]]])
    model = ROME().fit(X)
    rows = [*range(10, 70), f"{EVIL} & co"]
    made = build_report(model, X=X, rows=rows, notes=[f"left out {EVIL}"])
    said = " ".join(parsed(made).text)
    assert f"left out {EVIL}" in said
    assert f"{EVIL} & co" in said
    assert EVIL not in re.sub(r'<script type="application/json".*', "", made.html, flags=re.DOTALL)
    assert data_of(made)["row_names"] == [str(row) for row in rows]
    with pytest.raises(ValueError, match="rows must name the 61 samples"):
        build_report(model, X=X, rows=rows[1:])


def test_one_feature_has_no_pairs():
    made = build_report(ROME().fit(aniso(60)[:, :1]), X=aniso(60)[:, :1])
    assert not {"pair", "axes"} & set(parsed(made).ids)
    assert data_of(made)["features"]["draws"]["rest"]["shape"] == [1, 60]


def test_thinned_samples_keep_the_shares_of_clusters():
    X = datasets.load("varied").sample(4000, random_state=0)
    subject = subject_of(ROME().fit(X), X, None)
    rows = thin(subject, 400, np.array([5, 17]))
    assert {5, 17} <= set(rows)
    assert 400 <= len(rows) <= 402
    assert (np.diff(rows) > 0).all()
    for label in np.unique(subject.labels):
        share = (subject.labels == label).mean()
        assert abs((subject.labels[rows] == label).mean() - share) < 0.01


def test_principal_axes_turn_samples():
    X = np.random.RandomState(0).normal(size=(200, 3)) @ np.diag([1.0, 5.0, 0.0])
    axes = PrincipalAxes.of(X)
    assert axes.shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(axes.axes @ axes.axes.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(X @ axes.matrix + axes.shift, axes.apply(X), atol=1e-12)
    far = np.concatenate([X, [[1e6, -1e6, 0.0]]])
    assert np.abs(PrincipalAxes.of(far).scales - axes.scales).max() < 1


def test_a_narrow_hill_is_not_lost_between_grid_lines():
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.normal(size=(100, 2)), 1e4 + rng.normal(size=(100, 2))])
    view = data_of(build_report(ROME().fit(X)))["features"]["pairs"]
    heights = unpacked(view["heights"]["0,1"])
    assert (heights > 60_000).sum() > 20


# The page in a browser.


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        except playwright.Error as error:
            pytest.skip(f"{CHROMIUM} does not start: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


def font_script(file, size, space):
    """Return a script that gives every text of a page a font before the page is drawn."""
    from matplotlib import get_data_path

    ttf = Path(get_data_path(), "fonts", "ttf", file).read_bytes()
    return f"""(() => {{
        const bytes = Uint8Array.from(atob("{b64encode(ttf).decode()}"), (c) => c.charCodeAt(0));
        document.fonts.add(new FontFace("Chosen", bytes.buffer, {{ sizeAdjust: "{size}" }}));
        const sheet = new CSSStyleSheet();
        const rules = 'font-family: "Chosen" !important; letter-spacing: {space} !important';
        sheet.replaceSync(`* {{ ${{rules}} }}`);
        document.adoptedStyleSheets = [sheet];
    }})()"""


def write_forecast_page(path):
    walks = make_walks(20, random_state=0)
    samples = walks.law.draw(20, random_state=0)
    found = evaluate(samples, walks.truth, measures=("nll_step", "ece"))
    title = "One_long_name_without_any_space_between_its_words.parquet"
    forecast_report(found, path, samples, walks.truth, title=title)
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return a function from names to files."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.RandomState(0)
    walks = datasets.load("trajectories").sample(120, random_state=0)
    long = [EVIL, *(f"the length of a rather long name, number {i}" for i in range(23))]
    outlying = np.concatenate([aniso(300), [[6.0, 6.0], [-9.0, -9.0]]])
    subjects = {
        "plane": (ROME(), pd.DataFrame(outlying, columns=["east", "north"])),
        "walks": (ROME(), pd.DataFrame(walks, columns=long)),
        "line": (ROME(), rng.normal(size=(50, 1))),
        "vine": (VineDensity(), rng.normal(size=(50, 3))),
        "neighbours": (ROME(density="knn"), aniso(60)),
        "five": (ROME(), rng.normal(size=(5, 2))),
        "no samples": (GaussianMixtureBIC(max_components=3).fit(aniso(60)), None),
    }
    made = {}

    def page(name):
        path = folder / f"{name}.html"
        if name not in made and name == "forecast":
            made[name] = write_forecast_page(path)
        elif name not in made:
            model, X = subjects[name]
            made[name] = report(model, path, X=X)
        return made[name]

    return page


@pytest.fixture
def visit(browser, pages):
    """Return a function that opens a page, which must neither complain nor ask for anything."""
    complaints, tabs = [], []

    def visit(name, width=1400, dark=False, font="default"):
        scheme = "dark" if dark else "light"
        tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab.set_default_timeout(_PATIENCE)
        tabs.append(tab)
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: asked(request.url))
        if FONTS[font]:
            tab.add_init_script(font_script(*FONTS[font]))
        tab.goto(pages(name).as_uri())
        if name != "forecast":  # which has no script
            tab.wait_for_selector("html[data-ready]")
        return tab

    def asked(url):
        if not url.startswith(("file:", "data:", "blob:")):
            complaints.append(url)

    yield visit
    for tab in tabs:
        tab.close()
    assert complaints == []


#: Every picture has marks of some kind.
MARKS = ".plot .scatterlayer .trace, .plot .contour, .plot .barlayer .point"
PLOTS = f"""() => [...document.querySelectorAll('.plot')]
    .filter((div) => div.offsetParent && !div.querySelector('{MARKS}'))
    .map((div) => div.getAttribute('aria-label'))"""
#: Elements that stick out of the window and are not inside something that scrolls.
TOO_WIDE = """() => [...document.querySelectorAll('body *')]
    .filter((each) => !each.closest('.scroll, pre, nav, svg, .skip, select') && each.offsetParent
        && (each.getBoundingClientRect().right > innerWidth + 1
            || each.getBoundingClientRect().left < -1))
    .map((each) => each.outerHTML.slice(0, 100))"""
#: Text in pictures that is cut off by their edge.
CUT_OFF = """() => [...document.querySelectorAll('.plot svg text')]
    .filter((text) => {
      const inner = text.getBoundingClientRect();
      const outer = text.closest('.plot').getBoundingClientRect();
      return inner.width && (inner.left < outer.left - 2 || inner.right > outer.right + 2
        || inner.top < outer.top - 2 || inner.bottom > outer.bottom + 2);
    }).map((text) => text.textContent)"""


#: Plotly follows the size of the window after a moment.
SETTLED = """() => [...document.querySelectorAll('.plot')].every(
    (div) => !div.offsetParent || Math.abs(div._fullLayout.width - div.clientWidth) < 2)"""


@pytest.mark.parametrize(
    ("name", "font"),
    [
        *(("walks", font) for font in FONTS),
        ("plane", "default"),
        ("line", "default"),
        ("five", "default"),
        pytest.param("vine", "default", marks=pytest.mark.slow),
        pytest.param("neighbours", "default", marks=pytest.mark.slow),
    ],
)
def test_every_view_renders_and_fits(visit, name, font):
    tab = visit(name, 390, dark=name == "walks", font=font)
    check_fit(tab, 390)
    tab.set_viewport_size({"width": 1400, "height": 900})
    check_fit(tab, 1400)


def check_fit(tab, width):
    tab.wait_for_function(SETTLED)
    assert tab.evaluate(PLOTS) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(TOO_WIDE) == []
    assert tab.evaluate(CUT_OFF) == []


TEXT_WIDTH = """() => {
    const context = document.createElement("canvas").getContext("2d");
    context.font = `15px ${getComputedStyle(document.body).fontFamily}`;
    return context.measureText("the length of a rather long name").width;
}"""


def test_the_fonts_are_used(visit):
    widths = {font: visit("forecast", font=font).evaluate(TEXT_WIDTH) for font in FONTS}
    del widths["default"]  # which may be any
    assert len(set(widths.values())) == len(widths)
    assert widths["narrow"] < 0.8 * widths["DejaVu"]
    assert widths["wide"] > 1.1 * widths["DejaVu"]


def test_long_names_are_there_as_a_whole(visit):
    tab = visit("walks", 390)
    names = data_of(Report("", tab.content()))["features"]["names"]
    chosen = int(tab.input_value("#line .x"))
    assert tab.get_attribute("#line .x", "title") == names[chosen]
    across = "".join(axis_titles(tab, "#line .plot")[:1])
    assert across.replace(" ", "") == names[chosen].replace(" ", "")
    tab.select_option("#line .x", "2")
    tab.hover("#line .x")
    assert tab.get_attribute("#line .x", "title") == names[2]
    headings = tab.eval_on_selector_all("thead th", "(all) => all.map((th) => th.title)")
    assert names[2] in headings
    ticks = tab.locator("[data-view=loadings] .ytick").all_text_contents()
    assert len(set(ticks)) == len(ticks)


@pytest.mark.parametrize("font", FONTS)
def test_the_page_of_a_forecast_fits(visit, font):
    tab = visit("forecast", 390, font=font)
    outside = """() => [...document.querySelectorAll('body :not(.table *)')]
        .filter((each) => each.getBoundingClientRect().right > innerWidth + 1
            || each.getBoundingClientRect().left < -1)
        .map((each) => each.outerHTML.slice(0, 100))"""
    for width in (390, 1400):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate(outside) == []
        assert tab.eval_on_selector("svg", "(svg) => getComputedStyle(svg).overflow") == "visible"


def test_without_samples_the_density_is_shown(visit):
    tab = visit("no samples")
    assert tab.evaluate(PLOTS) == []
    assert tab.locator("#pair .contour").count() == 3
    assert tab.locator("#pair label:has(.points)").is_hidden()


def traces(tab, selector):
    """Return what a picture shows: names, first values and colours."""
    return tab.eval_on_selector(
        selector,
        """(div) => div.data.map((t) => [t.name, t.type, Array.from(t.x).slice(0, 5).join(),
            t.x.length, JSON.stringify(t.marker || t.fillcolor || t.line)])""",
    )


def axis_titles(tab, selector):
    return tab.locator(f"{selector} .g-xtitle, {selector} .g-ytitle").all_text_contents()


def test_menus_change_what_is_shown_by_mouse_and_keyboard(visit):
    tab = visit("walks")
    names = data_of(Report("", tab.content()))["features"]["names"]
    before = traces(tab, "#line .plot")
    tab.select_option("#line .x", "0")
    assert traces(tab, "#line .plot") != before
    assert EVIL in axis_titles(tab, "#line .plot")[0]
    tab.select_option("#pair .x", "3")
    tab.select_option("#pair .y", "0")
    across, up = axis_titles(tab, "#pair .plot")
    assert across.replace(" ", "") == names[3].replace(" ", "")
    assert up == EVIL
    tab.select_option("#pair .y", "3")  # which is taken: the two change places
    assert tab.input_value("#pair .x") == "0"
    assert tab.input_value("#pair .y") == "3"
    tab.select_option("#axes .pair .x, #axes [data-view=pair] .x", "2")
    assert axis_titles(tab, "#axes [data-view=pair] .plot")[0] == "axis 3"
    before = traces(tab, "[data-view=loadings] .plot")
    tab.select_option("[data-view=loadings] .axis", "1")
    assert traces(tab, "[data-view=loadings] .plot") != before
    before = traces(tab, "#samples .plot")
    tab.select_option("#samples .x", "5")
    assert traces(tab, "#samples .plot") != before

    tab.focus("#line .x")
    first = tab.input_value("#line .x")
    before = traces(tab, "#line .plot")
    tab.keyboard.press("ArrowDown")
    assert tab.input_value("#line .x") != first
    assert traces(tab, "#line .plot") != before
    tab.focus("#line .bars")
    tab.keyboard.press("Space")
    assert "samples" not in [each[0] for each in traces(tab, "#line .plot")]


def test_boxes_hide_what_they_name(visit):
    tab = visit("plane")
    assert tab.locator("#pair .contour").count() == 3
    tab.uncheck("#pair .regions")
    assert tab.locator("#pair .contour").count() == 0
    assert "modes" in [each[0] for each in traces(tab, "#pair .plot")]
    tab.uncheck("#pair .modes")
    assert "modes" not in [each[0] for each in traces(tab, "#pair .plot")]
    tab.uncheck("#pair .points")
    assert traces(tab, "#pair .plot") == []
    tab.uncheck("#line .bars")
    tab.uncheck("#line .parts")
    assert [each[0] for each in traces(tab, "#line .plot")] == ["density"]


def test_another_clustering_is_seen_in_all_pictures(visit):
    tab = visit("plane")
    pictures = ["#pair .plot", "#axes [data-view=pair] .plot", "#clusters .reachability"]
    pictures += ["#clusters .map .plot", "#clusters .scores"]
    before = [traces(tab, each) for each in pictures]
    told = tab.inner_text("#clusters .told")
    options = tab.locator("#clusters .cut option").all_text_contents()
    other = next(i for i, text in enumerate(options) if ": 2 clusters" in text)
    tab.select_option("#clusters .cut", str(other))
    for picture, old in zip(pictures, before, strict=True):
        assert traces(tab, picture) != old, picture
    assert tab.inner_text("#clusters .told") != told
    assert tab.locator("#clusters .highlight option").count() in (3, 4)
    before = [traces(tab, each) for each in pictures[:4]]
    tab.select_option("#clusters .highlight", "1")
    assert all(traces(tab, each) != old for each, old in zip(pictures[:4], before, strict=True))

    click = "(div, point) => div.emit('plotly_click', { points: [point] })"
    tab.eval_on_selector("#clusters .reachability", click, {"customdata": 0})
    assert tab.input_value("#clusters .highlight") == "0"
    tab.eval_on_selector("#clusters .reachability", click, {"customdata": 0})
    assert tab.input_value("#clusters .highlight") == ""
    tab.eval_on_selector("#clusters .scores", click, {"customdata": [4, ""]})
    assert tab.input_value("#clusters .cut") == "4"
    assert tab.input_value("#clusters .highlight") == ""


def test_zooms_can_be_undone_and_outliers_found(visit):
    tab = visit("plane")
    extent = "(div) => div._fullLayout.xaxis.range.join()"
    whole = tab.eval_on_selector("#pair .plot", extent)
    tab.locator("#pair .plot").scroll_into_view_if_needed()
    box = tab.locator("#pair .plot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 150, y + 90, steps=4)
    tab.mouse.up()
    part = tab.eval_on_selector("#pair .plot", extent)
    assert part != whole
    tab.uncheck("#pair .modes")
    assert tab.eval_on_selector("#pair .plot", extent) == part
    tab.click("#pair .reset")
    assert tab.eval_on_selector("#pair .plot", extent) == whole

    mark = tab.locator("#outliers .mark").first
    assert mark.inner_text() in ("300", "301")
    mark.click()
    assert mark.get_attribute("aria-pressed") == "true"
    for picture in ("#pair .plot", "#axes [data-view=pair] .plot", "#samples .plot"):
        assert f"row {mark.inner_text()}" in [each[0] for each in traces(tab, picture)]
    mark.click()
    assert mark.get_attribute("aria-pressed") == "false"


GROUND = "() => getComputedStyle(document.body).backgroundColor"


def test_dark_and_light(visit):
    tab = visit("plane", dark=True)
    dark = tab.evaluate(GROUND)
    tab.click("#theme")
    light = tab.evaluate(GROUND)
    assert dark != light
    assert tab.inner_text("#theme") == "Dark"
    tab.reload()
    tab.wait_for_selector("html[data-ready]")
    assert tab.evaluate(GROUND) == light
    tab.click("#theme")
    tab.emulate_media(color_scheme="light")
    assert tab.evaluate(GROUND) == dark  # the reader's own choice stays


FOCUSED = """() => {
    const style = getComputedStyle(document.activeElement);
    return [document.activeElement.className || document.activeElement.id
        || document.activeElement.tagName, style.outlineStyle, parseFloat(style.outlineWidth)];
}"""


def test_the_keyboard_is_enough(visit):
    tab = visit("plane")
    seen = []
    for _ in range(60):
        tab.keyboard.press("Tab")
        name, style, width = tab.evaluate(FOCUSED)
        assert style != "none", name
        assert width >= 2, name
        seen.append(name)
    assert seen[:2] == ["skip", "theme"]
    order = [
        seen.index(each) for each in ("x", "bars", "parts", "y", "regions", "cut", "highlight")
    ]
    assert order == sorted(order)
    assert "mark" in seen

    links = tab.locator("nav a")
    assert links.count() == 9
    links.last.click()
    assert tab.locator("#code").is_visible()
    tab.wait_for_function(
        "document.querySelector('#code').getBoundingClientRect().top < innerHeight"
    )

    tab.click("#code .copy")
    tab.wait_for_function("document.querySelector('#code .told').textContent")
