"""The report of a pilot: only figures of the summary, whatever the events say and whoever wrote the texts."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from synthetic import Story, make_run
from test_summary_failures import CASES, SHORT

from twintrack.events import AnyEvent, Event
from twintrack.pilot.page import build_page, write_report
from twintrack.pilot.summary import read_summary
from twintrack.pilot.summary_parts import Curve
from twintrack.pilot.table import print_summary
from twintrack.quantity import Quantity
from twintrack.report.format import quantity_text
from twintrack.report.html import render_page
from twintrack.report.records import Callout
from twintrack.storage import LocalFileSystem

sys.path.append(str(Path(__file__).parents[1] / "report"))
from page_reader import read_page

FS = LocalFileSystem()
NUMBER = re.compile(r"(?<![\w.,/:-])[-−]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w/:]|\.\d)")


def summary_of(folder, **fields):
    return read_summary(make_run(folder, Story(**(SHORT | fields))), FS)


def numbers(text: str) -> set[str]:
    """Numbers that stand alone in a text; digits inside a word (bf16, trn2) are part of its name."""
    return {found.strip(",.") for found in NUMBER.findall(text)}


def leaves(value: Any) -> Iterator[Any]:
    """Every quantity, number and text in a record."""
    if isinstance(value, Quantity | str | int | float):
        yield value
        if isinstance(value, Quantity):
            yield from (value.source, value.conditions)
    elif isinstance(value, BaseModel):
        yield from (json.dumps(one) for one in flat(value.model_dump(mode="json")))
    elif dataclasses.is_dataclass(value):
        if isinstance(value, Curve):
            yield from (value.at(index) for index in range(len(value.values)))
        for one in dataclasses.fields(value):
            yield from leaves(getattr(value, one.name))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from leaves(one)


def flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for one in value.values():
            yield from flat(one)
    elif isinstance(value, list):
        yield json.loads(json.dumps(value))
        for one in value:
            yield from flat(one)
    else:
        yield value


def texts_of(value: Any) -> set[str]:
    """How the numbers in a record are written on a page."""
    found: set[str] = set()
    for leaf in leaves(value):
        match leaf:
            case Quantity():
                found |= numbers(quantity_text(leaf))
                if leaf.value is not None:
                    found |= {f"{leaf.value:.3g}", f"{leaf.value:g}"}
            case str():
                found |= numbers(leaf)
            case bool():
                pass
            case float():
                found |= {f"{leaf:.6g}", f"{int(leaf):,}" if leaf.is_integer() else f"{leaf:.6g}"}
            case int():
                found |= {str(leaf), f"{leaf:,}"}
    return found


def values_of(value: Any) -> set[float]:
    """Every number of a record, as it is."""
    found = {0.0}
    for leaf in leaves(value):
        if isinstance(leaf, Quantity) and leaf.value is not None:
            found.add(float(leaf.value))
        elif isinstance(leaf, int | float):
            found.add(float(leaf))
    return found


def invented(html: str, summary: Any) -> set[str]:
    return numbers(read_page(html).prose) - texts_of(summary)


STORIES = {
    "as planned": {},
    "warm": {"warm": True},
    "long": {"steps": 40, "every": 10, "stops": (("polite", 14), ("kill", 23), ("kill-in-write", 30))},
    "one track": {"tracks": ("cpu",), "stops": ()},
    "no slices": {"slices": (), "prompts": ()},
} | {
    name: {"edit": CASES[name][0]}
    for name in ("not done", "a hole", "error", "no stop", "host", "tolerance", "not to the bit", "no model")
}


@pytest.mark.parametrize("name", STORIES)
def test_every_number_on_the_page_is_one_of_the_summary(tmp_path, name):
    summary = summary_of(tmp_path / "run", **STORIES[name])

    assert invented(render_page(build_page(summary)), summary) == set()


def test_an_invented_number_would_be_found(tmp_path):
    summary = summary_of(tmp_path / "run")
    page = build_page(summary)
    head = (*page.head, Callout("plain", "about 17.3 times faster"))

    assert invented(render_page(dataclasses.replace(page, head=head)), summary) == {"17.3"}


def test_every_point_of_every_chart_is_one_of_the_summary(tmp_path):
    summary = summary_of(tmp_path / "run")
    known = values_of(summary)
    points = 0
    for chart in read_page(render_page(build_page(summary))).charts:
        for trace in chart["data"]:
            if trace.get("meta", {}).get("style") == "text":
                continue  # only where a total stands
            axis = "x" if trace.get("orientation") == "h" else "y"
            drawn = [value for value in trace[axis] if value is not None]
            if "base" in trace:  # a span: where it begins, and where it ends
                ends = [begin + length for begin, length in zip(trace["base"], trace["x"], strict=True)]
                assert set(trace["base"]) <= known
                if trace["meta"]["style"] != "save":  # a save ends at two figures added
                    assert all(min(abs(end - value) for value in known) < 1e-9 for end in ends)
            elif "style" not in trace["meta"] or trace["meta"]["style"] == "limit":
                assert set(drawn) <= known
            points += len(drawn)
    assert points > 100


def test_texts_of_the_run_stay_texts(tmp_path):
    evil = "</script><script>alert('x')</script><img src=http://x/y onerror=alert(1)>"
    summary = summary_of(tmp_path / "run", slices=(evil, "b"), prompts=(evil,), answer=evil)
    read = read_page(render_page(build_page(summary)))

    assert len(read.scripts) == 2
    assert not [tag for tag, _ in read.tags if tag == "img"]
    assert evil in read.prose


def test_a_failure_stands_in_the_head_of_the_page_and_of_the_table(tmp_path, capsys):
    from rich.console import Console

    edit, text = CASES["not to the bit"]
    summary = summary_of(tmp_path / "run", edit=edit)
    head = build_page(summary).head[0]
    print_summary(summary, Console(width=200))
    printed = capsys.readouterr().out

    assert head.tone == "bad"
    assert any(text in item for item in head.items)
    assert "The pilot failed" in printed
    assert text in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 100


def test_cold_of_a_warm_run_is_labelled_as_measured_earlier(tmp_path):
    page = read_page(render_page(build_page(summary_of(tmp_path / "run", warm=True)))).prose

    assert "trn2, cold: capture measured when the cache entries were made, not in this start" in page


def test_the_page_says_what_is_simulated_and_that_bounds_are_no_predictions(tmp_path):
    page = read_page(render_page(build_page(summary_of(tmp_path / "run")))).prose

    assert "its seconds are this processor's seconds, not Trainium's" in page
    assert "Neither is a prediction" in page
    assert "100 % of the FLOPs and 100 % of the operators ran under the track's number rules" in page


def test_the_report_is_written_whole_and_equal_each_time(tmp_path):
    folder = make_run(tmp_path / "run", Story(**SHORT))
    first = write_report(read_summary(folder, FS), folder, FS).read_bytes()

    assert write_report(read_summary(folder, FS), folder, FS).read_bytes() == first
    assert sorted(path.name for path in folder.iterdir()) == [
        "job.json",
        "pilot.json",
        "report.html",
        "tracks",
    ]


KINDS = sorted(
    kind.model_fields["kind"].default
    for kind in Event.__subclasses__()
    if issubclass(kind, AnyEvent.__origin__)
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lost=st.sets(st.sampled_from(KINDS), min_size=1), every=st.integers(1, 3))
def test_whatever_events_are_missing_the_page_is_made_and_invents_nothing(tmp_path_factory, lost, every):
    def edit(track, run, event):
        edit.count += 1
        return None if event.kind in lost and edit.count % every == 0 else event

    edit.count = 0
    summary = summary_of(tmp_path_factory.mktemp("story"), edit=edit)

    assert invented(render_page(build_page(summary)), summary) == set()


def test_curves_know_no_point_they_do_not_have():
    curve = Curve("", Quantity.measured(1, "", "x").kind, "x", (), ())

    assert not curve.at(-1).known
