"""``VirtualRegister``: what a kernel holds of a register of the sequencers.

A kernel is executed while it is traced, so ``while reg:`` and ``nl.dynamic_range(reg)`` go by the register's value, as
they do on the device. Where values are not computed, a register that was loaded from memory has none: a loop over it
needs a trip count, by ``file:line`` of the loop (the whole path or the file's name), or by ``""`` for all loops.

As on the device, a register is no Python number: ``int(reg)``, ``range(reg)`` and comparisons are refused.
"""

from __future__ import annotations

import operator
import os
from typing import NoReturn

from twintrack.errors import KernelError, RegisterError
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.isa.instruction import Engine, Instruction, Register
from twintrack.nki.context import current_core
from twintrack.nki.tensor import NKIObject

__all__ = ["VirtualRegister", "endless", "known_integer", "trip_count", "whole_number"]

_LOWEST, _HIGHEST = -(1 << 31), (1 << 32) - 1


class VirtualRegister(Register, NKIObject):
    """A register: 32 bits, read as a signed integer.

    ``+``, ``-``, ``*``, ``//`` and ``%`` with registers and integers give a new register, modulo 2**32; ``//`` and
    ``%`` take operands that are not negative.

    Args:
        state: its first value; ``None`` leaves it unwritten.
        frozen: whether writing to it is refused, as to the index of ``nl.dynamic_range``.
    """

    __slots__ = ("frozen",)

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        core = current_core()
        number, line = core.new_register()
        super().__init__(number, None if state is None else whole_number(state, "a register"), line)
        self.frozen = frozen

    def __bool__(self) -> bool:
        """Whether it is not zero: the condition of ``while reg:``."""
        return _holds(self, current_core())

    def __add__(self, other: object) -> VirtualRegister:
        return _compute("add", self, other)

    def __radd__(self, other: object) -> VirtualRegister:
        return _compute("add", other, self)

    def __sub__(self, other: object) -> VirtualRegister:
        return _compute("subtract", self, other)

    def __rsub__(self, other: object) -> VirtualRegister:
        return _compute("subtract", other, self)

    def __mul__(self, other: object) -> VirtualRegister:
        return _compute("multiply", self, other)

    def __rmul__(self, other: object) -> VirtualRegister:
        return _compute("multiply", other, self)

    def __floordiv__(self, other: object) -> VirtualRegister:
        return _compute("floor_divide", self, other)

    def __rfloordiv__(self, other: object) -> VirtualRegister:
        return _compute("floor_divide", other, self)

    def __mod__(self, other: object) -> VirtualRegister:
        return _compute("remainder", self, other)

    def __rmod__(self, other: object) -> VirtualRegister:
        return _compute("remainder", other, self)

    def __int__(self) -> NoReturn:
        raise _no_number(self, "converted to a number")

    def __index__(self) -> NoReturn:
        raise _no_number(self, "used as an integer")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | float | Register) and other is not self:
            raise _no_number(self, "compared")
        return self is other

    def __lt__(self, other: object) -> NoReturn:
        raise _no_number(self, "compared")

    __le__ = __gt__ = __ge__ = __lt__
    __hash__ = object.__hash__


def _no_number(register: Register, how: str) -> RegisterError:
    return RegisterError(
        "a number known when the kernel is traced",
        found=f"register {register.number} (made at {register.line}) {how}",
        where=current_core().author_line(),
        remedy="use the register as a loop bound, a condition of `while reg:`, an address, or compute on tensors",
    )


def whole_number(value: object, what: str) -> int:
    """An integer of 32 bits, signed or not.

    Raises:
        KernelError: if it is none.
    """
    try:
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        found = _HIGHEST + 1
    if isinstance(value, float) or not _LOWEST <= found <= _HIGHEST:
        raise KernelError(
            f"an integer of 32 bits for {what}",
            found=repr(value),
            where=current_core().author_line(),
            remedy="give an integer known when the kernel is traced",
        )
    return found if found < 1 << 31 else found - (1 << 32)


def _compute(op: str, left: object, right: object) -> VirtualRegister:
    sources: list[Register] = []
    numbers: dict[str, int | None] = {}
    for name, one in (("left", left), ("right", right)):
        if isinstance(one, Register):
            sources.append(one)
            numbers[name] = None
        elif isinstance(one, int) or hasattr(one, "__index__"):
            numbers[name] = whole_number(one, "arithmetic on a register")
        else:
            return NotImplemented  # type: ignore[no-any-return]  # Python's way to refuse an operand
    made = VirtualRegister()
    attributes = {"op": op, "dst": made.number, **numbers, "value": None}
    current_core().issue(Instruction("register_alu", Engine.SYNC, (), (), attributes, None, (made, *sources)))
    return made


# control flow


def known_integer(register: Register, what: str) -> int | None:
    """Its value, ``None`` where values are not computed and it was loaded from memory.

    Raises:
        KernelError: if it was never written, or holds a float32.
    """
    value = register.value
    if isinstance(value, int):
        return value
    if register.written and value is None:
        return None
    raise KernelError(
        f"a register that holds an integer as {what}",
        found=f"register {register.number} (made at {register.line}) "
        + ("never written" if value is None else f"with the float32 {value}"),
        where=current_core().author_line(),
        remedy="write an integer to it first with nisa.register_move or nisa.register_load",
    )


def trip_count(core: Core, line: str, register: Register) -> int:
    """Iterations of a loop over a register without a value.

    Raises:
        KernelError: naming the register, if none was given.
    """
    directory, _, name = line.rpartition(os.sep)
    del directory
    for key in (line, name, ""):
        if key in core.trip_counts:
            core.trips_taken[line] = key
            return core.trip_counts[key]
    given = f" and trip_counts has only {', '.join(core.trip_counts)}" if core.trip_counts else ""
    raise KernelError(
        "a known value of a register that decides control flow",
        found=f"register {register.number} (made at {register.line}), loaded where values are not computed{given},",
        where=line,
        remedy=f"run with values, or give trip_counts={{'{name}': N}}, --trips {name}=N on the command line",
    )


def endless(core: Core, line: str, found: str, remedy: str) -> KernelError:
    """The error of a loop on the device that runs longer than the run allows.

    Args:
        core: whose limit it is.
        line: ``file:line`` of the loop.
        found: what shows that it goes on.
        remedy: what may mend the kernel.
    """
    return KernelError(
        f"a loop that ends within {core.most_iterations:,} iterations, the limit of this run and not of the device",
        found=found,
        where=line,
        remedy=f"{remedy}, or raise the limit with the option most_iterations (--most-iterations)",
    )


def _holds(register: Register, core: Core) -> bool:
    line = core.author_line()
    if core.state.get("no_reorder"):
        raise KernelError(
            "no loop on a register inside nl.no_reorder",
            found=f"register {register.number} as a condition",
            where=line,
            remedy="put the no_reorder block inside the loop",
        )
    value = known_integer(register, "a condition")
    # how often the condition held at this line; it starts anew in another iteration of the loops around
    counts: dict[str, tuple[tuple[object, ...], int]] = core.state.setdefault("conditions", {})
    around = tuple(core.loops)
    known, passed = counts.get(line, (around, 0))
    passed = passed if known == around else 0
    holds = passed < trip_count(core, line, register) if value is None else value != 0
    if not holds:
        counts.pop(line, None)
        return False
    if passed >= core.most_iterations:
        shown = f"register {register.number} (made at {register.line}) still {value}"
        raise endless(
            core, line, shown, "update the register in the loop with nisa.register_load or register_move"
        )
    counts[line] = (around, passed + 1)
    return True
