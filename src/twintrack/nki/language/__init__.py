"""``nki.language``: what kernels are written in: tensors, loops, and operations made of instructions."""

from __future__ import annotations

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki.language.constants import *  # noqa: F403 - the module lists its names
from twintrack.nki.language.creation import *  # noqa: F403
from twintrack.nki.tensor import NKIObject, NkiTensor

__all__ = ["DType", "MemoryRegion", "NKIObject", "NkiTensor"]
