"""One process's share of a run, made ready: model on its device, functions compiled, rows, state."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

import twintrack.training.step
from twintrack.errors import CheckpointError
from twintrack.job.records import Job
from twintrack.storage import canonical_json, digest_bytes
from twintrack.tracks import Executable, OpenTrack
from twintrack.training.adapter import Adapted
from twintrack.training.checkpoint import TrainingState
from twintrack.training.checkpoint.random_state import capture_random_state, restore_random_state
from twintrack.training.data import PreparedData, Row, collate
from twintrack.training.dropout import dropout_key_names
from twintrack.training.model import LoadedModel
from twintrack.training.sampler import Sampler
from twintrack.training.step import Step

__all__ = ["Programs", "Progress", "Reason", "Session", "in_evaluation", "open_session", "state_digest"]

Tensors = dict[str, Tensor]
Reason = Literal["steps", "evaluation_loss"]
_KINDS = ("master", "moment1", "moment2")


@dataclass(frozen=True, slots=True)
class Programs:
    """The functions of ``Step``, ready to run on a track."""

    gradients: Executable
    accumulate: Executable
    update: Executable
    evaluate: Executable
    next_tokens: Executable


@dataclass(frozen=True, slots=True)
class Progress:
    """What changes from step to step; every step makes a new one, and no tensor in it is changed in place."""

    step: int
    weights: Tensors
    """Trained weights in the compute type."""
    optimizer: dict[str, Tensors]
    """``master``, ``moment1``, ``moment2``: float32."""
    sampler: Mapping[str, Any]
    tokens: int
    """Tokens of samples seen so far."""
    finished: Reason | None = None
    """Which criterion ended training at this step; a process killed after that only has to say so."""


@dataclass(frozen=True, slots=True)
class Session:
    """What stays the same while a process works on a run."""

    job: Job
    track: OpenTrack
    data: PreparedData
    loaded: LoadedModel
    adapted: Adapted
    frozen: Tensors
    programs: Programs
    dropout_keys: tuple[str, ...]
    """Names of the buffers that key dropout; empty where nothing is dropped."""

    def batch(self, rows: list[Row]) -> Tensors:
        """Rows as tensors ``[B, L]`` on the track's device, padded as the job says."""
        tensors = collate(rows, self.job.data.padding)
        return {name: tensor.to(self.track.device) for name, tensor in tensors.items()}

    def scalar(self, value: float) -> Tensor:
        """A float32 number on the track's device."""
        return torch.tensor(value, dtype=torch.float32, device=self.track.device)

    def keyed(self, number: int) -> Tensors:
        """Frozen tensors with dropout keyed, by the seed and the number of the micro-batch."""
        if not self.dropout_keys:
            return self.frozen
        key = int(digest_bytes(f"dropout {self.job.seed} {number}".encode())[:15], 16)
        tensor = torch.tensor(key, dtype=torch.int64, device=self.track.device)
        return {**self.frozen, **dict.fromkeys(self.dropout_keys, tensor)}

    def fresh(self) -> Progress:
        """The state before the first step."""
        device = self.track.device
        master = {name: self.adapted.initial[name].to(device) for name in self.adapted.trainable}
        zeros = {name: torch.zeros_like(tensor) for name, tensor in master.items()}
        optimizer = {"master": master, "moment1": zeros, "moment2": dict(zeros)}
        sampler = Sampler(len(self.data.train), self.job.seed)
        return Progress(0, self._weights(master), optimizer, dict(sampler.state), 0)

    def restore(self, state: TrainingState) -> Progress:
        """The state that a checkpoint holds; random generators are put back too.

        Names are in the order of the model, not of the file: sums over all tensors depend on it.

        Raises:
            CheckpointError: if a trained tensor is missing.
        """
        groups = {kind: self._group(state, kind) for kind in ("weights", *_KINDS)}
        restore_random_state(state.tensors, state.values["random"])
        return Progress(
            state.step,
            groups["weights"],
            {kind: groups[kind] for kind in _KINDS},
            state.values["sampler"],
            state.values["tokens"],
            state.values["finished"],
        )

    def snapshot(self, progress: Progress) -> TrainingState:
        """What a checkpoint must hold."""
        random_tensors, random_values = capture_random_state()
        tensors = {f"weights/{name}": tensor for name, tensor in progress.weights.items()}
        for kind in _KINDS:
            tensors |= {f"{kind}/{name}": tensor for name, tensor in progress.optimizer[kind].items()}
        values = {
            "sampler": dict(progress.sampler),
            "random": random_values,
            "tokens": progress.tokens,
            "finished": progress.finished,
            "schedule": {"step": progress.step, "steps": self.job.stop.steps},
        }
        return TrainingState(progress.step, {**tensors, **random_tensors}, values)

    def _group(self, state: TrainingState, kind: str) -> Tensors:
        missing = [name for name in self.adapted.trainable if f"{kind}/{name}" not in state.tensors]
        if missing:
            raise CheckpointError(
                "every trained tensor",
                found=f"no {kind}/{missing[0]}",
                where=f"checkpoint of step {state.step}",
                remedy="resume from another checkpoint",
            )
        return {
            name: state.tensors[f"{kind}/{name}"].to(self.track.device) for name in self.adapted.trainable
        }

    def _weights(self, master: Tensors) -> Tensors:
        return {name: tensor.to(self.track.rules.compute) for name, tensor in master.items()}


