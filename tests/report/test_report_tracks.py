"""Tracks on a page: their data come back as they were, and nothing in them becomes markup or script."""

import base64
import hashlib
import json
import re

from hypothesis import given
from hypothesis import strategies as st
from page_reader import read_page

from twintrack.quantity import Provenance
from twintrack.report.html import render_page
from twintrack.report.records import Page, Section
from twintrack.report.tracks import TrackLane, Tracks, TrackSpan, tracks_data

EVIL = "</script><script>window.evil = 1</script>"


def tracks(*lanes, label="copy\nkernel.py:1"):
    return Tracks("engines", 1000, lanes, (label,), Provenance.SIMULATED, "the model")


def page(block):
    return render_page(Page("a page", "", (), (Section("timeline", (block,)),)))


def unpacked(lane):
    """Spans as the page's script reads them."""
    at, found = 0, []
    for number in range(0, len(lane["spans"]), 4):
        gap, length, label, wait = lane["spans"][number : number + 4]
        start = at + gap
        at = start + length
        count, active = lane["blocks"].get(str(number // 4), (1, 0))
        found.append(TrackSpan(start, length, label, wait, count, active))
    return found


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 3), st.integers(0, 5)), max_size=9
    )
)
def test_spans_come_back_as_they_were(given_spans):
    spans, at = [], 0
    for gap, length, count, wait in given_spans:
        spans.append(TrackSpan(at + gap, length, 0, wait, count, length if count > 1 else 0))
        at += gap + length
    data = json.loads(json.dumps(tracks_data(tracks(TrackLane("Tensor", tuple(spans), 3)))))
    assert unpacked(data["lanes"][0]) == spans
    assert (data["lanes"][0]["name"], data["lanes"][0]["slot"], data["length"]) == ("Tensor", 3, 1000)


def test_a_page_with_tracks_runs_one_more_script_and_names_it_in_its_policy():
    read = read_page(page(tracks(TrackLane("Tensor", (TrackSpan(0, 5, 0),)))))
    assert len(read.scripts) == 3
    allowed = set(re.findall(r"'sha256-([^']+)'", read.policy))
    assert allowed == {
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in read.scripts
    }


def test_texts_of_tracks_stay_texts():
    text = page(tracks(TrackLane(EVIL, (TrackSpan(0, 5, 0),)), label=EVIL))
    assert EVIL not in text
    assert len(read_page(text).scripts) == 3
