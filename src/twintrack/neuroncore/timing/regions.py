"""Which regions overlap, and when each was last written and read: what the compiler's semaphores enforce."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from twintrack.neuroncore.timing.trace import Box, Trace

__all__ = ["overlaps"]

_MOST_PAIRS = 4_000_000
_MOST_KNOWN = 256
"""Regions of a buffer up to which what overlaps is looked up where another buffer was cut alike."""


def overlaps(trace: Trace) -> list[tuple[int, ...]]:
    """For every region the regions of its buffer that it overlaps, itself first; empty where no order is needed.

    Regions of HBM that is only read need none, nor do those of HBM that is only written, but for writes to the very
    same region.
    """
    read, written = trace.touched()
    found: list[tuple[int, ...]] = [()] * len(trace.regions)
    known: dict[tuple[Any, ...], list[list[int]]] = {}
    for buffer, regions in enumerate(trace.members()):
        on_chip = trace.buffers[buffer].on_chip
        if not on_chip and buffer not in written:
            continue
        if len(regions) == 1 or (not on_chip and buffer not in read):
            for at in regions:
                found[at] = (at,)
            continue
        boxes = [trace.regions[at].box for at in regions]
        form = tuple(
            [id(box) for box in boxes]
        )  # tiles that a loop makes are cut alike, and share their boxes
        others = known.get(form)
        if others is None:
            others = _others(boxes)
            if not any(others):
                others = []
            if len(regions) <= _MOST_KNOWN:
                known[form] = others
        if not others:
            for at in regions:
                found[at] = (at,)
            continue
        for at, mine in zip(regions, others, strict=True):
            found[at] = (at, *[regions[one] for one in mine])
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