def state_digest(progress: Progress) -> str:
    """SHA-256 over names, types, shapes and bytes of weights, master weights and moments, and the step."""
    digest = hashlib.sha256(str(progress.step).encode())
    groups = {"weights": progress.weights, **progress.optimizer}
    for group in sorted(groups):
        for name, tensor in sorted(groups[group].items()):
            digest.update(f"{group}/{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def open_session(
    job: Job, track: OpenTrack, data: PreparedData, loaded: LoadedModel, adapted: Adapted
) -> Session:
    """Put the model on the device and make its functions ready; nothing is captured before its first call."""
    model = adapted.model.to(track.device)
    trained = set(adapted.trainable)
    tensors = [*model.named_parameters(), *model.named_buffers()]
    frozen = {name: tensor.detach() for name, tensor in tensors if name not in trained}
    keys = dropout_key_names(model)
    model.train(bool(keys))
    step = Step(model, job.optimizer, track.rules.compute)
    key = _key_parts(job, model)
    programs = Programs(
        track.compile("gradients", step.gradients, layers=step.layers, key=key),
        track.compile("accumulate", step.accumulate, key=key),
        track.compile("update", step.update, key=key),
        track.compile("evaluate", in_evaluation(model, step.evaluate), layers=step.layers, key=key),
        track.compile("next_tokens", in_evaluation(model, step.next_tokens), layers=step.layers, key=key),
    )
    return Session(job, track, data, loaded, adapted, frozen, programs, keys)


def in_evaluation(model: nn.Module, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run with dropout off; the model's mode comes back after each call."""

    def run(*arguments: Any) -> Any:
        training = model.training
        model.eval()
        try:
            return function(*arguments)
        finally:
            model.train(training)

    return run


def _key_parts(job: Job, model: nn.Module) -> dict[str, str]:
    """What decides, beside shapes, types and versions, what the functions compute; for the cache's key."""
    sources = sorted(
        {type(module).__module__ for module in model.modules()} | {twintrack.training.step.__name__}
    )
    text = "".join(inspect.getsource(sys.modules[name]) for name in sources if not name.startswith("torch."))
    config: Any = model.config
    config = {k: v for k, v in config.to_dict().items() if k not in ("_name_or_path", "transformers_version")}
    adapter = job.lora.model_dump() if job.lora else "full"
    optimizer = job.optimizer.model_dump(exclude={"learning_rate"})
    optimizer["weight_decay"] = optimizer["weight_decay"] > 0.0
    return {
        "model source": digest_bytes(text.encode())[:16],
        "model configuration": f"{type(model).__name__} {digest_bytes(canonical_json(config).encode())[:16]}",
        "adapter": canonical_json(adapter),
        "optimizer constants": canonical_json(optimizer),
    }
