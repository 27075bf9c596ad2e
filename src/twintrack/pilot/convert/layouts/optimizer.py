"""Optimizer state for others: as ``optimizer.safetensors``, and as the state of a plain ``torch.optim.AdamW``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from twintrack.job.records import Optimizer

__all__ = [
    "OPTIMIZER",
    "OptimizerState",
    "adamw_state_dict",
    "from_adamw",
    "optimizer_bytes",
    "plain_adamw",
    "read_optimizer",
    "restore_adamw",
]

OPTIMIZER = "optimizer.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class OptimizerState:
    """AdamW's state, float32, by our parameter names; the three mappings have the same names and shapes."""

    step: int
    master: Mapping[str, Tensor]
    moment1: Mapping[str, Tensor]
    moment2: Mapping[str, Tensor]


def optimizer_bytes(state: OptimizerState) -> bytes:
    """The content of ``optimizer.safetensors``: ``master.NAME``, ``exp_avg.NAME``, ``exp_avg_sq.NAME``, float32;
    ``step`` and ``layout`` in the metadata."""
    raise NotImplementedError


def read_optimizer(data: bytes, *, where: str) -> OptimizerState:
    """Read what ``optimizer_bytes`` wrote.

    Raises:
        CheckpointError: if it is not that.
    """
    raise NotImplementedError


def plain_adamw(model: nn.Module, optimizer: Optimizer) -> torch.optim.AdamW:
    """A ``torch.optim.AdamW`` over what learns in ``model``, with a job's constants; as in our step, tensors with fewer
    than two axes do not decay."""
    raise NotImplementedError


def adamw_state_dict(
    state: OptimizerState, optimizer: torch.optim.AdamW, model: nn.Module
) -> dict[str, Any]:
    """What ``optimizer.load_state_dict`` takes so that it goes on with these moments; nothing is changed.

    Args:
        optimizer: over parameters of ``model``; its groups and constants are kept.

    Raises:
        CheckpointError: if the names are not those of the optimizer's parameters, a shape differs, or a parameter is
            not float32 (a plain AdamW keeps moments in the parameter's type, which would round them).
    """
    raise NotImplementedError


def restore_adamw(state: OptimizerState, optimizer: torch.optim.AdamW, model: nn.Module) -> None:
    """Put master weights into the model's parameters and moments into the optimizer, in place.

    Raises:
        CheckpointError: as ``adamw_state_dict``; nothing is changed then.
    """
    raise NotImplementedError


def from_adamw(optimizer: torch.optim.AdamW, model: nn.Module) -> OptimizerState:
    """The state of a live optimizer, copied; its parameters are the master weights.

    Raises:
        CheckpointError: if a parameter has no state or another step, or the optimizer is of another kind
            (``amsgrad``).
    """
    raise NotImplementedError
