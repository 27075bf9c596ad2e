"""q, k, v of a shard as one tensor, and gate and up as one; and apart again.

Only weights and biases are fused. Adapters stay a tensor for each module: q, k and v have an A of their own in PEFT,
which one fused module could not hold.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from twintrack.errors import ModelError
from twintrack.pilot.convert.layouts.geometry import place_of
from twintrack.pilot.convert.layouts.layout import Plan

__all__ = ["fuse", "unfuse"]

_QKV = ("q_proj", "k_proj", "v_proj")
_GATE_UP = ("gate_proj", "up_proj")


def fuse(tensors: Mapping[str, Tensor], plan: Plan) -> dict[str, Tensor]:
    """A shard's tensors with those modules fused that the layout says, by names with ``qkv_proj``, ``gate_up_proj``.

    Raises:
        ModelError: if a part of what is to be fused is missing.
    """
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        module, modules = _fused_with(name, plan)
        if not modules:
            result[name] = tensor
            continue
        fused = name.replace(f".{module}.", f".{_fused(modules)}.")
        if fused in result:
            continue
        siblings = [name.replace(f".{module}.", f".{other}.") for other in modules]
        if lacking := [sibling for sibling in siblings if sibling not in tensors]:
            raise ModelError(
                f"{' and '.join(modules)} together, to fuse them",
                found=f"no {lacking[0]}",
                where=name,
                remedy="use a layout that does not fuse them",
            )
        result[fused] = _merge([tensors[sibling] for sibling in siblings], modules, plan)
    return result


def unfuse(tensors: Mapping[str, Tensor], plan: Plan) -> dict[str, Tensor]:
    """The inverse of ``fuse``, on tensors whose shapes are those of a shard."""
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        modules = next((m for m in (_QKV, _GATE_UP) if f".{_fused(m)}." in name), ())
        if not modules:
            result[name] = tensor
            continue
        names = [name.replace(f".{_fused(modules)}.", f".{module}.") for module in modules]
        result |= dict(zip(names, _divide(tensor, modules, plan), strict=True))
    return result


def _fused(modules: tuple[str, ...]) -> str:
    return "qkv_proj" if modules == _QKV else "gate_up_proj"


def _fused_with(name: str, plan: Plan) -> tuple[str, tuple[str, ...]]:
    """A tensor's module, and what it is fused with, itself included; nothing if it stays apart."""
    place = place_of(name)
    if place is None or place.part not in ("weight", "bias"):
        return "", ()
    if place.module in _QKV and plan.layout.fused_qkv != "none":
        return place.module, _QKV
    return place.module, _GATE_UP if place.module in _GATE_UP and plan.layout.fused_gate_up else ()


def _groups(modules: tuple[str, ...], plan: Plan) -> int:
    """Groups that follow one another, each with its rows of every module."""
    by_group = modules == _QKV and plan.layout.fused_qkv == "groups"
    return plan.slots // plan.layout.tensor if by_group else 1


def _merge(parts: list[Tensor], modules: tuple[str, ...], plan: Plan) -> Tensor:
    grouped = [part.reshape(_groups(modules, plan), -1, *part.shape[1:]) for part in parts]
    return torch.cat(grouped, dim=1).flatten(0, 1)


def _divide(tensor: Tensor, modules: tuple[str, ...], plan: Plan) -> list[Tensor]:
    groups = _groups(modules, plan)
    if modules == _QKV:
        kv = plan.slots // plan.layout.tensor // groups * plan.geometry.head_dim
        sizes = [kv * plan.geometry.heads // plan.slots, kv, kv]
    else:
        sizes = [tensor.shape[0] // 2] * 2
    parts = torch.split(tensor.reshape(groups, -1, *tensor.shape[1:]), sizes, dim=1)
    return [part.flatten(0, 1) for part in parts]
