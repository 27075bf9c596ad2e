"""A worker in this process: what a run records, and that stopping it anywhere changes no bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from small_pilot import make_run, small_job, world, write_inputs
from twintrack.errors import CheckpointError, DataError, RunFailed, RunFolderError, StorageError
from twintrack.events import (
    Answer,
    AnyEvent,
    CompileDone,
    EvaluationDone,
    LegEnded,
    Resumed,
    RunDone,
    StepDone,
    StopMade,
    read_events,
)
from twintrack.numerics.rounding import TowardZero
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.summary import read_summary
from twintrack.pilot.worker import run_leg
from twintrack.storage import FileLock, LocalFileSystem
from twintrack.storage.faults import FullFileSystem, ReadOnlyFileSystem
from twintrack.tracks import TRACKS, Services, Settings
from twintrack.tracks.trn2 import SoftwareTrainium

TRACK_NAMES = ("cpu", "trn2")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=TRACK_NAMES)
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, inputs: Path, cache: Path
) -> TrackRun:
    """An uninterrupted run."""
    run = make_run(tmp_path_factory.mktemp("run"), inputs, small_job(), request.param)
    run_leg(run, world(cache))
    return run


def events_of(run: TrackRun, kind: type[Any] | None = None) -> list[Any]:
    found: list[AnyEvent] = list(read_events(run.events))
    return [event for event in found if kind is None or isinstance(event, kind)]


def adapter_of(run: TrackRun) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(run.final / "adapter_model.safetensors")


def bits(run: TrackRun) -> dict[int, tuple[float, float, tuple[str, ...]]]:
    """Loss, gradient norm and samples of every step, from the process that did it last."""
    return {e.step: (e.loss, e.gradient_norm, tuple(e.sample_ids)) for e in events_of(run, StepDone)}


def test_a_run_records_every_step_and_ends_with_its_digest(finished: TrackRun) -> None:
    steps = events_of(finished, StepDone)

    assert [event.step for event in steps] == [1, 2, 3, 4, 5, 6]
    assert all(
        event.loss_tokens > 0 and event.tokens > event.loss_tokens and event.sample_ids for event in steps
    )
    assert [event.step for event in events_of(finished, EvaluationDone)] == [0, 6]
    assert set(events_of(finished, EvaluationDone)[0].slices) == {"a", "b"}
    assert len(events_of(finished, Answer)) == 1
    assert events_of(finished)[-1] == LegEnded(reason="done", step=6, time=events_of(finished)[-1].time)
    assert len(events_of(finished, RunDone)) == 1


def test_training_lowers_the_loss_and_the_adapter_is_written(finished: TrackRun) -> None:
    first, last = events_of(finished, EvaluationDone)

    assert last.loss < first.loss
    tensors = adapter_of(finished)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert any(name.endswith("lora_B.weight") and tensor.abs().max() > 0 for name, tensor in tensors.items())


@pytest.mark.parametrize("step", range(1, 6))
def test_a_polite_stop_after_any_step_changes_no_bit(
    finished: TrackRun, step: int, tmp_path: Path, inputs: Path, cache: Path
) -> None:
    job = small_job(stops=[{"kind": "polite", "step": step}])
    run = make_run(tmp_path, inputs, job, finished.track, "interrupted")

    assert run_leg(run, world(cache)).reason == "stopped"
    assert run_leg(run, world(cache)).reason == "steps"

    assert bits(run) == bits(finished)
    assert events_of(run, RunDone)[0].state_digest == events_of(finished, RunDone)[0].state_digest
    assert events_of(run, Resumed)[0].step == step
    assert [event.stop for event in events_of(run, StopMade)] == ["polite"]
    expected = adapter_of(finished)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in adapter_of(run).items())
    assert events_of(run, Answer)[-1].text == events_of(finished, Answer)[-1].text


class Killed(BaseException):
    """Stands for SIGKILL in this process: nothing catches it."""


def test_dying_after_any_event_changes_no_bit(
    finished: TrackRun, tmp_path: Path, inputs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies right after writing its n-th event, for many n, is continued to the same bits."""
    from twintrack.pilot import worker

    lines = len(events_of(finished))
    run = make_run(tmp_path, inputs, small_job(), finished.track)
    for limit in range(8, lines + 4, 5):

        class Dying(worker._Emitter):
            left = limit

            def __call__(self, event: Any) -> None:
                super().__call__(event)
                self.left -= 1
                if self.left == 0:
                    raise Killed

        if any(isinstance(event, RunDone) for event in events_of(run)) if run.events.exists() else False:
            break
        with monkeypatch.context() as patch:
            patch.setattr(worker, "_Emitter", Dying)
            try:
                run_leg(run, world(cache))
            except Killed:
                continue
    if not any(isinstance(event, RunDone) for event in events_of(run)):
        run_leg(run, world(cache))

    assert len({event.leg for event in events_of(run)}) > 1
    assert bits(run) == bits(finished)
    assert events_of(run, RunDone)[0].state_digest == events_of(finished, RunDone)[0].state_digest


