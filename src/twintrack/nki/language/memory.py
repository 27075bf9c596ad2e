"""``nki.language``: between HBM and tiles, and operations that only move or choose elements."""

from __future__ import annotations

from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES, DType
from twintrack.neuroncore.memory.generation import PARTITIONS
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language.tiles import broadcast_free, on_chip, promoted, result_dtype, sbuf_copy, tile
from twintrack.nki.tensor import NkiTensor
from twintrack.nki.tensor_index import DynamicSlice

__all__ = ["ds", "expand_dims", "gather_flattened", "load", "load_transpose2d", "store", "where"]

_UINT8 = DTYPES["uint8"]
_UINT32 = DTYPES["uint32"]


def ds(start: int, size: int) -> DynamicSlice:
    """An index: ``size`` elements from ``start``."""
    return DynamicSlice(start, size)


def _in_hbm(function: str, operand: str, value: object) -> NkiTensor:
    if not isinstance(value, NkiTensor):
        raise author_error(
            f"a tensor for {operand} of nl.{function}", type(value).__name__, "pass a tensor in HBM"
        )
    if value.storage.buffer.on_chip:
        raise author_error(
            f"a tensor in HBM for {operand} of nl.{function}",
            f"{value.buffer.value}, {value.describe()}",
            "copy on chip with nl.copy or nisa.tensor_copy",
        )
    return value


def load(src: Any, dtype: Any = None) -> NkiTensor:
    """A new tile in SBUF with the elements of a tensor in HBM, by ``nisa.dma_copy``.

    Args:
        src: HBM, up to 128 in dimension 0; with one dimension it becomes one element per partition.
        dtype: of the tile; that of ``src`` where ``None``; the DMA casts through float32.

    Raises:
        KernelError: for more than 128 partitions, or a source on chip.
    """
    tensor = _in_hbm("load", "src", src)
    if tensor.shape[0] > PARTITIONS:
        raise author_error(
            f"at most {PARTITIONS} in dimension 0 (partitions) of src of nl.load",
            f"shape {list(tensor.shape)}",
            "load slices of 128, or reshape the tensor so that another dimension comes first",
        )
    made = tile(tensor.shape, result_dtype(dtype, tensor.dtype))
    isa.dma_copy(made, tensor)
    return made


def store(dst: Any, value: Any) -> None:
    """Write a tile in SBUF to a tensor in HBM, by ``nisa.dma_copy``.

    Args:
        dst: HBM, as many elements as ``value``; the DMA casts through float32 where types differ.
        value: a tile in SBUF.

    Raises:
        KernelError: for a destination on chip, a value in PSUM or HBM, or unequal numbers of elements.
    """
    tensor = _in_hbm("store", "dst", dst)
    made = on_chip("store", "value", value)
    if made.buffer is MemoryRegion.psum:
        raise author_error(
            "a tile in SBUF for value of nl.store, as DMAs cannot reach PSUM",
            f"psum, {made.describe()}",
            "copy it first: nl.store(dst, nl.copy(value))",
        )
    isa.dma_copy(tensor, made)


def load_transpose2d(src: Any, dtype: Any = None) -> NkiTensor:
    """A new tile ``(N, M)`` in SBUF with the transpose of ``(M, N)`` in HBM, by ``nisa.dma_transpose``.

    Args:
        src: HBM, two dimensions besides those of size 1, N up to 128.
        dtype: of the tile; that of ``src`` where ``None``.

    Raises:
        KernelError: for another number of dimensions, more than 128 columns, or a source on chip.
    """
    tensor = _in_hbm("load_transpose2d", "src", src)
    while tensor.ndim > 2 and 1 in tensor.shape:
        tensor = tensor.squeeze_dim(tensor.ndim - 1 - tensor.shape[::-1].index(1))
    if tensor.ndim != 2 or tensor.shape[1] > PARTITIONS:
        raise author_error(
            f"two dimensions, the second up to {PARTITIONS}, in src of nl.load_transpose2d",
            f"shape {list(tensor.shape)}",
            "load slices of 128 columns",
        )
    made = tile((tensor.shape[1], tensor.shape[0]), tensor.dtype)
    isa.dma_transpose(made, tensor)
    kind = result_dtype(dtype, tensor.dtype)
    return made if kind is tensor.dtype else sbuf_copy(made, kind)


