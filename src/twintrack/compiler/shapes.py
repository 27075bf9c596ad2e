"""Shape rules of the IR's operators, stated on their own: no tensor library has a say in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "Shape",
    "add_rows_shape",
    "axis_shape",
    "broadcast_shape",
    "concat_shape",
    "constant_shape",
    "expand_shape",
    "extreme_shape",
    "gather_shape",
    "iota_shape",
    "matmul_shape",
    "pad_shape",
    "reduced_shape",
    "reshape_shape",
    "same_shape",
    "scatter_shape",
    "slice_shape",
    "take_rows_shape",
    "transpose_shape",
]

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]


def same_shape(shapes: Sequence[Shape], _: Attributes) -> Shape:
    """All operands have one shape, which is the result's.

    Raises:
        ValueError: if they differ.
    """
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(f"equal shapes expected, got {list(shapes)}")
    return shapes[0]


def broadcast_shape(shapes: Sequence[Shape], _: Attributes) -> Shape:
    """Shapes aligned at the right; an axis of size 1 stretches.

    Raises:
        ValueError: if two sizes differ and neither is 1.
    """
    rank = max(len(shape) for shape in shapes)
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise ValueError(f"shapes {list(shapes)} do not broadcast")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def matmul_shape(shapes: Sequence[Shape], _: Attributes) -> Shape:
    """``[M, K] x [K, N]``, or ``[B, M, K] x [B, K, N]``.

    Raises:
        ValueError: on any other pair of shapes.
    """
    left, right = shapes
    if len(left) not in (2, 3) or len(left) != len(right):
        raise ValueError(f"two matrices or two batches of them expected, got {left} and {right}")
    if left[-1] != right[-2] or left[:-2] != right[:-2]:
        raise ValueError(f"{left} and {right} cannot be multiplied")
    return (*left[:-1], right[-1])


def axis_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """One shape, which has ``axis``; a tensor without axes counts as one of a single element.

    Raises:
        ValueError: if the shapes differ or the axis does not exist.
    """
    shape = same_shape(shapes, a)
    if not 0 <= a["axis"] < max(len(shape), 1):
        raise ValueError(f"axis {a['axis']} of a tensor with {len(shape)} axes")
    return shape


def reduced_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """Axes in ``axes`` (not negative) go, or stay with size 1 when ``keep``.

    Raises:
        ValueError: if an axis does not exist or is named twice.
    """
    shape, axes = shapes[0], a["axes"]
    if len(set(axes)) != len(axes) or any(not 0 <= axis < len(shape) for axis in axes):
        raise ValueError(f"axes {axes} of a tensor with {len(shape)} axes")
    if a["keep"]:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def extreme_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """As ``reduced_shape``, but no reduced axis is empty: nothing has no largest element.

    Raises:
        ValueError: if one is, or as ``reduced_shape``.
    """
    result = reduced_shape(shapes, a)
    if any(shapes[0][axis] == 0 for axis in a["axes"]):
        raise ValueError(f"the largest of no elements along axes {a['axes']} of {shapes[0]}")
    return result


def slice_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """``start <= i < stop`` with ``step`` along ``axis``, inside the tensor.

    Raises:
        ValueError: if the range leaves the tensor.
    """
    shape, axis = shapes[0], a["axis"]
    inside = 0 <= axis < len(shape) and 0 <= a["start"] <= a["stop"] <= shape[axis]
    if not (inside and 1 <= a["step"] < 2**63):
        raise ValueError(f"slice {a['start']}:{a['stop']}:{a['step']} of axis {axis} of {shape}")
    size = -(-(a["stop"] - a["start"]) // a["step"])
    return (*shape[:axis], size, *shape[axis + 1 :])


def concat_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """Shapes equal but for ``axis``, whose sizes add up.

    Raises:
        ValueError: if they differ elsewhere.
    """
    axis = a["axis"]
    rest = {(len(shape), *shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rest) != 1 or not 0 <= axis < len(shapes[0]):
        raise ValueError(f"shapes {list(shapes)} cannot be joined along axis {axis}")
    return (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def pad_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """``before`` and ``after`` zeros along ``axis``.

    Raises:
        ValueError: if a count is negative or the axis does not exist.
    """
    shape, axis = shapes[0], a["axis"]
    if not 0 <= axis < len(shape) or a["before"] < 0 or a["after"] < 0:
        raise ValueError(f"padding {a['before']}, {a['after']} of axis {axis} of {shape}")
    return (*shape[:axis], a["before"] + shape[axis] + a["after"], *shape[axis + 1 :])


def reshape_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """``shape``, with as many elements in the same row-major order.

    Raises:
        ValueError: if the numbers of elements differ.
    """
    if math.prod(shapes[0]) != math.prod(a["shape"]):
        raise ValueError(f"{math.prod(a['shape'])} elements expected, got {math.prod(shapes[0])}")
    return tuple(a["shape"])


def transpose_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """Axis ``i`` of the result is axis ``order[i]`` of the operand.

    Raises:
        ValueError: if ``order`` is no permutation.
    """
    if sorted(a["order"]) != list(range(len(shapes[0]))):
        raise ValueError(f"order {a['order']} is no permutation of {len(shapes[0])} axes")
    return tuple(shapes[0][i] for i in a["order"])


def expand_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """``shape``, to which the operand's shape broadcasts.

    Raises:
        ValueError: if it does not.
    """
    target = tuple(a["shape"])
    if broadcast_shape([shapes[0], target], a) != target:
        raise ValueError(f"{shapes[0]} does not broadcast to {target}")
    return target


def take_rows_shape(shapes: Sequence[Shape], _: Attributes) -> Shape:
    """A table ``[R, D]`` and ids of any shape give ``[*ids, D]``.

    Raises:
        ValueError: if the table has not two axes.
    """
    table, ids = shapes
    if len(table) != 2:
        raise ValueError(f"a table of 2 axes expected, got {len(table)}")
    return (*ids, table[1])


def add_rows_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """Values ``[*ids, D]`` and ids give a table ``[rows, D]``.

    Raises:
        ValueError: if the ids do not number the values' rows, or ``rows`` is negative.
    """
    values, ids = shapes
    if not values or values[:-1] != ids or a["rows"] < 0:
        raise ValueError(f"ids of shape {values[:-1]} and rows from 0 expected, got {ids} and {a['rows']}")
    return (a["rows"], values[-1])


def scatter_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """``shape``, into which values are added where the index says along ``axis``.

    Raises:
        ValueError: if the index is larger than the values, or than ``shape`` in another axis than ``axis``.
    """
    values, index = shapes
    target, axis = tuple(a["shape"]), a["axis"]
    if not len(values) == len(index) == len(target) or not 0 <= axis < len(target):
        raise ValueError(f"axis {axis} and equal ranks expected, got {values}, {index} and {target}")
    if any(n > m for n, m in zip(index, values, strict=True)) or any(
        n > m for i, (n, m) in enumerate(zip(index, target, strict=True)) if i != axis
    ):
        raise ValueError(f"index of shape {index} for {values} into {target} along axis {axis}")
    return target


def iota_shape(_: Sequence[Shape], a: Attributes) -> Shape:
    """``count`` integers from ``start`` on, ``step`` apart.

    Raises:
        ValueError: if the count is negative, or a number leaves 64 bits.
    """
    if a["count"] < 0 or abs(a["start"]) + abs(a["step"]) * a["count"] >= 2**63:
        raise ValueError(f"{a['count']} integers from {a['start']} in steps of {a['step']}")
    return (a["count"],)


def constant_shape(_: Sequence[Shape], a: Attributes) -> Shape:
    """``shape``."""
    return tuple(a["shape"])


def gather_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """The index's shape, which fits the tensor's in every axis but ``axis``.

    Raises:
        ValueError: if it does not.
    """
    shape, index = shapes
    if not 0 <= a["axis"] < len(shape) == len(index) or any(
        n > m for i, (m, n) in enumerate(zip(shape, index, strict=True)) if i != a["axis"]
    ):
        raise ValueError(f"index of shape {index} into {shape} along axis {a['axis']}")
    return index
