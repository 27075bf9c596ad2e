"""``nki.language``: elementwise operators. Each is also what the ``op`` argument of an instruction takes.

Two tiles go to ``nisa.tensor_tensor``; a tile with a number, or with a float32 tile of one element per partition, to
``nisa.tensor_scalar``. Both compute in float32 and round once, to the result's type; ``tensor_tensor`` of 32-bit
integers is exact on GpSimd. The result lies in SBUF. Its type, where none is named: the tile's; of two tiles the
promoted type (``tiles.promoted``), for bitwise operators the wider one. Free dimensions of size 1 are repeated by
views. Partitions are not: no instruction but a matrix multiplication or a DMA reaches across them
(``nl.broadcast_to``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twintrack.neuroncore.isa.operators import OPERATORS
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language.tiles import broadcast_free, on_chip, promoted, result_dtype, sbuf_copy, tile
from twintrack.nki.language.truth import Truth
from twintrack.nki.tensor import NKIObject, NkiTensor

__all__ = [
    "abs_max",
    "abs_min",
    "add",
    "average",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bypass",
    "divide",
    "equal",
    "fmod",
    "greater",
    "greater_equal",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "operator",
    "power",
    "prelu",
    "right_shift",
    "subtract",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def operator(name: str) -> Callable[[_Function], _Function]:
    """Make a function of ``nki.language`` usable as an ``op`` argument, under this name of the operator tables."""

    def named(function: _Function) -> _Function:
        function.nki_op = name  # type: ignore[attr-defined]
        return function

    return named


class _Operator(NKIObject):
    """An ``op`` argument that is no function.

    Args:
        name: in the operator tables.
    """

    __slots__ = ("nki_op",)

    def __init__(self, name: str) -> None:
        self.nki_op = name

    def __repr__(self) -> str:
        return f"nl.{self.nki_op}"


average = _Operator("average")
"""Mean, as an operator of reductions."""
prelu = _Operator("prelu")
"""ReLU with the slope ``relu_param`` below zero, as an activation function."""
bypass = _Operator("bypass")
"""Nothing: what comes in goes out."""


def _binary(op: str, x: Any, y: Any, dtype: Any) -> NkiTensor:
    """``x <op> y`` by the instruction that serves the operands."""
    if isinstance(x, NkiTensor):
        on_chip(op, "x", x)
        if isinstance(y, NkiTensor):
            return _of_tiles(op, x, on_chip(op, "y", y), dtype)
        return _with_number(op, x, y, dtype, swapped=False)
    if isinstance(y, NkiTensor):
        return _with_number(op, on_chip(op, "y", y), x, dtype, swapped=True)
    raise author_error(
        f"at least one tile for nl.{op}",
        f"{type(x).__name__} and {type(y).__name__}",
        "use Python's own operators",
    )


def _with_number(op: str, data: NkiTensor, number: Any, dtype: Any, *, swapped: bool) -> NkiTensor:
    dst = tile(data.shape, result_dtype(dtype, data.dtype))
    isa.tensor_scalar(dst, data, op, number, reverse0=swapped)
    return dst


def _of_tiles(op: str, x: NkiTensor, y: NkiTensor, dtype: Any) -> NkiTensor:
    kind = result_dtype(dtype, x.dtype if x.dtype is y.dtype else _common(op, x.dtype, y.dtype))
    if x.shape == y.shape:
        dst = tile(x.shape, kind)
        isa.tensor_tensor(dst, x, y, op)
        return dst
    shape = _common_shape(op, x, y)
    dst = tile(shape, kind)
    for data, other, swapped in ((x, y, False), (y, x, True)):
        vector = other.free_size == 1 and other.dtype == "float32" and data.shape == shape
        if vector and data.free_size > 1 and other.shape[0] == data.shape[0]:
            column = other if other.ndim == 2 else other.reshape((other.shape[0], 1))
            isa.tensor_scalar(dst, data, op, column, reverse0=swapped)
            return dst
    isa.tensor_tensor(dst, broadcast_free(op, x, shape), broadcast_free(op, y, shape), op)
    return dst


def _common(op: str, first: DType, second: DType) -> DType:
    if OPERATORS[op].category == "bitvec" and first.is_integer and second.is_integer:
        return second if second.bytes > first.bytes else first
    return promoted(first, second)


def _common_shape(op: str, x: NkiTensor, y: NkiTensor) -> tuple[int, ...]:
    """The shape of the result; where the operands do not fit, ``broadcast_free`` says so."""
    if x.free_size == 1 or y.free_size == 1:
        wide = y if x.free_size == 1 else x
        broadcast_free(op, x if x.free_size == 1 else y, wide.shape)
        return wide.shape
    if x.ndim != y.ndim:
        broadcast_free(op, x, y.shape)
    return (x.shape[0], *(max(pair) for pair in zip(x.shape[1:], y.shape[1:], strict=True)))


def _truth(op: str, x: Any, y: Any, dtype: Any) -> NkiTensor:
    """A comparison: its result has a truth value."""
    return Truth.of(_binary(op, x, y, dtype))


# arithmetic


@operator("add")
def add(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x + y``.

    Args:
        x: a tile in SBUF or PSUM, or a number.
        y: likewise; one of the two must be a tile.
        dtype: of the result; see the module.

    Raises:
        KernelError: for operands in HBM, shapes that do not fit, or two tiles in PSUM.
    """
    return _binary("add", x, y, dtype)


