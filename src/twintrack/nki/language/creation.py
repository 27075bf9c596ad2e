"""``nki.language``: tensors made by a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki import isa
from twintrack.nki.context import current_core
from twintrack.nki.tensor import NkiTensor, to_dtype
from twintrack.nki.tensor_errors import as_whole

__all__ = ["empty_like", "full", "ndarray", "ones", "zeros", "zeros_like"]

_REGIONS = frozenset(MemoryRegion)


def ndarray(
    shape: Sequence[int],
    dtype: DType,
    buffer: MemoryRegion | str = MemoryRegion.sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """A new tensor, nothing written to it.

    Args:
        shape: positive sizes; on chip the first is partitions, up to 128.
        dtype: element type.
        buffer: ``nl.sbuf``, ``nl.psum``, ``nl.private_hbm`` (``nl.hbm``) or ``nl.shared_hbm``.
        name: for messages and profiles.
        address: ``(partition, byte in the partition)``, to place it by hand on chip.

    Raises:
        KernelError: if sizes are not positive, there is one dimension only on chip, or it does not fit.
    """
    core = current_core()
    try:
        sizes = tuple([index(count) for count in shape])
    except TypeError:
        raise _wrong(
            "a shape of whole numbers", repr(shape)[:80], "give a tuple of integers; divide with //"
        ) from None
    region = buffer if type(buffer) is MemoryRegion else _region(buffer)
    if not sizes or any(count < 1 for count in sizes):
        raise _wrong("positive sizes", f"shape {list(sizes)}", "give each dimension a size from 1")
    if len(sizes) < 2 and region.on_chip:
        sizes = (*sizes, 1)
    kind = dtype if type(dtype) is DType else to_dtype(dtype)
    if address is not None and not region.on_chip:
        raise _wrong("an address in SBUF or PSUM", f"{address} in {region.value}", "leave address out")
    if address is not None:
        address = _address(address)
    storage = core.allocate(sizes, kind, region, name=name or "", address=address)
    made = object.__new__(NkiTensor)
    made.storage, made.dtype = storage, kind
    made.shape, made.strides, made.offset = sizes, storage.buffer.strides, 0
    made.dynamic = made._signature = made._cuts = made._array = None
    made._form = 0
    if region.on_chip:
        core.lay(made)
    return made


def _address(given: object) -> tuple[int, int]:
    numbers = [as_whole(one) for one in given] if isinstance(given, tuple | list) else []
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        raise _wrong(
            "an address of whole numbers, (partition, byte in the partition),",
            repr(given)[:80],
            "write it so",
        )
    return numbers[0], numbers[1]


def _region(buffer: object) -> MemoryRegion:
    try:
        return MemoryRegion(str(buffer))
    except ValueError:
        raise _wrong("a region such as nl.sbuf or nl.shared_hbm", repr(buffer), "use one of them") from None


def _wrong(required: str, found: str, remedy: str) -> KernelError:
    frame = current_core().author()
    return KernelError(
        f"{required} for nl.ndarray",
        found=found,
        where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
        remedy=remedy,
    )


def full(
    shape: Sequence[int],
    fill_value: Any,
    dtype: DType,
    buffer: MemoryRegion | str = MemoryRegion.sbuf,
    name: str = "",
) -> NkiTensor:
    """A new tensor filled with a number; in HBM by way of a tile and a DMA per 128 rows.

    Args:
        shape: positive sizes.
        fill_value: a number known when the kernel is traced.
        dtype: element type.
        buffer: where.
        name: for messages and profiles.

    Raises:
        KernelError: as ``ndarray``.
    """
    made = ndarray(shape, dtype, buffer, name)
    if made.storage.buffer.on_chip:
        isa.memset(made, fill_value)
        return made
    rows = made.reshape((made.shape[0], made.size // made.shape[0]))
    for start in range(0, rows.shape[0], 128):
        part = rows[start : min(start + 128, rows.shape[0])]
        tile = ndarray(part.shape, dtype)
        isa.memset(tile, fill_value)
        isa.dma_copy(part, tile)
    return made


def zeros(
    shape: Sequence[int], dtype: DType, buffer: MemoryRegion | str = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """A new tensor of zeros; see ``full``."""
    return full(shape, 0, dtype, buffer, name)


def ones(
    shape: Sequence[int], dtype: DType, buffer: MemoryRegion | str = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """A new tensor of ones; see ``full``."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(
    x: NkiTensor, dtype: DType | None = None, buffer: MemoryRegion | str | None = None, name: str = ""
) -> NkiTensor:
    """Zeros of another tensor's shape, and of its type where none is named; in SBUF where no region is."""
    where = MemoryRegion.sbuf if buffer is None else buffer
    return full(x.shape, 0, x.dtype if dtype is None else dtype, where, name)


def empty_like(
    x: NkiTensor, dtype: DType | None = None, buffer: MemoryRegion | str | None = None, name: str = ""
) -> NkiTensor:
    """A tensor of another's shape, and of its type and region where none are named; nothing written to it."""
    return ndarray(x.shape, x.dtype if dtype is None else dtype, x.buffer if buffer is None else buffer, name)
