"""Events are read as they were written; what is none of this version is one line that says what and who wrote it."""

from __future__ import annotations

import itertools
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from twintrack.errors import EventError
from twintrack.events import (
    Defect,
    EventLog,
    Imported,
    LegStarted,
    MemoryPeak,
    RunDone,
    StepDone,
    read_events,
    validate_event,
    written_by,
)
from twintrack.storage import LocalFileSystem


class _Clock:
    def now(self) -> float:
        return 1000.5

    def monotonic(self) -> float:
        return 0.0


def _write(path: Path, *events: object) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_an_import_and_a_step_that_says_little_come_back_as_they_were(tmp_path):
    log = EventLog(LocalFileSystem(), tmp_path / "events.jsonl", _Clock())
    defect = Defect(line=3, step=2, what="hole", text="step 2 is not in the log")
    told = [
        Imported(file="x.csv", sha256="a" * 64, format="metrics", lines=3, defects=[defect]),
        StepDone(step=1, loss=2.5),
        RunDone(step=1, reason="steps"),
    ]
    for event in told:
        log.write(event)
    log.close()

    assert [
        event.model_copy(update={"time": None}) for event in read_events(tmp_path / "events.jsonl")
    ] == told


def test_a_step_with_nothing_but_its_loss_says_none_of_the_rest():
    step = validate_event({"kind": "step_done", "step": 1, "loss": 2.5})

    assert isinstance(step, StepDone)
    assert (step.time, step.tokens, step.seconds, step.averaged_steps, step.sample_ids) == (
        None,
        None,
        None,
        1,
        [],
    )


def test_only_a_field_without_a_place_spoils_nothing():
    kinds = ("hole", "time_backwards", "not_finite", "duplicate", "unreadable", "unknown_field")

    assert [Defect(line=1, step=None, what=kind, text="x").spoils for kind in kinds] == [True] * 5 + [False]


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (
            {"kind": "step_done", "step": 1, "loss": 1.0, "mood": 1, "taste": 2},
            "unknown keys mood, taste (written by",
        ),
        ({"kind": "dream"}, "'dream'"),
        ({"kind": "step_done", "loss": 1.0}, "Field required step_done.step"),
    ],
)
def test_what_is_no_event_names_line_and_writer(tmp_path, event, found):
    start = LegStarted(track="cpu", job_digest="d", environment={"twintrack": "9.8.7"})
    path = _write(tmp_path / "events.jsonl", start.model_dump(mode="json"), event)

    with pytest.raises(EventError) as caught:
        list(read_events(path))
    assert str(caught.value).startswith(f"{path}:2: required an event of this version")
    assert found in str(caught.value)
    assert "written by twintrack 9.8.7, this is" in str(caught.value)


def test_only_the_first_event_of_a_process_says_who_wrote_it():
    start = LegStarted(track="cpu", job_digest="d", environment={"twintrack": "0.1.0"})

    assert (written_by(start), written_by(StepDone(step=1, loss=1.0))) == ("0.1.0", None)


def test_events_of_several_threads_stand_in_the_order_of_their_times(tmp_path):
    """However slowly a thread stamps, no other one's later event comes before its own."""
    now = itertools.count()

    class SlowClock:
        def now(self) -> float:
            stamp = float(next(now))
            for _ in range(200):
                sys._current_frames()  # gives other threads every chance to pass
            return stamp

        def monotonic(self) -> float:
            return 0.0

    log = EventLog(LocalFileSystem(), tmp_path / "events.jsonl", SlowClock())
    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(log.write, MemoryPeak(bytes=n, source="test")) for n in range(100)]:
            each.result()
    log.close()

    times = [event.time for event in read_events(tmp_path / "events.jsonl")]
    assert times == sorted(times)
    assert len(times) == 100
