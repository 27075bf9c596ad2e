"""Shape rules agree with NumPy, which knows nothing of them: same shape, or both refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_cases import SHAPES

from twintrack.compiler import shapes

AXES = st.integers(-2, 3)


def _agree(rule, operands, attributes, reference):
    """The rule and the reference give one shape, or both refuse."""
    try:
        expected = reference()
    except (ValueError, IndexError, np.exceptions.AxisError):
        with pytest.raises(ValueError, match=r"."):
            rule(operands, attributes)
        return None
    found = rule(operands, attributes)
    assert found == expected
    assert type(found) is tuple
    return found


def _zeros(shape):
    return np.zeros(shape, np.int8)


def _require_plain(*axes):
    """The IR counts axes from the front only."""
    if min(axes, default=0) < 0:
        raise ValueError("negative axis")


@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_broadcast(operands):
    _agree(shapes.broadcast_shape, operands, {}, lambda: np.broadcast_shapes(*operands))


@given(SHAPES, SHAPES)
def test_expand(shape, target):
    _agree(
        shapes.expand_shape, [shape], {"shape": target}, lambda: np.broadcast_to(_zeros(shape), target).shape
    )


@given(SHAPES, SHAPES)
def test_reshape(shape, target):
    _agree(shapes.reshape_shape, [shape], {"shape": target}, lambda: _zeros(shape).reshape(target).shape)


@given(SHAPES, st.lists(AXES, max_size=3).map(tuple), st.booleans())
def test_reductions(shape, axes, keep):
    def reference():
        _require_plain(*axes)
        return _zeros(shape).sum(axis=axes, keepdims=keep).shape

    def largest():
        _require_plain(*axes)
        if any(shape[axis] == 0 for axis in axes):
            raise ValueError("NumPy lets this pass where the result has no element")
        return _zeros(shape).max(axis=axes, keepdims=keep).shape

    attributes = {"axes": axes, "keep": keep}
    _agree(shapes.reduced_shape, [shape], attributes, reference)
    _agree(shapes.extreme_shape, [shape], attributes, largest)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4), st.lists(st.integers(0, 3), min_size=1, max_size=4)
)
def test_matmul(left, right):
    def reference():
        if len(left) != len(right) or len(left) not in (2, 3) or left[:-2] != right[:-2]:
            raise ValueError("the IR has matrices and batches of them, nothing broadcast")
        return np.matmul(_zeros(left), _zeros(right)).shape

    _agree(shapes.matmul_shape, [tuple(left), tuple(right)], {}, reference)


@given(SHAPES, AXES, st.integers(-1, 4), st.integers(-1, 4), st.integers(-1, 3))
def test_slice(shape, axis, start, stop, step):
    def reference():
        _require_plain(axis, start, step - 1)
        index = [slice(None)] * len(shape)
        index[axis] = slice(start, stop, step)
        if not start <= stop <= shape[axis]:
            raise ValueError("NumPy cuts a range to the tensor")
        return _zeros(shape)[tuple(index)].shape

    attributes = {"axis": axis, "start": start, "stop": stop, "step": step}
    _agree(shapes.slice_shape, [shape], attributes, reference)


@given(SHAPES, st.lists(SHAPES, max_size=2), AXES)
def test_concat(first, more, axis):
    def reference():
        _require_plain(axis)
        return np.concatenate([_zeros(s) for s in (first, *more)], axis).shape

    _agree(shapes.concat_shape, [first, *more], {"axis": axis}, reference)


@given(SHAPES, st.integers(1, 3), AXES, st.data())
def test_concat_of_shapes_that_mostly_fit(shape, count, axis, data):
    operands = [tuple(data.draw(st.integers(0, 3)) if i == axis else n for i, n in enumerate(shape))] * count

    def reference():
        _require_plain(axis)
        return np.concatenate([_zeros(s) for s in operands], axis).shape

    _agree(shapes.concat_shape, operands, {"axis": axis}, reference)


@given(SHAPES, AXES, st.integers(-1, 2), st.integers(-1, 2))
def test_pad(shape, axis, before, after):
    def reference():
        _require_plain(axis, before, after)
        widths = [(0, 0)] * len(shape)
        widths[axis] = (before, after)
        return np.pad(_zeros(shape), widths).shape

    _agree(shapes.pad_shape, [shape], {"axis": axis, "before": before, "after": after}, reference)


@given(SHAPES, st.lists(AXES, max_size=3).map(tuple))
def test_transpose(shape, order):
    def reference():
        _require_plain(*order)
        return _zeros(shape).transpose(order).shape

    _agree(shapes.transpose_shape, [shape], {"order": order}, reference)


@given(SHAPES, SHAPES)
def test_take_rows(table, ids):
    def reference():
        if len(table) != 2:
            raise ValueError("a table has two axes")
        rows = _zeros((table[0] + 1, table[1]))  # one more, so that every id has a row
        return rows[np.zeros(ids, np.int64)].shape

    _agree(shapes.take_rows_shape, [table, ids], {}, reference)


@given(SHAPES, SHAPES, st.integers(-1, 3))
def test_add_rows(values, ids, rows):
    def reference():
        _require_plain(rows)
        if values[:-1] != ids:
            raise ValueError("NumPy would broadcast")
        table = _zeros((rows + 1, values[-1]))
        np.add.at(table, np.zeros(ids, np.int64), _zeros(values))
        return (rows, table.shape[1])

    _agree(shapes.add_rows_shape, [values, ids], {"rows": rows}, reference)


@settings(max_examples=200)
@given(SHAPES, SHAPES, AXES)
def test_gather(shape, index, axis):
    def reference():
        _require_plain(axis)
        if len(shape) != len(index):
            raise ValueError("equal ranks")
        _ = shape[axis]
        wide = [4 if i == axis else n for i, n in enumerate(shape)]
        if any(n > m for n, m in zip(index, wide, strict=True)):
            raise ValueError("NumPy would broadcast")
        cut = _zeros(wide)[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index))]
        return np.take_along_axis(cut, np.zeros(index, np.int64), axis).shape

    _agree(shapes.gather_shape, [shape, index], {"axis": axis}, reference)


@settings(max_examples=200)
@given(SHAPES, SHAPES, SHAPES, AXES)
def test_scatter_add(values, index, target, axis):
    def fits():
        _require_plain(axis)
        _ = target[axis]
        return len(values) == len(index) == len(target) and all(
            n <= values[i] and (i == axis or n <= target[i]) for i, n in enumerate(index)
        )

    def reference():
        if not fits():
            raise ValueError("does not fit")
        return target

    _agree(shapes.scatter_shape, [values, index], {"axis": axis, "shape": target}, reference)


@given(st.lists(SHAPES, min_size=1, max_size=3), AXES)
def test_equal_shapes_with_an_axis(operands, axis):
    def equal():
        if len(set(operands)) > 1:
            raise ValueError("NumPy would broadcast")
        return operands[0]

    def with_axis():
        _require_plain(axis)
        np.cumsum(_zeros(equal() or (1,)), axis)  # a tensor without axes counts as one of one element
        return operands[0]

    _agree(shapes.same_shape, operands, {}, equal)
    _agree(shapes.axis_shape, operands, {"axis": axis}, with_axis)


@given(st.integers(-1, 5), st.integers(-(2**64), 2**64), st.integers(-(2**64), 2**64))
def test_iota_stays_inside_64_bits(count, start, step):
    attributes = {"count": count, "start": start, "step": step}
    try:
        assert shapes.iota_shape([], attributes) == (count,)
    except ValueError:
        numbers = [start, *(start + step * i for i in range(max(count, 0) + 1))]
        assert count < 0 or max(abs(n) for n in (*numbers, step * count)) >= 2**62
    else:
        for i in range(count):
            np.int64(start) + np.int64(step) * np.int64(i)
            assert -(2**63) <= start + step * i < 2**63


def test_the_shape_of_a_constant_is_its_attribute():
    assert shapes.constant_shape([], {"shape": (2, 0)}) == (2, 0)
