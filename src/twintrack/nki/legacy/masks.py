"""``mask=``: which part of a tile an instruction works on.

A mask is known when the kernel is traced. Where each comparison concerns one axis, as documented, what it leaves is a
rectangle, and the instruction is issued once, on smaller operands. A comparison over several axes leaves several
rectangles, and the instruction is issued on each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twintrack.nki.isa.issue import author_error
from twintrack.nki.legacy.indexing import Affine, Predicate

__all__ = ["Region", "regions", "whole"]

Region = tuple[tuple[int, int], ...]
"""``(start, stop)`` of every axis."""


def whole(shape: tuple[int, ...]) -> Region:
    """All of a shape."""
    return tuple([(0, size) for size in shape])


def regions(mask: Any, shape: tuple[int, ...]) -> list[Region]:
    """The rectangles of a shape that a mask leaves; none where it leaves nothing.

    Args:
        mask: ``None`` for all, a truth value, or a predicate, aligned with the last axes as NumPy does.
        shape: of the tile.

    Raises:
        KernelError: for another mask, or one whose axes have other sizes than the tile's.
    """
    if mask is None:
        return [whole(shape)]
    if isinstance(mask, bool | np.bool_ | int):
        return [whole(shape)] if mask else []
    if not isinstance(mask, Predicate):
        raise author_error(
            "a comparison of index expressions as mask", type(mask).__name__, "compare nl.arange or nl.mgrid"
        )
    if mask.never:
        return []
    bounds = [one for comparison in mask.comparisons for one in comparison.bounds()]
    for bound in bounds:
        _fits(bound, shape)
    rank = len(shape)
    return list(_solve([(bound.aligned(rank), bound.const) for bound in bounds], whole(shape)))


def _fits(bound: Affine, shape: tuple[int, ...]) -> None:
    sizes = bound.shape[::-1]
    for at, (size, step) in enumerate(zip(sizes, bound.coefs[::-1], strict=True)):
        mine = shape[len(shape) - 1 - at] if at < len(shape) else 0
        if step and size != mine:
            raise author_error(
                f"a mask over the axes of the tile, {list(shape)}",
                f"a comparison over {list(bound.shape)}",
                "build it from the index expressions that the tile is indexed with",
            )


Bound = tuple[tuple[int, ...], int]


def _solve(bounds: list[Bound], region: Region) -> Iterator[Region]:
    """Rectangles in which all bounds are at least 0."""
    left: list[Bound] = []
    # what leaves out nothing goes first: of a loop's index it then holds for all iterations or is seen to differ
    for coefs, const in [(coefs, const) for coefs, const in bounds if _extremes(coefs, const, region)[0] < 0]:
        axes = [axis for axis, step in enumerate(coefs) if step]
        if len(axes) > 1:
            left.append((coefs, const))
            continue
        found = _narrowed(region, axes[0] if axes else None, coefs, const)
        if found is None:
            return
        region = found
    left = [(coefs, const) for coefs, const in left if _extremes(coefs, const, region)[0] < 0]
    if any(_extremes(coefs, const, region)[1] < 0 for coefs, const in left):
        return
    if not left:
        yield region
        return
    # partitions stay together where a free axis can be taken apart: instructions start at few partitions only
    coefs = left[0][0]
    axes = [axis for axis, step in enumerate(coefs) if step]
    axis = min(axes[1:] if axes[0] == 0 else axes, key=lambda one: region[one][1] - region[one][0])
    for at in range(*region[axis]):
        fixed = [
            (tuple([0 if d == axis else step for d, step in enumerate(steps)]), const + steps[axis] * at)
            for steps, const in left
        ]
        yield from _solve(fixed, (*region[:axis], (at, at + 1), *region[axis + 1 :]))


def _narrowed(region: Region, axis: int | None, coefs: tuple[int, ...], const: int) -> Region | None:
    """The part of the region where ``const + step * i >= 0`` on one axis; ``None`` where there is none."""
    if axis is None:
        return region if const >= 0 else None
    start, stop = region[axis]
    step = coefs[axis]
    if step > 0:
        start = max(start, -(const // step))
    else:
        stop = min(stop, const // -step + 1)
    return (*region[:axis], (start, stop), *region[axis + 1 :]) if start < stop else None


def _extremes(coefs: tuple[int, ...], const: int, region: Region) -> tuple[int, int]:
    """The least and greatest value of an affine expression in a region."""
    low = high = const
    for step, (start, stop) in zip(coefs, region, strict=True):
        ends = (step * start, step * (stop - 1))
        low, high = low + min(ends), high + max(ends)
    return low, high
