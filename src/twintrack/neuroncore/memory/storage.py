"""A buffer's elements and which of them were ever written.

Elements are held as they lie in memory, so that a view of a buffer as another type shows the bits that the hardware
would. Without precise floating point (``NKI_PRECISE_FP=0``) narrow floats are held as float32 and are never rounded;
such a buffer has no bits to reinterpret, and a view of it as another type is refused where it is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.memory.buffer import Buffer
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.written import Written

__all__ = ["Storage"]

Array = npt.NDArray[Any]
_SINGLE = np.dtype(np.float32)
_SENTINEL = 4
"""What integers hold before they are written, as the vendor's simulator documents; floats hold NaN."""


class Storage:
    """The elements of one buffer.

    Args:
        buffer: its description.
        data: the elements, flat, as bytes; ``None`` where values are not computed.
        written: what of it counts as written.
        precise: whether narrow floats are held as they lie in memory.
    """

    __slots__ = ("buffer", "clobbered", "data", "matmul", "modified", "precise", "written")

    def __init__(self, buffer: Buffer, data: Array | None, written: Written, *, precise: bool = True) -> None:
        self.buffer = buffer
        self.data = data
        self.written = written
        self.precise = precise
        self.matmul: Written | None = None
        """In PSUM: what a matrix multiplication has written, to which the next one adds."""
        self.modified = False
        """Whether anything was written to it in this run."""
        self.clobbered: Buffer | None = None
        """The manually placed buffer whose write destroyed this one's elements."""

    @classmethod
    def empty(cls, buffer: Buffer, *, values: bool, precise: bool = True) -> Storage:
        """A buffer nothing was written to, filled with what betrays a read: NaN, and 4 in integers."""
        written = Written(buffer.bytes)
        if not values:
            return cls(buffer, None, written, precise=precise)
        kind = held_as(buffer.dtype, precise=precise)
        fill = float("nan") if buffer.dtype.is_float else _SENTINEL
        data = np.full(buffer.size, fill, kind).view(np.uint8)
        return cls(buffer, data, written, precise=precise)

    @classmethod
    def of(cls, buffer: Buffer, values: Array, *, precise: bool = True) -> Storage:
        """A buffer over a C-contiguous array's own memory: what is written to it is written to the array."""
        kind = held_as(buffer.dtype, precise=precise)
        held = values if values.dtype == kind else values.astype(kind)
        return cls(
            buffer, held.reshape(-1).view(np.uint8), Written(buffer.bytes, everything=True), precise=precise
        )

    def kind(self, dtype: DType) -> np.dtype[Any]:
        """NumPy type in which a view of this buffer as ``dtype`` is read."""
        return held_as(dtype, precise=self.precise)


def held_as(dtype: DType, *, precise: bool) -> np.dtype[Any]:
    """NumPy type of a buffer's elements in the emulator."""
    return dtype.stored if precise or not dtype.is_float else _SINGLE
