"""``kernel.with_schedule``: order between instructions that their names ask for.

A schedule is a list of pairs ``(consumer, producer)`` or ``(consumer, [producers])`` of names that an author gave to
instructions. The emulator carries them out in the order of the program, so an edge changes no value; it is kept in the
stream and orders accesses for the search of ``--check all``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from twintrack.errors import KernelError, nearest
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.isa.instruction import Instruction

__all__ = ["Edges", "Scheduler", "read_schedule"]

Edges = Mapping[str, tuple[str, ...]]
"""Producers by the name of their consumer."""


def read_schedule(pairs: Sequence[Any]) -> Edges:
    """The edges of a schedule.

    Raises:
        KernelError: if it is no list of pairs of names.
    """
    found: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise _wrong(repr(pair))
        consumer, producers = pair
        named = tuple(producers) if isinstance(producers, tuple | list) else (producers,)
        if not isinstance(consumer, str) or not all(isinstance(one, str) for one in named):
            raise _wrong(repr(pair))
        found[consumer] = (*found.get(consumer, ()), *named)
    return MappingProxyType(found)


def _wrong(found: str) -> KernelError:
    return KernelError(
        "pairs (consumer, producer) or (consumer, [producers]) of instruction names",
        found=found,
        where="with_schedule",
        remedy="give instructions a name= and name them in pairs",
    )


class Scheduler:
    """Adds a schedule's edges to the instructions of one core as they are issued.

    Args:
        edges: of the schedule.
    """

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._numbers: dict[str, int] = {}

    def __call__(self, core: Core, ins: Instruction) -> None:
        """See an instruction before it is carried out.

        Raises:
            KernelError: if one that it must wait for has not been issued yet.
        """
        del core
        if not ins.name:
            return
        for producer in self._edges.get(ins.name, ()):
            number = self._numbers.get(producer)
            if number is None:
                raise KernelError(
                    f"instruction '{producer}' issued before '{ins.name}', which the schedule makes wait for it",
                    found="none of that name so far",
                    where=ins.line,
                    remedy=nearest(producer, self._numbers) or "issue it earlier, or turn the pair around",
                )
            ins.after.append(number)
        self._numbers[ins.name] = ins.number

    def finish(self, where: str) -> None:
        """See that every consumer was there.

        Raises:
            KernelError: if a name of the schedule was never issued.
        """
        for consumer in self._edges:
            if consumer not in self._numbers:
                raise KernelError(
                    f"an instruction named '{consumer}', which the schedule names",
                    found="none",
                    where=where,
                    remedy=nearest(consumer, self._numbers) or "give it that name=",
                )
