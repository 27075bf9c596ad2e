"""``tensor[...]``: NumPy's basic indexing over a view, with the rules of on-chip memory.

Integers select, slices with a positive step slice, ``...`` fills in, ``nl.ds(start, size)`` is a slice by its length.
A register selects at run time, as ``select(dim, register)`` does.
On chip the partition dimension is never dropped and a view has at least two dimensions; in HBM at least one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import Register
from twintrack.neuroncore.memory.view import Dynamic, View
from twintrack.nki.tensor_dynamic import selected
from twintrack.nki.tensor_errors import as_whole, tensor_error, whole

if TYPE_CHECKING:
    from twintrack.nki.tensor import NkiTensor

__all__ = ["DynamicSlice", "cut_name", "index", "plain_index", "sliced"]


_ENDS = frozenset({int, type(None)})


class DynamicSlice(NamedTuple):
    """``nl.ds(start, size)``: ``size`` elements from ``start``."""

    start: int
    size: int


def index(tensor: View, key: Any) -> tuple[tuple[int, ...], tuple[int, ...], int, Dynamic | None]:
    """Shape, strides, offset and dynamic part of ``tensor[key]``.

    Raises:
        KernelError: if an index leaves the tensor, a slice is empty or its step not positive, or the key is of
            another kind.
    """
    keys = key if type(key) is tuple else (key,)
    sizes, steps = tensor.shape, tensor.strides
    rank = len(sizes)
    if len(keys) < rank or any(one is Ellipsis for one in keys):
        keys = _filled(tensor, keys, rank)
    elif len(keys) > rank:
        _no_new_dimension(tensor, keys)
        raise _wrong(tensor, f"at most {rank} indices", f"{len(keys)}")
    offset = tensor.offset
    shape: list[int] = []
    strides: list[int] = []
    on_chip = tensor.storage.buffer.on_chip
    dynamic = tensor.dynamic
    for dim, one in enumerate(keys):
        size, step = sizes[dim], steps[dim]
        if type(one) is slice:
            if one.start is None and one.stop is None and one.step is None:
                shape.append(size)
                strides.append(step)
                continue
            start, count, by = _slice(tensor, dim, one, size)
            if by > 1:
                _adjacent(tensor, dim, by, (count - 1) * by + 1)
            offset += start * step
            shape.append(count)
            strides.append(step * by)
        elif type(one) is DynamicSlice:
            first = whole(tensor, one.start, "start of nl.ds")
            span = first + whole(tensor, one.size, "size of nl.ds")
            start, count, _ = _slice(tensor, dim, slice(first, span), size)
            offset += start * step
            shape.append(count)
            strides.append(step)
        elif isinstance(one, Register):
            if dynamic is not None:
                raise _wrong(
                    tensor, "one address that is known only at run time", "a second", "copy it first"
                )
            dynamic = selected(cast("NkiTensor", tensor), dim, one)
        else:
            offset += _integer(tensor, dim, one, size) * step
            if on_chip and dim == 0:
                shape.append(1)
                strides.append(step)
    least = 2 if on_chip else 1
    while len(shape) < least:
        shape.append(1)
        strides.append(1)
    if dynamic is not None and dynamic.kind != "scalar":
        kept = rank if dynamic.kind == "tensor" else 1
        if tuple(shape[:kept]) != sizes[:kept] or any(type(one) is not slice for one in keys[:kept]):
            raise _wrong(tensor, "the indirect dimension whole", "an index into it", "index it before")
    return tuple(shape), tuple(strides), offset, dynamic


def cut_name(keys: Any) -> tuple[Any, ...] | None:
    """What stands for plain indices in a dictionary, as slices cannot; ``None`` for all but integers and their slices.

    Two are equal only where both select the same of any tensor.
    """
    if type(keys) is not tuple:
        return None
    found: list[Any] = []
    for one in keys:
        kind = type(one)
        if kind is slice:
            start, stop = one.start, one.stop
            if one.step is not None:
                return None
            if start is None and stop is None:
                found.append(None)
                continue
            if type(start) not in _ENDS or type(stop) not in _ENDS:
                return None
            found.append((start, stop))
        elif kind is int:
            found.append(one)
        elif kind is DynamicSlice and type(one[0]) is int and type(one[1]) is int:
            found.append((one[0], one[0] + one[1]))
        else:
            return None
    return tuple(found)


def plain_index(tensor: View, keys: Any) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    """The indices that nearly all kernels take, quickly; ``None`` for all others, wrong ones among them.

    One per dimension: ``a:b``, ``nl.ds(a, n)`` or an integer from 0, inside the tensor.
    """
    sizes, steps = tensor.shape, tensor.strides
    if type(keys) is not tuple or len(keys) != len(sizes) or tensor.dynamic is not None:
        return None
    offset = tensor.offset
    shape: list[int] = []
    strides: list[int] = []
    for one, size, step in zip(keys, sizes, steps):  # noqa: B905 - of one length, and checked often
        kind = type(one)
        if kind is slice:
            start, stop = one.start, one.stop
            if start is None and stop is None and one.step is None:
                shape.append(size)
                strides.append(step)
                continue
            if one.step is not None:
                return None
            start = 0 if start is None else start
            stop = size if stop is None else stop
        elif kind is DynamicSlice:
            start = one[0]
            if type(start) is not int or type(one[1]) is not int:
                return None
            stop = start + one[1]
        elif kind is int and shape:  # the first dimension of a tile is kept
            if not 0 <= one < size:
                return None
            offset += one * step
            continue
        else:
            return None
        if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= size:
            return None
        offset += start * step
        shape.append(stop - start)
        strides.append(step)
    if len(shape) < 2 and tensor.storage.buffer.on_chip:
        return None
    return tuple(shape), tuple(strides), offset


def sliced(
    tensor: View, dim: int, start: int, end: int, step: int
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and offset of every ``step``-th element from ``start`` to ``end`` of one dimension.

    Raises:
        KernelError: unless ``0 <= start < end <= shape[dim]`` and ``step >= 1``, or where partitions are skipped.
    """
    size = tensor.shape[dim]
    start, end = whole(tensor, start, "start of slice"), whole(tensor, end, "end of slice")
    step = whole(tensor, step, "step of slice")
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if not 0 <= start < end <= size or step < 1:
        raise tensor_error(
            tensor,
            f"0 <= start < end <= {size} and step >= 1",
            f"start={start}, end={end}, step={step}",
            "slice inside the dimension",
        )
    _adjacent(tensor, dim, step, end - start)
    shape, strides = list(tensor.shape), list(tensor.strides)
    shape[dim] = -(-(end - start) // step)
    strides[dim] *= step
    return tuple(shape), tuple(strides), tensor.offset + start * tensor.strides[dim]


def _adjacent(tensor: View, dim: int, step: int, span: int) -> None:
    if dim == 0 and 1 < step < span and tensor.storage.buffer.on_chip:
        raise tensor_error(
            tensor,
            "adjacent partitions on chip",
            f"one in every {step} of them",
            "move data between partitions with a DMA or nisa.nc_stream_shuffle",
        )


def _filled(tensor: View, keys: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    at = [position for position, one in enumerate(keys) if one is Ellipsis]
    if len(at) > 1:
        raise _wrong(tensor, "one ... in an index", f"{len(at)}")
    named = len(keys) - len(at)
    _no_new_dimension(tensor, keys)
    if named > rank:
        raise _wrong(tensor, f"at most {rank} indices", f"{named}")
    fill = (slice(None),) * (rank - named)
    return keys[: at[0]] + fill + keys[at[0] + 1 :] if at else keys + fill


def _slice(tensor: View, dim: int, one: slice, size: int) -> tuple[int, int, int]:
    by = 1 if one.step is None else _whole(tensor, one.step)
    if by < 0:
        raise _wrong(tensor, "a slice with a positive step", f"step {by}", _reversed(tensor, dim))
    start = 0 if one.start is None else _whole(tensor, one.start)
    stop = size if one.stop is None else _whole(tensor, one.stop)
    start = start + size if start < 0 else start
    stop = stop + size if stop < 0 else stop
    if by < 1 or not 0 <= start < stop or stop > size:
        raise _wrong(
            tensor,
            f"a slice inside the {size} elements of dimension {dim}",
            f"{start}:{stop}" + (f":{by}" if by != 1 else ""),
        )
    return start, -(-(stop - start) // by), by


def _reversed(tensor: View, dim: int) -> str:
    """How a dimension is read backwards."""
    if dim == 0 and tensor.storage.buffer.on_chip:
        return "move partitions with a DMA, or with nisa.nc_stream_shuffle"
    pairs = [[step, count] for step, count in zip(tensor.strides, tensor.shape, strict=True)]
    pairs[dim][0] *= -1
    return (
        f"reverse it with a negative stride: .ap({pairs}, offset={(pairs[dim][1] - 1) * tensor.strides[dim]})"
    )


def _no_new_dimension(tensor: View, keys: tuple[Any, ...]) -> None:
    if any(one is None for one in keys):
        raise _wrong(
            tensor, "indices of dimensions that are there", "None, a new dimension", "use .expand_dim(dim)"
        )


def _integer(tensor: View, dim: int, one: Any, size: int) -> int:
    at = _whole(tensor, one)
    found = at + size if at < 0 else at
    if not 0 <= found < size:
        raise _wrong(tensor, f"an index inside the {size} elements of dimension {dim}", f"{at}")
    return found


def _whole(tensor: View, value: Any) -> int:
    if isinstance(value, Register):
        raise _wrong(
            tensor,
            "a number known when the kernel is traced as an index",
            f"register {value.number}",
            "index with the register alone, or use ap(scalar_offset=register)",
        )
    if value is None:
        _no_new_dimension(tensor, (value,))
    if isinstance(value, View | list | tuple) or getattr(value, "ndim", None):
        raise _wrong(
            tensor,
            "an integer, a slice, ... or nl.ds as an index",
            f"{type(value).__name__}, a list of indices,",
            "take adjacent elements with a slice, one at run time with .select(dim, index); gather rows of HBM with "
            ".vector_select or .ap(vector_offset=...), columns on chip with nisa.nc_n_gather",
        )
    found = as_whole(value)
    if found is None:
        shown = repr(value) if isinstance(value, bool | float) else type(value).__name__
        raise _wrong(tensor, "an integer, a slice, ... or nl.ds as an index", shown)
    return found


def _wrong(
    tensor: View, required: str, found: str, remedy: str = "index inside the tensor's shape"
) -> KernelError:
    return tensor_error(tensor, required, f"{found} (shape {list(tensor.shape)})", remedy)
