"""Whether one tile fits in its memory, and lies inside it where its author placed it."""

from __future__ import annotations

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.generation import PARTITIONS, Generation

__all__ = ["require_room"]


def require_room(buffer: Buffer, generation: Generation) -> None:
    """Refuse a tile that no place in its memory can hold.

    Args:
        buffer: on chip.
        generation: whose sizes hold.

    Raises:
        KernelError: if it has more than 128 partitions, is larger than a partition, leaves it from its address,
            or lies there between elements of its type.
    """
    sbuf = buffer.region is MemoryRegion.sbuf
    room = generation.sbuf_partition_bytes if sbuf else generation.psum_partition_bytes
    place = buffer.region.value.upper()
    if buffer.shape[0] > PARTITIONS:
        raise KernelError(
            f"at most {PARTITIONS} partitions (dimension 0) for a tile in {place}",
            found=f"{buffer.shape[0]} in {buffer!r}",
            where=buffer.line,
            remedy="split it into tiles of 128 partitions, or make another dimension the first",
        )
    start, byte = buffer.address or (0, 0)
    if byte + buffer.partition_bytes > room:
        raise KernelError(
            f"at most {room} bytes per partition for a tile in {place} of {generation.chip}",
            found=f"{byte + buffer.partition_bytes} bytes"
            + (f", the last of it from its address ({start}, {byte})," if byte else "")
            + f" in {buffer!r}",
            where=buffer.line,
            remedy=f"choose an address of at most {room - buffer.partition_bytes} in the partition"
            if buffer.partition_bytes <= room
            else "split it into smaller tiles",
        )
    if byte % buffer.dtype.bytes:
        raise KernelError(
            f"an address whose byte is a multiple of the {buffer.dtype.bytes} bytes of {buffer.dtype}",
            found=f"byte {byte} for {buffer!r}",
            where=buffer.line,
            remedy=f"choose byte {byte - byte % buffer.dtype.bytes}, or the next multiple",
        )
    if start < 0 or byte < 0 or start + buffer.shape[0] > PARTITIONS:
        raise KernelError(
            f"an address within {PARTITIONS} partitions",
            found=f"partitions {start} to {start + buffer.shape[0] - 1}, byte {byte} for {buffer!r}",
            where=buffer.line,
            remedy="choose an address at which the tile fits",
        )
