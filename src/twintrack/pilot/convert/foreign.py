"""Folders that another program may have written, read with distrust: an adapter, a whole model, optimizer state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor
from transformers import LlamaConfig

from twintrack.errors import CheckpointError, ModelError
from twintrack.job.records import Lora
from twintrack.pilot.convert.layouts import (
    OPTIMIZER,
    OptimizerState,
    check_keys,
    drop_tied_head,
    expected_keys,
    from_peft,
    read_optimizer,
)
from twintrack.storage import FileSystem, storage_errors
from twintrack.training.weights import weight_files

__all__ = ["ADAPTER", "read_adapter", "read_state_file", "read_tensors", "read_whole_model"]

ADAPTER = "adapter_model.safetensors"
_TYPES = frozenset({torch.float32, torch.bfloat16})
_ULP = {torch.float32: 0.0, torch.bfloat16: 2.0**-7}
"""How far, relatively, a weight may lie from its float32 master: half-way and stochastic rounding both fit."""
_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "fan_in_fan_out": (False, None),
    "use_rslora": (False, None),
    "use_dora": (False, None),
    "lora_bias": (False, None),
    "modules_to_save": (None, []),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "layers_to_transform": (None, []),
    "layers_pattern": (None, [], ""),
    "exclude_modules": (None, [], ""),
}
"""Settings of PEFT that change what an adapter computes, and the values that a job's adapters have."""


def read_tensors(file: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file.

    Raises:
        ModelError: if it is damaged.
        StorageError: if it cannot be read.
    """
    try:
        with storage_errors(file, "read weights"):
            return safetensors.torch.load_file(file)
    except (safetensors.SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(
            "a whole safetensors file", found=str(error)[:200], where=str(file), remedy="copy it again"
        ) from error


def read_adapter(folder: Path, config: LlamaConfig, lora: Lora, fs: FileSystem) -> dict[str, Tensor]:
    """An adapter in PEFT's layout by our names, once it is the job's: its settings, keys and shapes.

    Raises:
        ModelError: naming the setting, key or tensor.
        StorageError: if a file cannot be read.
    """
    _check_settings(folder / "adapter_config.json", lora, fs)
    tensors = read_tensors(folder / ADAPTER)
    expected = expected_keys(config, lora)
    check_keys(tensors, expected, where=str(folder / ADAPTER), dtypes=_TYPES)
    return from_peft({key: tensors[key] for key in expected})


def _check_settings(path: Path, lora: Lora, fs: FileSystem) -> None:
    with storage_errors(path, "read the adapter"):
        data = fs.read_bytes(path)
    try:
        found = json.loads(data)
        targets = found["target_modules"]
        names = {targets} if isinstance(targets, str) else set(targets)
        values = {"r": found["r"], "lora_alpha": float(found["lora_alpha"]), "target_modules": sorted(names)}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _setting(
            path, "adapter_config.json as PEFT writes it", f"{type(error).__name__}: {error}"
        ) from error
    wanted = {"r": lora.rank, "lora_alpha": lora.alpha, "target_modules": sorted(set(lora.targets))}
    for key, value in wanted.items():
        if values[key] != value:
            raise _setting(path, f"{key} = {value}, as the job says", str(values[key]))
    for key, allowed in _PLAIN.items():
        if key in found and found[key] not in allowed:
            raise _setting(path, f"{key} = {allowed[0]}", repr(found[key]))


def _setting(path: Path, required: str, found: str) -> ModelError:
    return ModelError(
        required, found=found, where=str(path), remedy="give the job that this adapter was trained with"
    )


def read_whole_model(folder: Path, config: LlamaConfig) -> dict[str, Tensor]:
    """A whole model's tensors, once they are those that the base model's configuration asks for.

    Raises:
        ModelError: naming the tensor.
        StorageError: if a file cannot be read.
    """
    tensors: dict[str, Tensor] = {}
    for file in weight_files(folder):
        tensors |= read_tensors(file)
    tensors = drop_tied_head(tensors, config, where=str(folder))
    expected = expected_keys(config, None)
    check_keys(tensors, expected, where=str(folder), dtypes=_TYPES)
    return {key: tensors[key] for key in expected}


def read_state_file(
    folder: Path, expected: Mapping[str, tuple[int, ...]], weights: Mapping[str, Tensor], fs: FileSystem
) -> OptimizerState | None:
    """Optimizer state beside foreign weights; none where there is no such file.

    Args:
        folder: that may hold it.
        expected: names and shapes of what is trained.
        weights: of the folder, by our names; the masters must round to them.
        fs: file system.

    Raises:
        CheckpointError: if the file is damaged, lacks a moment, or is of other weights than the folder's.
        StorageError: if it cannot be read.
    """
    path = folder / OPTIMIZER
    if not fs.exists(path):
        return None
    with storage_errors(path, "read the optimizer's state"):
        data = fs.read_bytes(path)
    state = read_optimizer(data, where=str(path))
    for kind, tensors in (
        ("master", state.master),
        ("exp_avg", state.moment1),
        ("exp_avg_sq", state.moment2),
    ):
        for name, shape in expected.items():
            if name not in tensors or tuple(tensors[name].shape) != shape:
                found = f"shape {list(tensors[name].shape)}" if name in tensors else "none"
                raise _other_state(path, f"{kind}.{name} of shape {list(shape)}", found)
        if spare := sorted(tensors.keys() - expected.keys()):
            raise _other_state(path, "state of the job's trained tensors alone", f"{kind}.{spare[0]}")
    for name, weight in weights.items():
        gap = (state.master[name] - weight.float()).abs()
        if not bool((gap <= _ULP[weight.dtype] * state.master[name].abs()).all()):
            raise _other_state(path, f"master weights of the folder's own {name}", "other weights")
    groups = (state.master, state.moment1, state.moment2)
    master, moment1, moment2 = ({name: group[name] for name in expected} for group in groups)
    return OptimizerState(state.step, master, moment1, moment2)


def _other_state(path: Path, required: str, found: str) -> CheckpointError:
    return CheckpointError(
        required,
        found=found,
        where=str(path),
        remedy=f"write {OPTIMIZER} together with the weights, or remove it and give --fresh-optimizer",
    )