def test_an_evaluation_below_the_limit_ends_the_run(tmp_path: Path, inputs: Path, cache: Path) -> None:
    job = small_job(
        stop={"steps": 6, "evaluation_loss_below": 6.2}, evaluation={"every_steps": 1, "answer_tokens": 1}
    )
    run = make_run(tmp_path, inputs, job, "cpu")

    assert run_leg(run, world(cache)).reason == "evaluation_loss"

    last = events_of(run, EvaluationDone)[-1]
    assert last.loss < 6.2
    assert events_of(run, RunDone)[0].step == last.step < 6


class Poisoned:
    """The CPU, but for gradients that turn to NaN at the fifth call."""

    name = "cpu"

    def absence(self) -> str | None:
        return None

    def open(self, settings: Settings, services: Services) -> Any:
        track = TRACKS["cpu"].open(settings, services)
        whole, calls = track.compile, [0]

        def compile(name: str, function: Any, **other: Any) -> Any:
            run = whole(name, function, **other)

            def poisoned(*arguments: Any, invocation: int) -> Any:
                found = run(*arguments, invocation=invocation)
                calls[0] += name == "gradients"
                return {**found, "loss": found["loss"] * float("nan")} if calls[0] >= 5 else found

            return poisoned if name == "gradients" else run

        track.compile = compile  # type: ignore[method-assign]
        return track


def test_a_loss_that_is_not_finite_fails_the_run_and_says_where(
    tmp_path: Path, inputs: Path, cache: Path
) -> None:
    """Step 3 begins with the fifth micro-batch; the two steps before it stay on record."""
    run = make_run(tmp_path, inputs, small_job(), "cpu")

    with pytest.raises(RunFailed, match="step 3: required a finite loss, found nan"):
        run_leg(run, world(cache, tracks={**TRACKS, "cpu": Poisoned()}))

    assert events_of(run, LegEnded)[-1].reason == "error"
    assert [event.step for event in events_of(run, StepDone)] == [1, 2]


def test_two_processes_cannot_work_on_one_run(tmp_path: Path, inputs: Path, cache: Path) -> None:
    run = make_run(tmp_path, inputs, small_job(), "cpu")
    with FileLock(run.lock), pytest.raises(RunFolderError, match="no other process works on"):
        run_leg(run, world(cache))


def test_an_altered_job_is_refused(tmp_path: Path, inputs: Path, cache: Path) -> None:
    run = make_run(tmp_path, inputs, small_job(), "cpu")
    text = json.loads((tmp_path / "job.json").read_text())
    text["seed"] = 4
    (tmp_path / "job.json").write_text(json.dumps(text))

    with pytest.raises(RunFolderError, match="the job that the run began with"):
        run_leg(run, world(cache))


def test_checkpoints_of_another_training_are_refused(tmp_path: Path, inputs: Path, cache: Path) -> None:
    first = make_run(tmp_path / "a", inputs, small_job(stop={"steps": 2}), "cpu")
    run_leg(first, world(cache))
    second = make_run(tmp_path / "b", inputs, small_job(seed=9), "cpu")
    first.checkpoints.rename(second.checkpoints)

    with pytest.raises(CheckpointError):
        run_leg(second, world(cache))


