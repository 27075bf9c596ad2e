"""What each instruction refuses: one function per opcode, in a file per family.

``LEGALITY[opcode](instruction, generation)`` returns nothing, or raises ``KernelError`` naming what was required, what
was found, in which operand and at which line. Rules look at regions, types, shapes and attributes only, never at
values, so that an instruction of known shapes is judged once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality import (
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
from twintrack.neuroncore.isa.legality.indirection import addresses
from twintrack.neuroncore.memory.generation import Generation

__all__ = ["LEGALITY", "Rule"]

Rule = Callable[[Instruction, Generation], None]

_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **movement.RULES,
        **tensor.RULES,
        **elementwise.RULES,
        **scalar.RULES,
        **reduction.RULES,
        **selection.RULES,
        **gather.RULES,
        **random.RULES,
        **control.RULES,
        **collective.RULES,
    }
)


def _whole(rule: Rule) -> Rule:
    """A family's rule, after the one on dynamic addresses that all instructions share."""

    def check(ins: Instruction, generation: Generation) -> None:
        addresses(ins, generation)
        rule(ins, generation)

    return check


LEGALITY: Mapping[str, Rule] = MappingProxyType({opcode: _whole(rule) for opcode, rule in _RULES.items()})
"""By opcode."""
