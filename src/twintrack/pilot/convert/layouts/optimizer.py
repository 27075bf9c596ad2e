"""Optimizer state for others, as a file: ``optimizer.safetensors``.

Keys are ``master.NAME``, ``exp_avg.NAME`` and ``exp_avg_sq.NAME``, all float32; names of the moments are those of
``torch.optim.AdamW``, and NAME is the parameter's in the model as it is trained, which is what ``named_parameters`` of
a PEFT model says. The metadata hold ``step``, the optimizer steps done, and ``layout`` = 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from twintrack.errors import CheckpointError
from twintrack.training.checkpoint.format import safetensors_chunks

__all__ = ["OPTIMIZER", "OptimizerState", "optimizer_bytes", "read_optimizer"]

OPTIMIZER = "optimizer.safetensors"
_LAYOUT = "1"
_STEP = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True, eq=False)
class OptimizerState:
    """AdamW's state by our parameter names.

    Args:
        step: optimizer steps done.
        master: float32 master weights.
        moment1: mean of gradients, decayed; float32.
        moment2: mean of squared gradients, decayed; float32.

    Raises:
        CheckpointError: if the three have not the same names and shapes, one is empty or not float32, or the step is
            negative.
    """

    step: int
    master: Mapping[str, Tensor]
    moment1: Mapping[str, Tensor]
    moment2: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        if self.step < 0 or not self.master:
            _refuse("a step from 0 and at least one parameter", f"step {self.step}, {len(self.master)}")
        for kind, tensors in self.groups.items():
            if wrong := sorted(tensors.keys() ^ self.master.keys()):
                _refuse(f"{kind} of every parameter and no other", f"a difference in {wrong[0]}")
            for name, tensor in tensors.items():
                if tensor.dtype is not torch.float32 or tensor.shape != self.master[name].shape:
                    shape = list(self.master[name].shape)
                    found = f"{list(tensor.shape)}, {str(tensor.dtype).removeprefix('torch.')}"
                    _refuse(f"{kind} of {name} of shape {shape}, float32", found)
                if tensor.numel() == 0:
                    _refuse(f"elements in {kind} of {name}", f"shape {list(tensor.shape)}")

    @property
    def groups(self) -> dict[str, Mapping[str, Tensor]]:
        """``master``, ``moment1``, ``moment2``: as a training state names its groups."""
        return {"master": self.master, "moment1": self.moment1, "moment2": self.moment2}


_KEYS = {"master": "master", "moment1": "exp_avg", "moment2": "exp_avg_sq"}


def optimizer_bytes(state: OptimizerState) -> bytes:
    """The content of ``optimizer.safetensors``; the same state always gives the same bytes."""
    tensors = {
        f"{_KEYS[group]}.{name}": tensor
        for group, held in state.groups.items()
        for name, tensor in held.items()
    }
    chunks = safetensors_chunks(tensors, tuple(sorted(tensors)))
    metadata = {"format": "pt", "layout": _LAYOUT, "step": str(state.step)}
    # safetensors writes metadata in an order of its own in every process, so the header is made here
    entries = json.loads(bytes(next(chunks))[8:])
    text = json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *chunks])


def read_optimizer(data: bytes, *, where: str) -> OptimizerState:
    """Read what ``optimizer_bytes`` wrote.

    Args:
        data: content of the file.
        where: what errors call it.

    Raises:
        CheckpointError: if it is not that: damaged, another layout, unknown or missing keys, other types or shapes, a
            second moment below zero, a number that is not finite.
    """
    try:
        tensors = safetensors.torch.load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__") or {}
    except (SafetensorError, KeyError, ValueError, RuntimeError, RecursionError) as error:
        _refuse("a safetensors file", str(error)[:200], where)
    if metadata.get("layout") != _LAYOUT or not _STEP.fullmatch(metadata.get("step", "")):
        _refuse("layout 1 and a step in the metadata", str(metadata)[:200], where)
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in _KEYS}
    kinds = {kind: group for group, kind in _KEYS.items()}
    for key, tensor in sorted(tensors.items()):
        kind, _, name = key.partition(".")
        if kind not in kinds or not name:
            _refuse("keys master.NAME, exp_avg.NAME, exp_avg_sq.NAME", key, where)
        if tensor.is_floating_point() and not bool(tensor.float().isfinite().all()):
            _refuse("finite numbers", f"{key} with others", where)
        if kind == "exp_avg_sq" and tensor.is_floating_point() and bool((tensor.float() < 0).any()):
            _refuse("second moments from 0", f"{key} with negative ones", where)
        groups[kinds[kind]][name] = tensor
    try:
        return OptimizerState(int(metadata["step"]), **groups)
    except CheckpointError as error:
        _refuse(error.required, error.found, where)


def _refuse(required: str, found: str, where: str = "optimizer state") -> NoReturn:
    raise CheckpointError(
        required, found=found, where=where, remedy="convert again from a checkpoint of the run"
    )
