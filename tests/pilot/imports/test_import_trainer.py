"""``trainer_state.json`` of a real ``transformers.Trainer`` run, which the test makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from imported import FS, bring, defects_of, events_of, steps_of
from transformers import Trainer, TrainingArguments

from tiny_llama import tiny_model
from twintrack.errors import EventError
from twintrack.events import EvaluationDone, RunDone
from twintrack.pilot.summary import read_summary

STEPS = 6


def _train(folder: Path, **arguments: object) -> dict:
    generator = torch.Generator().manual_seed(0)
    rows = [{"input_ids": ids, "labels": ids} for ids in torch.randint(8, 500, (12, 16), generator=generator)]
    settings = {
        "output_dir": str(folder / "out"),
        "max_steps": STEPS,
        "per_device_train_batch_size": 2,
        "learning_rate": 1e-2,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 1,
        **arguments,
    }
    trainer = Trainer(
        model=tiny_model(layers=1).train(),
        args=TrainingArguments(**settings),
        train_dataset=rows,
        eval_dataset=rows[:4],
    )
    trainer.train()
    trainer.save_state()
    return json.loads((folder / "out" / "trainer_state.json").read_text())


@pytest.fixture(scope="module")
def each_step(tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("each")
    return folder, _train(folder, logging_steps=1, eval_strategy="steps", eval_steps=3)


def test_every_figure_is_the_one_that_the_trainer_logged(tmp_path, each_step):
    folder, state = each_step
    made = bring(tmp_path, folder / "out" / "trainer_state.json", steps=STEPS)

    logged = [entry for entry in state["log_history"] if "loss" in entry]
    assert [(one.step, one.loss, one.learning_rate, one.gradient_norm) for one in steps_of(made)] == [
        (entry["step"], entry["loss"], entry["learning_rate"], entry["grad_norm"]) for entry in logged
    ]
    assert len(logged) == STEPS
    evaluations = [entry for entry in state["log_history"] if "eval_loss" in entry]
    assert [
        (one.step, one.loss, one.seconds) for one in events_of(made) if isinstance(one, EvaluationDone)
    ] == [(entry["step"], entry["eval_loss"], entry["eval_runtime"]) for entry in evaluations]
    assert made.imported.seconds == state["log_history"][-1]["train_runtime"]
    assert defects_of(made) == []
    assert [event.step for event in events_of(made) if isinstance(event, RunDone)] == [STEPS]


def test_means_over_several_steps_are_compared_with_the_means_of_the_same_steps(tmp_path, each_step):
    """The same training logged at each step and at every second one: the same losses, as means."""
    folder, _ = each_step
    (tmp_path / "two").mkdir()
    state = _train(tmp_path / "two", logging_steps=2)
    bring(tmp_path, folder / "out" / "trainer_state.json", steps=STEPS)
    made = bring(
        tmp_path, tmp_path / "two" / "out" / "trainer_state.json", steps=STEPS, track="neuron", job=None
    )

    assert [(one.step, one.averaged_steps) for one in steps_of(made)] == [(2, 2), (4, 2), (6, 2)]
    assert defects_of(made) == []
    summary = read_summary(tmp_path / "run", FS)
    (comparison,) = summary.comparisons
    assert comparison.difference.steps == (2, 4, 6)
    assert comparison.within is True
    assert comparison.largest.require() < 1e-6
    run = summary.tracks[1].reference
    assert run is not None
    assert run.loss.covered == set(range(1, STEPS + 1))
    assert run.loss.at(0).conditions == "mean of 2 steps up to step 2"
    assert [entry["loss"] for entry in state["log_history"] if "loss" in entry] == list(run.loss.values)


def test_a_state_with_entries_cut_out_has_a_hole_and_keeps_the_trainers_interval(tmp_path):
    history = [{"step": step, "loss": 3.0, "epoch": 0.1} for step in (2, 4, 8)]
    made = bring(
        tmp_path,
        json.dumps({"log_history": history, "logging_steps": 2, "global_step": 8}, indent=2),
        steps=8,
    )

    assert defects_of(made) == [("hole", 3, 5)]
    assert [one.averaged_steps for one in steps_of(made)] == [2, 2, 2]


def test_the_last_steps_that_a_trainer_does_not_log_are_a_hole_and_the_run_is_done(tmp_path):
    history = [{"step": 4, "loss": 3.0}, {"step": 6, "train_loss": 2.9, "train_runtime": 12.5}]
    made = bring(tmp_path, json.dumps({"log_history": history, "logging_steps": 4}), steps=6)

    assert defects_of(made) == [("hole", 1, 5)]
    assert [event.step for event in events_of(made) if isinstance(event, RunDone)] == [6]


def test_a_nan_that_the_trainer_writes_bare_is_told(tmp_path):
    text = '{"log_history": [{"step": 1, "loss": 2.0}, {"step": 2, "loss": NaN, "grad_norm": Infinity}]}'

    assert {one[:3] for one in defects_of(bring(tmp_path, text, steps=2))} == {("not_finite", 2, 2)}


@pytest.mark.parametrize(
    "text", ['{"log_history": 3}', '{"log_history": []}', '{"log_history": [', '{"log_history"']
)
def test_what_is_no_state_is_one_line(tmp_path, text):
    with pytest.raises(EventError) as caught:
        bring(tmp_path, text, format="trainer")
    assert "\n" not in str(caught.value)
