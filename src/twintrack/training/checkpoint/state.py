"""What a checkpoint holds, and a snapshot of it that training can walk away from."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from twintrack.training.checkpoint.format import DTYPES

__all__ = ["FLOAT32_GROUPS", "Snapshot", "TrainingState", "group_of"]

FLOAT32_GROUPS = frozenset({"master", "moment1", "moment2"})
"""Groups that are float32 whatever the job computes in."""
_NAME = re.compile(r"[a-z][a-z0-9_]*/.+", re.DOTALL)
_LAST_STEP = 100_000_000


def group_of(name: str) -> str:
    """The group of a tensor's name: what stands before its first ``/``."""
    return name.partition("/")[0]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """All that a run needs to go on to the bit.

    The tensors must never be changed in place once they are here; every step makes new ones.

    Args:
        step: optimizer steps done.
        tensors: by ``GROUP/NAME``. Groups in use: ``weights`` (trained weights in the compute type),
            ``master``, ``moment1``, ``moment2`` (float32 always), ``rng``. Any shape, also none and of size
            zero.
        values: everything else, of what JSON has: schedule, sampler, generators, counters. Keys are strings,
            numbers are finite. Sequences come back as lists.

    Raises:
        ValueError: if the step is out of range, a name has no group, a tensor is not dense or of a type that
            safetensors has not, or a float32 group holds another type.
    """

    step: int
    tensors: Mapping[str, torch.Tensor]
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not 0 <= self.step <= _LAST_STEP:
            raise ValueError(f"a step from 0 to {_LAST_STEP} is required, found {self.step}")
        for name, tensor in self.tensors.items():
            _check_tensor(name, tensor)
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())


def _check_tensor(name: str, tensor: torch.Tensor) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"a tensor name GROUP/NAME is required, found {name!r}")
    if tensor.layout is not torch.strided or tensor.is_meta:
        raise ValueError(
            f"{name}: a dense tensor with data is required, found {tensor.layout}, {tensor.device}"
        )
    if tensor.dtype not in DTYPES:
        raise ValueError(f"{name}: a type that safetensors has is required, found {tensor.dtype}")
    if group_of(name) in FLOAT32_GROUPS and tensor.dtype is not torch.float32:
        raise ValueError(f"{name}: float32 is required, found {tensor.dtype}")


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A state as it was when it was taken: references to its tensors, and its values as text.

    No tensor is copied. That holds because nobody changes them in place, and is checked: each tensor's
    version counter, which PyTorch raises at every in-place operation, is kept here and compared once all is
    written.
    """

    step: int
    tensors: Mapping[str, torch.Tensor]
    document: bytes
    """Content of ``state.json``."""
    versions: Mapping[str, int]

    @classmethod
    def of(cls, state: TrainingState) -> Snapshot:
        """Take one; the time it takes does not depend on the size of the tensors.

        Raises:
            ValueError: if the values hold something that JSON has not, naming the place.
        """
        _check_value("values", state.values)
        document = json.dumps(
            {"step": state.step, "values": state.values}, sort_keys=True, allow_nan=False, default=dict
        )
        versions = {name: tensor._version for name, tensor in _counted(state.tensors)}
        return cls(state.step, state.tensors, document.encode() + b"\n", versions)

    def changed(self) -> list[str]:
        """Names of the tensors that were changed in place since."""
        return [name for name, tensor in _counted(self.tensors) if tensor._version != self.versions[name]]


def _counted(tensors: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors with a version counter; those made in inference mode have none, and refuse in-place use."""
    return ((name, tensor) for name, tensor in tensors.items() if not tensor.is_inference())


def _check_value(place: str, value: Any) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{place}: keys that are strings are required, found {key!r}")
            _check_value(f"{place}.{key}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_value(f"{place}[{index}]", item)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{place}: a finite number is required, found {value}")
    elif not (value is None or isinstance(value, str | int)):
        raise ValueError(f"{place}: a value that JSON has is required, found {type(value).__name__}")
