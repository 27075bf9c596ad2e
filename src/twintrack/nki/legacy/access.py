"""``tensor[...]`` with index expressions: an access pattern, its bounds checked when an instruction uses it.

Bounds cannot be checked where the tensor is indexed, as a ``mask`` may yet leave out what lies outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.view import Dynamic
from twintrack.nki.isa.issue import author_error
from twintrack.nki.legacy.indexing import Affine
from twintrack.nki.tensor import NkiTensor, tensor_error
from twintrack.nki.tensor_index import DynamicSlice

if TYPE_CHECKING:
    from twintrack.nki.legacy.tile import Tile

__all__ = ["Indirect", "Limit", "is_advanced", "select"]


class Indirect(NamedTuple):
    """An index that a tile holds, plus an index expression: ``offsets[0, k] + nl.arange(512)[None, :]``."""

    tile: NkiTensor
    expression: Affine


class Limit(NamedTuple):
    """What an index must stay within: ``0 <= const + sum(coefs[d] * i[d]) < size``."""

    dim: int
    """Dimension of the indexed tensor."""
    coefs: tuple[int, ...]
    """One per axis of the view."""
    const: int
    size: int

    def broken_by(self, starts: Sequence[int], stops: Sequence[int]) -> int | None:
        """The first index outside, where the view's axes run from ``starts`` to ``stops``; ``None`` if all fit."""
        low = high = self.const
        for step, start, stop in zip(self.coefs, starts, stops, strict=True):
            ends = (step * start, step * (stop - 1))
            low, high = low + min(ends), high + max(ends)
        return low if low < 0 else high if high >= self.size else None


def is_advanced(tensor: NkiTensor, keys: tuple[Any, ...]) -> bool:
    """Whether a key needs more than slices and integers inside the tensor."""
    for dim, one in enumerate(keys):
        if isinstance(one, Affine | NkiTensor | Indirect):
            return True
        if (
            isinstance(one, slice | DynamicSlice)
            and dim < tensor.ndim
            and not any(key is Ellipsis for key in keys)
        ):
            start, stop, _ = _span(one, tensor.shape[dim])
            if stop > tensor.shape[dim] or start < 0:
                return True
    return False


def _span(one: slice | DynamicSlice, size: int) -> tuple[int, int, int]:
    if isinstance(one, DynamicSlice):
        return int(one.start), int(one.start) + int(one.size), 1
    start = 0 if one.start is None else int(one.start)
    stop = size if one.stop is None else int(one.stop)
    return (
        start + size if start < 0 else start,
        stop + size if stop < 0 else stop,
        1 if one.step is None else int(one.step),
    )


def select(tensor: Tile, keys: tuple[Any, ...]) -> Tile:
    """The view that a key with index expressions means.

    Args:
        tensor: in any memory.
        keys: per dimension an integer, a slice, an expression, or a tile of indices; dimensions that are not named are
            taken whole, after the axes of the expressions.

    Raises:
        KernelError: for slices before expressions, expressions that do not broadcast, or an access that the memory
            does not have.
    """
    if len(keys) > tensor.ndim or any(one is Ellipsis for one in keys):
        raise tensor_error(
            tensor, f"at most {tensor.ndim} indices, without ...", f"{len(keys)}", "name each dimension once"
        )
    expressions, indirect = _expressions(tensor, keys)
    shape, strides, offset = _pattern(tensor, expressions)
    limits = _limits(tensor, expressions, len(shape), indirect)
    dynamic = tensor.dynamic
    if indirect is not None:
        dim, index = indirect
        dynamic, strides = _dynamic(tensor, dim, index, shape, strides)
    least = 2 if tensor.storage.buffer.on_chip else 1
    missing = max(least - len(shape), 0)
    shape, strides = shape + (1,) * missing, strides + (1,) * missing
    limits = tuple([one._replace(coefs=one.coefs + (0,) * missing) for one in limits])
    if tensor.storage.buffer.on_chip:
        strides = _partitions(tensor, expressions, shape, strides)
    made = tensor._view(shape, strides, offset, dynamic)
    made._limits = tuple([one for one in limits if one.broken_by((0,) * len(shape), shape) is not None])
    return made


