"""How an elementwise operator of ``nki.language`` becomes an instruction, and what an ``op`` argument is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twintrack.neuroncore.isa.operators import OPERATORS
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language.tiles import broadcast_free, on_chip, promoted, result_dtype, tile
from twintrack.nki.language.truth import Truth
from twintrack.nki.tensor import NKIObject, NkiTensor

__all__ = ["Operator", "binary", "operator", "truth"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def operator(name: str) -> Callable[[_Function], _Function]:
    """Make a function of ``nki.language`` usable as an ``op`` argument, under this name of the operator tables."""

    def named(function: _Function) -> _Function:
        function.nki_op = name  # type: ignore[attr-defined]
        return function

    return named


class Operator(NKIObject):
    """An ``op`` argument that is no function.

    Args:
        name: in the operator tables.
    """

    __slots__ = ("nki_op",)

    def __init__(self, name: str) -> None:
        self.nki_op = name

    def __repr__(self) -> str:
        return f"nl.{self.nki_op}"


def binary(op: str, x: Any, y: Any, dtype: Any) -> NkiTensor:
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


def truth(op: str, x: Any, y: Any, dtype: Any) -> NkiTensor:
    """A comparison: its result has a truth value."""
    return Truth.of(binary(op, x, y, dtype))
