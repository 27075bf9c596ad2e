"""What the operators of the arithmetic units compute, element by element, in reductions and in scans.

Arithmetic takes float32 and gives float32; comparisons and logic give 1 and 0. Given integers it is exact
integer arithmetic that wraps modulo the width (the GpSimd Engine on int32 and uint32). Bitvec operators take
bit patterns, and shifts are logical. Nothing here warns of overflow, division by zero or NaN: the engines do not.

NaN: ``maximum``, ``minimum`` and ``relu`` give NaN if any operand is NaN, as ``numpy.maximum`` does, to which the
documentation refers; ``abs_max`` and ``abs_min`` give what their documented formula gives (the second operand
unless the first is strictly larger, or smaller, in magnitude). NaN counts as true in logic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator.quiet import silent

__all__ = ["binary", "cumulative", "reduce", "scan", "unary"]

Array = npt.NDArray[Any]
_Function = Callable[..., Any]

_ONE = np.float32(1)

_NUMBERS: Mapping[str, np.ufunc] = MappingProxyType(
    {
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "power": np.power,
        "divide": np.divide,
        "mod": np.remainder,
        "fmod": np.fmod,
    }
)
_TRUTHS: Mapping[str, np.ufunc] = MappingProxyType(
    {
        "equal": np.equal,
        "not_equal": np.not_equal,
        "greater": np.greater,
        "greater_equal": np.greater_equal,
        "less": np.less,
        "less_equal": np.less_equal,
        "logical_and": np.logical_and,
        "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
    }
)
_BITS: Mapping[str, np.ufunc] = MappingProxyType(
    {
        "bitwise_and": np.bitwise_and,
        "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor,
        "left_shift": np.left_shift,
        "right_shift": np.right_shift,
    }
)
_MAGNITUDES: Mapping[str, np.ufunc] = MappingProxyType({"abs_max": np.greater, "abs_min": np.less})
_ONLY_FLOAT = frozenset({"divide", "rsqrt", "reciprocal"})


def binary(op: str, a: Array, b: Array | float, *, out: Array | None = None) -> Array:
    """``a <op> b`` for every element.

    Args:
        op: name of an operator with two operands.
        a: float32, or integers. For arithmetic both operands are of one type.
        b: broadcast against ``a``, or one Python number, which takes the type of ``a`` (an integer is cut to its
            bits). Bitvec operators extend the narrower operand by its own sign.
        out: an array of the result's shape and type to write to; it may be ``a`` or ``b``.

    Returns:
        ``out``, or a new array of the operands' type (of the wider one for bitvec operators).

    Raises:
        KeyError: if ``op`` is no operator with two operands.
        TypeError: if the operator does not take elements of this type.
    """
    with silent():
        if op in _NUMBERS:
            _check_float(op, a)
            if op == "power" and a.dtype.kind != "f":
                return _into(out, _integer_power(a, b))
            return _NUMBERS[op](a, b, out=out)  # type: ignore[no-any-return]
        if op in _TRUTHS:
            result = _TRUTHS[op](a, b)
            return result.astype(a.dtype) if out is None else _into(out, result)
        if op in _BITS:
            return _bitvec(_BITS[op], a, b, out)
        chosen = _MAGNITUDES[op](np.abs(a), np.abs(b))
        return _into(out, np.where(chosen, a, b))


def unary(op: str, a: Array, *, out: Array | None = None) -> Array:
    """``<op> a`` for every element; see ``binary``.

    ``rsqrt`` divides 1 by the rounded root and is within 1.5 units in the last place; ``reciprocal`` and the
    others are correctly rounded.

    Raises:
        KeyError: if ``op`` is no operator with one operand.
        TypeError: if the operator does not take elements of this type.
    """
    _check_float(op, a)
    with silent():
        if op == "abs":
            return np.absolute(a, out=out)
        if op == "square":
            return np.multiply(a, a, out=out)
        if op == "relu":
            return np.maximum(a, a.dtype.type(0), out=out)  # type: ignore[no-any-return]
        if op == "reciprocal":
            return np.divide(_ONE, a, out=out)
        if op == "rsqrt":
            root = np.sqrt(a, out=out)
            return np.divide(_ONE, root, out=out)
        if op == "logical_not":
            result = np.equal(a, a.dtype.type(0))
            return result.astype(a.dtype) if out is None else _into(out, result)
        if op == "invert":
            _check_bits(a)
            return np.invert(a, out=out)
        if op == "bypass":
            return a if out is None else _into(out, a)
    raise KeyError(op)


def reduce(op: str, x: Array, axis: int | tuple[int, ...], *, keepdims: bool = False) -> Array:
    """All elements along the axes combined by the operator.

    The reduced elements are taken in row-major order of the axes, whatever the strides, so that the same numbers
    always give the same bits. Sums (and ``average``, the sum divided by the count) are NumPy's pairwise sums, those
    of ``numpy.sum`` along a contiguous last axis; the documentation of ``tensor_reduce`` states no order, and this
    one is both fast and closest to the exact sum. Everything else goes from the first element to the last:
    ``subtract`` takes the others from the first, logic gives 1 or 0, and ``abs_max`` of equal magnitudes is the last.

    Args:
        op: name of an operator with two operands that gives an element, or ``average``.
        x: float32, or integers.
        axis: one or more axes.
        keepdims: whether reduced axes stay, with length one.

    Raises:
        KeyError: if ``op`` does not reduce.
        ValueError: if nothing is there to be reduced.
    """
    if axis in (x.ndim - 1, (x.ndim - 1,)) and x.flags.c_contiguous and x.shape[-1] and not keepdims:
        return _reduce_last(op, x)
    axes = tuple(sorted(one % x.ndim for one in ((axis,) if isinstance(axis, int) else axis)))
    kept = tuple(one for one in range(x.ndim) if one not in axes)
    turned = x if kept == tuple(range(len(kept))) else x.transpose(kept + axes)
    count = math.prod(x.shape[one] for one in axes)
    if count == 0:
        raise ValueError("a reduction needs at least one element")
    flat = np.ascontiguousarray(turned).reshape((*turned.shape[: len(kept)], count))
    result = _reduce_last(op, flat)
    return np.expand_dims(result, axes) if keepdims else result


def cumulative(op: str, x: Array, initial: Array | float) -> Array:
    """``r[i] = x[i] <op> r[i-1]`` along the last axis, where ``r[-1]`` is ``initial``; in exactly this order.

    Args:
        op: name of an arithmetic operator with two operands.
        x: float32 of shape ``(..., n)``.
        initial: one number, or one for each row, of shape ``(..., 1)``.

    Returns:
        float32 of the shape of ``x``.
    """
    first = np.broadcast_to(np.asarray(initial, dtype=x.dtype), (*x.shape[:-1], 1))
    if op in ("add", "multiply", "maximum", "minimum"):
        return _accumulate(_NUMBERS[op], x, first)
    return _loop(lambda row, state: binary(op, row, state), (x,), first)


def scan(
    op0: str,
    op1: str,
    data0: Array,
    data1: Array,
    initial: Array | float,
    *,
    reverse0: bool = False,
    reverse1: bool = False,
) -> Array:
    """``r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i]`` along the last axis; in exactly this order.

    Where the outcome is the same bit for bit it is computed by one call for all elements: running sums
    (``data0`` all ones, multiply, add) and running maxima or minima. Else step by step over the last axis.

    Args:
        op0: name of an arithmetic operator with two operands.
        op1: likewise.
        data0: float32 of shape ``(..., n)``.
        data1: float32 of the same shape.
        initial: one number, or one for each row, of shape ``(..., 1)``; it stands for ``r[-1]``.
        reverse0: ``r[i-1] <op0> data0[i]`` instead.
        reverse1: ``data1[i] <op1> (...)`` instead.

    Returns:
        float32 of the same shape.
    """
    first = np.broadcast_to(np.asarray(initial, dtype=data0.dtype), (*data0.shape[:-1], 1))
    if (op0, op1) == ("multiply", "add") and bool((data0 == _ONE).all()):
        return _accumulate(np.add, data1, first)
    if op0 == op1 and op0 in ("maximum", "minimum"):
        return _accumulate(_NUMBERS[op0], _NUMBERS[op0](data0, data1), first)

    def step(row0: Array, row1: Array, state: Array) -> Array:
        inner = binary(op0, state, row0) if reverse0 else binary(op0, row0, state)
        return binary(op1, row1, inner) if reverse1 else binary(op1, inner, row1)

    if op0 in _NUMBERS and op1 in _NUMBERS and data0.dtype.kind == "f":
        step = _plain_step(_NUMBERS[op0], _NUMBERS[op1], reverse0=reverse0, reverse1=reverse1)
    return _loop(step, (data0, data1), first)


def _plain_step(op0: np.ufunc, op1: np.ufunc, *, reverse0: bool, reverse1: bool) -> _Function:
    def step(row0: Array, row1: Array, state: Array) -> Any:
        inner = op0(state, row0) if reverse0 else op0(row0, state)
        return op1(row1, inner) if reverse1 else op1(inner, row1)

    return step


def _loop(step: _Function, data: tuple[Array, ...], first: Array) -> Array:
    """One step per position of the last axis, for all rows at once."""
    columns = [np.ascontiguousarray(np.moveaxis(one, -1, 0)) for one in data]
    result = np.empty_like(columns[0])
    state: Array = first[..., 0]
    with silent():
        for i, rows in enumerate(zip(*columns, strict=True)):
            state = step(*rows, state)
            result[i] = state
    return np.ascontiguousarray(np.moveaxis(result, 0, -1))


def _accumulate(ufunc: np.ufunc, x: Array, first: Array) -> Array:
    """``r[i] = x[i] <op> r[i-1]`` for operators whose operands may be swapped."""
    if x.shape[-1] == 0:
        return x.copy()
    start = x.copy()
    with silent():
        start[..., :1] = ufunc(x[..., :1], first)
        return ufunc.accumulate(start, axis=-1)


def _reduce_last(op: str, flat: Array) -> Array:
    with silent():
        if op == "average":
            total: Array = np.add.reduce(flat, axis=-1, dtype=flat.dtype)
            return np.divide(total, np.float32(flat.shape[-1]))
        if op in ("add", "subtract", "multiply", "maximum", "minimum"):
            return _NUMBERS[op].reduce(flat, axis=-1, dtype=flat.dtype)  # type: ignore[no-any-return]
        if op in ("logical_and", "logical_or", "logical_xor"):
            return _TRUTHS[op].reduce(flat, axis=-1).astype(flat.dtype)  # type: ignore[no-any-return]
        if op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
            _check_bits(flat)
            return _BITS[op].reduce(flat, axis=-1)  # type: ignore[no-any-return]
    if op not in _MAGNITUDES:
        raise KeyError(op)
    result = flat[..., 0]
    for i in range(1, flat.shape[-1]):
        result = binary(op, result, flat[..., i])
    return result.copy()


def _bitvec(ufunc: np.ufunc, a: Array, b: Array | float, out: Array | None) -> Array:
    """On unsigned patterns of the wider operand, so that right shifts bring in zeros.

    NumPy shifts unsigned numbers by their width or more to zero; a negative count is a large one.
    """
    _check_bits(a)
    if isinstance(b, int):
        b = np.array(b & ((1 << 8 * a.dtype.itemsize) - 1), dtype=f"u{a.dtype.itemsize}").view(a.dtype)
    if isinstance(b, float):
        raise TypeError(f"bitvec operators take integers, not {b}")
    _check_bits(b)
    kind = a.dtype if a.dtype.itemsize >= b.dtype.itemsize else b.dtype
    pattern = np.dtype(f"u{kind.itemsize}")
    x, y = a.astype(kind, copy=False).view(pattern), b.astype(kind, copy=False).view(pattern)
    if out is None:
        return ufunc(x, y).view(kind)  # type: ignore[no-any-return]
    ufunc(x, y, out=out.view(pattern))
    return out


def _integer_power(a: Array, b: Array | float) -> Array:
    """Exact and wrapping; a negative exponent gives the real power cut to an integer, and 0 for base 0."""
    result = np.power(a, np.maximum(b, 0), dtype=a.dtype)
    unit = np.where(b % 2 == 0, a * a, a)  # for the bases 1 and -1
    return np.where(b < 0, np.where((a == 1) | (a == -1), unit, 0), result).astype(a.dtype)


def _into(out: Array | None, result: Array) -> Array:
    if out is None:
        return result
    np.copyto(out, result)
    return out


def _check_float(op: str, a: Array) -> None:
    if op in _ONLY_FLOAT and a.dtype.kind != "f":
        raise TypeError(f"{op} takes float32, not {a.dtype}")


def _check_bits(a: Array) -> None:
    if a.dtype.kind not in "iu":
        raise TypeError(f"bitvec operators take integers, not {a.dtype}")
