"""``Written`` is a byte mask: whatever is marked and cleared, it says what a plain mask says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.neuroncore.memory.written import Written, pattern_of

BYTES = 96
ITEMS = (1, 2, 4)


@st.composite
def views(draw):
    """Shape, strides, offset and width of a view inside the buffer; strides of any sign, or 0."""
    itemsize = draw(st.sampled_from(ITEMS))
    room = BYTES // itemsize
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    strides = [draw(st.integers(-8, 12)) for _ in shape]
    spans = [(count - 1) * step for count, step in zip(shape, strides, strict=True)]
    low, high = -sum(min(span, 0) for span in spans), room - 1 - sum(max(span, 0) for span in spans)
    if low > high:
        shape, strides, low, high = [min(3, room)], [1], 0, room - min(3, room)
    return tuple(shape), tuple(strides), draw(st.integers(low, high)), itemsize


def elements(view):
    """First byte of each element, of the view's shape."""
    shape, strides, offset, itemsize = view
    at = np.full(shape, offset, np.int64)
    for axis, step in enumerate(strides):
        at += np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]) * step
    return at * itemsize


def bytes_of(view):
    return (elements(view).reshape(-1, 1) + np.arange(view[3])).reshape(-1)


@given(
    everything=st.booleans(),
    steps=st.lists(
        st.tuples(
            st.sampled_from(("mark", "clear", "where", "mark_rows", "clear_rows")),
            views(),
            st.integers(0, 2**20),
        ),
        max_size=6,
    ),
    seen=views(),
)
def test_any_sequence_of_marks_and_clears_leaves_the_mask_of_bytes(everything, steps, seen):
    written, plain = Written(BYTES, everything=everything), np.full(BYTES, everything)
    for what, view, seed in steps:
        shape, strides, _, itemsize = view
        pattern = pattern_of(*view)
        if what == "mark":
            written.mark(pattern)
            plain[bytes_of(view)] = True
        elif what == "clear":
            written.clear(pattern)
            plain[bytes_of(view)] = False
        elif what == "where":
            chosen = np.random.default_rng(seed).random(shape) < 0.5
            written.mark_where(*view, chosen)
            plain[(elements(view)[chosen].reshape(-1, 1) + np.arange(itemsize)).reshape(-1)] = True
        else:
            inner = pattern_of(shape[1:], strides[1:], 0, itemsize)
            starts = elements(view).reshape(shape[0], -1)[:, 0]
            getattr(written, what)(starts, inner)
            plain[bytes_of(view)] = what == "mark_rows"
    covered = plain[bytes_of(seen)]
    pattern = pattern_of(*seen)
    shape, strides, _, itemsize = seen
    assert written.covers(pattern) == covered.all()
    assert written.touches(pattern) == covered.any()
    assert (written.which(*seen) == covered.reshape(*shape, itemsize).all(axis=-1)).all()
    starts = elements(seen).reshape(shape[0], -1)[:, 0]
    rows = written.covers_rows(starts, pattern_of(shape[1:], strides[1:], 0, itemsize))
    assert (rows == covered.reshape(shape[0], -1).all(axis=1)).all()
    missing = written.first_missing(pattern)
    assert (missing == -1) == covered.all()
    if missing >= 0:
        assert not plain[missing]
        assert missing in bytes_of(seen)
    assert written.missing_bytes == (~plain).sum()
    assert not written.whole or plain.all()
    assert not written.nothing or not plain.any()


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "itemsize", "expected"),
    [
        ((4, 8), (8, 1), 0, 4, (0, (), 128)),
        ((4, 8), (16, 1), 3, 2, (6, ((32, 4),), 16)),
        ((4, 8), (1, 4), 0, 1, (0, (), 32)),
        ((4, 8), (0, 1), 2, 2, (4, (), 16)),
        ((2, 3, 1), (1, 10, 7), 0, 4, (0, ((40, 3),), 8)),
    ],
)
def test_a_pattern_is_as_few_runs_as_the_layout_allows(shape, strides, offset, itemsize, expected):
    assert pattern_of(shape, strides, offset, itemsize) == expected


def test_a_mask_has_one_entry_per_row_while_rows_are_written_whole():
    written = Written(128 * 2048)
    for row in range(0, 128, 2):
        written.mark((row * 2048, (), 2048))
    assert written._mask is not None
    assert written._mask.size == 128
