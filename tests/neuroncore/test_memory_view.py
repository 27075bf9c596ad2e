"""Views: which elements they are, where they lie on chip, and what decides whether an instruction takes them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import Dynamic, View

FLOAT = DTYPES["float32"]


def storage(shape=(16, 8), region=MemoryRegion.sbuf, dtype=FLOAT, address=None):
    return Storage.empty(Buffer(0, region, dtype, shape, "", None, 0, address), values=True)


@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    offset=st.integers(0, 60),
)
def test_an_element_is_at_the_offset_plus_strides_times_index(shape, strides, offset):
    held = storage()
    flat = held.data.view(np.float32)
    flat[:] = np.arange(128)
    found = View(held, FLOAT, shape, strides, offset).array()
    expected = np.lib.stride_tricks.as_strided(flat[offset:], shape, [4 * step for step in strides])
    assert np.array_equal(found, expected)


def test_what_is_written_to_the_array_is_written_to_the_buffer():
    held = storage()
    View(held, FLOAT, (2, 2), (8, 2), 9).array()[...] = [[1, 2], [3, 4]]
    flat = held.data.view(np.float32)
    assert [flat[at] for at in (9, 11, 17, 19)] == [1, 2, 3, 4]
    assert np.isnan(flat[10])


def test_unwritten_elements_are_nan_and_4():
    assert np.isnan(View(storage(), FLOAT, (16, 8), (8, 1), 0).array()).all()
    integers = storage(dtype=DTYPES["int16"])
    assert (View(integers, DTYPES["int16"], (16, 8), (8, 1), 0).array() == 4).all()


@pytest.mark.parametrize(
    ("dtype", "offset", "address", "partition", "byte"),
    [
        ("float32", 0, None, 0, 0),
        ("float32", 19, None, 2, 12),
        ("uint8", 67, None, 2, 3),
        ("float32", 19, (32, 100), 34, 112),
    ],
)
def test_the_first_partition_and_byte_count_from_where_the_buffer_lies(
    dtype, offset, address, partition, byte
):
    view = View(storage(address=address), DTYPES[dtype], (1, 1), (8, 1), offset)
    assert (view.start_partition, view.start_byte) == (partition, byte)


def test_the_signature_tells_apart_whatever_a_rule_looks_at():
    held, psum = storage(), storage((16, 1024), MemoryRegion.psum)
    placed = storage(address=(0, 0))
    index = View(storage((16, 1), dtype=DTYPES["int32"]), DTYPES["int32"], (16, 1), (1, 1), 0)
    other = View(storage((16, 2), dtype=DTYPES["int32"]), DTYPES["int32"], (16, 2), (2, 1), 0)
    views = [
        View(held, FLOAT, (4, 8), (8, 1), 0),
        View(held, DTYPES["int32"], (4, 8), (8, 1), 0),
        View(held, FLOAT, (4, 4), (8, 1), 0),
        View(held, FLOAT, (4, 8), (8, 1), 8),
        View(placed, FLOAT, (4, 8), (8, 1), 0),
        View(psum, FLOAT, (4, 512), (1024, 1), 0),
        View(psum, FLOAT, (4, 512), (1024, 1), 256),
        View(held, FLOAT, (4, 8), (8, 1), 0, Dynamic("scalar", index, 1, 8, 1)),
        View(held, FLOAT, (4, 8), (8, 1), 0, Dynamic("vector", index, 1, 8, 0)),
        View(held, FLOAT, (4, 8), (8, 1), 0, Dynamic("vector", other, 1, 8, 0)),
    ]
    assert len({view.signature for view in views}) == len(views)
    assert View(held, FLOAT, (4, 8), (8, 1), 1).signature == views[0].signature


def test_a_buffer_too_wide_by_type_is_the_same_storage_with_other_bits():
    held = storage((2, 4), dtype=DTYPES["uint32"])
    held.data.view(np.uint32)[:] = 0x3F80_4000
    seen = View(held, DTYPES["bfloat16"], (2, 8), (8, 1), 0).array().astype(np.float32)
    assert np.array_equal(seen, [[2.0, 1.0] * 4] * 2)
