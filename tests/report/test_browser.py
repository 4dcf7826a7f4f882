"""The pages in a browser."""

import shutil
from base64 import b64encode
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sevenhills import (
    ROME,
    GaussianMixtureBIC,
    VineDensity,
    datasets,
)
from sevenhills.datasets import make_walks
from sevenhills.forecast import rank
from sevenhills.report import Report, build_report, forecast_report

from .pages import EVIL, aniso, data_of

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


def write_forecast_page(path, laws):
    walks = make_walks(40, random_state=0)
    samples = {name: law(walks.law).draw(20, random_state=0) for name, law in laws.items()}
    ranking = rank(samples, walks.truth, measures=("nll_step", "energy_score", "ece"))
    title = "One_long_name_without_any_space_between_its_words.parquet"
    return forecast_report(ranking, samples, walks.truth, title=title).save(path)


#: Forecasters of the pages of forecasts, as functions of the true law.
FORECASTERS = {
    "forecast": {"narrow": lambda law: law.spread(0.5)},
    "forecasts": {
        EVIL: lambda law: law,
        "a rather long name of a forecaster with half of the spread": lambda law: law.spread(0.5),
        "One_long_name_without_any_space_between_its_words": lambda law: law.spread(2.0),
        "turned": lambda law: law.turned(0.3),
        "the same": lambda law: law.spread(1.01),
    },
}


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
        "walks": (ROME(scale="auto"), pd.DataFrame(walks, columns=long)),
        "line": (ROME(), rng.normal(size=(50, 1))),
        "vine": (VineDensity(), rng.normal(size=(50, 3))),
        "neighbours": (ROME(density="knn"), aniso(60)),
        "five": (ROME(), rng.normal(size=(5, 2))),
        "no samples": (GaussianMixtureBIC(max_components=3).fit(aniso(60)), None),
    }
    made = {}

    def page(name):
        path = folder / f"{name}.html"
        if name not in made and name in FORECASTERS:
            made[name] = write_forecast_page(path, FORECASTERS[name])
        elif name not in made:
            model, X = subjects[name]
            made[name] = build_report(model, X=X).save(path)
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
        *(("walks", font) for font in ("default", "wide", "narrow")),
        pytest.param("walks", "DejaVu", marks=pytest.mark.slow),
        pytest.param("forecasts", "default", marks=pytest.mark.slow),
        ("forecasts", "wide"),
        pytest.param("forecasts", "DejaVu", marks=pytest.mark.slow),
        pytest.param("forecasts", "narrow", marks=pytest.mark.slow),
        ("forecast", "default"),
        ("plane", "default"),
        ("line", "default"),
        ("five", "default"),
        pytest.param("vine", "default", marks=pytest.mark.slow),
        pytest.param("neighbours", "default", marks=pytest.mark.slow),
    ],
)
def test_every_view_renders_and_fits(visit, name, font):
    tab = visit(name, 390, dark=name in ("walks", "forecasts"), font=font)
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


def test_the_fonts_are_used(browser):
    widths, tab = {}, browser.new_page()
    for font, given in FONTS.items():
        if given:  # the browser's own may be any
            tab.goto("data:text/html,<p>text</p>")
            tab.evaluate(font_script(*given))
            widths[font] = tab.evaluate(TEXT_WIDTH)
    tab.close()
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


def test_scenes_of_forecasters(visit):
    tab = visit("forecasts")
    assert tab.locator("#scenes .plot").count() == 5
    before = traces(tab, "#scenes .plot")
    said = tab.locator("#scenes .status").all_text_contents()
    tab.select_option("#scenes .scene", "2")
    assert traces(tab, "#scenes .plot") != before
    assert tab.locator("#scenes .status").all_text_contents() != said
    extents = (
        "(all) => all.map((div) => div._fullLayout.xaxis.range.map((x) => x.toFixed(3)).join())"
    )
    assert len(set(tab.eval_on_selector_all("#scenes .plot", extents))) == 1
    colors = "(all) => all.map((chip) => chip.style.background)"
    assert len(set(tab.eval_on_selector_all("#summary .chip", colors))) == 5


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
    status = tab.inner_text("#clusters .status")
    options = tab.locator("#clusters .cut option").all_text_contents()
    other = next(i for i, text in enumerate(options) if ": 2 clusters" in text)
    tab.select_option("#clusters .cut", str(other))
    for picture, old in zip(pictures, before, strict=True):
        assert traces(tab, picture) != old, picture
    assert tab.inner_text("#clusters .status") != status
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
    for _ in range(56):
        tab.keyboard.press("Tab")
        name, style, width = tab.evaluate(FOCUSED)
        if name == "BODY":  # behind the last element
            break
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
    assert tab.locator("#quality").is_visible()
    tab.wait_for_function(
        "document.querySelector('#quality').getBoundingClientRect().top < innerHeight"
    )
