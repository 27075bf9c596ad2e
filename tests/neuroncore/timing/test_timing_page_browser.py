"""A profile's page in a real browser: opens offline, draws its timeline, zooms, says what a span is."""

from __future__ import annotations

import shutil

import pytest
from timing_streams import tile, trace_of

from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.neuroncore.timing.cost import Work
from twintrack.neuroncore.timing.page import page_of
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.summary import Run, profile_of
from twintrack.report.html import render_page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the Python package playwright is not installed"
    )
    path = next(
        (
            found
            for name in ("chromium", "chromium-browser", "google-chrome")
            if (found := shutil.which(name))
        ),
        None,
    )
    if path is None:
        pytest.skip("no Chromium here: install the package chromium")
    with playwright.sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    p = parameters_of("trn2")
    steps = [(at % 2 + 1, Work(2000.0, 100.0), (0,), (0,), ()) for at in range(40)]
    trace = trace_of(p, [tile(0)], [(0, 0, 1024)], steps)
    trace.lines = ["folder/kernel.py:7"]
    path = tmp_path_factory.mktemp("page") / "profile.html"
    made = profile_of(Run("made", (trace,), (), GENERATIONS["trn2"]))
    path.write_text(render_page(page_of(made)), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (700, "dark")])
def test_the_timeline_is_drawn_zooms_and_tells_what_a_span_is(browser, report, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    canvas = page.locator(".tracks canvas")
    canvas.wait_for()
    shown = page.locator(".tracks output")
    assert shown.inner_text().startswith("0 ps to ")
    colours = page.evaluate(_COLOURS)
    assert colours > 3  # a blank canvas has one
    whole = shown.inner_text()
    page.locator("button[data-do=in]").click()
    assert shown.inner_text() != whole
    canvas.press("0")
    assert shown.inner_text() == whole
    canvas.hover(position={"x": canvas.bounding_box()["width"] * 0.5, "y": 16})
    tip = page.locator("#tip")
    tip.wait_for()
    assert tip.is_visible()
    assert "made" in tip.inner_text()
    assert "kernel.py:7" in tip.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert said == []
    assert asked == [report.as_uri()]
    page.close()


_COLOURS = """() => {
    const canvas = document.querySelector('.tracks canvas');
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const found = new Set();
    for (let i = 0; i < pixels.length; i += 4) { found.add(pixels.slice(i, i + 4).join()); }
    return found.size;
}"""
