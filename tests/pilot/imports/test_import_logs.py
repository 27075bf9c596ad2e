"""What each kind of log says becomes events; what it does not say stays unknown; what is wrong with it is told."""

from __future__ import annotations

import json
import math

import pytest
from imported import bring, csv_log, defects_of, events_of, json_lines, steps_of

from twintrack.errors import EventError, TrackError
from twintrack.events import EvaluationDone, Imported, LegStarted, MemoryPeak, RunDone, StepDone
from twintrack.pilot.imports.text import LARGEST_BYTES, read_log
from twintrack.pilot.summary import read_summary
from twintrack.storage import LocalFileSystem

WHOLE = [(step, 3 - step / 10, 2e-4) for step in range(1, 7)]


def _without(*steps: int) -> list[tuple[int, float, float]]:
    return [row for row in WHOLE if row[0] not in steps]


def test_a_whole_table_has_no_defect_and_its_run_is_done(tmp_path):
    made = bring(tmp_path, csv_log(WHOLE))

    assert defects_of(made) == []
    assert [(one.step, one.loss, one.learning_rate) for one in steps_of(made)] == WHOLE
    assert [event.step for event in events_of(made) if isinstance(event, RunDone)] == [6]


def test_what_the_log_does_not_say_is_none_and_no_run_is_done_before_its_last_step(tmp_path):
    made = bring(tmp_path, csv_log(WHOLE[:5]))

    step = steps_of(made)[0]
    assert (step.time, step.seconds, step.tokens, step.loss_tokens, step.gradient_norm) == (None,) * 5
    assert step.sample_ids == []
    kinds = {type(event) for event in events_of(made)}
    assert kinds == {Imported, LegStarted, StepDone}


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ((3,), [("hole", 4, 3)]),
        ((2, 3), [("hole", 3, 2)]),
        ((1,), [("hole", 2, 1)]),
        ((2, 5), [("hole", 3, 2), ("hole", 5, 5)]),
    ],
)
def test_a_hole_is_told_with_its_first_step_and_the_line_behind_it(tmp_path, gone, told):
    assert defects_of(bring(tmp_path, csv_log(_without(*gone)))) == told


def test_a_log_with_every_second_step_is_one_defect_and_no_mean(tmp_path):
    made = bring(tmp_path, csv_log(_without(1, 3, 5)))

    assert defects_of(made) == [("hole", 2, 1)]
    assert {step.averaged_steps for step in steps_of(made)} == {1}


@pytest.mark.parametrize("loss", ["nan", "NaN", "inf", "-Infinity"])
def test_a_loss_that_is_no_number_is_a_defect_and_no_event(tmp_path, loss):
    rows = [(s, loss if s == 4 else value, lr) for s, value, lr in WHOLE]

    made = bring(tmp_path, csv_log(rows))

    assert defects_of(made) == [("not_finite", 5, 4)]
    assert [one.step for one in steps_of(made)] == [1, 2, 3, 5, 6]


def test_time_going_backwards_is_told_and_no_event_keeps_a_time(tmp_path):
    times = [100.0, 110.0, 105.0, 120.0, 130.0, 140.0]
    rows = [(*row, time) for row, time in zip(WHOLE, times, strict=True)]

    made = bring(tmp_path, csv_log(rows, "step,loss,lr,time"))

    assert defects_of(made) == [("time_backwards", 4, 3)]
    assert {event.time for event in events_of(made)} == {None}


def test_times_are_kept_and_the_run_is_as_long_as_they_say(tmp_path):
    rows = [(*row, f"2026-10-01T10:00:{row[0]:02d}Z") for row in WHOLE]
    made = bring(tmp_path, csv_log(rows, "step,loss,lr,timestamp"))

    run = read_summary(made.run.root, LocalFileSystem()).tracks[0].reference

    assert run is not None
    assert run.legs[0].ended.value == pytest.approx(5.0)
    assert run.legs[0].ended.source.endswith("last event of leg 0")


@pytest.mark.parametrize(
    ("order", "told"),
    [((1, 2, 3, 3, 4, 5, 6), ("duplicate", 5, 3)), ((1, 2, 4, 3, 5, 6), ("time_backwards", 5, 3))],
)
def test_a_step_again_or_out_of_order_is_told(tmp_path, order, told):
    assert defects_of(bring(tmp_path, csv_log([WHOLE[step - 1] for step in order]))) == [told]


