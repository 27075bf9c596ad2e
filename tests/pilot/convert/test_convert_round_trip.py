"""Ours to PEFT, plain peft training, and back to ours: the losses are those of never having left."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from convert_cases import convert_here

from small_pilot import make_run, small_job, world, write_inputs
from twintrack.events import EvaluationDone, RunDone, StepDone, read_events
from twintrack.job.records import Job
from twintrack.pilot.convert.records import PROOF, Proof
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.worker import run_leg
from twintrack.storage import LocalFileSystem
from twintrack.training.checkpoint import read_checkpoint
from twintrack.training.data import collate, prepare
from twintrack.training.model import load_model
from twintrack.training.sampler import Sampler
from twintrack.training.schedule import learning_rate
from twintrack.training.step import segment_mask

LIMIT = 2e-6
"""Relative. Sums of float32 in another order: 1e-7 a step, a little more after some."""
SCRIPT = Path(__file__).resolve().parents[3] / "examples" / "convert" / "continue_in_peft.py"
STEPS, LEAVES, AWAY = 9, 4, 3


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def job() -> Job:
    return small_job(stop={"steps": STEPS}, checkpoint={"every_steps": LEAVES, "keep": 9})


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("continue_in_peft", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def losses(run: TrackRun) -> dict[int, float]:
    return {event.step: event.loss for event in read_events(run.events) if isinstance(event, StepDone)}


def next_batches(inputs: Path, cache: Path, job: Job) -> list[tuple[float, list[dict]]]:
    """Rates and micro-batches of the steps that are made elsewhere, in the words of plain transformers."""
    loaded = load_model(
        job.model,
        inputs,
        dtype=torch.float32,
        attention="sdpa",
        cache_root=cache,
        fs=LocalFileSystem(),
    )
    data = prepare(job.data, inputs, loaded.tokenizer, seed=job.seed, pad_id=loaded.pad_id)
    sampler, size, steps = Sampler(len(data.train), job.seed), job.batch.micro, []
    for step in range(1, LEAVES + AWAY + 1):
        rows = [data.train[index] for index in sampler.next(size * job.batch.accumulation)]
        batches = []
        for start in range(0, len(rows), size):
            batch = collate(rows[start : start + size])
            mask = segment_mask(batch.pop("segment_ids"), torch.float32)
            batches.append({**batch, "attention_mask": mask})
        steps.append((learning_rate(step, job.stop.steps, job.optimizer, job.schedule), batches))
    return steps[LEAVES:]


def train_away(folder: Path, inputs: Path, cache: Path, out: Path) -> list[float]:
    """The user's own script, on the batches that the run would have seen."""
    own, settings = script(), job()
    model = own.load(folder, inputs / "model")
    betas = (settings.optimizer.beta1, settings.optimizer.beta2)
    adamw, done = own.restore(model, folder, betas=betas, eps=settings.optimizer.epsilon)
    assert done == LEAVES
    found = own.train(
        model, adamw, next_batches(inputs, cache, settings), settings.optimizer.max_gradient_norm
    )
    own.save(model, adamw, folder, out, done + AWAY)
    return list(found)


@pytest.mark.slow
@pytest.mark.parametrize("track", ["cpu", "trn2"])
def test_a_round_trip_through_plain_peft_has_the_losses_of_never_having_left(
    track: str, tmp_path: Path, inputs: Path, cache: Path
) -> None:
    """A run of each track leaves at step 4 for plain peft, comes back at step 7 and ends at step 9 on the processor."""
    began = make_run(tmp_path / "began", inputs, job(), track)
    run_leg(began, world(cache))
    stayed = began
    if track != "cpu":  # what the same checkpoint gives on the processor, where plain peft computes too
        convert_here(
            cache, tmp_path / "k0", f"{began.root}:{track}@{LEAVES}", "twintrack", tmp_path / "s", track="cpu"
        )
        stayed = TrackRun(tmp_path / "s", "cpu", "reference")
        run_leg(stayed, world(cache))

    left = convert_here(cache, tmp_path / "k1", f"{began.root}:{track}@{LEAVES}", "peft", tmp_path / "peft")
    assert left.conversion.proof.passed, left.conversion.proof.checks
    away = train_away(tmp_path / "peft", inputs, cache, tmp_path / "trained")
    back = convert_here(
        cache,
        tmp_path / "k2",
        str(tmp_path / "trained"),
        "twintrack",
        tmp_path / "home",
        job=(job(), inputs),
        track="cpu",
    )
    assert back.conversion.proof.passed, back.conversion.proof.checks
    home = TrackRun(tmp_path / "home", "cpu", "reference")
    run_leg(home, world(cache))

    expected = losses(stayed)
    made = dict(enumerate(away, LEAVES + 1)) | losses(home)
    assert list(made) == list(range(LEAVES + 1, STEPS + 1))
    gaps = {step: abs(loss - expected[step]) / expected[step] for step, loss in made.items()}
    assert max(gaps.values()) <= LIMIT, gaps
    ends = [
        next(e for e in reversed(list(read_events(run.events))) if isinstance(e, EvaluationDone)).loss
        for run in (stayed, home)
    ]
    assert abs(ends[0] - ends[1]) / ends[0] <= LIMIT
    assert any(isinstance(event, RunDone) for event in read_events(home.events))


@pytest.mark.slow
def test_a_run_taken_to_another_track_and_back_holds_the_same_state_to_the_bit(
    tmp_path: Path, inputs: Path, cache: Path
) -> None:
    run = make_run(tmp_path / "run", inputs, job(), "cpu")
    run_leg(run, world(cache))
    word = f"{run.root}:cpu@{LEAVES}"

    convert_here(cache, tmp_path / "k1", word, "peft", tmp_path / "peft")
    home = convert_here(
        cache,
        tmp_path / "k2",
        str(tmp_path / "peft"),
        "twintrack",
        tmp_path / "home",
        job=(job(), inputs),
        track="cpu",
    )

    assert Proof.model_validate_json((tmp_path / "home" / PROOF).read_bytes()) == home.conversion.proof
    fs, back = LocalFileSystem(), TrackRun(tmp_path / "home", "cpu", "reference")
    one, other = (read_checkpoint(fs, place.checkpoints, LEAVES).state for place in (run, back))
    for name, tensor in one.tensors.items():
        if not name.startswith("rng/"):
            assert (tensor == other.tensors[name]).all(), name
    for key in ("sampler", "tokens", "finished", "schedule"):
        assert one.values[key] == other.values[key], key