def _expressions(tensor: Tile, keys: tuple[Any, ...]) -> tuple[list[Affine], tuple[int, NkiTensor] | None]:
    """Every dimension's index as an expression over the view's axes; and the dimension that a tile indexes."""
    found: list[Affine | slice | DynamicSlice] = []
    indirect: tuple[int, NkiTensor] | None = None
    for dim, one in enumerate((*keys, *(slice(None),) * (tensor.ndim - len(keys)))):
        if isinstance(one, NkiTensor | Indirect):
            if indirect is not None or tensor.dynamic is not None:
                raise tensor_error(tensor, "one dimension indexed by a tile", "two", "copy it in between")
            held = one.tile if isinstance(one, Indirect) else one
            indirect = (dim, held)
            if isinstance(one, Indirect):
                found.append(one.expression)
            else:
                found.append(Affine(held.shape, (0,) * held.ndim, 0))
        elif isinstance(one, Affine | slice | DynamicSlice):
            found.append(one)
        else:
            found.append(Affine((), (), _integer(tensor, dim, one)))
    axes = _broadcast(tensor, [one.shape for one in found if isinstance(one, Affine)])
    tail = [at for at, one in enumerate(found) if not isinstance(one, Affine)]
    advanced = [at for at, one in enumerate(found) if isinstance(one, Affine) and one.shape]
    if advanced and tail and tail[0] < advanced[-1]:
        raise tensor_error(
            tensor,
            "slices after index expressions only",
            f"a slice as index {tail[0]}, an expression as index {advanced[-1]}",
            "write nl.arange or nl.mgrid for every dimension",
        )
    rank = len(axes) + len(tail)
    made: list[Affine] = []
    for at, one in enumerate(found):
        if isinstance(one, Affine):
            coefs = one.aligned(len(axes)) + (0,) * len(tail)
            made.append(Affine(axes + (1,) * len(tail), coefs, one.const))
        else:
            axis = len(axes) + tail.index(at)
            start, stop, step = _span(one, tensor.shape[at])
            count = -(-(stop - start) // step) if step > 0 else 0
            if count < 1:
                raise tensor_error(tensor, "a slice with elements", f"{one}", "end it after its start")
            sizes = tuple([count if d == axis else 1 for d in range(rank)])
            made.append(Affine(sizes, tuple([step if d == axis else 0 for d in range(rank)]), start))
    return made, indirect


def _integer(tensor: Tile, dim: int, one: Any) -> int:
    try:
        at = int(one.__index__())
    except AttributeError:
        raise tensor_error(
            tensor, "integers, slices, index expressions or tiles as indices", type(one).__name__, "use one"
        ) from None
    return at + tensor.shape[dim] if at < 0 else at


def _broadcast(tensor: Tile, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise tensor_error(
            tensor,
            "index expressions whose shapes broadcast",
            f"{[list(one) for one in shapes]}",
            "put each on an axis of its own with None, such as [:, None] and [None, :]",
        ) from None


def _pattern(tensor: Tile, expressions: list[Affine]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    rank = max((one.ndim for one in expressions), default=0)
    shape = _broadcast(tensor, [one.shape for one in expressions])
    strides = [0] * rank
    offset = tensor.offset
    for one, step in zip(expressions, tensor.strides, strict=True):
        offset += int(one.const) * step
        for axis, coef in enumerate(one.aligned(rank)):
            strides[axis] += coef * step
    return shape, tuple(strides), offset


def _limits(
    tensor: Tile, expressions: list[Affine], rank: int, indirect: tuple[int, NkiTensor] | None
) -> tuple[Limit, ...]:
    return tuple(
        [
            Limit(dim, one.aligned(rank), one.const, tensor.shape[dim])
            for dim, one in enumerate(expressions)
            if indirect is None or dim != indirect[0]
        ]
    )


def _dynamic(
    tensor: Tile, dim: int, index: NkiTensor, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[Dynamic, tuple[int, ...]]:
    """The run-time part of an address: one index per row in HBM, one for all on chip."""
    if not index.dtype.is_integer or not index.storage.buffer.on_chip:
        raise tensor_error(
            index, "an integer tile in SBUF as an index", f"{index.dtype} in {index.buffer.value}", "load it"
        )
    if index.size == 1:
        return Dynamic("scalar", index, tensor.strides[dim], tensor.shape[dim], dim), strides
    if tensor.storage.buffer.on_chip:
        raise tensor_error(
            tensor, "one index for a tile on chip", f"{index.size}", "gather with nl.gather_flattened"
        )
    if index.size != index.shape[0] or index.shape[0] != shape[0] or strides[0]:
        raise tensor_error(
            tensor,
            f"one index for each of the {shape[0]} rows of the result, on its first axis",
            f"indices of shape {list(index.shape)}",
            "index the other dimensions with expressions on the other axes",
        )
    return Dynamic("vector", index, tensor.strides[dim], tensor.shape[dim], dim), strides


def _partitions(
    tensor: Tile, expressions: list[Affine], shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, ...]:
    """Partitions are the first axis of a view on chip, adjacent, and nothing else depends on that axis."""
    rank = len(shape)
    first = expressions[0].aligned(min(rank, expressions[0].ndim))
    first = first + (0,) * (rank - len(first))
    others = [one for one in expressions[1:] if one.ndim == rank and one.coefs[0] and shape[0] > 1]
    if any(first[1:]) or (shape[0] > 1 and first[0] != 1) or others:
        raise _partition_error(tensor, expressions)
    return (tensor.strides[0], *strides[1:]) if shape[0] == 1 else strides


def _partition_error(tensor: Tile, expressions: list[Affine]) -> KernelError:
    return author_error(
        "adjacent partitions as the first axis of a tile in SBUF or PSUM",
        f"index {expressions[0]!r} into the partitions of {tensor.describe()}",
        "index the partitions with nl.arange(n)[:, None], without a step, and other dimensions without it",
    )
