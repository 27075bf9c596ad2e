"""The training step as pure functions of tensors: every track runs these, as they are or captured.

Shapes: B rows of a micro-batch, T positions of its rows (all of a row, or fewer where the job pads to the longest
row), V vocabulary. A batch is a dict of int64 tensors ``[B, T]``:
``input_ids``, ``labels`` (already shifted; -100 carries no loss), ``position_ids``, ``segment_ids``.
Weights are dicts by parameter name. Nothing is changed in place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from twintrack.job.records import Optimizer
from twintrack.training.data.rows import IGNORED

__all__ = ["Step", "segment_mask", "token_losses"]

Tensors = dict[str, Tensor]


def segment_mask(segment_ids: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive attention mask ``[B, 1, T, T]``: 0 where a position may look, the lowest finite number elsewhere.

    A position looks at itself and earlier positions of its own segment, so no row of the mask is empty.
    """
    index = torch.arange(segment_ids.shape[1], device=segment_ids.device)
    causal = index[:, None] >= index[None, :]
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    allowed = (same & causal)[:, None]
    blocked = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=segment_ids.device)
    return torch.where(allowed, torch.zeros((), dtype=dtype, device=segment_ids.device), blocked)


def token_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy per position in float32, ``[B, T]``; 0 where the label is ignored.

    Args:
        logits: ``[B, T, V]``.
        labels: ``[B, T]``.
    """
    kept = labels != IGNORED
    targets = torch.where(kept, labels, torch.zeros_like(labels))
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)
    losses = -log_probabilities.gather(-1, targets[..., None])[..., 0]
    return torch.where(kept, losses, torch.zeros_like(losses))


_STACKED_ELEMENTS = 1 << 20
"""Tensors are updated together up to this size: for small ones a copy costs less than many operators."""


def _equal_shapes(tensors: Tensors) -> list[list[str]]:
    """Names in groups of one shape, none larger than the limit unless it is a single tensor; in a stable order."""
    groups: list[list[str]] = []
    open_groups: dict[torch.Size, list[str]] = {}
    for name, tensor in tensors.items():
        group = open_groups.get(tensor.shape)
        if group is None or (len(group) + 1) * tensor.numel() > _STACKED_ELEMENTS:
            group = open_groups[tensor.shape] = []
            groups.append(group)
        group.append(name)
    return groups


def _stack(tensors: Tensors, names: list[str]) -> Tensor:
    """Named tensors as one, ``[N, ...]``; a single one is not copied."""
    return torch.stack([tensors[name] for name in names]) if len(names) > 1 else tensors[names[0]][None]


class Step:
    """The functions of a training step for one model.

    Args:
        model: called functionally; its own parameters are never read during a step.
        optimizer: constants of AdamW.
        compute: type of weights in use.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, compute: torch.dtype) -> None:
        self.model = model
        self.compute = compute
        self._optimizer = optimizer
        self._max_norm = optimizer.max_gradient_norm
        lists = [m for m in model.modules() if isinstance(m, nn.ModuleList)]
        self.layers: tuple[nn.Module, ...] = tuple(layer for items in lists for layer in items)
        """Modules that repeat in the model."""

    def gradients(self, weights: Tensors, frozen: Tensors, batch: Tensors, scale: Tensor) -> dict[str, Any]:
        """Loss and gradients of one micro-batch.

        Args:
            weights: trained weights in the compute type.
            frozen: all other parameters and all buffers.
            batch: see the module's docstring.
            scale: one over the loss tokens of the whole step, float32 without axes.

        Returns:
            ``loss`` (this micro-batch's share of the step's mean loss) and ``gradients`` by name, float32.
        """
        leaves = {name: weight.detach().requires_grad_(True) for name, weight in weights.items()}
        with torch.enable_grad():
            # logits get no name here: they are the largest tensor, and nobody needs them in the backward pass
            losses = token_losses(self._logits({**frozen, **leaves}, batch), batch["labels"])
            loss = losses.sum() * scale
            found = torch.autograd.grad(loss, list(leaves.values()))
        return {
            "loss": loss.detach(),
            "gradients": {name: grad.float() for name, grad in zip(leaves, found, strict=True)},
        }

    def accumulate(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        """Sum of two results of ``gradients``."""
        return {
            "loss": left["loss"] + right["loss"],
            "gradients": {name: grad + right["gradients"][name] for name, grad in left["gradients"].items()},
        }

    def update(self, state: dict[str, Tensors], gradients: Tensors, scalars: Tensors) -> dict[str, Any]:
        """AdamW on float32 master weights, after clipping to the global 2-norm.

        Small tensors of one shape are updated together, which changes no bit of the update.
        Weight decay leaves out tensors with fewer than two axes (biases and norms), as is usual.

        Args:
            state: ``master``, ``moment1``, ``moment2`` by name, float32.
            gradients: by name, float32.
            scalars: ``step_size``, ``second_correction``, ``decay``: float32 without axes.

        Returns:
            ``state`` as given but new, ``weights`` in the compute type, ``norm`` of the gradients before clipping.
        """
        groups = _equal_shapes(state["master"])
        stacked = [_stack(gradients, names) for names in groups]
        norm = torch.sqrt(torch.stack([(x * x).sum() for x in stacked]).sum())
        clip = torch.ones_like(norm)
        if self._max_norm is not None:
            clip = torch.minimum(clip, self._max_norm / (norm + 1e-6))
        new: dict[str, Tensors] = {"master": {}, "moment1": {}, "moment2": {}}
        weights: Tensors = {}
        for names, gradient in zip(groups, stacked, strict=True):
            master, moment1, moment2 = (_stack(state[kind], names) for kind in new)
            decays = state["master"][names[0]].dim() > 1
            after = self._adamw(master, moment1, moment2, gradient * clip, scalars, decays=decays)
            for kind, tensor in zip(new, after, strict=True):
                new[kind].update(zip(names, tensor.unbind(), strict=True))
            weights.update(zip(names, after[0].to(self.compute).unbind(), strict=True))
        ordered = {kind: {name: found[name] for name in state["master"]} for kind, found in new.items()}
        return {"state": ordered, "weights": {name: weights[name] for name in state["master"]}, "norm": norm}

    def _adamw(
        self,
        master: Tensor,
        moment1: Tensor,
        moment2: Tensor,
        gradient: Tensor,
        scalars: Tensors,
        *,
        decays: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """AdamW (arXiv 1711.05101) in float32, element by element, on tensors of one shape stacked ``[N, ...]``."""
        o = self._optimizer
        moment1 = moment1 * o.beta1 + gradient * (1.0 - o.beta1)
        moment2 = moment2 * o.beta2 + gradient * gradient * (1.0 - o.beta2)
        scale = torch.sqrt(moment2) * scalars["second_correction"] + o.epsilon
        if decays and o.weight_decay > 0.0:
            master = master * scalars["decay"]
        return master - scalars["step_size"] * (moment1 / scale), moment1, moment2

    def evaluate(self, weights: Tensors, frozen: Tensors, batch: Tensors) -> Tensor:
        """Loss per position, float32 ``[B, T]``."""
        with torch.no_grad():
            return token_losses(self._logits({**frozen, **weights}, batch), batch["labels"])

    def next_tokens(self, weights: Tensors, frozen: Tensors, batch: Tensors, last: Tensor) -> Tensor:
        """The likeliest next token of every row, int64 ``[B]``; the lowest id where several are.

        Args:
            weights: trained weights.
            frozen: everything else.
            batch: without ``labels``.
            last: int64 ``[B]``, position of the last token of each row.
        """
        with torch.no_grad():
            logits = self._logits({**frozen, **weights}, batch)
            index = last[:, None, None].expand(-1, 1, logits.shape[-1])
            return logits.gather(1, index)[:, 0].float().argmax(dim=-1)

    def _logits(self, state: Tensors, batch: Tensors) -> Tensor:
        inputs = {
            "input_ids": batch["input_ids"],
            "position_ids": batch["position_ids"],
            "attention_mask": segment_mask(batch["segment_ids"], self.compute),
            "use_cache": False,
        }
        logits: Tensor = functional_call(self.model, state, (), inputs).logits
        return logits
