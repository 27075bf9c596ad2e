"""Our side of a conversion: the model of a job with a state's weights, asked in float32 on the processor.

The functions are those of the training step that every track runs (``training.step.Step``), without a track's
number rules: what is shown is that two programs hold the same state, not that two machines round alike. Dropout
is off, here and on the other side: its masks are each program's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import PeftModel
from torch import Tensor
from torch.func import functional_call

from twintrack.job.records import Job
from twintrack.pilot.convert.layouts import OptimizerState
from twintrack.pilot.convert.probe import Answers, Batch, Probe
from twintrack.storage import FileSystem
from twintrack.training.adapter import Adapted, adapt
from twintrack.training.data.rows import IGNORED
from twintrack.training.model import LoadedModel, Progress, check_fits, load_model
from twintrack.training.schedule import adamw_scalars
from twintrack.training.step import Step, segment_mask

__all__ = ["Ours", "hub_name", "merged_weights", "open_ours"]

Tensors = Mapping[str, Tensor]
_WRAPPED = "base_model.model."
_BASE = ".base_layer."


@dataclass(frozen=True, slots=True, eq=False)
class Ours:
    """A job's model in float32, ready for any state's weights."""

    job: Job
    loaded: LoadedModel
    adapted: Adapted
    step: Step
    frozen: Mapping[str, Tensor]
    """All parameters that are not trained, and all buffers."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every trained tensor, in the model's order."""
        return {name: tuple(self.adapted.initial[name].shape) for name in self.adapted.trainable}

    def ask(self, probe: Probe, shown: Tensors, state: OptimizerState | None) -> Answers:
        """Answer a probe.

        Args:
            probe: what is asked.
            shown: every trained tensor as the other side has it, of any floating type; logits are of these.
            state: what the next step begins with; none: no update, and the next step's loss is of ``shown``.
        """
        weights = {name: shown[name].float() for name in self.adapted.trainable}
        return Answers(
            logits=self._logits(weights, self.frozen, probe.fixed),
            base_logits=self._logits(self.adapted.initial, self.frozen, probe.fixed),
            losses=self._losses(probe, weights, self.frozen, state),
        )

    def ask_merged(self, probe: Probe, merged: Tensors) -> Answers:
        """Answer with adapters off and the weights of a whole model in their base's place.

        Args:
            probe: what is asked; of its steps, the loss of the first alone.
            merged: every tensor of the whole model by its name there, of any floating type.
        """
        frozen = {name: merged.get(hub_name(name), t).float() for name, t in self.frozen.items()}
        off = {name: torch.zeros_like(tensor) for name, tensor in self.adapted.initial.items()}
        return Answers(
            logits=self._logits(off, frozen, probe.fixed),
            base_logits=self._logits(off, self.frozen, probe.fixed),
            losses=self._losses(probe, off, frozen, None),
        )

    def _logits(self, weights: Tensors, frozen: Tensors, batch: Batch) -> Tensor:
        inputs = {
            "input_ids": batch["input_ids"],
            "position_ids": batch["position_ids"],
            "attention_mask": segment_mask(batch["segment_ids"], torch.float32),
            "use_cache": False,
        }
        with torch.no_grad():
            logits: Tensor = functional_call(self.step.model, {**frozen, **weights}, (), inputs).logits
        return logits

    def _losses(
        self, probe: Probe, weights: Tensors, frozen: Tensors, state: OptimizerState | None
    ) -> tuple[float, ...]:
        if not probe.steps:
            return ()
        fixed = dict(frozen)
        if state is None:
            return (self._gradients(dict(weights), fixed, probe.steps[0])[0],)
        names = self.adapted.trainable
        groups = {"master": state.master, "moment1": state.moment1, "moment2": state.moment2}
        before = {kind: {name: tensors[name] for name in names} for kind, tensors in groups.items()}
        loss, gradients = self._gradients(before["master"], fixed, probe.steps[0])
        terms = probe.terms
        numbers = adamw_scalars(terms.step + 1, terms.rate, terms.optimizer)
        scalars = {name: torch.tensor(value, dtype=torch.float32) for name, value in numbers.items()}
        after = self.step.update(before, gradients, scalars)["weights"]
        return (loss, *(self._gradients(after, fixed, batches)[0] for batches in probe.steps[1:]))

    def _gradients(
        self, weights: dict[str, Tensor], frozen: dict[str, Tensor], batches: tuple[Batch, ...]
    ) -> tuple[float, dict[str, Tensor]]:
        count = sum(int((batch["labels"] != IGNORED).sum()) for batch in batches)
        scale = torch.tensor(1.0 / count, dtype=torch.float32)
        found = [self.step.gradients(weights, frozen, dict(batch), scale) for batch in batches]
        total = found[0]
        for other in found[1:]:
            total = self.step.accumulate(total, other)
        return float(total["loss"]), total["gradients"]


def open_ours(job: Job, base: Path, *, cache_root: Path, fs: FileSystem, progress: Progress) -> Ours:
    """Load a job's model in float32 and adapt it as a run of the job does.

    Args:
        job: of the state.
        base: folder of the job file.
        cache_root: of converted weights.
        fs: file system.
        progress: told what is being done.

    Raises:
        ModelError: if the model cannot be loaded, or does not go with the job.
        StorageError: if a file cannot be read.
    """
    loaded = load_model(
        job.model,
        base,
        dtype=torch.float32,
        attention="sdpa",
        cache_root=cache_root,
        fs=fs,
        progress=progress,
    )
    check_fits(job, loaded.model.config)
    adapted = adapt(loaded.model, job.lora, seed=job.seed, dtype=torch.float32)
    model = adapted.model.eval()
    trained = set(adapted.trainable)
    tensors = [*model.named_parameters(), *model.named_buffers()]
    frozen = {name: tensor.detach() for name, tensor in tensors if name not in trained}
    return Ours(job, loaded, adapted, Step(model, job.optimizer, torch.float32), frozen)


def merged_weights(ours: Ours, weights: Tensors, dtype: torch.dtype) -> dict[str, Tensor]:
    """The whole model with its adapters added in: ``W + (alpha / rank) B A``, summed in float32, then cast.

    Without adapters these are the weights themselves.

    Args:
        ours: the job's model.
        weights: every trained tensor, of any floating type.
        dtype: type of the result.

    Returns:
        Tensors by their names in the model as it was loaded.
    """
    if not isinstance(ours.adapted.model, PeftModel) or ours.job.lora is None:
        return {name: tensor.to(dtype) for name, tensor in weights.items()}
    scale = ours.job.lora.alpha / ours.job.lora.rank
    whole: dict[str, Tensor] = {}
    for name, parameter in ours.adapted.model.named_parameters():
        if name in weights:
            continue
        value = parameter.detach()
        module, mark, _ = name.rpartition(_BASE)
        if mark:
            b, a = (weights[f"{module}.lora_{side}.default.weight"].float() for side in "BA")
            value = value.float() + scale * (b @ a)
        whole[hub_name(name)] = value.to(dtype)
    return whole


def hub_name(name: str) -> str:
    """A parameter's name in the model before it was adapted."""
    return name.removeprefix(_WRAPPED).replace(_BASE, ".")