def test_a_prompt_that_leaves_no_room_is_refused(tmp_path: Path, inputs: Path, cache: Path) -> None:
    job = small_job(evaluation={"prompts": ["what " * 19], "answer_tokens": 50}, stop={"steps": 1})
    with pytest.raises(DataError, match="prompts that leave room"):
        run_leg(make_run(tmp_path, inputs, job, "cpu"), world(cache))


def test_the_second_process_captures_nothing(tmp_path: Path, inputs: Path) -> None:
    """The first process of an empty cache captures every program, the next one none."""
    own = tmp_path / "cache"
    for folder in ("cold", "warm"):
        run_leg(make_run(tmp_path / folder, inputs, small_job(stop={"steps": 1}), "trn2"), world(own))
    cold = events_of(TrackRun(tmp_path / "cold", "trn2", "reference"), CompileDone)
    warm = events_of(TrackRun(tmp_path / "warm", "trn2", "reference"), CompileDone)

    assert [event.program for event in cold] == [event.program for event in warm]
    assert not any(event.warm for event in cold)
    assert all(event.warm for event in warm)
    assert [event.capture_seconds for event in warm] == [event.capture_seconds for event in cold]


class WrongTrainium:
    """A software Trainium2 that rounds toward zero, which no Trainium does."""

    name = "trn2"

    def absence(self) -> str | None:
        return None

    def open(self, settings: Settings, services: Services) -> SoftwareTrainium:
        return SoftwareTrainium(settings, services, TowardZero())


@pytest.mark.parametrize("right", [True, False], ids=["nearest-even", "toward-zero"])
def test_tracks_agree_within_the_tolerance_and_a_wrong_rounding_does_not(
    right: bool, tmp_path: Path, inputs: Path, cache: Path
) -> None:
    """The report of a job with a tolerance of 2e-4 passes Trainium's rounding and refuses another.

    On this job nearest-even differs from float32 by 5e-5 and rounding toward zero by 1e-3.
    """
    tracks = TRACKS if right else {**TRACKS, "trn2": WrongTrainium()}
    job = small_job(stop={"steps": 12}, tolerances={"loss": 2e-4})
    for name in TRACK_NAMES:
        run_leg(make_run(tmp_path, inputs, job, name), world(cache, tracks=tracks))

    summary = read_summary(tmp_path, LocalFileSystem())

    assert (summary.failures == ()) is right
    if not right:
        (failure,) = summary.failures
        assert "and the job tolerates 0.0002" in failure.what


@pytest.mark.parametrize("free_bytes", [0, 700, 5_000, 60_000, 150_000])
def test_a_full_disk_is_one_line_and_loses_nothing(
    free_bytes: int, tmp_path: Path, inputs: Path, cache: Path
) -> None:
    """The run ends with a storage error, or without its checkpoints' failing to be told; room made, it goes on to
    the same bits as a run that never met a full disk."""
    undisturbed = make_run(tmp_path / "a", inputs, small_job(), "cpu")
    run_leg(undisturbed, world(cache))
    run = make_run(tmp_path / "b", inputs, small_job(), "cpu")

    with pytest.raises(StorageError) as caught:
        run_leg(run, world(cache, fs=FullFileSystem(LocalFileSystem(), free_bytes=free_bytes)))
    run_leg(run, world(cache))

    assert "\n" not in str(caught.value)
    assert "space left on the disk" in str(caught.value)
    assert bits(run) == bits(undisturbed)


def test_a_read_only_disk_is_one_line(tmp_path: Path, inputs: Path, cache: Path) -> None:
    run = make_run(tmp_path, inputs, small_job(), "cpu")
    with pytest.raises(StorageError, match="a writable disk"):
        run_leg(run, world(cache, fs=ReadOnlyFileSystem(LocalFileSystem())))
