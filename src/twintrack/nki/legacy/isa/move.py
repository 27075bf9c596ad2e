"""``neuronxcc.nki.isa``: instructions that move and make data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import isa
from twintrack.nki.isa.constants import dge_mode as _dge
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.constants import oob_mode as _oob
from twintrack.nki.isa.issue import author_error
from twintrack.nki.legacy.isa.compute import optional
from twintrack.nki.legacy.memory import copy
from twintrack.nki.legacy.regions import Along, fresh, kind_of, on_chip, operand, over
from twintrack.nki.legacy.tile import Tile

__all__ = [
    "builtin_custom_op",
    "dma_copy",
    "dma_transpose",
    "memset",
    "nc_transpose",
    "tensor_copy",
    "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
]


def dma_copy(
    *,
    dst: Any,
    src: Any,
    mask: Any = None,
    dst_rmw_op: Any = None,
    oob_mode: _oob = _oob.error,
    dge_mode: _dge = _dge.unknown,
    name: str | None = None,
) -> None:
    """``dst = src`` by a DMA, or ``dst += src`` with ``dst_rmw_op=np.add``; see the current ``nisa.dma_copy``."""
    target, source = operand("nisa.dma_copy", "dst", dst), operand("nisa.dma_copy", "src", src)

    def issue(part: Tile, held: Tile) -> None:
        if dst_rmw_op is None:
            isa.dma_copy(part, held, oob_mode=oob_mode, dge_mode=dge_mode, name=name)
        else:
            isa.dma_compute(part, [part, held], dst_rmw_op, oob_mode=oob_mode, name=name)

    over(mask, target.shape, [target, source], issue)


def dma_transpose(
    src: Any,
    *,
    axes: Sequence[int] | None = None,
    mask: Any = None,
    dtype: Any = None,
    dge_mode: _dge = _dge.unknown,
    name: str | None = None,
) -> Tile:
    """A new tile in SBUF with the first and last dimension of ``src`` exchanged; see the current one."""
    source = operand("nisa.dma_transpose", "src", src)
    order = tuple(axes) if axes is not None else (source.ndim - 1, *range(1, source.ndim - 1), 0)
    if axes is None and source.ndim == 4:
        order = (3, 1, 2, 0)
    made = fresh([source.shape[one] for one in order], source.dtype)
    issue = lambda dst, part: isa.dma_transpose(dst, part, order, dge_mode=dge_mode, name=name)  # noqa: E731
    over(mask, source.shape, [Along(made, order), source], issue, made)
    return made if dtype is None else copy(made, dtype=dtype)


def tensor_copy(
    src: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> Tile:
    """A copy in SBUF; see the current ``nisa.tensor_copy``."""
    tile = on_chip("nisa.tensor_copy", "src", src)
    made = fresh(tile.shape, kind_of(dtype, tile.dtype))
    over(mask, tile.shape, [made, tile], lambda dst, part: isa.tensor_copy(dst, part, engine, name), made)
    return made


tensor_copy_dynamic_src = tensor_copy
"""``tensor_copy`` of a source that is indexed by an element of a tile: ``src[i_p, offsets[0, k] + i_f]``."""


def tensor_copy_dynamic_dst(
    *,
    dst: Any,
    src: Any,
    mask: Any = None,
    dtype: Any = None,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> None:
    """Copy to a view that is indexed by an element of a tile; the destination's type is its own."""
    del dtype
    function = "nisa.tensor_copy_dynamic_dst"
    target, tile = on_chip(function, "dst", dst), on_chip(function, "src", src)
    over(mask, tile.shape, [target, tile], lambda part, held: isa.tensor_copy(part, held, engine, name))


def tensor_copy_predicated(
    *,
    src: Any,
    dst: Any,
    predicate: Any,
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> None:
    """``dst = src`` where ``predicate`` is not 0; see the current ``nisa.tensor_copy_predicated``."""
    del dtype
    function = "nisa.tensor_copy_predicated"
    target, chosen = on_chip(function, "dst", dst), _bytes(on_chip(function, "predicate", predicate))

    def issue(part: Tile, held: Any, asked: Tile) -> None:
        isa.tensor_copy_predicated(part, held, asked, reverse_pred, name)

    over(mask, target.shape, [target, optional(function, "src", src), chosen], issue)


def _bytes(predicate: Tile) -> Tile:
    """A predicate of type bool as the uint8 that it is stored as."""
    if predicate.dtype is not DTYPES["bool"]:
        return predicate
    made = predicate.view(DTYPES["uint8"])
    assert isinstance(made, Tile)  # noqa: S101 - a view is of its tensor's class
    return made


def memset(
    shape: Any,
    value: Any,
    dtype: Any,
    *,
    mask: Any = None,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> Tile:
    """A new tile in SBUF filled with a number; see the current ``nisa.memset``."""
    made = fresh([int(size) for size in shape], kind_of(dtype, DTYPES["float32"]))
    over(mask, made.shape, [made], lambda dst: isa.memset(dst, value, engine, name), made)
    return made


def nc_transpose(
    data: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> Tile:
    """``data.T``: in PSUM by the Tensor Engine, which takes SBUF; in SBUF by the Vector Engine."""
    tile = on_chip("nisa.nc_transpose", "data", data)
    rows, columns = tile.shape[0], tile.free_size
    vector = engine is _engine.vector or (
        engine is _engine.unknown and rows <= 32 and columns <= 32 and tile.buffer is MemoryRegion.psum
    )
    made = fresh((columns, rows), tile.dtype, MemoryRegion.sbuf if vector else MemoryRegion.psum)
    chosen = _engine.vector if vector else _engine.tensor
    axes: tuple[int | None, ...] = (1, 0) if tile.ndim == 2 else (None, 0)
    issue = lambda dst, part: isa.nc_transpose(dst, part, chosen, name)  # noqa: E731
    over(mask, tile.shape, [Along(made, axes), tile], issue, made)
    return made if dtype is None or kind_of(dtype, tile.dtype) is tile.dtype else copy(made, dtype=dtype)


def builtin_custom_op(function_name: str, *args: Any, **kwargs: Any) -> None:
    """A compiled operator of the GpSimd cores, which cannot run here.

    Raises:
        KernelError: always.
    """
    del args, kwargs
    raise author_error(
        f"instructions of nki.isa; {Engine.GPSIMD} runs no compiled libraries here",
        f"the custom operator {function_name!r}",
        "write it with nki.isa",
    )
