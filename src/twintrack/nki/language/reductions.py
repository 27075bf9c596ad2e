"""``nki.language``: reductions over free dimensions, and normalisations made of them.

Axes are the last ones of the tile, as ``nisa.tensor_reduce`` takes them: nothing here reduces over partitions.
Intermediate values are float32. A result without its reduced axes keeps two dimensions, as every tile does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from twintrack.neuroncore.memory.dtypes import DTYPES, DType
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error, flag
from twintrack.nki.language.elementwise import operator
from twintrack.nki.language.tiles import broadcast_free, on_chip, result_dtype, tile
from twintrack.nki.tensor import NkiTensor
from twintrack.nki.tensor_errors import as_whole

__all__ = ["all", "max", "mean", "min", "prod", "rms_norm", "softmax", "sum", "var"]

_FLOAT32 = DTYPES["float32"]


def _last_axes(function: str, x: NkiTensor, axis: int | Sequence[int]) -> tuple[int, ...]:
    """The axes, from 0, which must be the last ones and leave the partitions alone."""
    given = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
    asked = [one for one in map(as_whole, given) if one is not None]
    if len(asked) < len(given):
        raise author_error(
            f"whole numbers as axis of nl.{function}", repr(axis)[:80], "name one axis, or several in a tuple"
        )
    axes = tuple(sorted({one + x.ndim if one < 0 else one for one in asked}))
    if axes and axes[0] == 0:
        raise author_error(
            f"free axes for nl.{function}",
            f"axis {axis}, which has the partitions (axis 0) of {x.describe()}",
            "transpose the tile first (nl.transpose), multiply it by ones with nisa.nc_matmul, or use "
            "nisa.tensor_partition_reduce",
        )
    if not axes or axes != tuple(range(x.ndim - len(axes), x.ndim)):
        raise author_error(
            f"the last axes of the tile for nl.{function}, such as {list(range(1, x.ndim))}",
            f"axis {axis} of shape {list(x.shape)}",
            "permute the free dimensions so that the reduced ones come last",
        )
    return axes


def _reduced_shape(x: NkiTensor, axes: tuple[int, ...], *, keepdims: bool) -> tuple[int, ...]:
    kept = x.shape[: axes[0]]
    return (*kept, *((1,) * len(axes))) if keepdims else (kept if len(kept) > 1 else (*kept, 1))


def _reduce(
    op: str, x: NkiTensor, axes: tuple[int, ...], dtype: DType, *, keepdims: bool, negate: bool = False
) -> NkiTensor:
    dst = tile(_reduced_shape(x, axes, keepdims=keepdims), dtype)
    isa.tensor_reduce(dst, op, x, axes, negate=negate, keepdims=keepdims)
    return dst


def _reduction(function: str, op: str, x: Any, axis: Any, dtype: Any, keepdims: bool) -> NkiTensor:
    data = on_chip(function, "x", x)
    axes = _last_axes(function, data, axis)
    return _reduce(op, data, axes, result_dtype(dtype, data.dtype), keepdims=flag("keepdims", keepdims))


def sum(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Sum along free axes.

    Args:
        x: a tile in SBUF or PSUM.
        axis: one or more of the last axes; negative ones count from the end.
        dtype: of the result; that of ``x`` where ``None``.
        keepdims: keep reduced axes, with size 1.

    Raises:
        KernelError: for axis 0, axes that are not the last ones, or an operand in HBM.
    """
    return _reduction("sum", "add", x, axis, dtype, keepdims)


