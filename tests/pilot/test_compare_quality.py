"""Whether the second run is as good as the first: what breaks that, what leaves it open, and what is said beside it."""

from __future__ import annotations

import json
import shutil

import pytest
from compare_cases import FS, STORY, chain, events, tracks
from synthetic import make_run

from twintrack.events import Answer, DataPrepared, Defect, EvaluationDone, Imported, RunDone, StepDone
from twintrack.pilot.compare.compare import compare_tracks_of, comparison_json
from twintrack.pilot.folders import TrackRun


def test_two_tracks_within_the_tolerance_hold_quality_and_say_by_which_figures(tmp_path):
    one = tracks(tmp_path)

    assert one.quality is True
    assert one.test.verdict == "equivalent"
    assert one.losses.largest.value == pytest.approx(0.004, rel=1e-3)
    assert "lies inside ±2 %" in one.quality_reason
    assert (one.first.label, one.second.label) == ("cpu", "trn2")
    assert (one.same_data, one.same_weights, one.differing_parts) == (True, True, ())


def test_nothing_but_the_run_folders_is_read_and_equal_folders_give_equal_comparisons(tmp_path):
    folder = make_run(tmp_path / "run", STORY)
    bare = tmp_path / "elsewhere" / "run"
    for path in [folder / "pilot.json", folder / "job.json", *folder.rglob("events.jsonl")]:
        (bare / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, bare / path.relative_to(folder))
    texts = [
        json.dumps(
            comparison_json(
                compare_tracks_of(TrackRun(root, "cpu", "reference"), TrackRun(root, "trn2", "reference"), FS)
            )
        ).replace(str(root), "")
        for root in (folder, bare)
    ]

    assert texts[0] == texts[1]


def test_a_single_step_beyond_the_tolerance_breaks_quality_though_the_mean_is_equivalent(tmp_path):
    edit = events(StepDone, lambda e: {"loss": e.loss * 1.05}, track="trn2", when=lambda e: e.step == 30)
    one = tracks(tmp_path, edit)

    assert one.test.verdict == "equivalent"
    assert one.quality is False
    assert "at step 30, and 2 % is tolerated" in one.quality_reason


def test_too_few_steps_leave_quality_open(tmp_path):
    one = tracks(tmp_path, steps=12, every=4)

    assert one.losses.within is True
    assert one.quality is None
    assert one.quality_reason == "not shown: 6 steps in the last half are too few, 16 are needed"


def slices_of(mean, worst, other):
    return lambda e: {
        "loss": mean,
        "slices": {"science": worst, "history": other},
        "slice_tokens": {"science": 9},
    }


def test_a_worst_slice_that_fell_while_the_mean_rose_is_said_and_breaks_quality(tmp_path):
    """trn2 is better in the mean and worse by a tenth where it is worst."""
    edit = chain(
        events(EvaluationDone, slices_of(2.50, 3.0, 2.0), track="cpu", when=lambda e: e.step == 40),
        events(EvaluationDone, slices_of(2.48, 3.3, 1.7), track="trn2", when=lambda e: e.step == 40),
    )
    one = tracks(tmp_path, edit)

    assert one.slices.rows[0].name == "science"
    assert one.slices.mean.difference.value < 0
    assert one.quality is False
    assert one.quality_reason == (
        "the worst slice 'science' is 10 % worse on trn2 than on cpu (3 and 3.3), while the mean is 0.8 % better"
    )


def test_a_run_that_trained_its_worst_slice_to_be_worse_while_its_mean_got_better_is_found_by_itself(
    tmp_path,
):
    """Both tracks agree with each other to the bit, and both made a slice worse than it was before the first step."""
    before = events(EvaluationDone, slices_of(4.0, 3.0, 5.0), when=lambda e: e.step == 0)
    after = events(EvaluationDone, slices_of(3.3, 3.4, 2.2), when=lambda e: e.step == 40)
    one = tracks(tmp_path, chain(before, after))

    assert one.quality is False
    assert [finding.breaks for finding in one.slices.findings] == [True, True]
    assert "training made the worst slice 'science' of cpu 13.3 % worse (from 3 to 3.4)" in one.quality_reason
    assert "while the mean got 17.5 % better" in one.quality_reason


