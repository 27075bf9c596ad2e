"""What this family of instructions computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from twintrack.neuroncore.isa.instruction import Instruction

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]

HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType({})
"""By opcode."""