@operator("maximum")
def max(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Maximum along free axes; see ``sum``."""
    return _reduction("max", "maximum", x, axis, dtype, keepdims)


@operator("minimum")
def min(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Minimum along free axes; see ``sum``."""
    return _reduction("min", "minimum", x, axis, dtype, keepdims)


def prod(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Product along free axes; see ``sum``."""
    return _reduction("prod", "multiply", x, axis, dtype, keepdims)


def all(x: Any, axis: Any, dtype: Any = None) -> NkiTensor:
    """1 where no element along free axes is 0, else 0; see ``sum``."""
    return _reduction("all", "logical_and", x, axis, dtype, False)


def mean(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Mean along free axes, the float32 sum times the reciprocal of the count; see ``sum``."""
    data = on_chip("mean", "x", x)
    axes = _last_axes("mean", data, axis)
    return _mean(data, axes, result_dtype(dtype, data.dtype), keepdims=flag("keepdims", keepdims))


def _mean(data: NkiTensor, axes: tuple[int, ...], dtype: DType, *, keepdims: bool) -> NkiTensor:
    total = _reduce("add", data, axes, _FLOAT32, keepdims=keepdims)
    dst = tile(total.shape, dtype)
    isa.tensor_scalar(dst, total, "multiply", 1.0 / math.prod(data.shape[axes[0] :]))
    return dst


def var(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Variance along free axes: the mean of squared distances from the mean; see ``sum``.

    ``keepdims`` changes nothing, as documented: reduced axes are always kept.
    """
    flag("keepdims", keepdims)
    data = on_chip("var", "x", x)
    axes = _last_axes("var", data, axis)
    center = _mean(data, axes, _FLOAT32, keepdims=True)
    off = tile(data.shape, _FLOAT32)
    isa.tensor_tensor(off, data, broadcast_free("var", center, data.shape), "subtract")
    isa.tensor_tensor(off, off, off, "multiply")
    return _mean(off, axes, result_dtype(dtype, data.dtype), keepdims=True)


def softmax(x: Any, axis: Any = -1, dtype: Any = None) -> NkiTensor:
    """``exp(x - max) / sum(exp(x - max))`` along free axes; see ``sum``."""
    data = on_chip("softmax", "x", x)
    axes = _last_axes("softmax", data, axis)
    dst = tile(data.shape, result_dtype(dtype, data.dtype))
    raised = tile(data.shape, _FLOAT32)
    if (
        axes[0] == 1
    ):  # one maximum and one sum per partition: the Scalar Engine subtracts and adds up as it goes
        lowest = tile((data.shape[0], 1), _FLOAT32)
        isa.tensor_reduce(lowest, "maximum", data, axes, negate=True)
        total = tile((data.shape[0], 1), _FLOAT32)
        isa.activation(
            raised,
            "exp",
            data,
            bias=lowest,
            reduce_op="add",
            reduce_res=total,
            reduce_cmd=isa.reduce_cmd.reset_reduce,
        )
        isa.reciprocal(total, total)
        isa.tensor_scalar(dst, raised, "multiply", total)
        return dst
    highest = _reduce("maximum", data, axes, _FLOAT32, keepdims=True)
    isa.tensor_tensor(raised, data, broadcast_free("softmax", highest, data.shape), "subtract")
    isa.activation(raised, "exp", raised)
    total = _reduce("add", raised, axes, _FLOAT32, keepdims=True)
    isa.reciprocal(total, total)
    isa.tensor_tensor(dst, raised, broadcast_free("softmax", total, data.shape), "multiply")
    return dst


def rms_norm(
    x: Any,
    w: Any,
    axis: Any,
    n: int,
    epsilon: float = 1e-06,
    dtype: Any = None,
    compute_dtype: Any = None,
) -> NkiTensor:
    """``x / sqrt(sum(x * x) / n + epsilon) * w`` along free axes; see ``sum``.

    Args:
        x: a tile in SBUF or PSUM.
        w: weights: a tile of the partitions of ``x`` and of its free sizes, or 1.
        axis: one or more of the last axes.
        n: what the sum of squares is divided by.
        epsilon: added to the mean square.
        dtype: of the result; that of ``x`` where ``None``.
        compute_dtype: in which intermediate values are kept; float32 where ``None``.

    Raises:
        KernelError: as ``sum``, and for weights of other partitions (repeat them with ``nl.broadcast_to``).
    """
    data, weights = on_chip("rms_norm", "x", x), on_chip("rms_norm", "w", w)
    axes = _last_axes("rms_norm", data, axis)
    kept = result_dtype(compute_dtype, _FLOAT32)
    scaled = tile(data.shape, kept)
    isa.activation(scaled, "square", data)
    factor = _reduce("add", scaled, axes, _FLOAT32, keepdims=True)
    isa.tensor_scalar(factor, factor, "multiply", 1.0 / n, op1="add", operand1=float(epsilon))
    isa.activation(factor, "rsqrt", factor)
    isa.tensor_tensor(scaled, data, broadcast_free("rms_norm", factor, data.shape), "multiply")
    dst = tile(data.shape, result_dtype(dtype, data.dtype))
    isa.tensor_tensor(dst, scaled, broadcast_free("rms_norm", weights, data.shape), "multiply")
    return dst