@operator("subtract")
def subtract(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x - y``; see ``add``."""
    return _binary("subtract", x, y, dtype)


@operator("multiply")
def multiply(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x * y``; see ``add``."""
    return _binary("multiply", x, y, dtype)


@operator("divide")
def divide(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x / y``; see ``add``."""
    return _binary("divide", x, y, dtype)


@operator("maximum")
def maximum(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The larger of ``x`` and ``y``, NaN where either is; see ``add``."""
    return _binary("maximum", x, y, dtype)


@operator("minimum")
def minimum(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The smaller of ``x`` and ``y``, NaN where either is; see ``add``."""
    return _binary("minimum", x, y, dtype)


@operator("abs_max")
def abs_max(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` where it is larger than ``y`` in magnitude, else ``y``; NeuronCore-v4; see ``add``."""
    return _binary("abs_max", x, y, dtype)


@operator("abs_min")
def abs_min(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` where it is smaller than ``y`` in magnitude, else ``y``; NeuronCore-v4; see ``add``."""
    return _binary("abs_min", x, y, dtype)


@operator("power")
def power(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` to the power of ``y``; see ``add``.

    Of two tiles it runs on GpSimd, which cannot reach PSUM: a tile there is copied to SBUF first.
    """
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        x, y = _reachable(x), _reachable(y)
    return _binary("power", x, y, dtype)


def _reachable(x: NkiTensor) -> NkiTensor:
    return sbuf_copy(x) if x.buffer is MemoryRegion.psum else x


@operator("fmod")
def fmod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Remainder of ``x / y`` with the sign of ``x``, as ``numpy.fmod``; see ``add``."""
    return _binary("fmod", x, y, dtype)


@operator("mod")
def mod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Remainder of ``x / y`` with the sign of ``y``, as Python's ``%``; see ``add``."""
    return _binary("mod", x, y, dtype)


# comparisons and logic: 1 where it holds, else 0


@operator("equal")
def equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x == y``, else 0; see ``add``. The result is true (``bool``) where all its elements are."""
    return _truth("equal", x, y, dtype)


@operator("not_equal")
def not_equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x != y``, else 0; see ``equal``."""
    return _truth("not_equal", x, y, dtype)


@operator("less")
def less(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x < y``, else 0; see ``equal``."""
    return _truth("less", x, y, dtype)


@operator("less_equal")
def less_equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x <= y``, else 0; see ``equal``."""
    return _truth("less_equal", x, y, dtype)


@operator("greater")
def greater(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x > y``, else 0; see ``equal``."""
    return _truth("greater", x, y, dtype)


@operator("greater_equal")
def greater_equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x >= y``, else 0; see ``equal``."""
    return _truth("greater_equal", x, y, dtype)


@operator("logical_and")
def logical_and(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where neither is 0, else 0; see ``equal``."""
    return _truth("logical_and", x, y, dtype)


@operator("logical_or")
def logical_or(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where one is not 0, else 0; see ``equal``."""
    return _truth("logical_or", x, y, dtype)


@operator("logical_xor")
def logical_xor(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where exactly one is not 0, else 0; see ``equal``."""
    return _truth("logical_xor", x, y, dtype)


@operator("logical_not")
def logical_not(x: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x`` is 0, else 0, as an exclusive or with 1; see ``equal``."""
    return _truth("logical_xor", on_chip("logical_not", "x", x), 1, dtype)


# bits


@operator("bitwise_and")
def bitwise_and(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x & y`` of integers; see ``add``."""
    return _binary("bitwise_and", x, y, dtype)


@operator("bitwise_or")
def bitwise_or(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x | y`` of integers; see ``add``."""
    return _binary("bitwise_or", x, y, dtype)


@operator("bitwise_xor")
def bitwise_xor(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x ^ y`` of integers; see ``add``."""
    return _binary("bitwise_xor", x, y, dtype)


@operator("invert")
def invert(x: Any, dtype: Any = None) -> NkiTensor:
    """``~x`` of integers, as an exclusive or with all ones; see ``add``."""
    return _binary("bitwise_xor", on_chip("invert", "x", x), -1, dtype)


@operator("left_shift")
def left_shift(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x << y`` of integers, zeros coming in; see ``add``."""
    return _binary("left_shift", x, y, dtype)


@operator("right_shift")
def right_shift(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x >> y`` of integers, zeros coming in (a logical shift); see ``add``."""
    return _binary("right_shift", x, y, dtype)
