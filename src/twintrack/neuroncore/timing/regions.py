"""Which regions overlap, and when each was last written and read: what the compiler's semaphores enforce."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from twintrack.neuroncore.timing.trace import Region, Trace

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
    members: dict[int, list[int]] = {}
    for at, region in enumerate(trace.regions):
        members.setdefault(region.buffer, []).append(at)
    found: list[tuple[int, ...]] = [()] * len(trace.regions)
    known: dict[tuple[Any, ...], list[list[int]]] = {}
    for buffer, regions in members.items():
        on_chip = trace.buffers[buffer].on_chip
        if not on_chip and buffer not in written:
            continue
        if len(regions) == 1 or (not on_chip and buffer not in read):
            for at in regions:
                found[at] = (at,)
            continue
        boxes = tuple([trace.regions[at][1:] for at in regions])
        others = known.get(boxes)  # tiles that a loop makes are cut alike
        if others is None:
            others = _others(trace.regions, regions)
            if len(regions) <= _MOST_KNOWN:
                known[boxes] = others
        for at, mine in zip(regions, others, strict=True):
            found[at] = (at, *[regions[one] for one in mine])
    return found


def _others(regions: Sequence[Region], members: list[int]) -> list[list[int]]:
    """Per member the positions of those that it overlaps, without itself.

    Every pair of boxes is compared, in blocks so that memory stays small.
    """
    rows = np.array([regions[at].rows for at in members], np.int64)
    columns = np.array([regions[at].columns for at in members], np.int64)
    strides = np.array([regions[at].stride for at in members], np.int64)
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
