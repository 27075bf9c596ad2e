"""What each instruction computes: one function per opcode, in a file per family.

``HANDLERS[opcode](core, instruction)`` reads its operands with ``core.read`` or ``core.read32``, computes in float32 or
in integers, and writes with ``core.write``, which rounds once. A handler trusts that ``LEGALITY`` let it through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from twintrack.neuroncore.emulator.ops import (
    collective,
    control,
    elementwise,
    gather,
    movement,
    random,
    reduction,
    scalar,
    selection,
    tensor,
)
from twintrack.neuroncore.isa.instruction import Instruction

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS", "VALUELESS"]

HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        **movement.HANDLERS,
        **tensor.HANDLERS,
        **elementwise.HANDLERS,
        **scalar.HANDLERS,
        **reduction.HANDLERS,
        **selection.HANDLERS,
        **gather.HANDLERS,
        **random.HANDLERS,
        **control.HANDLERS,
        **collective.HANDLERS,
    }
)
"""By opcode."""

VALUELESS = frozenset({*control.HANDLERS, *collective.HANDLERS})
"""Opcodes whose handlers run without values too: registers may be known, and cores meet."""
