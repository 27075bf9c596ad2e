"""Views whose address is given in full, or is known only when an instruction runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twintrack.neuroncore.isa.instruction import Register
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.view import Dynamic, View
from twintrack.nki.context import current_core
from twintrack.nki.tensor_errors import tensor_error, whole, wholes
from twintrack.nki.tensor_shape import reinterpretable

if TYPE_CHECKING:
    from twintrack.nki.tensor import NkiTensor

__all__ = ["columns_of", "keeps_front", "pattern_of", "rows_of", "selected", "still_static"]

_Place = tuple[tuple[int, ...], tuple[int, ...], int, "Dynamic | None"]


def selected(tensor: NkiTensor, dim: int, index: NkiTensor | Register) -> Dynamic:
    """What ``select`` adds to the offset: one index into a dimension.

    Raises:
        KernelError: if the address is dynamic already, the dimension is the partitions, or the index is not one.
    """
    _once(tensor)
    _not_partitions(tensor, dim, "a dynamic select")
    _one(tensor, index)
    return Dynamic("scalar", index, tensor.strides[dim], tensor.shape[dim], dim)


def rows_of(tensor: NkiTensor, dim: int, index: NkiTensor) -> Dynamic:
    """What ``vector_select`` adds to the offset: an index for each row.

    Raises:
        KernelError: if the address is dynamic already, or for another dimension, on chip, or a wrong index.
    """
    _once(tensor)
    if dim != 0 or tensor.storage.buffer.on_chip:
        raise tensor_error(
            tensor,
            "dimension 0 of an HBM tensor for a vector of indices",
            f"dimension {dim} in {tensor.buffer.value}",
            "use nisa.nc_n_gather or nisa.local_gather on chip",
        )
    _integers(tensor, index)
    return Dynamic("vector", index, tensor.strides[0], tensor.shape[0], 0)


def columns_of(tensor: NkiTensor, index: NkiTensor, count: int | None) -> tuple[int, Dynamic]:
    """How many offsets ``indirect`` uses, and what they add.

    Raises:
        KernelError: before NeuronCore-v4, in HBM, for a view that is not dense per partition, or a wrong index.
    """
    core = current_core()
    _once(tensor)
    if core.generation.number < 4:
        raise tensor_error(
            tensor, "NeuronCore-v4 for .indirect", core.generation.chip, "gather with nisa.nc_n_gather"
        )
    if not tensor.storage.buffer.on_chip:
        raise tensor_error(tensor, "SBUF or PSUM for .indirect", tensor.buffer.value, "gather with a DMA")
    if not tensor.is_contiguous():
        raise tensor_error(
            tensor, "a tensor that is dense in each partition", "gaps or an order", "take it before slicing"
        )
    _integers(tensor, index)
    if index.ndim != 2 or index.shape[0] != tensor.shape[0]:
        raise tensor_error(
            tensor,
            f"an index of shape ({tensor.shape[0]}, K)",
            f"{list(index.shape)}",
            "allocate it so, or slice it",
        )
    used = index.size if count is None else whole(tensor, count, "num_elem of indirect")
    if not 1 <= used <= index.size:
        raise tensor_error(
            tensor, f"num_elem from 1 to {index.size}", f"{used}", "use as many as the index holds"
        )
    return used, Dynamic("tensor", index, 1, tensor.free_size, 1)


def pattern_of(
    tensor: NkiTensor,
    pattern: Sequence[Sequence[int]],
    offset: int | None,
    scalar: NkiTensor | Register | None,
    vector: NkiTensor | None,
    dim: int,
    kind: DType,
) -> _Place:
    """Shape, strides, offset and dynamic part of ``ap``.

    Raises:
        KernelError: if it leaves the buffer, skips partitions on chip, or an index is of another kind.
    """
    reinterpretable(tensor, kind)
    pairs = _pairs(tensor, pattern)
    shape = tuple([count for _, count in pairs])
    strides = tuple([step for step, _ in pairs])
    base = tensor.offset * tensor.dtype.bytes
    if base % kind.bytes:
        raise tensor_error(
            tensor, f"an offset of whole elements of {kind}", f"byte {base}", "take it of the whole tensor"
        )
    start = base // kind.bytes + (0 if offset is None else whole(tensor, offset, "offset of ap"))
    dynamic = _indirection(tensor, scalar, vector, dim, kind)
    _inside(tensor, shape, strides, start, kind, dynamic)
    return shape, strides, start, dynamic


def _pairs(tensor: NkiTensor, pattern: Any) -> list[tuple[int, ...]]:
    good = isinstance(pattern, Sequence | np.ndarray) and not isinstance(pattern, str)
    pairs = [wholes(tensor, pair, "a [stride, count] pair of ap") for pair in pattern] if good else []
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise tensor_error(tensor, "a pattern of [stride, count] pairs", f"{pattern}"[:80], "write it so")
    return pairs


def _indirection(
    tensor: NkiTensor, scalar: NkiTensor | Register | None, vector: NkiTensor | None, dim: int, kind: DType
) -> Dynamic | None:
    if scalar is None and vector is None:
        return None
    if scalar is not None and vector is not None:
        raise tensor_error(tensor, "scalar_offset or vector_offset", "both", "give one of them")
    dim = whole(tensor, dim, "indirect_dim of ap")
    at = dim + tensor.ndim if dim < 0 else dim
    if not 0 <= at < tensor.ndim:
        raise tensor_error(tensor, f"a dimension from 0 to {tensor.ndim - 1}", f"{dim}", "choose one of them")
    if vector is not None:
        found = rows_of(_static(tensor), at, vector)
    else:
        _not_partitions(tensor, at, "scalar_offset")
        _one(tensor, scalar)
        found = Dynamic("scalar", scalar, tensor.strides[at], tensor.shape[at], at)
    step = found.stride * tensor.dtype.bytes
    if step % kind.bytes:
        raise tensor_error(
            tensor, f"dimension {at} in steps of whole elements of {kind}", f"{step} bytes", "choose another"
        )
    return found._replace(stride=step // kind.bytes)


def _static(tensor: NkiTensor) -> NkiTensor:
    """The same without its dynamic part, which ``ap`` overrides."""
    return tensor._view(tensor.shape, tensor.strides, tensor.offset)


def _inside(
    tensor: NkiTensor,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    start: int,
    kind: DType,
    dynamic: Dynamic | None,
) -> None:
    buffer = tensor.storage.buffer
    room = buffer.bytes // kind.bytes
    spans = [(count - 1) * step for step, count in zip(strides, shape, strict=True)]
    if dynamic is not None and dynamic.kind == "vector":
        spans = spans[1:]  # the index says where each row begins
    low = start + sum(span for span in spans if span < 0)
    high = start + sum(span for span in spans if span > 0)
    shown = [list(pair) for pair in zip(strides, shape, strict=True)]
    if any(count < 1 for count in shape) or low < 0 or high >= room:
        raise tensor_error(
            tensor,
            f"an access pattern inside the buffer's {room} elements",
            f"elements {low} to {high} by {shown}",
            "shorten the pattern or its offset",
        )
    if not buffer.on_chip:
        return
    row = buffer.partition_bytes // kind.bytes
    if shape[0] > 1 and strides[0] != row:
        raise tensor_error(
            tensor,
            f"a partition stride of {row}, the elements of one partition,",
            f"{strides[0]}",
            "access adjacent partitions; move data between partitions with a DMA",
        )
    free = [span for span in spans[1:] if span > 0]
    back = [span for span in spans[1:] if span < 0]
    if start % row + sum(free) >= row or start % row + sum(back) < 0:
        raise tensor_error(
            tensor,
            f"an access pattern inside the {row} elements of a partition",
            f"elements {start % row + sum(back)} to {start % row + sum(free)} of it by {shown}",
            "shorten the pattern or its offset",
        )


# guards


def keeps_front(tensor: NkiTensor, what: str, *, moved: bool) -> None:
    """Partitions, and rows that an index names, stay in front; columns that one names stay as they are.

    Raises:
        KernelError: if ``what`` is asked of a tensor with tensor indirection, or moves what must stay.
    """
    kind = tensor.dynamic.kind if tensor.dynamic is not None else ""
    if kind == "tensor":
        raise tensor_error(
            tensor, f"a tensor without indirection for {what}", "an indirect one", f"{what} before"
        )
    if not moved:
        return
    if tensor.storage.buffer.on_chip:
        raise tensor_error(
            tensor,
            f"the partition dimension to stay as it is in {what}",
            f"a {what} through dimension 0",
            "move data between partitions with nisa.nc_transpose or a DMA",
        )
    if kind == "vector":
        raise tensor_error(
            tensor,
            f"the gathered dimension to stay in front in {what}",
            "dimension 0 moved",
            f"{what} before",
        )


def still_static(tensor: NkiTensor, dim: int, what: str) -> None:
    """The dimension takes no part in an indirection.

    Raises:
        KernelError: if it does.
    """
    kind = tensor.dynamic.kind if tensor.dynamic is not None else ""
    if kind == "tensor" or (kind == "vector" and dim == 0):
        raise tensor_error(
            tensor, f"a dimension without indirection for {what}", "the indirect one", f"{what} before"
        )


def _once(tensor: NkiTensor) -> None:
    if tensor.dynamic is not None:
        raise tensor_error(
            tensor,
            "one dynamic selection per tensor",
            "a second one",
            "check is_indirect() and copy it first",
        )


def _not_partitions(tensor: NkiTensor, dim: int, what: str) -> None:
    if tensor.storage.buffer.on_chip and dim == 0:
        raise tensor_error(
            tensor, f"a free dimension for {what} on chip", "dimension 0, the partitions", "name another one"
        )


def _one(tensor: NkiTensor, index: Any) -> None:
    if isinstance(index, Register):
        return
    _integers(tensor, index)
    if index.size != 1:
        raise tensor_error(
            tensor, "one index, of shape (1, 1),", f"{list(index.shape)}", "slice it, or use vector_offset"
        )


def _integers(tensor: NkiTensor, index: Any) -> None:
    if not isinstance(index, View):
        raise tensor_error(
            tensor, "a tensor in SBUF as an index", type(index).__name__, "load it, or pass a register"
        )
    if index.storage.buffer.region is not MemoryRegion.sbuf or not index.dtype.is_integer:
        raise tensor_error(
            index,
            "an integer tensor in SBUF as an index",
            f"{index.dtype} in {index.storage.buffer.region.value}",
            "convert it, or copy it to SBUF",
        )
    if index.dynamic is not None:
        raise tensor_error(index, "an index with a static address", "an indirect one", "copy it first")
