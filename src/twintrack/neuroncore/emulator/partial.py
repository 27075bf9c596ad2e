"""Parts of operands, for instructions that touch less than the whole of one.

What such an instruction touches is known from its shapes and attributes, so that a run without values checks and marks
just that too. Which elements a gather takes is not known without values: then any of them counts as enough.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.gather import CORE_PARTITIONS, KEPT, QUADRANT
from twintrack.neuroncore.memory.view import View

__all__ = ["PARTIAL", "Shuffle", "element", "every_16th", "rows", "shuffle", "snake", "touched"]

PARTIAL = frozenset({"local_gather", "nc_n_gather", "nc_stream_shuffle", "nonzero_with_count", "topk"})
"""Opcodes whose instructions may leave a part of an operand alone."""

Views = list[View | None]


def rows(view: View, first: int, count: int, step: int = 1) -> View:
    """Some partitions of a view: every ``step``-th from the first."""
    strides = (view.strides[0] * step, *view.strides[1:])
    offset = view.offset + first * view.strides[0]
    return View(view.storage, view.dtype, (count, *view.shape[1:]), strides, offset, view.dynamic)


def element(view: View, number: int) -> View:
    """One element of each partition, numbered as if free dimensions were one."""
    at = np.unravel_index(number, view.shape[1:])
    offset = view.offset + sum(int(i) * step for i, step in zip(at, view.strides[1:], strict=True))
    shape = (view.shape[0], *[1] * (len(view.shape) - 1))
    return View(view.storage, view.dtype, shape, view.strides, offset, view.dynamic)


def every_16th(view: View) -> View:
    """Partitions 0, 16, 32, ...: the first of each GpSimd core."""
    return rows(view, 0, -(-view.shape[0] // CORE_PARTITIONS), CORE_PARTITIONS)


def snake(view: View, count: int) -> list[View]:
    """The first ``count`` elements of each 16 partitions, which run down the partitions first."""
    full, rest = divmod(count, CORE_PARTITIONS)
    if len(view.shape) == 2:
        shape = (view.shape[0], full)
        parts = (
            [View(view.storage, view.dtype, shape, view.strides, view.offset, view.dynamic)] if full else []
        )
    else:
        parts = [element(view, at) for at in range(full)]
    if rest:
        last = element(view, full)
        parts += [rows(last, first, rest) for first in range(0, view.shape[0], CORE_PARTITIONS)]
    return parts


class Shuffle(NamedTuple):
    """What ``nc_stream_shuffle`` moves, for one mask and numbers of partitions."""

    sources: tuple[int, ...]
    """The source of every partition of the destination that changes, in order."""
    reads: tuple[tuple[int, int], ...]
    """Source partitions that are read: runs of ``(first, count)``."""
    writes: tuple[tuple[int, int], ...]
    """Destination partitions that change: runs of ``(first, count)``."""


@lru_cache(maxsize=256)
def shuffle(mask: tuple[int, ...], partitions: int) -> Shuffle:
    """What a mask of 32 moves to a destination of so many partitions."""
    changed = [at for at in range(partitions) if mask[at % QUADRANT] != KEPT]
    sources = [at - at % QUADRANT + mask[at % QUADRANT] for at in changed]
    return Shuffle(tuple(sources), _runs(sorted(set(sources))), _runs(changed))


def _runs(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """Consecutive numbers as ``(first, count)``."""
    starts = [at for at, one in enumerate(numbers) if at == 0 or one != numbers[at - 1] + 1]
    ends = [*starts[1:], len(numbers)] if numbers else []
    return tuple([(numbers[start], end - start) for start, end in zip(starts, ends, strict=True)])


def touched(ins: Instruction) -> tuple[Views, Views]:
    """What an instruction of ``PARTIAL`` writes and reads, as views."""
    outs, reads = list(ins.outs), list(ins.ins)
    first = reads[0]
    assert first is not None  # noqa: S101 - all of them have a source
    if ins.opcode == "nc_stream_shuffle":
        return _shuffled(ins, first)
    if ins.opcode == "nonzero_with_count":
        return [every_16th(one) for one in outs if one is not None], [every_16th(first)]
    if ins.opcode == "topk":
        return outs, list(snake(first, ins.attributes["n"]))
    # gathers: the indices decide
    source: Views = [first] if first.storage.written.nothing else []
    if ins.opcode == "nc_n_gather":
        return outs, [*source, *reads[1:]]
    index, valid = reads[1], ins.attributes["num_valid_indices"]
    assert index is not None  # noqa: S101
    return outs, [*source, *snake(index, index.free_size * CORE_PARTITIONS if valid is None else valid)]


def _shuffled(ins: Instruction, source: View) -> tuple[Views, Views]:
    dst = ins.outs[0]
    assert dst is not None  # noqa: S101
    plan = shuffle(ins.attributes["shuffle_mask"], dst.shape[0])
    return [rows(dst, *run) for run in plan.writes], [rows(source, *run) for run in plan.reads]
