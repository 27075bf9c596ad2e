"""Profiles made of timelines: traces, tracks, waits, binding, errors."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timing_streams import tile, trace_of

from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.neuroncore.timing.accuracy import KINDS, AccuracyRow, accuracy_rows, error_of, kind_of
from twintrack.neuroncore.timing.binding import LIMIT_NAMES, REASONS, binding_of
from twintrack.neuroncore.timing.chrome_trace import chrome_trace, tracks_of
from twintrack.neuroncore.timing.cores import at_dma_rate, reworked, schedule_cores
from twintrack.neuroncore.timing.cost import Work
from twintrack.neuroncore.timing.dma import Transfer
from twintrack.neuroncore.timing.export import FILES, profile_values, write_profile
from twintrack.neuroncore.timing.page import page_of, timeline_of
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.profile import WhatIf
from twintrack.neuroncore.timing.schedule import DMA
from twintrack.neuroncore.timing.summary import Run, profile_of
from twintrack.report.html import render_page
from twintrack.report.tracks import TrackLane, TrackSpan, thinned
from twintrack.storage import LocalFileSystem

P = parameters_of("trn2")
GENERATION = GENERATIONS["trn2"]
VECTOR, SCALAR = 1, 2


def move(size=1 << 18, engines=16, rows=128, stores=False):
    busy = -(-rows // engines) * P.dma_row + size / engines / P.dma_rate
    return Transfer(size, size, engines, busy, rows, stores)


def pipeline(count=6):
    """Loads of tiles, each worked on by the Vector and then the Scalar Engine."""
    buffers = [tile(number) for number in range(count)]
    regions = [(number, 0, 1024) for number in range(count)]
    steps = []
    for at in range(count):
        steps.append((DMA, move(), (), (at,), ()))
        steps.append((VECTOR, Work(1000.0, 100.0), (at,), (at,), ()))
        steps.append((SCALAR, Work(2000.0, 100.0, table="exp"), (at,), (at,), ()))
    trace = trace_of(P, buffers, regions, steps)
    trace.lines = ["folder/kernel.py:7"]
    return trace


def profile(*traces, together=False, **options):
    return profile_of(Run("made", traces or (pipeline(),), (), GENERATION, together), **options)


# accuracy


def row(kind, error, *, name="one", quantity="total, us", fitted=False, note=""):
    return AccuracyRow(name, kind, "trn2", quantity, 100.0, 100.0 * (1 + error), error, fitted, note)


def test_an_error_spans_the_predicted_rows_of_the_kind():
    rows = [row("dma", 0.25), row("dma", -0.2, name="two"), row("tensor", 0.1), row("dma", 5.0, fitted=True)]
    found = error_of("dma", rows)
    assert found is not None
    simulated = 1.0
    assert simulated * (1 - found.low) == pytest.approx(1 / 1.25)  # the row that was simulated 25 % too high
    assert simulated * (1 + found.high) == pytest.approx(1 / 0.8)
    assert found.basis.startswith("2 rows of the accuracy table that nothing was fitted on, kind dma;")


def test_an_error_is_never_below_the_mean_of_all_rows():
    rows = [
        row("dma", 0.0),
        row("dma", 0.01, name="two"),
        row("tensor", 0.5),
        row("tensor", -0.5, name="four"),
    ]
    found = error_of("dma", rows)
    assert found is not None
    mean = (0.0 + (1 - 1 / 1.01) + (1 - 1 / 1.5) + (1 / 0.5 - 1)) / 4
    assert (found.low, found.high) == (pytest.approx(mean), pytest.approx(mean))


def test_a_kind_of_fewer_than_two_rows_takes_all_and_says_so():
    rows = [row("dma", 0.1), row("mixed", -0.1, name="two"), row("mixed", 0.3, name="three")]
    found = error_of("dma", rows)
    assert found is not None
    assert found.low == pytest.approx(1 - 1 / 1.3)
    assert "all kinds (dma has 1)" in found.basis


def test_only_times_of_kernels_count_and_those_that_hold_what_is_timed():
    rows = [
        row("dma", 0.1),
        row("dma", -0.1, name="two"),
        row("dma", 8.0, quantity="dma active, us"),
        row("dma", -0.9, name="three", note="includes the start of a kernel, which the model leaves out"),
        row("dma", 0.5, name="four", quantity="dma active, us"),
    ]
    found = error_of("dma", rows)
    assert found is not None
    assert found.low == pytest.approx(1 - 1 / 1.5)
    assert found.basis.startswith("3 ")


def test_without_predicted_rows_no_error_is_made_up():
    assert error_of("dma", [row("dma", 0.1, fitted=True)]) is None
    with pytest.raises(ValueError, match="kind"):
        error_of("unknown", [])


def test_the_table_is_read_from_its_file(tmp_path):
    assert accuracy_rows(tmp_path) == ()
    entry = {
        "name": "a", "kind": "vector", "chip": "trn1", "quantity": "total, us", "published": 2.0, "simulated": 3.0,
        "error": 0.5, "fitted": False,
    }  # fmt: skip
    (tmp_path / "accuracy.json").write_text(json.dumps({"rows": [entry]}))
    (found,) = accuracy_rows(tmp_path)
    assert (found.name, found.kind, found.error, found.fitted) == ("a", "vector", 0.5, False)
    (tmp_path / "accuracy.json").write_text(json.dumps({"rows": [entry | {"kind": "other"}]}))
    with pytest.raises(ValueError, match="other"):
        accuracy_rows(tmp_path)


def test_the_table_of_the_package_supports_an_error_for_every_kind():
    assert all(error_of(kind) is not None for kind in KINDS)


@pytest.mark.parametrize(
    ("active", "kind"),
    [
        ({"tensor": 10.0, "dma": 4.9}, "tensor"),
        ({"tensor": 10.0, "dma": 5.1}, "mixed"),
        ({"dma": 3.0, "vector": 1.0, "scalar": 1.4}, "dma"),
        ({"gpsimd": 2.0, "dma": 0.1}, "vector"),
    ],
)
def test_the_kind_is_that_of_what_works_alone(active, kind):
    assert kind_of(active) == kind


# what a profile says


def test_active_times_are_those_of_the_spans():
    made = profile(what_if=False)
    (timeline,) = made.timelines
    for name, engine in (("vector", VECTOR), ("scalar", SCALAR)):
        spans = [
            span
            for step, span in zip(timeline.trace.steps, timeline.spans, strict=True)
            if step.engine == engine
        ]
        assert made.engines[name].active_seconds == pytest.approx(sum(s.end - s.start for s in spans) * 1e-9)
        assert made.engines[name].instructions == len(spans) == 6
    assert made.dma.transfers == 6
    assert made.instructions == 18


def test_waits_and_work_of_an_engine_fill_its_time_until_its_last_instruction():
    made = profile(what_if=False)
    (timeline,) = made.timelines
    last = max(s.end for t, s in zip(timeline.trace.steps, timeline.spans, strict=True) if t.engine == SCALAR)
    waited = sum(one.seconds for one in made.waits if one.engine == "scalar")
    assert waited + made.engines["scalar"].active_seconds == pytest.approx(last * 1e-9)


def test_waits_name_both_lines_and_the_reason():
    wait = next(one for one in profile(what_if=False).waits if one.engine == "scalar")
    assert (wait.line, wait.cause, wait.reason) == ("folder/kernel.py:7", "folder/kernel.py:7", "data")


def test_cores_together_take_the_longest_and_programs_the_sum():
    short, long = pipeline(2), pipeline(8)
    one, other = (profile(trace, what_if=False).seconds for trace in (short, long))
    assert profile(short, long, what_if=False).seconds == pytest.approx(one + other)
    both = profile(short, long, together=True, what_if=False)
    assert both.seconds >= other
    assert both.cores == 2
    shares = [use.share for use in both.engines.values()]
    assert all(0 <= share <= 1 for share in shares)


def test_nothing_the_terminal_shows_lacks_a_name():
    made = profile()
    assert {one.name for one in made.what_if} <= set(LIMIT_NAMES)
    assert {one.reason for one in made.waits} <= set(REASONS)
    assert made.binding.resource in LIMIT_NAMES


def test_half_of_what_a_lifted_limit_saves_is_compared_with_a_doubled_rate():
    doubled = WhatIf("vector", "Vector Engine at twice its rate", 0.7, 0.3, whole=False)
    lifted = WhatIf("dma_latency", "no DMA latency", 0.5, 0.5, whole=True)
    shares = {"vector": 0.6, "dma": 0.1}
    assert binding_of(shares, [lifted, doubled], ()).resource == "vector"
    assert binding_of(
        shares, [WhatIf("dma_latency", "no DMA latency", 0.3, 0.7, whole=True), doubled], ()
    ).resource == ("dma_latency")
    weak = [WhatIf("vector", "Vector Engine at twice its rate", 0.97, 0.03, whole=False)]
    assert binding_of(shares, weak, ()).resource == "dependences"


def test_a_transfer_at_another_rate_keeps_the_cost_of_its_rows():
    transfer = move(1 << 20, rows=256)
    twice = at_dma_rate(P, 2 * P.dma_rate)(DMA, transfer)
    rows = 16 * P.dma_row
    assert twice.engine_ns == pytest.approx(rows + (transfer.engine_ns - rows) / 2)
    assert at_dma_rate(P, P.dma_rate, row=0.0)(DMA, transfer).engine_ns == pytest.approx(
        transfer.engine_ns - rows
    )


def test_other_work_leaves_the_trace_as_it_was():
    trace = pipeline()
    before = [step.work for step in trace.steps]
    slower = reworked(trace, lambda engine, work: work._replace(cycles=9e9) if engine == VECTOR else work)
    assert [step.work for step in trace.steps] == before
    assert schedule_cores([slower], GENERATION)[0].seconds > 1
    assert schedule_cores([trace], GENERATION)[0].seconds < 1e-3


# files


def test_the_trace_has_complete_events_that_never_overlap_on_a_track():
    """The trace event format: X events with ts and dur in us on named threads; chrome://tracing draws no overlap."""
    made = profile(pipeline(), pipeline(3), together=True, what_if=False)
    trace = json.loads(json.dumps(chrome_trace(made)))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    named = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X"}
    assert len(events) == made.instructions == 27
    assert {(event["pid"], event["tid"]) for event in events} == set(named)
    assert {"Vector", "Scalar"} < set(named.values())
    ends: dict[tuple[int, int], int] = {}
    for event in events:
        assert {"name", "cat", "ts", "dur", "pid", "tid", "args"} <= set(event)
        assert {"opcode", "line"} <= set(event["args"])
        start, length = (round(event[key] * 1e6) for key in ("ts", "dur"))
        track = (event["pid"], event["tid"])
        assert start >= ends.get(track, 0)
        ends[track] = start + length
    assert max(ends.values()) == pytest.approx(made.seconds * 1e12, abs=1)
    assert any(event["args"].get("wait_reason") == "data" for event in events)


