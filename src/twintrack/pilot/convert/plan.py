"""Everything of a conversion that is known before anything is written: job, state, weights, and our own answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from twintrack.errors import CheckpointError, JobError
from twintrack.job.records import Job
from twintrack.pilot.convert.layouts import Layout, OptimizerState
from twintrack.pilot.convert.ours import Ours, merged_weights, open_ours
from twintrack.pilot.convert.probe import Answers, Probe, make_probe
from twintrack.pilot.convert.sources import Source
from twintrack.pilot.convert.targets import job_on, run_state, sampler_at
from twintrack.pilot.watch import Stage
from twintrack.storage import FileSystem
from twintrack.tracks import choose
from twintrack.tracks.base import COMPUTE_DTYPES
from twintrack.training.checkpoint import TrainingState
from twintrack.training.data import PreparedData, prepare
from twintrack.training.sampler import Sampler, SamplerState

__all__ = ["Notes", "Plan", "Wish", "make_plan"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for."""

    source: str
    to: Literal["peft", "hf", "twintrack"]
    out: Path
    job: tuple[Job, Path] | None = None
    """Job and folder of its file, for folders that do not say it themselves."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """Of the weights in ``peft`` and ``hf`` folders."""
    track: str | None = None
    """On which a ``twintrack`` run goes on; none: the source's, else the first that the machine has."""
    fresh_optimizer: bool = False
    """Whether a folder without optimizer state may begin at step 0."""
    layout: Layout | None = None
    """A sharded folder for this plan, instead of a run."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Everything that is known before anything is written."""

    wish: Wish
    source: Source
    ours: Ours
    job: Job
    state: TrainingState | None
    """Of a run or of shards."""
    weights: Mapping[str, Tensor]
    """For others: trained tensors by our names, or the whole merged model's by the hub's."""
    probe: Probe
    answers: Answers
    optimizer: bool
    """Whether the folder must hold the optimizer's state."""
    source_answers: Answers | None
    """Of the source as it stands, where another program may have written it."""


class Notes:
    """Counts stages on the display."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._done = stage, -1

    def __call__(self, text: str) -> None:
        """Begin a stage."""
        self._done += 1
        self._stage.update(self._done, text)

    def detail(self, text: str) -> None:
        """Say more of the same stage."""
        self._stage.update(None, text)


def make_plan(wish: Wish, source: Source, cache_root: Path, fs: FileSystem, note: Notes) -> Plan:
    """Load the job's model, find the next batches and answer the probe.

    Raises:
        UserError: if the wish does not go with the source, or model or data cannot be read.
    """
    _target_job(wish, source)  # what is wrong with it is said before anything is loaded
    note("loading the base model")
    ours = open_ours(
        source.job,
        source.base,
        cache_root=cache_root,
        fs=fs,
        progress=lambda text, _share: note.detail(text),
    )
    note("preparing the next batches")
    loaded = ours.loaded
    data = prepare(source.job.data, source.base, loaded.tokenizer, seed=source.job.seed, pad_id=loaded.pad_id)
    sampler, tokens = _position(source, data)
    config = loaded.model.config
    probe = make_probe(
        source.job, config.vocab_size, config.max_position_embeddings, source.step, data, sampler
    )
    note("our own answers")
    foreign = ours.ask(probe, source.weights, source.optimizer) if source.is_foreign else None
    state, job = None, source.job
    if wish.to == "twintrack":
        job, begun = _target_job(wish, source), _optimizer_of(wish, source)
        state = run_state(source, job, begun, sampler, tokens)
        source = replace(source, optimizer=begun)
    merged = wish.to == "hf" and source.job.lora is not None
    optimizer = source.optimizer if not merged else None
    if merged:  # from the exact adapter: rounded once, if at all
        exact = source.weights if source.optimizer is None else source.optimizer.master
        weights: Mapping[str, Tensor] = merged_weights(ours, exact, COMPUTE_DTYPES[wish.dtype])
        apart = ours.ask(probe, exact, None)
        answers = replace(ours.ask_merged(probe, weights), unmerged_logits=apart.logits)
    else:
        weights = _shown(wish, source)
        answers = ours.ask(probe, weights, optimizer)
    return Plan(wish, source, ours, job, state, weights, probe, answers, optimizer is not None, foreign)


def _position(source: Source, data: PreparedData) -> tuple[SamplerState, int]:
    """Where the run stands in its data, and the tokens it has seen."""
    if source.values is not None:
        return Sampler.from_state(source.values["sampler"]).state, int(source.values["tokens"])
    return sampler_at(source.job, data, source.step)


def _target_job(wish: Wish, source: Source) -> Job:
    """The job of what is written: a run's has one track, and more steps than are done."""
    if wish.to != "twintrack":
        return source.job
    if source.step > source.job.stop.steps:
        raise JobError(
            f"a job of at least {source.step} steps",
            found=f"stop.steps = {source.job.stop.steps}",
            where=source.label,
            remedy="raise stop.steps in the job",
        )
    if wish.layout is not None:
        return source.job
    track = wish.track or (source.run.track if source.run is not None else None)
    if track is None:
        track = next(choice.track for choice in choose(source.job) if choice.track is not None)
    return job_on(source.job, track)


def _optimizer_of(wish: Wish, source: Source) -> OptimizerState:
    if source.optimizer is not None:
        return source.optimizer
    if not wish.fresh_optimizer:
        raise CheckpointError(
            "optimizer.safetensors, to go on from",
            found="none",
            where=str(source.folder),
            remedy="add it, or give --fresh-optimizer to begin at step 0 with these weights",
        )
    master = {name: tensor.float() for name, tensor in source.weights.items()}
    zeros = {name: torch.zeros_like(tensor) for name, tensor in master.items()}
    return OptimizerState(0, master, zeros, dict(zeros))


def _shown(wish: Wish, source: Source) -> Mapping[str, Tensor]:
    """Trained weights as the converted folder has them."""
    exact = source.optimizer.master if source.optimizer is not None else source.weights
    if wish.to == "twintrack" or wish.dtype == "fp32":
        return {name: tensor.float() for name, tensor in exact.items()}
    rounded = all(tensor.dtype is torch.bfloat16 for tensor in source.weights.values())
    chosen = source.weights if rounded else exact  # a run may have rounded its masters in its own way
    return {name: tensor.to(torch.bfloat16) for name, tensor in chosen.items()}
