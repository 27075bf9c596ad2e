"""Reductions of ``nki.language`` until 2.26: along any free axes, not only the last ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki.isa.issue import author_error, flag
from twintrack.nki.language import reductions as current
from twintrack.nki.language.elementwise import operator
from twintrack.nki.legacy.copies import repeated
from twintrack.nki.legacy.elementwise import lifted
from twintrack.nki.legacy.regions import kind_of, on_chip
from twintrack.nki.legacy.tile import Tile
from twintrack.nki.tensor import NkiTensor
from twintrack.nki.tensor_errors import as_whole

__all__ = ["all", "axes_of", "last", "max", "mean", "min", "prod", "rms_norm", "softmax", "sum", "var"]

Axes = int | Sequence[int]


def axes_of(function: str, tile: Tile, axis: Axes) -> tuple[int, ...]:
    """The free axes that are named, in order.

    Raises:
        KernelError: for the partition axis, or one that the tile has not.
    """
    named = [as_whole(one) for one in (axis if isinstance(axis, list | tuple) else (axis,))]
    found = tuple(
        sorted(
            {one % tile.ndim if one is not None and -tile.ndim <= one < tile.ndim else -1 for one in named}
        )
    )
    if not found or found[0] < 1:
        raise author_error(
            f"free axes, 1 to {tile.ndim - 1}, for {function}",
            f"axis={axis!r}"[:80],
            "reduce over partitions with nisa.tensor_partition_reduce or a product with ones",
        )
    return found


def last(part: NkiTensor, axes: tuple[int, ...]) -> tuple[NkiTensor, tuple[int, ...]]:
    """A view with these axes as the last ones, and their new numbers."""
    kept = [axis for axis in range(part.ndim) if axis not in axes]
    moved = part if (*kept, *axes) == tuple(range(part.ndim)) else part.permute((*kept, *axes))
    return moved, tuple(range(len(kept), part.ndim))


def _reduced(
    function: Callable[..., NkiTensor],
    name: str,
    x: Any,
    axis: Axes,
    dtype: Any,
    mask: Any,
    keepdims: bool,
) -> Tile:
    tile = on_chip(f"nl.{name}", "x", x)
    axes = axes_of(f"nl.{name}", tile, axis)
    kept = tuple([one for one in range(tile.ndim) if one not in axes])
    kind = kind_of(dtype, tile.dtype)

    def issue(part: NkiTensor) -> NkiTensor:
        moved, ends = last(part, axes)
        return function(moved, ends, kind)

    made = lifted(issue, mask, [tile], tile.shape, kept, kind)
    if not flag("keepdims", keepdims):
        return made
    sizes = tuple([1 if one in axes else size for one, size in enumerate(tile.shape)])
    shaped = made.reshape(sizes)
    assert isinstance(shaped, Tile)  # noqa: S101
    return shaped


def _reduction(name: str, op: str) -> Callable[..., Tile]:
    function: Callable[..., NkiTensor] = getattr(current, name)

    @operator(op)
    def reduce(x: Any, axis: Axes, *, dtype: Any = None, mask: Any = None, keepdims: bool = False) -> Tile:
        return _reduced(function, name, x, axis, dtype, mask, keepdims)

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = (
        f"``{name}`` along free axes; (P, 1) where nothing else is left. See the current ``nl.{name}``."
    )
    return reduce


sum = _reduction("sum", "add")
max = _reduction("max", "maximum")
min = _reduction("min", "minimum")
prod = _reduction("prod", "multiply")
mean = _reduction("mean", "average")


def var(x: Any, axis: Axes, *, dtype: Any = None, mask: Any = None, keepdims: bool = False) -> Tile:
    """Variance along free axes; see the current ``nl.var``."""
    return _reduced(current.var, "var", x, axis, dtype, mask, keepdims)


def all(x: Any, axis: Axes, *, dtype: Any = DTYPES["bool"], mask: Any = None) -> Tile:
    """Whether all elements along free axes are not 0; bool where no type is named."""
    return _reduced(current.all, "all", x, axis, dtype, mask, keepdims=False)


def softmax(x: Any, axis: Axes, *, dtype: Any = None, compute_dtype: Any = None, mask: Any = None) -> Tile:
    """Softmax along free axes, in float32 whatever ``compute_dtype``; see the current ``nl.softmax``."""
    del compute_dtype
    tile = on_chip("nl.softmax", "x", x)
    axes = axes_of("nl.softmax", tile, axis)
    kind = kind_of(dtype, tile.dtype)
    return lifted(lambda part: current.softmax(part, axes, kind), mask, [tile], tile.shape, dtype=kind)


def rms_norm(
    x: Any,
    w: Any,
    axis: Axes,
    n: int,
    epsilon: float = 1e-06,
    *,
    dtype: Any = None,
    compute_dtype: Any = None,
    mask: Any = None,
) -> Tile:
    """RMS norm along free axes; weights of one partition are repeated. See the current ``nl.rms_norm``."""
    tile = on_chip("nl.rms_norm", "x", x)
    axes = axes_of("nl.rms_norm", tile, axis)
    weights = repeated("nl.rms_norm", on_chip("nl.rms_norm", "w", w), tile.shape)
    kind = kind_of(dtype, tile.dtype)

    def issue(part: NkiTensor, weight: NkiTensor) -> NkiTensor:
        return current.rms_norm(part, weight, axes, n, epsilon, kind, compute_dtype)

    return lifted(issue, mask, [tile, weights], tile.shape, dtype=kind)
