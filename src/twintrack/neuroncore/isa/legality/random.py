"""Rules of this family of instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.generation import Generation

__all__ = ["RULES"]

RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType({})
"""By opcode."""
