"""Launch grids and loops of the dialect until 2.26.

A grid may have any number of axes. Its programs run one after the other, but for a grid of two, which is LNC2.
``nl.nc`` and ``nl.spmd_dim`` say on which physical core a program runs; the size of the axis is what counts here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from twintrack.neuroncore.emulator.core import Core
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language import programs
from twintrack.nki.language.loops import LoopRange
from twintrack.nki.language.programs import program_id, program_ndim
from twintrack.nki.language.traced_index import is_traced

__all__ = [
    "LoopIndex",
    "affine_range",
    "nc",
    "num_programs",
    "program_id",
    "program_ndim",
    "sequential_range",
    "spmd_dim",
    "static_range",
]


class LoopIndex(int):
    """An iteration of a loop; an integer that knows its loop.

    Attributes:
        loop: the loop's number on the running core.
        first: whether it is the loop's first iteration.
    """

    loop: int
    first: bool


class _Range(LoopRange):
    """A loop whose indices know it, as ``nl.loop_reduce`` asks."""

    def marked(self, core: Core, indices: Iterator[int]) -> Iterator[int]:
        for number in indices:
            if is_traced(number):  # it knows its loop
                yield number
                continue
            frame = core.loops[-1]
            index = LoopIndex(number)
            index.loop, index.first = frame.loop, frame.iteration == 0
            yield index


def _loop(kind: str, args: tuple[Any, ...]) -> LoopRange:
    try:
        return _Range(kind, range(*[int(one.__index__()) for one in args]))
    except (AttributeError, TypeError, ValueError):
        raise author_error(
            f"one to three integers for nl.{kind}_range", f"{args}", "pass (start, stop, step)"
        ) from None


def affine_range(*args: Any, **kwargs: Any) -> LoopRange:
    """A loop whose iterations do not depend on each other, but for accumulation.

    Args:
        *args: as of ``range``.
        **kwargs: directives to the vendor's scheduler, without meaning here.
    """
    del kwargs
    return _loop("affine", args)


def sequential_range(*args: Any, **kwargs: Any) -> LoopRange:
    """A loop whose iterations depend on each other; see ``affine_range``."""
    del kwargs
    return _loop("sequential", args)


def static_range(*args: Any) -> LoopRange:
    """A loop that the compiler unrolls; see ``affine_range``."""
    return _loop("static", args)


class nc(int):
    """``nl.nc(n)``: an axis of ``n`` physical cores; times an integer, an axis of so many programs on them."""


def spmd_dim(*axes: int) -> int:
    """``nl.spmd_dim(a, nl.nc(b))``: an axis of ``a * b`` programs."""
    return math.prod(int(one) for one in axes)


def num_programs(axes: int | Sequence[int] | None = None) -> int:
    """Programs of the launch grid along some axes; along all where ``None``."""
    return programs.num_programs(axes)
