"""Which bytes of a buffer were written.

A mask with one entry per *grain*: the largest run of bytes to which every partial write so far was aligned. Tiled
kernels write in long rows, so a mask is small (one entry per row of a tile) and cheap; a write that is not aligned
refines it. A block is always wholly written or wholly not, so the mask is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np
import numpy.typing as npt

__all__ = ["Pattern", "Written", "pattern_of"]

Pattern = tuple[int, tuple[tuple[int, int], ...], int]
"""Start in bytes, ``(stride in bytes, count)`` of the outer dimensions, and bytes of the contiguous run inside."""


def pattern_of(shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int) -> Pattern:
    """Bytes that a view covers.

    Args:
        shape: elements per dimension.
        strides: in elements; 0 repeats and covers nothing more.
        offset: first element.
        itemsize: bytes of an element.
    """
    run = itemsize
    outer: list[tuple[int, int]] = []
    if itemsize and len(shape) == 2 and strides[1] == 1:  # the common tile, without sorting
        run *= shape[1]
        if shape[0] > 1:
            step = strides[0] * itemsize
            if step == run:
                run *= shape[0]
            elif step:
                outer.append((step, shape[0]))
        return offset * itemsize, tuple(outer), run
    for step, count in sorted(zip(strides, shape, strict=True)):
        if count == 1 or step == 0:
            continue
        if step * itemsize == run and not outer:
            run *= count
        else:
            outer.append((step * itemsize, count))
    return offset * itemsize, tuple(reversed(outer)), run


class Written:
    """What was written of ``size`` bytes.

    Args:
        size: bytes of the buffer.
        everything: whether all of it counts as written from the start, as arguments do.
    """

    __slots__ = ("_grain", "_mask", "nothing", "size", "undefined", "whole")

    def __init__(self, size: int, *, everything: bool = False) -> None:
        self.size = size
        self.whole = everything
        """All of it."""
        self.nothing = not everything
        """None of it."""
        self.undefined: Written | None = None
        """What may be read although it was never written, as the rest of a masked result may."""
        self._mask: npt.NDArray[np.bool_] | None = None
        self._grain = size

    def allow(self, pattern: Pattern) -> None:
        """Let these bytes be read, whether or not they were written."""
        if self.whole:
            return
        if self.undefined is None:
            self.undefined = Written(self.size)
        self.undefined.mark(pattern)

    def mark_all(self) -> None:
        """All of it was written."""
        self.whole, self.nothing, self._mask = True, False, None

    def mark(self, pattern: Pattern) -> None:
        """These bytes were written."""
        if self.whole:
            return
        if pattern[2] == self.size:
            self.mark_all()
            return
        self._mask_at(pattern)[...] = True
        self.nothing = False

    def clear(self, pattern: Pattern | None = None) -> None:
        """These bytes, or all, count as never written, and may not be read."""
        if self.undefined is not None:
            self.undefined.clear(pattern)
        if pattern is None or pattern[2] == self.size:
            self.whole, self.nothing, self._mask = False, True, None
        elif not self.nothing:
            self._mask_at(pattern)[...] = False  # a mask made here is all true where all was written
            self.whole = False

    def covers(self, pattern: Pattern) -> bool:
        """Whether every one of these bytes was written, or may be read."""
        if self.whole:
            return True
        mask = self._mask
        if mask is not None and mask.all():
            self.mark_all()
            return True
        if self.undefined is not None:
            return bool(self._readable(pattern).all())
        return not self.nothing and bool(self._mask_at(pattern).all())

    def _readable(self, pattern: Pattern) -> npt.NDArray[np.bool_]:
        """Grains of these bytes that were written or may be read."""
        other = self.undefined
        assert other is not None  # noqa: S101 - asked only then
        grain = gcd(self._grain, other._grain)
        self._refined(grain)
        other._refined(grain)
        return np.asarray(self._mask_at(pattern) | other._mask_at(pattern))

    def touches(self, pattern: Pattern) -> bool:
        """Whether any of these bytes was written."""
        if self.whole or self.nothing:
            return self.whole
        return bool(self._mask_at(pattern).any())

    def first_missing(self, pattern: Pattern) -> int:
        """Byte of the buffer, the first of these that was never written; -1 where all were."""
        if self.whole:
            return -1
        if self.undefined is not None:
            found = np.argwhere(~self._readable(pattern))
        elif self.nothing:
            return pattern[0]
        else:
            found = np.argwhere(~self._mask_at(pattern))
        if not len(found):
            return -1
        start, outer, _ = pattern
        steps = [step for step, _ in outer]
        return start + sum(int(i) * step for i, step in zip(found[0], [*steps, self._grain], strict=True))

    @property
    def missing_bytes(self) -> int:
        """Bytes that were never written."""
        if self.whole:
            return 0
        return self.size if self._mask is None else int((~self._mask).sum()) * self._grain

    def which(
        self, shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int
    ) -> npt.NDArray[np.bool_]:
        """Which elements of a view were written; of the view's shape.

        Args:
            shape: elements per dimension.
            strides: in elements.
            offset: first element.
            itemsize: bytes of an element.
        """
        if self.whole or self.nothing:
            return np.full(tuple(shape), self.whole, np.bool_)
        return np.asarray(self._elements(shape, strides, offset, itemsize).all(axis=-1), np.bool_)

    def mark_where(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int,
        itemsize: int,
        chosen: npt.NDArray[np.bool_],
    ) -> None:
        """Those elements of a view that are chosen were written; ``chosen`` has the view's shape."""
        if self.whole or not chosen.any():
            return
        self._elements(shape, strides, offset, itemsize)[chosen] = True
        self.nothing = False

    def covers_rows(self, starts: npt.NDArray[np.int64], inner: Pattern) -> npt.NDArray[np.bool_]:
        """Of rows that begin at these bytes, as far as ``inner`` goes: which were written whole or may be read."""
        other = self.undefined
        if self.whole or (self.nothing and other is None) or not len(starts):
            return np.full(len(starts), self.whole, np.bool_)
        if other is not None:
            grain = gcd(self._grain, other._grain)
            self._refined(grain)
            other._refined(grain)
        grains, mask = self._rows(starts, inner)
        found = mask[grains]
        if other is not None:
            grains, mask = other._rows(starts, inner)
            found |= mask[grains]
        return np.asarray(found.all(axis=1))

    def mark_rows(self, starts: npt.NDArray[np.int64], inner: Pattern) -> None:
        """Rows that begin at these bytes were written, each as far as ``inner`` goes."""
        if self.whole or not len(starts):
            return
        grains, mask = self._rows(starts, inner)
        mask[grains] = True
        self.nothing = False

    def clear_rows(self, starts: npt.NDArray[np.int64], inner: Pattern) -> None:
        """Rows that begin at these bytes count as never written, and may not be read."""
        if self.undefined is not None:
            self.undefined.clear_rows(starts, inner)
        if self.nothing or not len(starts):
            return
        grains, mask = self._rows(starts, inner)
        mask[grains] = False
        self.whole = False

    def _rows(
        self, starts: npt.NDArray[np.int64], inner: Pattern
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Numbers of the grains of each row, ``(rows, grains)``, and the mask that they count in."""
        begin, outer, run = inner
        steps = [step for step, _ in outer]
        mask = self._refined(gcd(self._grain, begin, run, *steps, int(np.gcd.reduce(starts))))
        grain = self._grain
        within = np.array([begin // grain], np.int64)
        for step, count in (*outer, (grain, run // grain)):
            within = (within[:, None] + np.arange(count, dtype=np.int64) * (step // grain)).reshape(-1)
        return starts[:, None] // grain + within[None, :], mask

    def _elements(
        self, shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int
    ) -> npt.NDArray[np.bool_]:
        """The mask of a view's elements; the last axis, beyond the view's own, are the grains of one."""
        mask = self._refined(gcd(self._grain, itemsize))
        per = itemsize // self._grain
        steps = (*(step * per for step in strides), 1)
        return np.ndarray((*shape, per), np.bool_, mask, offset * per, steps)

    def _mask_at(self, pattern: Pattern) -> npt.NDArray[np.bool_]:
        start, outer, run = pattern
        mask = self._refined(gcd(self._grain, start, run, *(step for step, _ in outer)))
        grain = self._grain
        shape = (*(count for _, count in outer), run // grain)
        strides = (*(step // grain for step, _ in outer), 1)
        return np.ndarray(shape, np.bool_, mask, start // grain, strides)

    def _refined(self, grain: int) -> npt.NDArray[np.bool_]:
        """The mask with this grain, which divides the one it has."""
        mask = self._mask
        if mask is None:
            mask = np.full(self.size // grain, self.whole, np.bool_)
        elif grain != self._grain:
            mask = np.repeat(mask, self._grain // grain)
        self._mask, self._grain = mask, grain
        return mask
