"""``nki.language``: loops, and regions in which order is kept.

``affine_range``, ``sequential_range`` and ``static_range`` are Python's ``range`` by other names, unrolled when the
kernel is traced; ``dynamic_range``, ``fori_loop`` and ``while_loop`` run on the device. Every instruction keeps its
place in all of them (``LoopFrame``), so that a stream tells which loops were which.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.emulator.one_body import OneBody
from twintrack.neuroncore.isa.instruction import Instruction, LoopFrame, Register
from twintrack.nki.context import current_core, is_running
from twintrack.nki.isa.issue import author_error
from twintrack.nki.isa.registers import VirtualRegister, endless, known_integer, trip_count
from twintrack.nki.language.proven import needed_of
from twintrack.nki.language.scopes import body_of

__all__ = [
    "LoopRange",
    "affine_range",
    "dynamic_range",
    "fori_loop",
    "no_reorder",
    "sequential_range",
    "static_range",
    "while_loop",
]

Number = TypeVar("Number")
_ONE_BODY = "one body"
"""Under which a core's state holds the comparison of iterations while a loop on the device runs."""


class LoopRange:
    """A ``range`` whose iterations the running core keeps count of.

    Args:
        kind: of the loop, as in ``LoopFrame``.
        numbers: its indices.
    """

    def __init__(self, kind: str, numbers: range) -> None:
        self.kind = kind
        self.numbers = numbers

    def __iter__(self) -> Iterator[int]:
        if not is_running():
            return iter(self.numbers)
        core = current_core()
        if core.shortened is not None and self.kind == "affine" and not core.loops:
            pairs = needed_of(core, core.shortened, self.numbers, sys._getframe(1))
            return self.marked(core, _counted(core, self.kind, pairs))
        return self.marked(core, _counted(core, self.kind, enumerate(self.numbers)))

    def marked(self, core: Core, indices: Iterator[int]) -> Iterator[int]:
        """The indices as the kernel gets them; ``core`` runs it."""
        del core
        return indices

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: int) -> int:
        return self.numbers[at]

    def __contains__(self, number: object) -> bool:
        return number in self.numbers

    def __reversed__(self) -> Iterator[int]:
        return iter(LoopRange(self.kind, self.numbers[::-1]))

    def __repr__(self) -> str:
        return f"{self.kind}_{self.numbers!r}"


def _counted(core: Core, kind: str, pairs: Iterable[tuple[int, Number]]) -> Iterator[Number]:
    """Numbers, given with their iteration, while a frame on the core's loops says in which one they are."""
    loop, loops = core.started, core.loops
    core.started += 1
    at = len(loops)
    loops.append(LoopFrame(loop, kind, 0))
    try:
        for iteration, number in pairs:
            if at >= len(loops) or loops[at].loop != loop:  # a loop around it was dropped half-way
                at = next(place for place, frame in enumerate(loops) if frame.loop == loop)
            loops[at] = LoopFrame(loop, kind, iteration)
            yield number
    finally:
        loops[:] = [frame for frame in loops if frame.loop != loop]


def _unrolled(kind: str, start: object, stop: object, step: object) -> LoopRange:
    if stop is None:
        start, stop = 0, start
    for bound in (start, stop, step):
        if isinstance(bound, Register):
            raise author_error(
                f"bounds of nl.{kind}_range known when the kernel is traced",
                f"register {bound.number} (made at {bound.line})",
                "loop with nl.dynamic_range",
            )
    numbers = range(operator.index(start), operator.index(stop), operator.index(step))  # type: ignore[arg-type]
    return LoopRange(kind, numbers)


def affine_range(start: int, stop: int | None = None, step: int = 1) -> LoopRange:
    """``range(start, stop, step)``, whose iterations may run in any order; ``affine_range(n)`` counts from 0.

    Args:
        start: the first index, or where ``stop`` is ``None`` their number.
        stop: below which indices stay.
        step: between indices.

    Raises:
        KernelError: if a bound is a register.
    """
    return _unrolled("affine", start, stop, step)


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> LoopRange:
    """``range(start, stop, step)``, whose iterations depend on each other; see ``affine_range``."""
    return _unrolled("sequential", start, stop, step)


def static_range(start: int, stop: int | None = None, step: int = 1) -> LoopRange:
    """``range(start, stop, step)``, unrolled when the kernel is traced; see ``affine_range``."""
    return _unrolled("static", start, stop, step)


# loops that run on the device


def _on_device(core: Core, kind: str, bounds: tuple[object, ...], numbers: range) -> Iterator[int]:
    """The numbers, as ``_counted`` gives them; every iteration must issue what the first one issued."""
    if not core.checked:
        yield from _counted(core, kind, enumerate(numbers))
        return
    found = core.state.get(_ONE_BODY)
    if found is None:
        found = core.state[_ONE_BODY] = OneBody(core)
        core.observers = (*core.observers, found)
    watch: OneBody = found
    body = watch.enter(core, kind, core.author_line(), bounds)
    whole = False
    try:
        for number in _counted(core, kind, enumerate(numbers)):
            watch.iterate(core, body)
            yield number
        whole = True
    finally:
        if watch.leave(core, body, whole=whole) and core.state.get(_ONE_BODY) is watch:
            del core.state[_ONE_BODY]
            core.observers = tuple(one for one in core.observers if one is not watch)


