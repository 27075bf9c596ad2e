"""Elementwise operations of ``nki.language`` until 2.26: broadcasting, weakly typed scalars, masks.

Instructions are those of the current dialect. What differs is documented in ``nki.api.shared.rst`` of 2.26: partitions
broadcast too, and a plain Python number is as wide as its kind: ``bfloat16 * 2.0`` gives float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from twintrack.neuroncore.isa.operators import OPERATORS
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES, DType, dtype_of
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language import operators
from twintrack.nki.language.tiles import promoted
from twintrack.nki.legacy.copies import common_shape, copied, repeated
from twintrack.nki.legacy.regions import Along, fresh, kind_of, on_chip, over
from twintrack.nki.legacy.tile import Tile
from twintrack.nki.tensor import NkiTensor

__all__ = ["binary", "lifted", "scalar_type", "where"]

_COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
_TRUTH = _COMPARISONS | {"logical_and", "logical_or", "logical_xor"}
_COMPOSED = frozenset({"power", "mod", "fmod"})


def scalar_type(number: Any) -> DType:
    """The element type of a scalar: that of a NumPy scalar; of a Python number the widest of its kind.

    Raises:
        KernelError: if it is no number.
    """
    if isinstance(number, np.generic):
        try:
            return dtype_of(number.dtype)
        except KeyError:
            return DTYPES["float32" if isinstance(number, np.floating) else "int32"]
    if isinstance(number, bool):
        return DTYPES["uint8"]
    if isinstance(number, int | float):
        return DTYPES["int32" if isinstance(number, int) else "float32"]
    raise author_error("a tile or a number", type(number).__name__, "pass one of them")


def _result_type(op: str, x: Any, y: Any, dtype: Any) -> DType:
    if dtype is not None:
        return kind_of(dtype, DTYPES["float32"])
    if op in _TRUTH:
        return DTYPES["bool"]
    kinds = [one.dtype if isinstance(one, Tile) else scalar_type(one) for one in (x, y)]
    if OPERATORS[op].category == "bitvec":
        tiles = [one.dtype for one in (x, y) if isinstance(one, Tile)]
        return max(tiles, key=lambda kind: kind.bytes)
    kind = promoted(*kinds)
    return DTYPES["float32"] if op == "divide" and kind.is_integer else kind


def binary(op: str, x: Any, y: Any, dtype: Any = None, mask: Any = None, target: Tile | None = None) -> Tile:
    """``x <op> y``.

    Args:
        op: name of the operator.
        x: a tile in SBUF or PSUM, or a number.
        y: likewise; one of them is a tile.
        dtype: of the result; promoted where ``None``, bool for comparisons.
        mask: what of it is computed.
        target: a view that takes the result, for ``+=`` and its like.

    Raises:
        KernelError: for operands in HBM, or shapes that do not broadcast.
    """
    function = f"nl.{op}"
    x, y = (
        on_chip(function, name, one) if isinstance(one, NkiTensor) else one
        for name, one in (("x", x), ("y", y))
    )
    shape = common_shape(function, [one.shape for one in (x, y) if isinstance(one, Tile)])
    dst = target if target is not None else fresh(shape, _result_type(op, x, y, dtype))
    if target is not None and target.shape != shape:
        raise author_error(f"a result of shape {list(target.shape)}", f"{list(shape)}", "slice them alike")
    over(
        mask,
        shape,
        [dst, *_operands(function, op, x, y, shape)],
        _issuer(op),
        None if target is not None else dst,
    )
    return dst


def _operands(function: str, op: str, x: Any, y: Any, shape: tuple[int, ...]) -> list[Any]:
    """Both operands in the shape of the result; a float32 column of one element per partition as it is."""
    if not (isinstance(x, Tile) and isinstance(y, Tile)):
        return [repeated(function, one, shape) if isinstance(one, Tile) else one for one in (x, y)]
    if OPERATORS[op].category != "bitvec" and op not in _COMPOSED:
        for data, other in ((x, y), (y, x)):
            column = other.free_size == 1 and other.ndim == 2 and other.dtype == "float32"
            if column and data.shape == shape and data.free_size > 1 and other.shape[0] == shape[0]:
                return [x, y]
    x, y = repeated(function, x, shape), repeated(function, y, shape)
    if x.buffer is MemoryRegion.psum and y.buffer is MemoryRegion.psum:
        y = copied(y, y.dtype)
    return [x, y]


def _issuer(op: str) -> Callable[[Tile, Any, Any], Any]:
    if op in _COMPOSED:
        composed = getattr(operators, op)
        return lambda dst, a, b: isa.tensor_copy(dst, composed(a, b, dtype=dst.dtype))

    def issue(dst: Tile, a: Any, b: Any) -> None:
        if not isinstance(b, Tile):
            isa.tensor_scalar(dst, a, op, b)
        elif not isinstance(a, Tile):
            isa.tensor_scalar(dst, b, op, a, reverse0=True)
        elif a.shape == b.shape:
            isa.tensor_tensor(dst, a, b, op)
        elif b.free_size == 1:
            isa.tensor_scalar(dst, a, op, b)
        else:
            isa.tensor_scalar(dst, b, op, a, reverse0=True)

    return issue


def lifted(
    function: Callable[..., NkiTensor],
    mask: Any,
    operands: Sequence[Any],
    shape: tuple[int, ...],
    kept: Sequence[int] | None = None,
    dtype: DType | None = None,
) -> Tile:
    """An operation of the current dialect on what a mask leaves of its operands.

    Args:
        function: makes a tile of the cut operands.
        mask: see ``masks.regions``.
        operands: as ``regions.over`` takes them.
        shape: of the operation's axes.
        kept: axes that the result has, where it has not all.
        dtype: of a result of which nothing is computed.

    Returns:
        The tile that it makes; with a mask that leaves something out, a tile of the full shape into which it is copied.
    """
    axes = tuple(range(len(shape))) if kept is None else tuple(kept)
    found: list[Tile] = []
    if mask is None:
        over(None, shape, operands, lambda *cut: found.append(Tile.of(function(*cut))))
        return found[0]
    sizes = tuple([shape[axis] for axis in axes])
    sizes = sizes if len(sizes) > 1 else (*sizes, 1)
    made = fresh(sizes, DTYPES["float32"] if dtype is None else dtype)
    target = Along(made, tuple([*axes, None][: made.ndim]))

    def issue(dst: Tile, *cut: Any) -> None:
        isa.tensor_copy(dst, function(*cut))

    over(mask, shape, [target, *operands], issue, made)
    return made


def where(condition: Any, x: Any, y: Any, dtype: Any = None, mask: Any = None) -> Tile:
    """``x`` where ``condition`` is not 0, else ``y``; all three broadcast.

    Raises:
        KernelError: for operands in HBM, or shapes that do not broadcast.
    """
    from twintrack.nki.language import memory

    asked = on_chip("nl.where", "condition", condition)
    parts = [on_chip("nl.where", "x or y", one) if isinstance(one, NkiTensor) else one for one in (x, y)]
    shape = common_shape("nl.where", [one.shape for one in (asked, *parts) if isinstance(one, Tile)])
    kinds = [one.dtype if isinstance(one, Tile) else scalar_type(one) for one in parts]
    kind = kind_of(dtype, promoted(*kinds))
    operands = [repeated("nl.where", one, shape) if isinstance(one, Tile) else one for one in (asked, *parts)]
    return lifted(lambda a, b, c: memory.where(a, b, c, kind), mask, operands, shape, dtype=kind)