def gather_flattened(data: Any, indices: Any, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """In every partition the elements that ``indices`` name among the flattened free dimensions of ``data``.

    By ``nisa.nc_n_gather`` on GpSimd, which takes uint32 indices in SBUF: others are copied first.

    Args:
        data: a tile in SBUF or PSUM.
        indices: a tile of integers with as many partitions, each from 0 below the elements per partition of ``data``.
        axis: 0; no other is documented to mean anything.
        dtype: of the result; that of ``data`` where ``None``.

    Returns:
        A tile in SBUF in the shape of ``indices``.

    Raises:
        KernelError: for another axis, indices that are no integers, or one outside.
    """
    source, chosen = (
        on_chip("gather_flattened", "data", data),
        on_chip("gather_flattened", "indices", indices),
    )
    if axis != 0:
        raise author_error(
            "axis=0 for nl.gather_flattened", f"axis={axis}", "permute the free dimensions first"
        )
    if not chosen.dtype.is_integer:
        raise author_error(
            "integers as indices of nl.gather_flattened",
            chosen.dtype,
            "convert them with nl.copy(dtype=nl.uint32)",
        )
    if source.buffer is MemoryRegion.psum:
        source = sbuf_copy(source)
    if chosen.buffer is MemoryRegion.psum or chosen.dtype is not _UINT32:
        chosen = sbuf_copy(chosen, _UINT32)
    made = tile(chosen.shape, source.dtype)
    isa.nc_n_gather(made, source, chosen)
    kind = result_dtype(dtype, source.dtype)
    return made if kind is source.dtype else sbuf_copy(made, kind)


def expand_dims(x: Any, axis: int) -> NkiTensor:
    """A view of a tile with a dimension of size 1 at ``axis``, which cannot be before the partitions.

    Raises:
        KernelError: for axis 0, or one beyond the tile's dimensions.
    """
    return on_chip("expand_dims", "x", x).expand_dim(axis)


def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` where ``condition`` is not 0, else ``y``; NaN in the one that is not chosen does no harm.

    A comparison makes the uint8 predicate; ``y`` is copied, and ``x`` over it by ``nisa.tensor_copy_predicated``.

    Args:
        condition: a tile in SBUF or PSUM.
        x: a tile, or a number; free dimensions of size 1 are repeated.
        y: likewise.
        dtype: of the result; that of the tiles among ``x`` and ``y`` where ``None``, of ``condition`` where both are
            numbers.

    Raises:
        KernelError: for operands in HBM, or shapes that do not fit.
    """
    asked = on_chip("where", "condition", condition)
    tiles = [on_chip("where", name, one) for name, one in (("x", x), ("y", y)) if isinstance(one, NkiTensor)]
    kind = result_dtype(dtype, _chosen_dtype(asked, tiles))
    shape = _largest(asked, tiles)
    predicate = tile(asked.shape, _UINT8)
    isa.tensor_scalar(predicate, asked, "not_equal", 0.0)
    made = tile(shape, kind)
    if isinstance(y, NkiTensor):
        isa.tensor_copy(made, broadcast_free("where", y, shape))
    else:
        isa.memset(made, y)
    taken = x
    if isinstance(x, NkiTensor):
        taken = broadcast_free("where", x if x.dtype is kind else sbuf_copy(x, kind), shape)
    isa.tensor_copy_predicated(made, taken, broadcast_free("where", predicate, shape))
    return made


def _chosen_dtype(condition: NkiTensor, tiles: list[NkiTensor]) -> DType:
    if not tiles:
        return condition.dtype
    return tiles[0].dtype if len(tiles) == 1 else promoted(tiles[0].dtype, tiles[1].dtype)


def _largest(condition: NkiTensor, tiles: list[NkiTensor]) -> tuple[int, ...]:
    """The shape that all operands are repeated to, where they agree or have size 1."""
    rank = max(one.ndim for one in (condition, *tiles))
    full = [one.shape for one in (condition, *tiles) if one.ndim == rank]
    return tuple(max(sizes) for sizes in zip(*full, strict=True))