def dynamic_range(
    start: int | VirtualRegister, stop: int | VirtualRegister | None = None, step: int = 1
) -> Iterator[VirtualRegister]:
    """A loop on the device; its index is a register that cannot be written.

    Args:
        start: the first index, or where ``stop`` is ``None`` their number; an integer or a register.
        stop: below which indices stay; an integer or a register.
        step: a positive integer known when the kernel is traced.

    Raises:
        KernelError: for another step, inside ``no_reorder``, over more iterations than the run takes, or if the
            value of a register is not known and no trip count was given.
    """
    core = current_core()
    lower, upper = (0, start) if stop is None else (start, stop)
    indices = _indices(core, "nl.dynamic_range", lower, upper, step)
    index = VirtualRegister(frozen=True)
    return _registers(core, "dynamic", index, indices, (lower, upper))


def _registers(
    core: Core,
    kind: str,
    index: VirtualRegister,
    indices: Iterable[int | None],
    bounds: tuple[object, object],
) -> Iterator[VirtualRegister]:
    values = list(indices)
    for iteration in _on_device(core, kind, bounds, range(len(values))):
        index.value, index.written = values[iteration], True
        yield index


def fori_loop(
    lower: int | VirtualRegister,
    upper: int | VirtualRegister,
    body_fun: Callable[[VirtualRegister], object],
    step: int = 1,
) -> None:
    """``for i in range(lower, upper, step): body_fun(i)`` on the device.

    Args:
        lower: an integer or a register.
        upper: likewise; exclusive.
        body_fun: is given a register with the index; writing to it does not change the loop.
        step: a positive integer known when the kernel is traced.

    Raises:
        KernelError: as ``dynamic_range``.
    """
    core = current_core()
    indices = _indices(core, "nl.fori_loop", lower, upper, step)
    with body_of(core, core.author_line()):
        for index in _registers(core, "fori", VirtualRegister(), indices, (lower, upper)):
            body_fun(index)


def _indices(core: Core, what: str, lower: object, upper: object, step: object) -> Iterable[int | None]:
    """Values of a loop's index; ``None`` where its lower bound is not known."""
    if isinstance(step, Register | bool) or not isinstance(step, int) or step < 1:
        shown = f"register {step.number}" if isinstance(step, Register) else repr(step)
        raise author_error(
            f"a positive integer known when the kernel is traced as step of {what}", shown, "give a number"
        )
    _not_in_no_reorder(core, what)
    first, end = _bound(lower, what), _bound(upper, what)
    if first is not None and end is not None:
        count = len(range(first, end, step))
    else:
        unknown = upper if end is None else lower
        assert isinstance(unknown, Register)  # noqa: S101 - an integer is known
        count = trip_count(core, core.author_line(), unknown)
    if count > core.most_iterations:
        raise endless(core, core.author_line(), f"{count:,}", "check the register of its bound")
    if first is None:
        return [None] * count
    return range(first, first + count * step, step)


def _bound(value: object, what: str) -> int | None:
    if isinstance(value, Register):
        return known_integer(value, f"a bound of {what}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise author_error(
            f"an integer or a register as a bound of {what}", repr(value), "give one of them"
        ) from None


def _not_in_no_reorder(core: Core, what: str) -> None:
    if core.state.get("no_reorder"):
        raise author_error(
            "no dynamic loop inside nl.no_reorder", what, "put the no_reorder block inside the loop"
        )


def while_loop(init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]) -> None:
    """``r = init; while r != 0: r = body_fun(r)`` on the device.

    Args:
        init: the first condition.
        body_fun: is given a register with the condition and returns the register of the next one.

    Raises:
        KernelError: if ``init`` or what the body returns is no register, inside ``no_reorder``, after more iterations
            than the run allows, or if a register's value is not known and no trip count was given.
    """
    core = current_core()
    _not_in_no_reorder(core, "nl.while_loop")
    line = core.author_line()
    state = VirtualRegister()
    condition = _condition(init, "init")
    with body_of(core, line):
        for passed in _on_device(core, "while", (condition,), range(core.most_iterations + 1)):
            value = known_integer(condition, "a condition")
            if value == 0 or (value is None and passed >= trip_count(core, line, condition)):
                break
            if passed == core.most_iterations:
                shown = f"register {condition.number} (made at {condition.line}) still {value}"
                raise endless(core, line, shown, "return a register from the body that becomes zero")
            state.value, state.written = value, True
            condition = _condition(body_fun(state), "what the body returns")


def _condition(value: object, what: str) -> VirtualRegister:
    if not isinstance(value, VirtualRegister):
        raise author_error(
            f"a register as {what} of nl.while_loop",
            type(value).__name__,
            "give the register of the condition",
        )
    return value


# order


class _Chain:
    """Makes every instruction wait for the one before it."""

    def __init__(self) -> None:
        self._last = -1

    def __call__(self, core: Core, ins: Instruction) -> None:
        del core
        if self._last >= 0:
            ins.after.append(self._last)
        self._last = ins.number


@contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions in the block run in the order of the program, also those of functions that it calls.

    Raises:
        KernelError: at a dynamic loop inside the block.
    """
    core = current_core()
    depth: int = core.state.get("no_reorder", 0)
    core.state["no_reorder"] = depth + 1
    chain = _Chain()
    if not depth:
        core.observers = (chain, *core.observers)
    try:
        yield
    finally:
        core.state["no_reorder"] = depth
        if not depth:
            core.observers = tuple(one for one in core.observers if one is not chain)