def test_tracks_of_transfers_in_flight_at_once_lie_beside_each_other():
    count = 5
    trace = trace_of(
        P,
        [tile(number) for number in range(count)],
        [(number, 0, 1024) for number in range(count)],
        [(DMA, move(1 << 22, engines=1, rows=8), (), (number,), ()) for number in range(count)],
    )
    trace.lines = ["kernel.py:1"]
    made = profile(trace, what_if=False)
    assert len(tracks_of(made.timelines[0])) == count


def test_files_are_written_and_read_back(tmp_path):
    made = profile()
    paths = write_profile(made, tmp_path / "deep" / "folder", LocalFileSystem())
    assert [path.name for path in paths] == list(FILES)
    values = json.loads(paths[2].read_text())
    assert values == json.loads(json.dumps(profile_values(made)))
    assert values["seconds"] == made.seconds
    assert values["time"]["kind"] == "simulated"
    assert "timelines" not in values
    assert json.loads(paths[1].read_text())["displayTimeUnit"] == "ns"


def test_the_page_says_what_binds_and_the_error_of_its_times():
    made = profile()
    text = render_page(page_of(made))
    assert LIMIT_NAMES[made.binding.resource] in text
    assert made.error is not None
    assert made.error.basis in text
    assert "No place on a roofline" in text  # it has no matrix multiplication
    assert "kernel.py:7" in text