def test_steps_again_are_another_process_of_an_interrupted_run(tmp_path):
    made = bring(tmp_path, csv_log([WHOLE[s - 1] for s in (1, 2, 3, 4, 3, 4, 5, 6)]), kind="interrupted")

    assert defects_of(made) == []
    assert [(one.leg, one.step) for one in steps_of(made)][3:5] == [(0, 4), (1, 3)]
    assert [event.leg for event in events_of(made) if isinstance(event, LegStarted)] == [0, 1]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("4,abc,0.1", "unreadable"),
        ("4,1e300,0.1", "unreadable"),
        ("x,2.6,0.1", "unreadable"),
        ("4,2.6", "unreadable"),
        ("4,2.6,-1", "unreadable"),
        ("4,2.6,nan", "not_finite"),
    ],
)
def test_a_line_that_cannot_be_a_step_is_told_with_its_number(tmp_path, line, what):
    text = csv_log(WHOLE).splitlines()
    text[4] = line

    assert (what, 5) in [(kind, at) for kind, at, _ in defects_of(bring(tmp_path, "\n".join(text)))]


def test_bytes_that_are_not_utf8_spoil_their_line_only(tmp_path):
    lines = csv_log(WHOLE).encode().splitlines()
    lines[3] = b"3,2.7\xff,0.1"

    made = bring(tmp_path, b"\r\n".join(lines))

    assert ("unreadable", 4, None) in defects_of(made)
    assert [one.step for one in steps_of(made)] == [1, 2, 4, 5, 6]


def test_an_unknown_column_is_told_once_and_spoils_nothing(tmp_path):
    made = bring(tmp_path, csv_log([(*row, 7) for row in WHOLE], "step,loss,lr,moon phase"))

    assert defects_of(made) == [("unknown_field", 2, None)]
    assert not any(one.spoils for one in made.imported.defects)


def test_json_lines_with_columns_named_by_the_user(tmp_path):
    rows = [
        {"n": s, "metrics/ce": v, "loss": 99.0, "sample_ids": [f"a-{s}"], "seconds": 0.5, "tokens": 100}
        for s, v, _ in WHOLE
    ]

    made = bring(tmp_path, json_lines(rows), columns={"step": "n", "loss": "metrics/ce"})

    assert [one.loss for one in steps_of(made)] == [v for _, v, _ in WHOLE]
    assert steps_of(made)[1].sample_ids == ["a-2"]
    run = read_summary(made.run.root, LocalFileSystem()).tracks[0].reference
    assert run is not None
    assert run.tokens_per_second.value == 200.0
    assert "imported from the.log, sha256" in run.tokens_per_second.source


def test_a_column_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(EventError, match="a column train/los"):
        bring(tmp_path, csv_log(WHOLE, "step,train/loss,lr"), columns={"loss": "train/los"})


def test_a_log_that_counts_from_zero_says_so(tmp_path):
    text = csv_log([(s - 1, v, lr) for s, v, lr in WHOLE])

    with pytest.raises(EventError, match="--first-step 0"):
        bring(tmp_path, text)
    assert [one.step for one in steps_of(bring(tmp_path, text, first_step=0))] == [1, 2, 3, 4, 5, 6]


def test_evaluations_in_a_table_become_evaluations(tmp_path):
    text = "step,loss,val_loss\n0,,3.5\n1,3.0,\n2,2.9,2.8\n"

    made = bring(tmp_path, text, steps=2)

    found = [(one.step, one.loss, one.seconds) for one in events_of(made) if isinstance(one, EvaluationDone)]
    assert found == [(0, 3.5, None), (2, 2.8, None)]


