"""Which regions overlap, and when each was last written and read: what the compiler's semaphores enforce."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from twintrack.neuroncore.timing.trace import Box, Trace

__all__ = ["overlaps"]

_MOST_PAIRS = 4_000_000
_MOST_KNOWN = 256
"""Regions of a buffer up to which what overlaps is looked up where another buffer was cut alike."""


def overlaps(trace: Trace) -> list[tuple[int, ...]]:
    """For every region the other regions of its buffer that it overlaps, where an order is needed.

    Regions of HBM that is only read need none, nor do those of HBM that is only written, but for writes to the very
    same region.
    """
    read, written = trace.touched()
    found: list[tuple[int, ...]] = [()] * len(trace.region_boxes)
    known: dict[tuple[int, ...], list[list[int]]] = {}
    for buffer, regions in enumerate(trace.members):
        if len(regions) == 1:
            continue
        if not trace.buffers[buffer].on_chip and (buffer not in written or buffer not in read):
            continue
        boxes = [trace.region_boxes[at] for at in regions]
        # tiles that a loop makes are cut alike, and share their boxes
        form = tuple([id(box) for box in boxes])
        others = known.get(form)
        if others is None:
            others = _others(boxes)
            if not any(others):
                others = []
            if len(regions) <= _MOST_KNOWN:
                known[form] = others
        if others:
            for at, mine in zip(regions, others, strict=True):
                found[at] = tuple([regions[one] for one in mine])
    return found


def _others(members: Sequence[Box]) -> list[list[int]]:
    """Per box the positions of those that it overlaps, without itself.

    Every pair of boxes is compared, in blocks so that memory stays small.
    """
    rows = np.array([box.rows for box in members], np.int64)
    columns = np.array([box.columns for box in members], np.int64)
    strides = np.array([box.stride for box in members], np.int64)
    found: list[list[int]] = []
    block = max(1, _MOST_PAIRS // len(members))
    low = rows[:, 0] * strides + columns[:, 0]
    high = (rows[:, 1] - 1) * strides + columns[:, 1]
    for start in range(0, len(members), block):
        part = slice(start, start + block)
        boxes = (
            (rows[part, None, 0] < rows[None, :, 1])
            & (rows[None, :, 0] < rows[part, None, 1])
            & (columns[part, None, 0] < columns[None, :, 1])
            & (columns[None, :, 0] < columns[part, None, 1])
        )
        # boxes over rows of different length are compared by the bytes between their ends
        alike = strides[part, None] == strides[None, :]
        spans = (low[part, None] < high[None, :]) & (low[None, :] < high[part, None])
        hit = np.where(alike, boxes, spans)
        first, second = np.nonzero(hit)
        other = first + start != second
        ends = np.cumsum(np.bincount(first[other], minlength=len(hit))).tolist()
        positions = second[other].tolist()
        found.extend(positions[begin:end] for begin, end in pairwise([0, *ends]))
    return found
