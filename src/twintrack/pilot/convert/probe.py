"""What both sides of a conversion are asked, and what they answered: one file each, so that processes can differ.

Shapes: B rows, T tokens of a row, V vocabulary. A batch is a dict of int64 tensors ``[B, T]``: ``input_ids``,
``position_ids``, ``segment_ids`` and, where a loss is asked for, ``labels`` (already shifted; -100 carries none).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from twintrack.job.records import Job, Optimizer
from twintrack.training.data import PreparedData, collate
from twintrack.training.sampler import Sampler, SamplerState
from twintrack.training.schedule import learning_rate

__all__ = [
    "Answers",
    "Batch",
    "Probe",
    "Terms",
    "divergence",
    "fixed_batch",
    "make_probe",
    "next_steps",
    "read_answers",
    "read_probe",
    "write_answers",
    "write_probe",
]

Batch = Mapping[str, Tensor]
_ROWS, _TOKENS, _SEED = 4, 48, 20261130
_STEPS = 2
"""Steps asked for: the next one, and the one after it, whose loss depends on the first one's update."""


class Terms(BaseModel):
    """The numbers of the next update."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    step: int
    """Optimizer steps done."""
    rate: float
    """Learning rate of the next step."""
    optimizer: Optimizer


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """What a side is asked."""

    fixed: Batch
    """Seeded tokens, without labels; the last row holds two segments, whose positions restart."""
    steps: tuple[tuple[Batch, ...], ...]
    """Micro-batches of the next steps, as the run would have seen them; none where no step is asked for."""
    terms: Terms


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What a side answered; all in float32."""

    logits: Tensor
    """Of the fixed batch, ``[B, T, V]``."""
    base_logits: Tensor
    """The same of the model before it was trained."""
    losses: tuple[float, ...]
    """Mean loss of each of the probe's steps, before its update; the first step's update was made in between."""
    unmerged_logits: Tensor | None = None
    """Of a merged model, where ``logits`` are of the merged weights: those of base and adapter apart."""


def fixed_batch(vocabulary: int, positions: int) -> dict[str, Tensor]:
    """The seeded batch ``[4, T]``, T at most 48: rows begin at positions far apart, as far as the model has them.

    Args:
        vocabulary: token ids lie below it.
        positions: that the model knows.
    """
    length = min(_TOKENS, positions)
    generator = torch.Generator().manual_seed(_SEED)
    ids = torch.randint(0, vocabulary, (_ROWS, length), generator=generator)
    first = torch.linspace(0, positions - length, _ROWS).long()
    position_ids = torch.arange(length)[None, :] + first[:, None]
    segment_ids = torch.zeros_like(ids)
    half = length // 2
    position_ids[-1] = torch.cat([torch.arange(half), torch.arange(length - half)])
    segment_ids[-1, half:] = 1
    return {"input_ids": ids, "position_ids": position_ids, "segment_ids": segment_ids}


def make_probe(
    job: Job, vocabulary: int, positions: int, step: int, data: PreparedData, sampler: SamplerState
) -> Probe:
    """The probe of a state.

    Args:
        job: whose optimizer and schedule.
        vocabulary: of the model.
        positions: of the model.
        step: optimizer steps done.
        data: rows of the job.
        sampler: at the step.
    """
    terms = Terms(step=step, rate=_rate(job, step), optimizer=job.optimizer)
    return Probe(fixed_batch(vocabulary, positions), next_steps(job, data, sampler), terms)


def next_steps(
    job: Job, data: PreparedData, sampler: SamplerState | Mapping[str, object]
) -> tuple[tuple[Batch, ...], ...]:
    """Micro-batches of the next two steps of a run that stands there in its data.

    Raises:
        CheckpointError: if the state is not one that a sampler gave.
    """
    size, place = job.batch.micro, Sampler.from_state(sampler)
    steps: list[tuple[Batch, ...]] = []
    for _ in range(_STEPS):
        rows = [data.train[index] for index in place.next(size * job.batch.accumulation)]
        steps.append(tuple(collate(rows[i : i + size]) for i in range(0, len(rows), size)))
    return tuple(steps)


def _rate(job: Job, step: int) -> float:
    """The schedule's rate of the next step; its peak where the schedule is over or asks for no change at all."""
    if step < job.stop.steps:
        rate = learning_rate(step + 1, job.stop.steps, job.optimizer, job.schedule)
        if rate > 0.0:
            return rate
    return job.optimizer.learning_rate


def divergence(ours: Tensor, theirs: Tensor) -> float:
    """Kullback-Leibler divergence of ``theirs`` from ``ours`` in nats: computed in float64, mean over positions.

    Args:
        ours: logits ``[B, T, V]``.
        theirs: logits of the same shape.

    Returns:
        Infinity where either is not finite.
    """
    total, count = 0.0, 0
    for row, other in zip(ours, theirs, strict=True):  # a row at a time: float64 of all could be large
        left, right = (torch.log_softmax(x.double(), dim=-1) for x in (row, other))
        total += float((left.exp() * (left - right)).sum())
        count += row.shape[0]
    mean = total / count
    return max(0.0, mean) if math.isfinite(mean) else math.inf


def write_probe(path: Path, probe: Probe) -> None:
    """Write a probe as one safetensors file."""
    tensors = {f"fixed/{name}": tensor for name, tensor in probe.fixed.items()}
    for index, batches in enumerate(probe.steps):
        for number, batch in enumerate(batches):
            tensors |= {f"steps/{index}/{number}/{name}": tensor for name, tensor in batch.items()}
    _save(path, tensors, probe.terms.model_dump_json())


def read_probe(path: Path) -> Probe:
    """Read what ``write_probe`` wrote."""
    tensors, text = _load(path)
    fixed = {name.removeprefix("fixed/"): t for name, t in tensors.items() if name.startswith("fixed/")}
    steps: dict[int, dict[int, dict[str, Tensor]]] = {}
    for name, tensor in tensors.items():
        if name.startswith("steps/"):
            _, index, number, kind = name.split("/")
            steps.setdefault(int(index), {}).setdefault(int(number), {})[kind] = tensor
    ordered = tuple(tuple(steps[i][n] for n in sorted(steps[i])) for i in sorted(steps))
    return Probe(fixed, ordered, Terms.model_validate_json(text))


class _Losses(BaseModel):
    losses: tuple[float, ...]


def write_answers(path: Path, answers: Answers) -> None:
    """Write answers as one safetensors file."""
    tensors = {"logits": answers.logits, "base_logits": answers.base_logits}
    if answers.unmerged_logits is not None:
        tensors["unmerged_logits"] = answers.unmerged_logits
    _save(path, tensors, _Losses(losses=answers.losses).model_dump_json())


def read_answers(path: Path) -> Answers:
    """Read what ``write_answers`` wrote."""
    tensors, text = _load(path)
    losses = _Losses.model_validate_json(text).losses
    return Answers(tensors["logits"], tensors["base_logits"], losses, tensors.get("unmerged_logits"))


def _save(path: Path, tensors: Mapping[str, Tensor], text: str) -> None:
    plain: dict[str, Any] = {name: tensor.contiguous() for name, tensor in tensors.items()}
    safetensors.torch.save_file(plain, path, metadata={"values": text})


def _load(path: Path) -> tuple[dict[str, Tensor], str]:
    with safetensors.safe_open(path, framework="pt") as opened:
        names: Sequence[str] = list(opened.keys())
        return {name: opened.get_tensor(name) for name in names}, opened.metadata()["values"]
