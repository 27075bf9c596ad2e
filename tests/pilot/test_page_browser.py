"""The report in a real browser: opens from the disk without a network, draws its charts, complains of nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from synthetic import Story, make_run

from twintrack.pilot.page import write_report
from twintrack.pilot.summary import read_summary
from twintrack.storage import LocalFileSystem

pytestmark = pytest.mark.slow
CHARTS = 8


def _chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium here: install the package chromium")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the Python package playwright is not installed"
    )
    path = _chromium()
    with playwright.sync_playwright() as play:
        found = play.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    fs = LocalFileSystem()
    evil = "</script><script>window.evil = 1</script><img src=http://example.com/x onerror='window.evil = 1'>"
    story = Story(answer=evil, slices=("history", evil))
    folder = make_run(tmp_path_factory.mktemp("browser") / "run", story)
    return write_report(read_summary(folder, fs), folder, fs)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (800, "dark")])
def test_the_page_opens_offline_and_draws_every_chart(browser, report, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("requestfailed", lambda request: said.append(request.url))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    page.locator(".chart .cartesianlayer .subplot").nth(CHARTS - 1).wait_for(state="attached")

    assert said == []
    assert asked == [report.as_uri()]
    boxes = page.eval_on_selector_all(".chart", _BOXES)
    assert len(boxes) == CHARTS
    for box in boxes:
        assert box["width"] > 0.8 * min(width, 1000) - 60
        assert box["height"] > 100
        assert box["shapes"] > 3
        assert box["overflow"] == 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("window.evil") is None
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 31)")
    assert len(page.screenshot(full_page=True)) > 100_000  # a blank page compresses to a few thousand bytes
    page.close()


_BOXES = """charts => charts.map(chart => {
    const box = chart.querySelector('svg.main-svg').getBoundingClientRect();
    const shapes = chart.querySelectorAll('.cartesianlayer path').length;
    return {width: box.width, height: box.height, shapes: shapes,
            overflow: Math.max(0, Math.round(box.right - chart.getBoundingClientRect().right))};
})"""


def test_a_tooltip_tells_where_a_figure_comes_from(browser, report):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(report.as_uri())
    page.locator(".q").first.hover()

    assert page.locator("#tip").is_visible()
    assert "tracks/cpu/reference/events.jsonl" in page.locator("#tip").inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()
    page.close()


def test_printing_takes_light_colours_and_the_width_of_the_paper(browser, report):
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    page.goto(report.as_uri())
    page.wait_for_selector(".main-svg")
    page.emulate_media(media="print", color_scheme="dark")
    page.locator('.chart .main-svg[width="660"]').first.wait_for(state="attached")

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.close()
