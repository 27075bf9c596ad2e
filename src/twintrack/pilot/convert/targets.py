"""The layouts that a state is written in; each function fills a folder, and says nothing of whether it is right."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from peft import PeftModel
from torch import Tensor

from twintrack.clock import Clock
from twintrack.errors import TrackError
from twintrack.job.digest import training_digest
from twintrack.job.records import Job
from twintrack.pilot.convert.layouts import (
    OPTIMIZER,
    Geometry,
    Layout,
    OptimizerState,
    optimizer_bytes,
    split,
    write_shards,
)
from twintrack.pilot.convert.ours import Ours
from twintrack.pilot.convert.sharded import ShardedValues, encode_values
from twintrack.pilot.convert.sources import Source
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.manifest import write_manifest
from twintrack.storage import FileSystem, storage_errors, write_bytes_atomic
from twintrack.tracks import Choice, Settings
from twintrack.training.checkpoint import TrainingState, capture_random_state, restore_random_state
from twintrack.training.checkpoint.state import Snapshot
from twintrack.training.checkpoint.writer import write_checkpoint
from twintrack.training.data import PreparedData
from twintrack.training.export import export
from twintrack.training.hub import is_hub_name
from twintrack.training.sampler import Sampler, SamplerState

__all__ = [
    "job_on",
    "run_state",
    "sampler_at",
    "write_adapter",
    "write_run",
    "write_sharded",
    "write_whole_model",
]


def write_adapter(
    ours: Ours, source: Source, weights: Mapping[str, Tensor], folder: Path, fs: FileSystem
) -> None:
    """PEFT's layout with the tokenizer, and ``optimizer.safetensors`` where there is a state.

    Raises:
        StorageError: if the file system refuses.
    """
    name = source.job.model.source
    named = name if is_hub_name(name) and not (source.base / name).is_dir() else str(source.model.resolve())
    tokenizer = ours.loaded.tokenizer
    export(ours.adapted.model, folder, fs, source=named, weights=weights, tokenizer=tokenizer)
    _write_optimizer(source.optimizer, folder, fs)


def write_whole_model(
    ours: Ours,
    source: Source,
    weights: Mapping[str, Tensor],
    dtype: torch.dtype,
    folder: Path,
    fs: FileSystem,
) -> None:
    """The hub's layout: safetensors, configuration, generation configuration, tokenizer.

    ``optimizer.safetensors`` goes with the weights that the optimizer trains: not with a merged adapter. A merged
    model's adapters are taken off ``ours``, which cannot be asked afterwards.

    Raises:
        StorageError: if the file system refuses.
    """
    model: Any = ours.adapted.model
    if isinstance(model, PeftModel):
        model = model.unload()
    model.config.dtype = dtype
    export(model, folder, fs, source="", weights=weights, tokenizer=ours.loaded.tokenizer)
    if source.job.lora is None:
        _write_optimizer(source.optimizer, folder, fs)


def _write_optimizer(state: OptimizerState | None, folder: Path, fs: FileSystem) -> None:
    if state is not None:
        write_bytes_atomic(fs, folder / OPTIMIZER, optimizer_bytes(state))


def sampler_at(job: Job, data: PreparedData, step: int) -> tuple[SamplerState, int]:
    """Where a run of the job stands in its data after ``step`` steps, and the tokens it has seen until then."""
    sampler, tokens = Sampler(len(data.train), job.seed), 0
    for _ in range(step):
        rows = sampler.next(job.batch.micro * job.batch.accumulation)
        tokens += sum(data.train[index].tokens for index in rows)
    return sampler.state, tokens


def job_on(job: Job, track: str) -> Job:
    """The job on one track, without stops: what a run that begins in its middle can be held to.

    Raises:
        TrackError: if the job gives this track no place.
    """
    for slot in job.tracks:
        if track in slot.use:
            alone = slot.model_dump(mode="json") | {"use": [track]}
            values = job.model_dump(mode="json") | {"tracks": [alone], "stops": []}
            return Job.model_validate_json(json.dumps(values))
    raise TrackError(
        "a track of the job",
        found=track,
        where="--track",
        remedy=f"the job has {', '.join(name for slot in job.tracks for name in slot.use)}",
    )


def run_state(
    source: Source, job: Job, state: OptimizerState, sampler: SamplerState, tokens: int
) -> TrainingState:
    """The state from which a run of ``job`` goes on.

    What a run's own checkpoint holds beside its optimizer is kept; for a folder from elsewhere it follows from job
    and step. Weights in use are kept where their type is the track's, else they are the masters, rounded.

    Args:
        source: what is converted.
        job: with one track.
        state: masters and moments.
        sampler: at the step.
        tokens: seen until then.
    """
    compute = Settings.of(job, job.tracks[0]).dtype
    kept = not source.is_foreign and all(tensor.dtype is compute for tensor in source.weights.values())
    weights = source.weights if kept else {name: tensor.to(compute) for name, tensor in state.master.items()}
    groups = {"weights": weights, "master": state.master, "moment1": state.moment1, "moment2": state.moment2}
    tensors = {f"{group}/{name}": t for group, named in groups.items() for name, t in named.items()}
    if source.values is not None:
        return TrainingState(state.step, {**tensors, **source.rng}, source.values)
    generators, random_values = _seeded_random_state(job.seed)
    finished: Literal["steps"] | None = "steps" if state.step >= job.stop.steps else None
    values = {
        "sampler": dict(sampler),
        "random": random_values,
        "tokens": tokens,
        "finished": finished,
        "schedule": {"step": state.step, "steps": job.stop.steps},
    }
    return TrainingState(state.step, {**tensors, **generators}, values)


def _seeded_random_state(seed: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The shared generators as a seed leaves them; those of this process are put back.

    Training draws nothing from them (dropout is keyed, the order of rows has its own), but a checkpoint has them.
    """
    tensors, values = capture_random_state()
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.default_generator.manual_seed(seed)
        return capture_random_state()
    finally:
        restore_random_state(tensors, values)


def write_run(
    source: Source, job: Job, state: TrainingState, folder: Path, clock: Clock, fs: FileSystem
) -> TrackRun:
    """A run folder whose only track begins at the state's checkpoint; ``twintrack pilot --resume`` goes on with it.

    Raises:
        StorageError: if the file system refuses.
        CheckpointError: if the checkpoint could not be written.
    """
    (slot,) = job.tracks
    run = TrackRun(folder, slot.use[0], "reference")
    with storage_errors(folder, "make the run folder"):
        fs.make_folder(run.checkpoints)
    write_checkpoint(
        fs, run.checkpoints, Snapshot.of(state), job_digest=training_digest(job), now=clock.now()
    )
    reason = f"converted from {source.label}"
    write_manifest(folder, job, source.base, (Choice(slot, slot.use[0], reason),), fs)
    return run


def write_sharded(
    source: Source,
    job: Job,
    state: TrainingState,
    geometry: Geometry,
    layout: Layout,
    folder: Path,
    fs: FileSystem,
) -> None:
    """A shard per device of a plan, and ``shards.json`` written last.

    Raises:
        ModelError: if the plan does not divide the model.
        StorageError: if the file system refuses.
    """
    cut = {name: tensor for name, tensor in state.tensors.items() if not name.startswith("rng/")}
    rng = {name: tensor for name, tensor in state.tensors.items() if name.startswith("rng/")}
    said = ShardedValues(state.step, job, str(source.base.resolve()), state.values, rng)
    shards = split(cut, geometry, layout)
    with storage_errors(folder, "write the shards"):
        fs.make_folder(folder)
    write_shards(fs, folder, layout, shards, encode_values(said))
