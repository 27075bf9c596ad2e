"""Regions overlap if and only if they share a byte."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from timing_streams import put_regions

from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.dtypes import dtype_of
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.regions import overlaps
from twintrack.neuroncore.timing.trace import Box, Step, Trace, _box

ROWS, COLUMNS = 16, 24
BYTE = dtype_of("uint8")


@st.composite
def boxes(draw):
    row, column = draw(st.integers(0, ROWS - 1)), draw(st.integers(0, COLUMNS - 1))
    return (
        (row, draw(st.integers(row + 1, ROWS))),
        (column, draw(st.integers(column + 1, COLUMNS))),
    )


def _trace(buffers, regions, reads=None, writes=None):
    trace = Trace(parameters_of("trn2"))
    put_regions(trace, buffers, regions)
    every = tuple(range(len(regions)))
    trace.steps = [
        Step(
            1,
            None,
            every if reads is None else reads,
            every if writes is None else writes,
            "",
            0,
            0,
            [],
            "",
            0,
            (),
        )
    ]
    return trace


def _buffer(region, number=0, shape=(ROWS, COLUMNS)):
    return Buffer(number, region, BYTE, shape, "", None, 0)


def _expected(masks):
    """The others that share a byte with each."""
    return [
        {other for other, theirs in enumerate(masks) if other != at and (mine & theirs).any()}
        for at, mine in enumerate(masks)
    ]


@given(
    st.lists(boxes(), min_size=1, max_size=12), st.sampled_from([MemoryRegion.sbuf, MemoryRegion.private_hbm])
)
def test_boxes_overlap_where_masks_of_bytes_do(found, region):
    stride = 0 if region.on_chip else COLUMNS
    trace = _trace([_buffer(region)], [(0, Box(rows, columns, stride, 0)) for rows, columns in found])
    masks = []
    for rows, columns in found:
        mask = np.zeros((ROWS, COLUMNS), bool)
        mask[slice(*rows), slice(*columns)] = True
        masks.append(mask)

    result = overlaps(trace)

    assert [set(one) for one in result] == _expected(masks)


@st.composite
def slices(draw):
    """A slice of a two-dimensional buffer: offset, shape and strides in elements."""
    row, column = draw(st.integers(0, ROWS - 1)), draw(st.integers(0, COLUMNS - 1))
    rows = draw(st.integers(1, ROWS - row))
    step = draw(st.sampled_from([1, 2, 3]))
    columns = draw(st.integers(1, (COLUMNS - column - 1) // step + 1))
    return row * COLUMNS + column, (rows, columns), (COLUMNS, step)


@given(
    st.lists(slices(), min_size=1, max_size=8), st.sampled_from([MemoryRegion.sbuf, MemoryRegion.private_hbm])
)
def test_views_that_share_a_byte_overlap(found, region):
    """Boxes of strided views hold the bytes between; so they may overlap more, never less."""
    buffer = _buffer(region)
    storage = Storage.empty(buffer, values=False)
    trace = _trace(
        [buffer],
        [(0, _box(View(storage, BYTE, shape, strides, offset))) for offset, shape, strides in found],
    )
    masks = []
    for offset, shape, strides in found:
        mask = np.zeros(ROWS * COLUMNS, bool)
        at = offset + np.arange(shape[0])[:, None] * strides[0] + np.arange(shape[1])[None, :] * strides[1]
        mask[at.ravel()] = True
        masks.append(mask)

    for result, expected, (_, shape, strides) in zip(overlaps(trace), _expected(masks), found, strict=True):
        assert set(result) >= expected
        if strides[1] == 1 and all(one[2][1] == 1 or one[1][1] == 1 for one in found):
            alike = shape[0] > 1 and all(one[1][0] > 1 for one in found)
            assert not (alike or region.on_chip) or set(result) == expected


def test_regions_of_other_buffers_never_overlap():
    trace = _trace(
        [_buffer(MemoryRegion.sbuf, 0), _buffer(MemoryRegion.sbuf, 1)],
        [(0, Box((0, 4), (0, 4), 0, 0)), (1, Box((0, 4), (0, 4), 0, 0))],
    )

    assert overlaps(trace) == [(), ()]


def test_hbm_that_is_only_read_needs_no_order():
    regions = [(0, Box((0, 4), (0, 8), 24, 0)), (0, Box((2, 6), (0, 8), 24, 0))]

    assert overlaps(_trace([_buffer(MemoryRegion.private_hbm)], regions, writes=())) == [(), ()]


def test_rows_of_different_length_are_compared_by_the_bytes_between_their_ends():
    regions = [
        (0, Box((0, 2), (0, 24), 24, 0)),
        (0, Box((0, 1), (40, 60), 384, 0)),
        (0, Box((0, 1), (48, 60), 384, 0)),
    ]

    result = overlaps(_trace([_buffer(MemoryRegion.private_hbm)], regions))

    assert set(result[0]) == {1}
    assert set(result[2]) == {1}