def test_torchtune_lines_with_tensors_and_peak_memory(tmp_path):
    lines = [
        f"Step {s} | loss:{v} lr:{lr} tokens_per_second_per_gpu:812.5 grad_norm:tensor({s}.5, device='cuda:0') "
        f"peak_memory_reserved:{s}.0 "
        for s, v, lr in WHOLE
    ]

    made = bring(tmp_path, "\n".join(lines))

    assert made.imported.format == "torchtune"
    assert [(one.step, one.loss, one.learning_rate) for one in steps_of(made)] == WHOLE
    assert [one.gradient_norm for one in steps_of(made)] == [s + 0.5 for s, _, _ in WHOLE]
    assert [one.bytes for one in events_of(made) if isinstance(one, MemoryPeak)] == [6 << 30]


def test_neuronx_lines_between_other_output(tmp_path):
    lines = [
        f"[rank0] LOG Tue Oct 10 12:00:{2 * s:02d} 2023 - (0, {s}) step_loss : {v:.4f} learning_rate : 2.00e-04 "
        "throughput : 5.42 seq/s grad-norm : 1.25"
        for s, v, _ in WHOLE
    ]

    made = bring(
        tmp_path,
        "\n".join(["compiling", *lines, "LOG x - (0, 7) step_loss broken"]),
        instance="trn2.48xlarge",
    )

    assert made.imported.format == "neuronx"
    assert [one.loss for one in steps_of(made)] == [round(v, 4) for _, v, _ in WHOLE]
    assert steps_of(made)[1].time - steps_of(made)[0].time == 2.0
    assert defects_of(made) == [("unreadable", 8, None)]
    start = next(event for event in events_of(made) if isinstance(event, LegStarted))
    assert start.environment["instance"] == "trn2.48xlarge"


def test_megatron_lines_are_means_over_their_interval(tmp_path):
    lines = [
        f" [2025-06-01 12:00:{s:02d}.000000] iteration {s:8d}/       6 | consumed samples: {s * 16} | elapsed time per "
        f"iteration (ms): 1500.0 | learning rate: 2.000000E-04 | lm loss: {v:.6E} | grad norm: 2.345 | "
        "number of nan iterations:   0 |"
        for s, v, _ in WHOLE
        if s % 2 == 0
    ]

    made = bring(
        tmp_path,
        "\n".join([*lines, " validation loss at iteration 6 | lm loss value: 3.1E+00 | lm loss PPL: 22 |"]),
    )

    assert made.imported.format == "megatron"
    assert [(one.step, one.averaged_steps, one.seconds) for one in steps_of(made)] == [
        (2, 2, 1.5),
        (4, 2, 1.5),
        (6, 2, 1.5),
    ]
    assert defects_of(made) == []
    assert [one.loss for one in events_of(made) if isinstance(one, EvaluationDone)] == [3.1]


def test_a_nan_that_megatron_only_counts_is_told(tmp_path):
    head = "iteration 1/ 2 | lm loss: 1.0E+00 | number of nan iterations:   0 |\n"
    lost = "iteration 2/ 2 | learning rate: 2.0E-04 | number of nan iterations:   1 |\n"

    assert defects_of(bring(tmp_path, head + lost, steps=2)) == [("not_finite", 2, 2)]


def _mllog(key: str, value: object, at: int, **metadata: object) -> str:
    entry = {
        "namespace": "",
        "time_ms": at,
        "event_type": "X",
        "key": key,
        "value": value,
        "metadata": metadata,
    }
    return f"0: :::MLLOG {json.dumps(entry)}"


def test_mlperf_counts_samples_and_its_run_is_timed(tmp_path):
    lines = [
        _mllog("submission_benchmark", "llama2_70b_lora", 0),
        _mllog("global_batch_size", 8, 0),
        _mllog("run_start", None, 1_000_000),
        *(_mllog("train_loss", 2.0 - s / 10, 1_000_000 + 1000 * s, samples_count=8 * s) for s in range(1, 7)),
        _mllog("eval_accuracy", 0.93, 1_007_000, samples_count=48),
        _mllog("run_stop", None, 1_008_500, status="success", samples_count=48),
    ]

    made = bring(tmp_path, "\n".join(["starting", *lines]))

    assert [(one.step, one.loss) for one in steps_of(made)] == [(s, 2.0 - s / 10) for s in range(1, 7)]
    assert (made.imported.format, made.imported.seconds) == ("mlperf", 8.5)
    assert [(one.step, one.loss) for one in events_of(made) if isinstance(one, EvaluationDone)] == [(6, 0.93)]
    assert any(isinstance(event, RunDone) for event in events_of(made))


