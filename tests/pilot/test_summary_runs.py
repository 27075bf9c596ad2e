"""What one run's events become: steps, processes, stops, checkpoints; unknown where an event is missing."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic import Story, make_run, tear_last_line

from twintrack.errors import EventError, RunFolderError
from twintrack.events import (
    CheckpointFailed,
    CheckpointSnapshot,
    CompileDone,
    LegEnded,
    MemoryPeak,
    Phase,
    StepDone,
)
from twintrack.pilot.summary import read_summary, write_summary
from twintrack.quantity import Provenance, Quantity
from twintrack.storage import LocalFileSystem

FS = LocalFileSystem()


def story(**fields) -> Story:
    """A short one."""
    return Story(
        **({"steps": 12, "every": 4, "stops": (("polite", 3), ("kill", 7)), "tracks": ("cpu",)} | fields)
    )


def drop(kind, track=None, run=None):
    """An edit that leaves out one kind of event."""
    return lambda t, r, event: (
        None if isinstance(event, kind) and track in (None, t) and run in (None, r) else event
    )


def read(tmp_path, **fields):
    return read_summary(make_run(tmp_path / "run", story(**fields)), FS)


def test_a_pilot_in_which_all_went_well_has_no_failures(tmp_path):
    summary = read_summary(make_run(tmp_path / "run"), FS)

    assert summary.failures == ()
    assert summary.passed
    assert summary.to_the_bit is True
    assert [slot.track for slot in summary.slots] == ["cpu", "trn2"]
    assert summary.slots[0].reason == "cuda: no CUDA device"


def test_losses_are_those_of_the_last_leg_that_did_each_step(tmp_path):
    def edit(track, run, event):
        """Process 2 does steps 5 to 7 again, and they come out differently."""
        again = run == "interrupted" and isinstance(event, StepDone) and event.step in (5, 6, 7)
        if again and edit.seen.count(event.step):
            return event.model_copy(update={"loss": event.loss + 1.0})
        if again:
            edit.seen.append(event.step)
        return event

    edit.seen = []
    track = read(tmp_path, edit=edit).tracks[0]

    assert track.interrupted.loss.steps == tuple(range(1, 13))
    apart = [b - a for a, b in zip(track.reference.loss.values, track.interrupted.loss.values, strict=True)]
    assert apart == pytest.approx([0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("field", ["loss", "gradient_norm", "learning_rate", "sample_ids"])
def test_a_repeated_step_with_other_bits_is_flagged(tmp_path, field):
    last: dict[int, bool] = {}

    def edit(track, run, event):
        if (
            run == "interrupted"
            and isinstance(event, StepDone)
            and event.step == 6
            and not last.setdefault(6, False)
        ):
            last[6] = True
            value = ["other"] if field == "sample_ids" else getattr(event, field) * (1 + 2**-50)
            return event.model_copy(update={field: value})
        return event

    summary = read(tmp_path, edit=edit)
    run = summary.tracks[0].interrupted

    assert run.repeats.identical is False
    assert "step 6" in run.repeats.detail
    assert summary.to_the_bit is False
    assert any("repeated step" in failure.what for failure in summary.failures)


def test_zero_and_minus_zero_are_not_the_same_bits(tmp_path):
    def edit(track, run, event):
        if isinstance(event, StepDone) and event.step == 2:
            return event.model_copy(update={"gradient_norm": 0.0 if run == "reference" else -0.0})
        return event

    assert read(tmp_path, edit=edit).to_the_bit is False


def test_processes_tell_how_they_ended_and_what_they_read(tmp_path):
    legs = read(tmp_path).tracks[0].interrupted.legs

    assert [leg.how for leg in legs] == ["polite", "killed", "done"]
    assert [(leg.first_step, leg.last_step) for leg in legs] == [(1, 3), (4, 7), (5, 12)]
    assert [leg.resumed_from for leg in legs] == [None, 3, 4]
    assert [leg.repeated_steps.value for leg in legs] == [None, 0, 3]
    assert legs[2].bytes_read == Quantity.measured(
        5_600_000, "byte", "tracks/cpu/interrupted/events.jsonl: Resumed"
    )


def test_counts_of_faults_are_those_of_the_events(tmp_path):
    run = read(tmp_path).tracks[0].interrupted

    figures = [run.failures, run.restarts, run.bytes_reread, run.repeated_steps, run.steps_done]
    assert [figure.value for figure in figures] == [1, 2, 11_200_000, 3, 12]


def test_a_process_that_ends_without_a_word_is_lost_and_no_failure_if_the_run_went_on(tmp_path):
    """Whoever kills the pilot from outside and resumes it has a whole run."""
    summary = read(tmp_path, edit=drop(LegEnded, run="interrupted"))

    assert [leg.how for leg in summary.tracks[0].interrupted.legs] == ["lost", "killed", "lost"]
    assert summary.failures == ()


def test_a_checkpoint_killed_in_its_write_is_unfinished_and_its_size_unknown(tmp_path):
    run = read(tmp_path, stops=(("kill-in-write", 8),)).tracks[0].interrupted
    states = [(one.step, one.outcome, one.removed) for one in run.checkpoints]

    assert states == [
        (4, "saved", ""),
        (8, "unfinished", "debris: no manifest"),
        (8, "saved", ""),
        (12, "saved", ""),
    ]
    assert not run.checkpoints[1].bytes.known
    assert not run.checkpoints[1].seconds.known
    assert run.checkpoints[1].stall.value == 0.012


def test_a_checkpoint_that_could_not_be_written_is_a_failure(tmp_path):
    def edit(track, run, event):
        if run == "reference" and event.kind == "checkpoint_saved" and event.step == 8:
            return CheckpointFailed(step=8, error="No space left on device")
        return event

    summary = read(tmp_path, edit=edit)

    assert [one.outcome for one in summary.tracks[0].reference.checkpoints] == ["saved", "failed", "saved"]
    assert "No space left on device" in summary.failures[0].what


def test_the_slowdown_is_the_ratio_of_medians_without_the_first_step_of_each_leg(tmp_path):
    times = {1: 99.0, 2: 1.0, 3: 2.0, 4: 3.0, 5: 5.0, 6: 7.0}

    def edit(track, run, event):
        if isinstance(event, StepDone):
            return event.model_copy(update={"seconds": times[event.step], "saving": event.step in (1, 5, 6)})
        return event

    summary = read(tmp_path, steps=6, stops=(), edit=edit)

    assert summary.tracks[0].slowdown.value == 6.0 / 2.0
    assert summary.tracks[0].slowdown.kind is Provenance.DERIVED


@pytest.mark.parametrize("saving", [True, False])
def test_the_slowdown_is_unknown_if_one_group_is_empty(tmp_path, saving):
    def edit(track, run, event):
        return event.model_copy(update={"saving": saving}) if isinstance(event, StepDone) else event

    assert not read(tmp_path, edit=edit).tracks[0].slowdown.known


@pytest.mark.parametrize(
    ("kind", "figure"),
    [
        (MemoryPeak, lambda track: track.reference.peak_memory),
        (CheckpointSnapshot, lambda track: track.stall),
        (Phase, lambda track: track.cold.total),
        (Phase, lambda track: track.cold.part("data")),
        (StepDone, lambda track: track.reference.loss.at(-1)),
        (StepDone, lambda track: track.reference.tokens_per_second),
    ],
)
def test_a_missing_event_makes_the_figure_unknown_never_zero(tmp_path, kind, figure):
    found = figure(read(tmp_path, edit=drop(kind, run="reference" if kind is StepDone else None)).tracks[0])

    assert found.value is None
    assert found.kind is Provenance.UNKNOWN
    assert found.source


def test_half_a_last_line_is_no_event(tmp_path):
    folder = make_run(tmp_path / "run", story())
    whole = read_summary(folder, FS)
    tear_last_line(folder / "tracks/cpu/reference/events.jsonl")

    assert read_summary(folder, FS) == whole


def test_a_whole_line_that_is_no_event_is_an_error_that_names_it(tmp_path):
    folder = make_run(tmp_path / "run", story())
    path = folder / "tracks/cpu/reference/events.jsonl"
    path.write_bytes(b'{"kind": "nonsense"}\n' + path.read_bytes())

    with pytest.raises(EventError, match=r"events\.jsonl:1"):
        read_summary(folder, FS)


def test_the_same_events_give_the_same_summary_to_the_byte(tmp_path):
    folder = make_run(tmp_path / "run", story())
    summary = write_summary(folder, FS)
    first = (folder / "summary.json").read_bytes()
    write_summary(folder, FS)

    assert (folder / "summary.json").read_bytes() == first
    written = json.loads(first)
    assert written["format"] == 1
    assert written["passed"] is True
    stall = written["tracks"][0]["stall"]
    assert (stall["value"], stall["kind"]) == (summary.tracks[0].stall.value, "derived")


def test_a_folder_that_is_no_run_or_of_another_version_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match=r"pilot\.json"):
        read_summary(tmp_path, FS)
    folder = make_run(tmp_path / "run", story())
    for text in ("{", '{"format": 2, "job_digest": "x", "version": "1", "slots": []}', "[]"):
        (folder / "pilot.json").write_text(text)
        with pytest.raises(RunFolderError, match=r"a pilot\.json of this version"):
            read_summary(folder, FS)


def test_a_track_name_cannot_lead_out_of_the_run_folder(tmp_path):
    folder = make_run(tmp_path / "run", story())
    text = (folder / "pilot.json").read_text().replace('"track": "cpu"', '"track": "../../etc"')
    (folder / "pilot.json").write_text(text)

    with pytest.raises(RunFolderError):
        read_summary(folder, FS)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whenever_it_is_stopped_a_run_of_equal_bits_is_found_equal(tmp_path_factory, data):
    steps = data.draw(st.integers(3, 9), label="steps")
    every = data.draw(st.integers(1, 4), label="every")
    at = data.draw(st.sets(st.integers(1, steps - 1), min_size=1, max_size=3), label="stops at")
    stops = tuple(
        (data.draw(st.sampled_from(["polite", "kill"] + ["kill-in-write"] * (step % every == 0))), step)
        for step in sorted(at)
    )
    folder = tmp_path_factory.mktemp("story")
    summary = read_summary(make_run(folder, story(steps=steps, every=every, stops=stops)), FS)

    assert summary.failures == ()
    assert summary.to_the_bit is True
    assert len(summary.tracks[0].interrupted.legs) == len(stops) + 1


def test_compilations_are_grouped_by_reason_and_recompiles_counted_apart(tmp_path):
    def edit(track, run, event):
        if isinstance(event, CompileDone) and event.program == "update" and run == "reference":
            return event.model_copy(update={"during": "later", "reason": "the shape of a row changed"})
        if isinstance(event, CompileDone) and event.program == "evaluate":
            return event.model_copy(update={"during": "first_use"})
        return event

    track = read(tmp_path, tracks=("trn2",), edit=edit).tracks[0]

    found = [
        (one.during, one.warm, one.reason, one.programs, one.count.value) for one in track.compile_reasons
    ]
    assert found == [
        ("warmup", False, "the cache was empty", ("gradients",), 1),
        ("warmup", True, "found in the cache", ("gradients", "update"), 6),
        ("first_use", False, "the cache was empty", ("evaluate",), 1),
        ("first_use", True, "found in the cache", ("evaluate",), 3),
        ("later", False, "the shape of a row changed", ("update",), 1),
    ]
    assert track.recompiles.value == 1
    assert track.compile_reasons[0].seconds.value == 11.5 + 0.375
    assert track.compile_reasons[1].seconds.value == 6 * 0.375


def test_a_process_begins_where_its_import_phase_began(tmp_path):
    """Its first event comes only after imports; the time before belongs to it and not to the gap."""

    def edit(track, run, event):
        return (
            event.model_copy(update={"seconds": 10.0})
            if isinstance(event, Phase) and event.name == "import"
            else event
        )

    legs = read(tmp_path, edit=edit).tracks[0].interrupted.legs

    assert legs[0].started.value == 0.0
    gap = legs[1].started.value - legs[0].ended.value
    assert gap == pytest.approx(3.0 - (10.0 - 2.8), abs=1e-6)
