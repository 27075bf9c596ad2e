"""What a buffer is: where it lies, of which type and shape, who made it. Its elements are in ``storage``.

Kept apart so that a stream of instructions can name buffers without keeping their elements alive.
"""

from __future__ import annotations

import math
from enum import StrEnum
from types import CodeType

from twintrack.neuroncore.memory.dtypes import DType

__all__ = ["Buffer", "MemoryRegion", "Owner", "contiguous_strides"]


class MemoryRegion(StrEnum):
    """Where a buffer lies; members are named as NKI names them."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    @property
    def on_chip(self) -> bool:
        """SBUF or PSUM, which have partitions."""
        return self is MemoryRegion.sbuf or self is MemoryRegion.psum


class Owner:
    """Whose a buffer is: one core's of a run, or, in memory that they share, all cores' of one rank.

    Args:
        run: stands for the run.
    """

    __slots__ = ("run",)

    def __init__(self, run: object) -> None:
        self.run = run


class Buffer:
    """What an instruction's record needs of a buffer.

    Args:
        number: counted from 0 in a core's run.
        region: where it lies.
        dtype: element type.
        shape: ``(partitions, ...)`` on chip.
        name: as the kernel's author gave it, or empty.
        code: the author's code object that made it; ``None`` for arguments.
        lineno: the line in it.
        address: ``(partition, byte in the partition)`` where the author placed it; ``None`` where the compiler does.
        origin: ``tile`` made by the kernel, ``argument``, or ``constant``.
    """

    __slots__ = (
        "address",
        "code",
        "dtype",
        "ended",
        "first_use",
        "last_use",
        "lineno",
        "made_at",
        "name",
        "number",
        "on_chip",
        "origin",
        "owner",
        "region",
        "row",
        "shape",
        "size",
        "strides",
    )

    def __init__(
        self,
        number: int,
        region: MemoryRegion,
        dtype: DType,
        shape: tuple[int, ...],
        name: str,
        code: CodeType | None,
        lineno: int,
        address: tuple[int, int] | None = None,
        origin: str = "tile",
    ) -> None:
        self.number = number
        self.region = region
        self.on_chip = region.on_chip
        self.dtype = dtype
        self.shape = shape
        self.strides = contiguous_strides(shape)
        self.size = math.prod(shape)
        """Elements."""
        self.name = name
        self.code = code
        self.lineno = lineno
        self.address = address
        self.origin = origin
        self.row = math.prod(shape[1:])
        """Elements of one partition, on chip."""
        self.first_use = -1
        """Number of the first instruction that touched it; -1 before."""
        self.last_use = -1
        self.owner: Owner | None = None
        """Whose it is, in a run."""
        self.ended = ""
        """``file:line`` of the loop on the device in whose body it was made, once that loop has ended."""
        self.made_at = ""
        """``file:line`` of a buffer that was read back from a stream, whose code is not at hand."""

    @property
    def partition_bytes(self) -> int:
        """Bytes that it takes in each of its partitions, on chip."""
        return self.row * self.dtype.bytes

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.bytes

    @property
    def start_partition(self) -> int:
        """First partition, on chip; 0 where the compiler places it."""
        return self.address[0] if self.address else 0

    @property
    def line(self) -> str:
        """``file:line`` where it was made."""
        if self.code is not None:
            return f"{self.code.co_filename}:{self.lineno}"
        return self.made_at or ("an argument" if self.origin == "argument" else f"a {self.origin}")

    def __repr__(self) -> str:
        """As messages name it."""
        label = f"'{self.name}' " if self.name else ""
        made = f"made at {self.line}" if self.code is not None else self.origin
        return f"{label}{self.region.value} {list(self.shape)} {self.dtype} ({made})"


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a row-major array, in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)
