"""Runs that may not be compared are refused in one line, and what differs is named."""

from __future__ import annotations

import pytest
from compare_cases import FS, STORY, chain, changed_job, events, folders, story
from synthetic import make_run

from twintrack.errors import CompareError
from twintrack.events import DataPrepared, ModelLoaded, StepDone
from twintrack.pilot.compare.compare import compare_tracks_of
from twintrack.pilot.folders import TrackRun


def test_a_run_is_not_compared_with_itself(tmp_path):
    folder = make_run(tmp_path / "run", STORY)
    with pytest.raises(CompareError, match=r"required two runs, found .*:cpu/reference twice"):
        compare_tracks_of(TrackRun(folder, "cpu", "reference"), TrackRun(folder, "cpu", "reference"), FS)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (
            {"optimizer__learning_rate": 3e-4},
            "part training of the job differ: optimizer.learning_rate 0.0002 and 0.0003",
        ),
        ({"batch__micro": 2}, "part training of the job differ: batch.micro 1 and 2"),
        ({"lora__rank": 4}, "part adapters of the job differ: lora.rank 8 and 4"),
        ({"lora": None}, "lora (not set) and null"),
        ({"seed": 7, "model": {"source": "other"}}, "parts model, training of the job differ: model.source"),
        ({"stop__steps": 41}, "part training of the job differ: stop.steps 40 and 41"),
        ({"data__sequence_length": 128}, "part data of the job differ: data.sequence_length 64 and 128"),
        ({"parallel__data": 2}, "1 and 2 (parallel.data 1 and 2)"),
    ],
)
def test_runs_of_another_job_are_refused_with_part_field_and_both_values(tmp_path, changes, found):
    runs = [make_run(tmp_path / name, STORY) for name in "ab"]
    changed_job(runs[1], **changes)
    with pytest.raises(CompareError) as error:
        compare_tracks_of(*(TrackRun(run, "cpu", "reference") for run in runs), FS)

    assert found in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_what_training_does_not_depend_on_may_differ_and_is_said(tmp_path):
    runs = [make_run(tmp_path / name, STORY) for name in "ab"]
    changed_job(
        runs[1], name="other", tolerances={"loss": 0.01}, parallel={"data": 1, "tensor": 8, "pipeline": 1}
    )
    one = compare_tracks_of(*(TrackRun(run, "cpu", "reference") for run in runs), FS)

    assert one.differing_parts == ("name", "parallel", "tolerances")
    assert one.tolerance.value == 0.01
    assert any("name, parallel, tolerances" in remark for remark in one.remarks)


OTHER = {"digest": "f" * 64}


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (
            events(
                StepDone,
                lambda e: {"sample_ids": ["train:999" if i == "train:17" else i for i in e.sample_ids]},
            ),
            "sample 'train:17' only in a:cpu and sample 'train:999' only in b:cpu",
        ),
        (
            events(StepDone, lambda e: {"tokens": e.tokens - 3}, when=lambda e: "train:17" in e.sample_ids),
            "samples 'train:113', 'train:17', 'train:209' and 1 more (tokens differ in step ",
        ),
        (
            events(StepDone, lambda e: {"loss": e.loss * 1.001}, when=lambda e: e.step >= 9),
            "(step 9 is the first whose loss differs)",
        ),
        (events(DataPrepared, lambda e: {"train_samples": 359}), "training samples 360 and 359"),
        (events(StepDone, lambda e: {}), "digests dddddddddddd… and ffffffffffff…, with equal counts"),
    ],
    ids=["ids", "tokens", "loss", "counts", "digest"],
)
def test_data_that_differ_in_one_sample_are_refused_and_the_sample_is_named(tmp_path, edit, found):
    both = chain(events(DataPrepared, lambda e: OTHER), edit)
    with pytest.raises(CompareError) as error:
        folders(tmp_path, second=story(both))

    assert "the same data in the same split and order" in str(error.value)
    assert found in str(error.value)


def test_of_the_samples_in_steps_whose_tokens_differ_the_one_that_all_of_them_saw_is_named(tmp_path):
    ids = {5: ["train:1", "train:2"], 9: ["train:2", "train:3"]}
    seen = events(StepDone, lambda e: {"sample_ids": ids[e.step]}, when=lambda e: e.step in ids)
    fewer = events(StepDone, lambda e: {"loss_tokens": e.loss_tokens - 1}, when=lambda e: e.step in ids)
    other = events(DataPrepared, lambda e: OTHER)

    with pytest.raises(CompareError, match=r"found sample 'train:2' \(tokens differ in step 5\)"):
        folders(tmp_path, first=story(seen), second=story(chain(seen, fewer, other)))


def test_other_base_weights_are_refused(tmp_path):
    edit = events(ModelLoaded, lambda e: {"weights_digest": "0" * 64})
    with pytest.raises(CompareError, match=r"the same base weights, found .*eeeeeeeeeeee… and 000000000000…"):
        folders(tmp_path, second=story(edit))


def test_another_rhythm_of_evaluations_is_refused_only_where_one_may_end_the_training(tmp_path):
    runs = [make_run(tmp_path / name, story(STORY.edit, loss_below=0.5)) for name in "ab"]
    changed_job(runs[1], evaluation__every_steps=10)
    with pytest.raises(CompareError, match=r"evaluation\.every_steps 20 and 10"):
        compare_tracks_of(*(TrackRun(run, "cpu", "reference") for run in runs), FS)