def test_a_worst_slice_a_little_worse_while_the_mean_is_better_is_said_within_the_tolerance(tmp_path):
    edit = chain(
        events(EvaluationDone, slices_of(2.50, 3.00, 2.0), track="cpu", when=lambda e: e.step == 40),
        events(EvaluationDone, slices_of(2.48, 3.01, 1.9), track="trn2", when=lambda e: e.step == 40),
    )
    one = tracks(tmp_path, edit)

    assert one.quality is True
    (finding,) = one.slices.findings
    assert "the worst slice 'science' is 0.333 % worse" in finding.text


def test_another_slice_that_is_worse_by_more_than_the_tolerance_breaks_quality_too(tmp_path):
    edit = events(
        EvaluationDone, lambda e: {"slices": e.slices | {"history": e.slices["history"] * 1.03}}, track="trn2"
    )
    one = tracks(tmp_path, edit)

    assert one.quality is False
    assert "slice 'history' is 2.73 % worse on trn2 than on cpu" in one.quality_reason


def test_a_slice_that_only_one_run_evaluated_leaves_quality_open(tmp_path):
    edit = events(EvaluationDone, lambda e: {"slices": e.slices | {"extra": 1.0}}, track="trn2")
    one = tracks(tmp_path, edit)

    assert one.quality is None
    assert "slice 'extra' stands in one of the evaluations only" in one.quality_reason


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (
            chain(
                events(RunDone, lambda e: {"step": 30}, track="trn2"),
                lambda t, r, e: None if t == "trn2" and isinstance(e, StepDone) and e.step > 30 else e,
            ),
            "trn2: it was done at step 30, and the job asks for 40",
        ),
        (
            events(StepDone, lambda e: {"learning_rate": 1e-3}, track="trn2"),
            "trn2: the learning rate is 0.001",
        ),
        (events(StepDone, lambda e: {"gradient_norm": 0.0}, track="trn2"), "trn2: every gradient was zero"),
        (
            events(StepDone, lambda e: {"sample_ids": ["x"]}, track="trn2"),
            "trn2: sample 'x' was seen 2 times",
        ),
        (
            events(EvaluationDone, lambda e: {"loss": 3.0, "slices": {}}),
            "cpu: evaluation loss is the same to the bit after steps 0 and 20",
        ),
    ],
    ids=["fewer steps", "rate", "gradient", "samples", "adapter never applied"],
)
def test_a_run_that_is_not_one_of_the_job_has_no_quality(tmp_path, edit, text):
    one = tracks(tmp_path, edit)

    assert one.quality is False
    assert text in one.quality_reason


def test_an_imported_run_that_does_not_tell_its_data_leaves_quality_open(tmp_path):
    def edit(track, _, event):
        if track == "cpu" and isinstance(event, DataPrepared):
            stray = Defect(line=2, step=None, what="unknown_field", text="grad_scale")
            return Imported(file="log.json", sha256="a" * 64, format="trainer", lines=9, defects=[stray])
        return event

    one = tracks(tmp_path, edit)

    assert one.same_data is None
    assert one.quality is None
    assert one.quality_reason == "not shown: cpu does not tell its data"
    assert any("was read from a log of another program" in remark for remark in one.remarks)


def test_answers_stand_side_by_side(tmp_path):
    one = tracks(tmp_path, events(Answer, lambda e: {"text": "Mars."}, track="trn2"))

    assert [(pair.prompt, pair.second) for pair in one.answers] == [(p, "Mars.") for p in STORY.prompts]
    assert all(pair.first == STORY.answer for pair in one.answers)
