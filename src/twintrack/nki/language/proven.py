"""Which iterations of a long affine loop must run, so that what the others do is proven.

The first iterations run, then the last one. What the others do is known if

- the body's Python begins two successive iterations in the same state (``body_state``), and uses the index only in
  ways that are affine or come out alike in all later iterations (``traced_index``);
- every buffer from outside of the body is touched at places that move by a constant, which are then noted as read and
  written for the iterations that do not run;
- the last iteration does what follows from the others (checked on the trace, ``timing.extrapolate``), so that nothing
  that depends on the index at its end, such as a bound, is missed.

Otherwise all iterations run, and the reason is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from twintrack.neuroncore.emulator.accumulators import ACCUMULATING
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.emulator.partial import PARTIAL
from twintrack.neuroncore.emulator.shortened import FEWEST, LONG, Shortened, ShortLoop
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.view import View
from twintrack.nki.language.body_state import Unknown, body_names, seen, steps_through
from twintrack.nki.language.traced_index import TracedIndex, Watch

__all__ = ["needed_of"]

Numbered = Iterator[tuple[int, Any]]


class _Move(NamedTuple):
    """An operand from outside of the body."""

    view: View
    """In the last of the first iterations."""
    step: int
    """Elements that it moves from iteration to iteration."""
    written: bool


class _Body:
    """The body of a loop whose first iterations run.

    Args:
        core: that runs it.
        numbers: the loop's indices.
        frame: of the kernel author's code that runs the loop.
    """

    def __init__(self, core: Core, numbers: range, frame: FrameType) -> None:
        self.watch = Watch(core.started, len(numbers) - 1)
        self.line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        self._frame = frame
        self._made = tuple(core.buffers)  # kept, so that their numbers stay their own
        self._outer = frozenset(id(one) for one in self._made)
        self._issued: tuple[list[Instruction], list[Instruction]] = ([], [])
        self._states: list[list[Any]] = []
        self._names: frozenset[str] = frozenset()
        try:
            span = steps_through(frame)
            if span is None:
                raise Unknown("its loop is not a for statement over the range itself")
            self._names = body_names(frame.f_code, span)
            self._look()
        except Unknown as reason:
            self.watch.refuse(str(reason))
        self._states.clear()

    def _look(self) -> None:
        self._states = [*self._states[-1:], seen(self._frame, self._names, self._outer)]

    def __call__(self, core: Core, ins: Instruction) -> None:
        """An observer of the core: keeps the instructions of the last two iterations."""
        del core
        self._issued[1].append(ins)

    def begin(self, iteration: int) -> None:
        """An iteration begins."""
        self.watch.iteration = iteration
        self._issued = (self._issued[1], [])

    def ended(self) -> None:
        """An iteration ended: look at the state in which the next one would begin."""
        if not self.watch.reason:
            try:
                self._look()
            except Unknown as reason:
                self.watch.refuse(str(reason))

    def proven(self, missing: int) -> bool:
        """Whether what later iterations do is known; then what they touch is noted, but for the last one.

        Args:
            missing: iterations that will not run.
        """
        if not self.watch.reason and (len(self._states) < 2 or self._states[0] != self._states[1]):
            self.watch.refuse("something that the body can see changes from iteration to iteration")
        moves = None if self.watch.reason else self._moves()
        if moves is None or not _touched(moves, missing):
            self.watch.refuse("what it reads, writes or addresses does not go on evenly")
        return not self.watch.reason

    def _moves(self) -> list[_Move] | None:
        """Operands from outside of the body that move; ``None`` where they do so in a way that is not followed."""
        before, after = self._issued
        if len(before) != len(after):
            return None
        found: list[_Move] = []
        for one, other in zip(before, after, strict=True):
            mine, theirs = (*one.outs, *one.ins), (*other.outs, *other.ins)
            if (one.opcode, one.lineno, len(mine)) != (other.opcode, other.lineno, len(theirs)):
                return None
            pairs = zip(mine, theirs, strict=True)
            for at, (first, second) in enumerate(pairs):
                move = self._moved(first, second, written=at < len(one.outs))
                if move is None:
                    return None
                peculiar = other.opcode in PARTIAL or (other.opcode in ACCUMULATING and move.written)
                if move.step and peculiar:
                    return None
                found.append(move)
        return [move for move in found if move.step]

    def _moved(self, first: View | None, second: View | None, *, written: bool) -> _Move | None:
        if first is None or second is None:
            return _NOWHERE if first is second else None
        if first.dynamic is not None or second.dynamic is not None:
            return None
        mine, theirs = first.storage.buffer, second.storage.buffer
        if not (id(mine) in self._outer or id(theirs) in self._outer):
            # one that is placed elsewhere each time would meet other tiles in some iteration
            return _Move(second, 0, written) if mine.address == theirs.address else None
        alike = (first.shape, first.strides, first.dtype) == (second.shape, second.strides, second.dtype)
        if first.storage is not second.storage or not alike:
            return None
        move = _Move(second, second.offset - first.offset, written)
        return move if not move.step or _may_move(first, second) else None


_NOWHERE = _Move(None, 0, False)  # type: ignore[arg-type]  # of an operand that is absent


def _may_move(first: View, second: View) -> bool:
    """Whether the rules of where a view may lie are the same wherever it moves to: not across partitions or banks."""
    buffer = first.storage.buffer
    if not buffer.on_chip:
        return True
    placed = buffer.address is not None
    return (
        buffer.region is MemoryRegion.sbuf and not placed and first.start_partition == second.start_partition
    )


def _touched(moves: list[_Move], missing: int) -> bool:
    """Note what iterations touch that do not run; ``False`` where one would read what was never written."""
    steps: dict[int, set[int]] = {}
    written = {id(one.view.storage) for one in moves if one.written}
    for one in moves:
        steps.setdefault(id(one.view.storage), set()).add(one.step * one.view.dtype.bytes)
    if any(len(found) > 1 for buffer, found in steps.items() if buffer in written):
        return False  # what one iteration reads another one may have written, or not yet
    for one in moves:
        start, outer, run = one.view.pattern()
        step = one.step * one.view.dtype.bytes
        starts = start + step * np.arange(1, missing + 1, dtype=np.int64)
        if len(starts) and not _inside(starts, (outer, run), one.view.storage.buffer.bytes):
            return False
        marks = one.view.storage.written
        inner = (0, outer, run)
        if one.written:
            one.view.storage.modified = True
            marks.mark_rows(starts, inner)
        elif not marks.whole and not marks.covers_rows(starts, inner).all():
            return False
    return True


def _inside(starts: Any, inner: tuple[tuple[tuple[int, int], ...], int], size: int) -> bool:
    outer, run = inner
    low = sum(min(0, step * (count - 1)) for step, count in outer)
    high = sum(max(0, step * (count - 1)) for step, count in outer) + run
    return bool(starts.min() + low >= 0 and starts.max() + high <= size)


def needed_of(core: Core, short: Shortened, numbers: range, frame: FrameType) -> Numbered:
    """The iterations that run of an outermost affine loop: all, or the first ones and the last.

    Args:
        core: that runs it.
        short: notes the loops that were shortened.
        numbers: the loop's indices.
        frame: of the kernel author's code that runs the loop.

    Returns:
        Iterations from 0, each with its index.
    """
    if len(numbers) < LONG * FEWEST:
        return enumerate(numbers)
    return _some(core, short, numbers, _Body(core, numbers, frame))  # made while the for statement starts


def _some(core: Core, short: Shortened, numbers: range, body: _Body) -> Numbered:
    """The first iterations and the last, or all."""
    total = len(numbers)
    watch, observers = body.watch, core.observers
    core.observers = (*observers, body)
    starts = [core.count]
    try:
        needed = FEWEST
        for at in range(total):
            if at == needed and not watch.reason:
                needed = short.enough(starts)
                if needed * LONG > total:
                    watch.refuse(f"it needs {needed} iterations to be steady")
                elif at >= needed and body.proven(total - at - 1):
                    break
            if watch.reason:
                break
            body.begin(at)
            yield at, TracedIndex(watch, numbers.step, numbers.start, numbers[at])
            starts.append(core.count)
            body.ended()
    finally:
        watch.over = True
        core.observers = tuple([one for one in core.observers if one is not body])
    ran = len(starts) - 1
    if watch.reason:
        short.whole.append(f"{body.line}: {watch.reason}")
        yield from zip(range(ran, total), numbers[ran:], strict=True)
        return
    try:
        yield total - 1, numbers[-1]
    finally:
        short.loops.append(ShortLoop(total, tuple(starts), core.count))
