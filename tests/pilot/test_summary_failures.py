"""Silence is not success: each thing that had to hold is taken away in turn, and the summary must say so."""

from __future__ import annotations

import shutil

import pytest
from synthetic import Story, make_run

from twintrack.events import (
    Answer,
    CompileDone,
    Coverage,
    DataPrepared,
    EvaluationDone,
    LegEnded,
    LegStarted,
    ModelLoaded,
    RunDone,
    StepDone,
    StopMade,
)
from twintrack.pilot.summary import read_summary
from twintrack.storage import LocalFileSystem

FS = LocalFileSystem()
SHORT = {"steps": 8, "every": 4, "stops": (("polite", 3), ("kill", 6))}


def read(tmp_path, **fields):
    return read_summary(make_run(tmp_path / "run", Story(**(SHORT | fields))), FS)


def only(kind, change, *, run=None, track=None, when=lambda event: True):
    """An edit of the events of one kind; ``None`` leaves them out."""

    def edit(where, which, event):
        hit = isinstance(event, kind) and run in (None, which) and track in (None, where) and when(event)
        if not hit:
            return event
        return None if change is None else event.model_copy(update=change(event))

    return edit


def last(event):
    return event.step == SHORT["steps"]


CASES = {
    "not done": (only(RunDone, None, run="reference"), "never said that it was done"),
    "too few": (
        only(RunDone, lambda e: {"step": 7}, run="reference"),
        "done at step 7, and the job asks for 8",
    ),
    "a hole": (only(StepDone, None, when=lambda e: e.step == 5), "the first is step 5"),
    "too many": (only(StepDone, lambda e: {"step": 9}, when=last), "step 9 is on record"),
    "error": (only(LegEnded, lambda e: {"reason": "error", "message": "disk full"}, when=last), "disk full"),
    "stop by loss": (
        only(RunDone, lambda e: {"reason": "evaluation_loss"}),
        "no such evaluation is on record",
    ),
    "no stop": (only(StopMade, None), "the stop 'polite' at step 3 was not made"),
    "other stop": (only(StopMade, lambda e: {"step": e.step + 1}), "the stop 'kill' at step 6 was not made"),
    "no gradient": (only(StepDone, lambda e: {"gradient_norm": 0.0}), "every gradient was zero"),
    "no change": (
        only(EvaluationDone, lambda e: {"loss": 3.0, "slices": {"all": 3.0}}),
        "the same to the bit after steps 0 and 8: the adapter was trained and is not applied",
    ),
    "untrainable": (only(ModelLoaded, lambda e: {"trainable_parameters": 0}), "no parameter was trainable"),
    "unadapted": (only(ModelLoaded, lambda e: {"adapted_modules": 0}), "no module was adapted"),
    "no data": (only(DataPrepared, None), "no event tells of its data"),
    "no model": (only(ModelLoaded, None), "no event tells of its model"),
    "other job": (only(LegStarted, lambda e: {"job_digest": "f" * 64}), "a process worked on another job"),
    "no first evaluation": (only(EvaluationDone, None, when=lambda e: e.step == 0), "no evaluation before"),
    "no last evaluation": (only(EvaluationDone, None, when=last), "no evaluation after the last step"),
    "no answers": (only(Answer, None), "2 of 2 prompts have no answer"),
    "host": (
        only(Coverage, lambda e: {"flops_under_rules": e.flops - 1}),
        "part of the work ran outside the track's number rules",
    ),
    "data differ": (only(DataPrepared, lambda e: {"digest": "0" * 64}, track="cpu"), "different data"),
    "weights differ": (
        only(ModelLoaded, lambda e: {"weights_digest": "0"}, track="cpu"),
        "different weights",
    ),
    "samples differ": (only(StepDone, lambda e: {"sample_ids": ["x"]}, track="cpu"), "different samples"),
    "tolerance": (
        only(StepDone, lambda e: {"loss": e.loss * 1.05}, track="cpu"),
        "and the job tolerates 0.02",
    ),
    "not to the bit": (
        only(
            StepDone, lambda e: {"loss": e.loss * (1 + 2**-50)}, run="interrupted", when=lambda e: e.step == 7
        ),
        "not equal to the bit: losses: first difference at step 7",
    ),
    "other state": (
        only(RunDone, lambda e: {"state_digest": "0" * 64}, run="interrupted"),
        "not equal to the bit: final states",
    ),
    "other evaluation": (
        only(EvaluationDone, lambda e: {"slices": e.slices | {"food": 1.0}}, run="interrupted", when=last),
        "not equal to the bit: evaluations: first difference at slice 'food' of step 8",
    ),
    "other answer": (
        only(Answer, lambda e: {"text": "no"}, run="interrupted"),
        "not equal to the bit: answers",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_did_not_hold_is_listed(tmp_path, name):
    edit, text = CASES[name]
    summary = read(tmp_path, edit=edit)

    assert not summary.passed
    assert text in "\n".join(failure.what for failure in summary.failures)


@pytest.mark.parametrize("run", ["reference", "interrupted"])
def test_a_run_without_events_is_a_failure_and_its_resume_unknown(tmp_path, run):
    folder = make_run(tmp_path / "run", Story(**SHORT))
    shutil.rmtree(folder / "tracks" / "trn2" / run)
    summary = read_summary(folder, FS)

    assert ("trn2 · " + run, "there are no events of this run") in [
        (f.where, f.what) for f in summary.failures
    ]
    assert summary.tracks[1].resume.to_the_bit is None
    assert summary.to_the_bit is None


def test_an_interrupted_run_that_was_never_interrupted_proves_nothing(tmp_path):
    folder = make_run(tmp_path / "run", Story(**SHORT))
    track = folder / "tracks" / "cpu"
    shutil.copy(track / "reference" / "events.jsonl", track / "interrupted" / "events.jsonl")
    summary = read_summary(folder, FS)

    assert summary.tracks[0].resume.to_the_bit is None
    assert any("never interrupted" in failure.what for failure in summary.failures)


def test_to_the_bit_needs_every_step_and_the_final_state(tmp_path):
    edit = only(StepDone, None, run="interrupted", when=lambda e: e.step == 2)
    resume = read(tmp_path, edit=edit).tracks[0].resume

    assert resume.to_the_bit is None
    assert "step 2 only in the reference" in resume.reason


def test_a_job_without_stops_has_no_interrupted_run_and_does_not_fail_for_it(tmp_path):
    summary = read(tmp_path, stops=())

    assert summary.failures == ()
    assert summary.to_the_bit is None


@pytest.mark.parametrize(("limit", "passed"), [(100.0, True), (0.5, False)])
def test_a_stop_by_evaluation_loss_needs_the_evaluation_that_fell_below(tmp_path, limit, passed):
    edit = only(RunDone, lambda e: {"reason": "evaluation_loss"})

    assert read(tmp_path, edit=edit, loss_below=limit).passed is passed


def test_an_altered_job_is_noticed(tmp_path):
    folder = make_run(tmp_path / "run", Story(**SHORT))
    path = folder / "job.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))

    assert "job.json is not the job" in read_summary(folder, FS).failures[0].what


def test_the_largest_difference_of_two_tracks_and_its_step_are_those_of_the_definition(tmp_path):
    summary = read(tmp_path)
    a, b = (dict(zip(t.reference.loss.steps, t.reference.loss.values, strict=True)) for t in summary.tracks)
    expected = {step: abs(a[step] - b[step]) / max(abs(a[step]), abs(b[step])) for step in a}
    one = summary.comparisons[0]

    assert one.largest.value == max(expected.values())
    assert one.at_step == max(expected, key=expected.get)
    assert one.tolerance.value == 0.02
    assert one.within is True


def test_curves_that_share_only_some_steps_are_not_called_within_tolerance(tmp_path):
    summary = read(tmp_path, edit=only(StepDone, None, track="cpu", when=lambda e: e.step > 6))

    assert summary.comparisons[0].within is None


def test_work_outside_the_rules_is_no_failure_where_the_job_allows_it(tmp_path):
    edit = only(Coverage, lambda e: {"flops_under_rules": e.flops - 1})

    assert read(tmp_path, edit=edit, allow_host=True).failures == ()


def test_a_warm_second_run_passes_like_the_first(tmp_path):
    assert read(tmp_path, warm=True).failures == ()
    assert read(tmp_path / "2", edit=only(CompileDone, None)).failures == ()