def test_a_timeline_of_more_spans_than_a_page_holds_says_so():
    made = profile(what_if=False)
    assert "more than a page holds" not in timeline_of(made).note
    thin = timeline_of(made, most=9)
    assert sum(len(lane.spans) for lane in thin.lanes) <= 9
    assert "18 instructions are more than a page holds" in thin.note


def test_more_lanes_than_spans_are_allowed_keep_one_block_each():
    lanes = [TrackLane(str(at), (TrackSpan(0, 5, 0), TrackSpan(7, 3, 0))) for at in range(4)]
    found, _ = thinned(lanes, 10, most=2)
    assert [len(lane.spans) for lane in found] == [1, 1, 1, 1]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 90)), min_size=1, max_size=60), st.integers(1, 30)
)
def test_blocks_keep_every_instruction_and_all_active_time(gaps, most):
    spans, at = [], 0
    for gap, length in gaps:
        spans.append(TrackSpan(at + gap, length, 0))
        at += gap + length
    (lane,), stretch = thinned([TrackLane("a", tuple(spans))], max(1, at), most)
    assert len(lane.spans) <= most
    assert sum(span.instructions for span in lane.spans) == len(spans)
    active = sum(span.active if span.instructions > 1 else span.length for span in lane.spans)
    assert active == sum(length for _, length in gaps)
    assert lane.spans[0].start == spans[0].start
    assert lane.spans[-1].start + lane.spans[-1].length == at
    assert (stretch == 0) == (len(spans) <= most)
    assert all(a.start + a.length <= b.start for a, b in zip(lane.spans, lane.spans[1:], strict=False))
