"""Shape rules of the IR's operators, stated on their own: no tensor library has a say in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "Shape",
    "broadcast_shape",
    "concat_shape",
    "gather_shape",
    "matmul_shape",
    "pad_shape",
    "reduced_shape",
    "same_shape",
    "slice_shape",
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


def slice_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """``start <= i < stop`` with ``step`` along ``axis``, inside the tensor.

    Raises:
        ValueError: if the range leaves the tensor.
    """
    shape, axis = shapes[0], a["axis"]
    if not (0 <= axis < len(shape) and 0 <= a["start"] <= a["stop"] <= shape[axis] and a["step"] >= 1):
        raise ValueError(f"slice {a['start']}:{a['stop']}:{a['step']} of axis {axis} of {shape}")
    size = -(-(a["stop"] - a["start"]) // a["step"])
    return (*shape[:axis], size, *shape[axis + 1 :])


def concat_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """Shapes equal but for ``axis``, whose sizes add up.

    Raises:
        ValueError: if they differ elsewhere.
    """
    axis = a["axis"]
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
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


def gather_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    """The index's shape, which fits the tensor's in every axis but ``axis``.

    Raises:
        ValueError: if it does not.
    """
    shape, index = shapes
    if len(shape) != len(index) or any(
        n > m for i, (m, n) in enumerate(zip(shape, index, strict=True)) if i != a["axis"]
    ):
        raise ValueError(f"index of shape {index} into {shape} along axis {a['axis']}")
    return index
