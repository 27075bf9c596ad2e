"""The wall time of a run is divided without gap and without counting a second twice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import (
    at,
    calm,
    compiled,
    done,
    evaluation,
    snapshot,
    started,
    step,
    stopped,
)

from twintrack.events import (
    AnyEvent,
    Event,
    LegEnded,
    Phase,
    Resumed,
    StopMade,
)
from twintrack.pilot.ledger.machine_time import measured_time
from twintrack.pilot.ledger.time import Activity, partition

NANO = 1_000_000_000


def seconds(events: list[AnyEvent], every: int = 3) -> dict[str, float]:
    found = partition(events, every=every)
    assert not found.problem
    return {activity.value: count / NANO for activity, count in found.nanoseconds.items()}


def test_a_run_without_stops_is_divided_as_its_events_tell():
    assert seconds(calm()) == {
        "training": 36.0,
        "evaluation": 12.0,
        "saving": 2.0,
        "other work": 10.0,
        "compilation": 8.0,
        "import": 10.0,
        "data": 5.0,
        "model": 15.0,
        "set-up": 2.0,
    }


def test_what_a_kill_costs_is_told_apart_from_the_work():
    assert seconds(stopped()) == {
        "training": 36.0,
        "evaluation": 12.0,
        "saving": 2.0,
        "other work": 19.0,
        "compilation": 8.0,
        "import": 10.0,
        "data": 5.0,
        "model": 15.0,
        "set-up": 2.0,
        "gap between processes": 4.0,
        "reading checkpoints": 3.0,
        "restart": 24.0,
        "repeated work": 28.0,
    }


def test_a_program_that_no_earlier_process_had_is_compilation_in_a_restart_too():
    """Loading what was compiled before is due to the stop; compiling something new is not."""
    known = at(1, (193.0, started()), (200.0, compiled("a", 7.0, warm=True)), (200.0, done()))
    fresh = at(1, (193.0, started()), (200.0, compiled("b", 7.0)), (200.0, done()))

    again, new = seconds([*calm()[:-2], *known]), seconds([*calm()[:-2], *fresh])

    assert (again["compilation"], again["restart"]) == (8.0, 7.0)
    assert (new["compilation"], new.get("restart")) == (15.0, None)


def test_a_checkpoint_that_a_stop_alone_asked_for_is_due_to_the_stop():
    events = at(
        0,
        (0.0, started()),
        (5.0, step(1, 5.0)),
        (10.0, step(2, 5.0)),
        (10.5, StopMade(step=2, stop="polite")),
        (13.0, snapshot(2, 2.0)),
        (14.0, LegEnded(reason="polite", step=2)),
    )

    assert seconds(events, every=3)["stopping"] == 3.5
    assert seconds(events, every=2)["saving"] == 2.0  # it was due anyway


def test_a_pause_that_the_user_made_is_no_machine_time():
    events = [
        *at(0, (0.0, started()), (10.0, step(1, 10.0)), (10.0, LegEnded(reason="signal", step=1))),
        *at(1, (90.0, started()), (100.0, step(2, 10.0)), (100.0, done())),
    ]

    found = measured_time(events, "events.jsonl", every=3)

    assert seconds(events)["pause"] == 80.0
    assert found.time.value == 20.0
    assert "80 s between a stop by the user" in found.remarks[0]


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([], "no event carries a time"),
        (at(0, (50.0, started()), (20.0, step(1, 1.0))), "times go back by 30 s in process 0"),
        ([*at(0, (50.0, started())), step(1, 1.0)], "1 steps and evaluations carry no time"),
        (at(0, (50.0, step(1, 1.0).model_copy(update={"seconds": None}))), "nothing says how long step 1 took"),
    ],
)  # fmt: skip
def test_times_that_cannot_be_trusted_give_no_time(events, problem):
    assert problem in partition(events, every=3).problem
    assert not measured_time(events, "events.jsonl", every=3).time.known


def test_lines_of_two_threads_may_stand_in_the_wrong_order_by_less_than_a_second():
    events = at(0, (0.0, started()), (10.0, step(1, 10.0)), (9.5, snapshot(1, 0.5)), (12.0, done()))

    assert sum(seconds(events).values()) == 12.0


PHASES = ["import", "data", "model", "resume", "capture", "compile"]
KINDS: list[st.SearchStrategy[Event]] = [
    st.builds(Phase, name=st.sampled_from(PHASES), seconds=st.integers(0, 9)),
    st.builds(step, st.integers(1, 5), st.integers(0, 9)),
    st.builds(evaluation, st.integers(0, 5), st.integers(0, 9)),
    st.builds(snapshot, st.integers(1, 5), st.integers(0, 9)),
    st.builds(compiled, st.sampled_from("abc"), st.integers(0, 9), warm=st.booleans()),
    st.builds(Resumed, step=st.just(1), bytes_read=st.just(1), seconds=st.integers(0, 9), repeated_steps=st.just(0)),
    st.builds(StopMade, step=st.integers(1, 5), stop=st.sampled_from(["kill", "polite", "signal"])),
    st.builds(LegEnded, reason=st.sampled_from(["polite", "signal", "error"]), step=st.just(1)),
    st.just(done()),
]  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[AnyEvent]:
    """Any events in the order of their times, a process after the other."""
    clock, events = 100, []
    for leg in range(draw(st.integers(1, 4))):
        for event in [started(), *draw(st.lists(st.one_of(KINDS), max_size=12))]:
            clock += draw(st.integers(0, 6))
            events += at(leg, (float(clock), event))
        clock += draw(st.integers(0, 20))
    return events


@given(histories())
@settings(max_examples=200)
def test_the_parts_sum_to_the_wall_time_whatever_happened(events):
    """From the first process (before its imports) to the last event, to the nanosecond."""
    found = partition(events, every=2)
    first = [event for event in events if event.leg == events[0].leg]
    begun = [
        event.time - event.seconds for event in first if isinstance(event, Phase) and event.name == "import"
    ]
    wall = max(event.time for event in events) - min([events[0].time, *begun])

    assert not found.problem
    assert all(count > 0 for count in found.nanoseconds.values())
    assert found.total == round(wall * NANO)


@given(histories())
@settings(max_examples=100)
def test_the_lines_sum_to_the_machine_time_whatever_happened(events):
    found = measured_time(events, "events.jsonl", every=2)
    lines = sum(one.value.value for line in found.lines.values() for one in line.seconds)
    pause = partition(events, every=2).seconds(Activity.RELEASED)

    assert lines == pytest.approx(found.time.value, abs=1e-9)
    assert found.time.value + pause == pytest.approx(partition(events, every=2).total / NANO)


@given(histories())
@settings(max_examples=100)
def test_each_second_goes_to_compilation_where_anything_compiled(events):
    """A plain count, second by second: nothing lies inside the compilation of a program, so all of it counts."""
    covered: set[int] = set()
    before = 0
    for leg in sorted({event.leg for event in events}):
        own = [event for event in events if event.leg == leg]
        begun = [e.time - e.seconds for e in own if isinstance(e, Phase) and e.name == "import"]
        begin = max(before, min([own[0].time, *begun]))
        for event in (one for one in own if one.kind == "compile_done"):
            length = event.load_seconds + (0 if event.warm else event.capture_seconds)
            covered |= set(range(int(max(begin, event.time - length)), int(event.time)))
        before = own[-1].time
    unnested = [
        event for event in events if not (isinstance(event, Phase) and event.name in ("capture", "compile"))
    ]

    found = partition(unnested, every=2)
    others = seconds_of_restart_without_compilation(unnested)

    assert found.seconds(Activity.COMPILATION) + found.seconds(Activity.RESTART) - others == pytest.approx(
        len(covered)
    )


def seconds_of_restart_without_compilation(events: list[AnyEvent]) -> float:
    """Restart by other means, with every compilation given a key of its own, so that none counts as restart."""
    fresh = [
        event.model_copy(update={"key": f"{index}"}) if event.kind == "compile_done" else event
        for index, event in enumerate(events)
    ]
    return partition(fresh, every=2).seconds(Activity.RESTART)