def test_an_mlperf_step_that_no_batch_size_gives_is_not_guessed(tmp_path):
    lines = [_mllog("train_loss", 2.0, 1000, samples_count=8), _mllog("train_loss", 2.0, 1000, step=3)]

    with pytest.raises(EventError, match="no whole step"):
        bring(tmp_path, "\n".join(lines))


def test_defects_are_bounded(tmp_path):
    rows = [(step, "nan", 0.1) for step in range(1, 5001)]

    made = bring(tmp_path, csv_log([*rows, (5001, 1.0, 0.1)]), steps=5001)

    assert len(made.imported.defects) == 1001
    assert made.imported.defects[-1].text == "4000 more defects are not listed"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_with_nan_is_read_and_told(tmp_path, value):
    made = bring(tmp_path, json_lines([{"step": 1, "loss": 2.0}, {"step": 2, "loss": value}]), steps=2)

    assert defects_of(made) == [("not_finite", 2, 2)]


@pytest.mark.parametrize("format_", ["metrics", "trainer", "events"])
def test_steps_far_beyond_the_jobs_are_one_line(tmp_path, format_):
    """Readers go through every step: a log of a few bytes must not make them go through millions."""
    logs = {
        "metrics": csv_log([*WHOLE, (99_000_000, 2.0, 0.1)]),
        "trainer": '{"log_history": [{"step": 99000000, "loss": 2.0}], "logging_steps": 99000000}',
        "events": json_lines([StepDone(step=99_000_000, loss=2.0, time=1.0)]),
    }

    with pytest.raises(EventError, match="steps up to 1060, for a job that asks for 6"):
        bring(tmp_path, logs[format_])


def test_a_mean_of_more_steps_than_any_trainer_logs_is_told(tmp_path):
    text = '{"log_history": [{"step": 200000, "loss": 2.0}, {"step": 200001, "loss": 2.0}], "logging_steps": 200000}'

    made = bring(tmp_path, text, steps=200_001)

    assert ("unreadable", 1, 200_000) in defects_of(made)
    assert [one.step for one in steps_of(made)] == [200_001]


def test_a_line_beyond_the_bound_is_told_and_not_read(tmp_path):
    made = bring(tmp_path, csv_log([*WHOLE[:2], (3, "2" * (1 << 20), 0.1), *WHOLE[3:]]))

    assert ("unreadable", 4, None) in defects_of(made)
    assert ("hole", 5, 3) in defects_of(made)


def test_a_log_beyond_the_bound_is_refused_before_it_is_read(tmp_path):
    class Large(LocalFileSystem):
        def size(self, path):
            return LARGEST_BYTES + 1

        def read_bytes(self, path):
            raise AssertionError(path)

    with pytest.raises(EventError, match="268435457 bytes"):
        read_log(tmp_path / "x.csv", Large())


def test_an_interval_is_told_only_where_the_log_keeps_it_else_the_missing_steps_are_named(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    skipped = bring(tmp_path / "a", csv_log(_without(1, 3, 4, 5, 6)))
    every_second = bring(tmp_path / "b", csv_log(_without(1, 3, 5)))

    assert [one.text for one in skipped.imported.defects] == ["step 1 is not in the log"]
    assert [one.text for one in every_second.imported.defects] == [
        "the log has every 2nd step: 3 steps between are not in it"
    ]


@pytest.mark.parametrize("loss", ["NaN", "1e400"])
def test_a_log_whose_losses_are_all_not_finite_is_told_so_and_not_to_name_its_columns(tmp_path, loss):
    with pytest.raises(EventError) as refused:
        bring(tmp_path, "".join(f'{{"step": {step}, "loss": {loss}}}\n' for step in (1, 2)))

    assert "its losses were read and are not finite" in refused.value.remedy
    assert "--columns" not in refused.value.remedy


def test_a_track_that_the_job_does_not_name_is_to_be_named_before_the_pilot_is_run(tmp_path):
    with pytest.raises(TrackError, match="before the pilot is run"):
        bring(tmp_path, csv_log(WHOLE), track="tpu")
