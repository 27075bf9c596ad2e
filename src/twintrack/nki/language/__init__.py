"""``nki.language``: what kernels are written in: tensors, loops, and operations made of instructions."""

from __future__ import annotations

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki.language.constants import *
from twintrack.nki.language.creation import *
from twintrack.nki.tensor import NKIObject, NkiTensor

__all__ = ["DType", "MemoryRegion", "NKIObject", "NkiTensor"]
