"""The HTML shell: nothing from outside becomes markup or script, nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from page_reader import read_page
from report_samples import page_of

from twintrack.report.html import render_page

LOADING = ("src", "srcset", "href", "action", "formaction", "data", "poster", "background", "style")
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "<!-- <script>",
    "]]>&lt;b&gt;&amp;%{x}$x$\u2028\u2029",
    "<a href='javascript:alert(1)'>x</a>",
    "</style></title></textarea>",
)


def test_a_page_has_every_component_and_reads_as_it_was_written():
    read = read_page(render_page(page_of("plain words")))

    assert len(read.charts) == 5
    assert "12.50 ms" in read.prose
    assert "plain words" in read.prose
    assert "no text" in read.prose
    assert any("measured: a run produced it" in tip for tip in read.tips)


def test_the_same_page_gives_the_same_bytes():
    assert render_page(page_of("x")) == render_page(page_of("x"))


def test_hostile_texts_stay_texts():
    plain = [
        (tag, sorted(set(given) - {"class"}))
        for tag, given in read_page(render_page(page_of("harmless text"))).tags
    ]
    for text in HOSTILE:
        read = read_page(render_page(page_of(text)))

        assert [(tag, sorted(set(given) - {"class"})) for tag, given in read.tags] == plain, text
        assert len(read.scripts) == 2, text
        assert text in read.prose, text


@settings(max_examples=10, deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=41, max_size=60).map(
        lambda t: t.strip() or "x"
    )
)
def test_any_text_comes_back_as_it_was(text):
    assert text in read_page(render_page(page_of(text))).prose


def test_chart_texts_cannot_be_markup_for_the_chart_library_either():
    for chart in read_page(render_page(page_of("<a href='http://x'>a</a>"))).charts:
        assert "<a" not in re.sub(r"<br>|<extra></extra>", "", str(chart))


def test_nothing_is_loaded_from_anywhere():
    read = read_page(render_page(page_of("http://example.com/x.js")))

    for tag, attributes in read.tags:
        for name in LOADING:
            value = attributes.get(name) or ""
            assert not re.search(r"//|url\(|@import|javascript:", value), (tag, name, value)
    style = re.search(r"<style>(.*?)</style>", render_page(page_of("x")), re.DOTALL)
    assert style
    assert not re.search(r"url\(|@import|//\w", style.group(1))


def test_the_policy_lets_nothing_load_and_only_these_two_scripts_run():
    read = read_page(render_page(page_of("x")))
    allowed = set(re.findall(r"'sha256-([^']+)'", read.policy))

    assert allowed == {
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in read.scripts
    }
    assert read.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "'unsafe-inline'" not in read.policy.split("style-src")[0]
    assert "http" not in read.policy


def test_the_chart_library_is_inlined_once():
    assert render_page(page_of("x")).count("plotly.js v") == 1
