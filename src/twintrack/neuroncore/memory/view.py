"""A view of a buffer: shape, strides and offset in elements of the view's type, with a dynamic part where there is one.

``offset + sum(index[d] * strides[d])`` is the element in the flat buffer; on chip the stride of dimension 0 is the
length of a partition's row. A dynamic part adds ``index * stride`` to the offset when the view is read or written: one
index for all (scalar), one per row of dimension 0, whose own stride it replaces (vector), or offsets on the free axis
that the partitions of a group share (tensor).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.generation import PSUM_BANK_BYTES
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.written import Pattern, pattern_of

__all__ = ["Cut", "Cuts", "Dynamic", "Forms", "View"]

Array = npt.NDArray[Any]
_PSUM = MemoryRegion.psum
_MOST_REMEMBERED = 65_536
"""Slices that a core remembers: some 30 MB."""


class Dynamic(NamedTuple):
    """An offset that is known only when the instruction runs."""

    kind: str
    """``scalar``: one index; ``vector``: one per row of dimension 0; ``tensor``: NeuronCore-v4's tensor indirection."""
    index: Any
    """A view of the indices, or a register."""
    stride: int
    """Elements that one step of the index moves."""
    limit: int
    """The index must be below this."""
    dim: int
    """Dimension that the index counts in."""

    @property
    def signature(self) -> tuple[Any, ...]:
        """What decides whether an instruction may use it."""
        index = self.index.signature if isinstance(self.index, View) else None
        return self.kind, self.dim, self.stride, self.limit, index


class Cut(NamedTuple):
    """How a view of a tile lies, wherever the tile is: loops make tiles of one form and cut them alike."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    form: int
    """A number for its signature, from 1."""
    cuts: Cuts
    """Those of this one."""


class Forms(dict[tuple[Any, ...], int]):
    """Numbers, from 1, of the signatures of views on a core: they are compared faster than signatures are."""

    __slots__ = ("remembered",)

    def __init__(self) -> None:
        super().__init__()
        self.remembered = 0
        """Slices that are remembered, of all forms."""


class Cuts(dict[Any, Cut]):
    """What is remembered of slices of views that lie alike, by what selects them.

    Args:
        forms: of the core.
    """

    __slots__ = ("forms",)

    def __init__(self, forms: Forms) -> None:
        super().__init__()
        self.forms = forms

    def of(self, view: View) -> Cut:
        """How a view lies."""
        form = self.forms.setdefault(view.signature, len(self.forms) + 1)
        return Cut(view.shape, view.strides, view.offset, form, Cuts(self.forms))

    def remember(self, name: Any, view: View) -> Cut:
        """How a slice lies that is met first; remembered, as long as the core does not remember very many."""
        found = self.of(view)
        if self.forms.remembered < _MOST_REMEMBERED:
            self.forms.remembered += 1
            self[name] = found
        return found


class View:
    """Where an instruction reads or writes. Immutable.

    Args:
        storage: the elements.
        dtype: as which they are seen.
        shape: elements per dimension.
        strides: in elements of ``dtype``.
        offset: first element.
        dynamic: what is added to the offset at run time.
    """

    __slots__ = (
        "_array",
        "_cuts",
        "_form",
        "_signature",
        "dtype",
        "dynamic",
        "offset",
        "shape",
        "storage",
        "strides",
    )

    def __init__(
        self,
        storage: Storage,
        dtype: DType,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        dynamic: Dynamic | None = None,
    ) -> None:
        self.storage = storage
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.dynamic = dynamic
        self._signature: tuple[Any, ...] | None = None
        self._form = 0
        """A number for its signature on its core, from 1; 0 where it was not given one."""
        self._cuts: Cuts | None = None
        """What is remembered of slices of it; shared by all views that lie alike."""
        self._array: Array | None = None

    @property
    def start_partition(self) -> int:
        """First partition of an on-chip view."""
        buffer = self.storage.buffer
        return buffer.start_partition + self.offset * self.dtype.bytes // buffer.partition_bytes

    @property
    def free_size(self) -> int:
        """Elements per partition (per row of dimension 0)."""
        size = 1
        for count in self.shape[1:]:
            size *= count
        return size

    @property
    def row(self) -> int:
        """Elements of the view's type in one partition of its buffer, on chip."""
        return self.storage.buffer.partition_bytes // self.dtype.bytes

    @property
    def start_byte(self) -> int:
        """First byte in the partition, on chip; from the start of the tile where the compiler places it."""
        buffer = self.storage.buffer
        inside = (self.offset * self.dtype.bytes) % buffer.partition_bytes
        return inside + (buffer.address[1] if buffer.address else 0)

    @property
    def signature(self) -> tuple[Any, ...]:
        """What decides whether an instruction may use it.

        Region, type, shape, first partition, place in a PSUM bank, whether placed by hand, whose it is, indirection.
        """
        found = self._signature
        if found is None:
            buffer = self.storage.buffer
            address = buffer.address
            start = byte = 0
            if buffer.on_chip:
                size = self.dtype.bytes
                start = self.offset * size // (buffer.row * buffer.dtype.bytes)
                if address is not None:
                    start += address[0]
                if buffer.region is _PSUM:
                    byte = self.start_byte % PSUM_BANK_BYTES
            found = (
                buffer.region,
                self.dtype,
                self.shape,
                self.strides,
                start,
                byte,
                address is None,
                buffer.owner,
                None if self.dynamic is None else self.dynamic.signature,
            )
            self._signature = found
        return found

    def array(self) -> Array:
        """The elements as they are held, in the view's shape; writing to it writes to the buffer.

        Only for a view without a dynamic part, of a buffer with values.
        """
        found = self._array
        if found is None:
            storage = self.storage
            kind = storage.kind(self.dtype)
            size = kind.itemsize
            found = np.ndarray(
                self.shape,
                kind,
                storage.data,
                self.offset * size,
                tuple([stride * size for stride in self.strides]),
            )
            self._array = found  # a buffer's elements stay where they are, so it stays true
        return found

    def pattern(self) -> Pattern:
        """Bytes that it covers, without the dynamic part."""
        return pattern_of(self.shape, self.strides, self.offset, self.dtype.bytes)

    def covers_buffer(self) -> bool:
        """Whether it is plainly the whole buffer."""
        buffer = self.storage.buffer
        return self.dtype is buffer.dtype and self.shape == buffer.shape and self.strides == buffer.strides

    def describe(self) -> str:
        """As messages name it: the range and its buffer."""
        buffer = self.storage.buffer
        if self.covers_buffer():
            return repr(buffer)
        if self.dynamic is not None:
            chosen = {"scalar": "a part at a dynamic index", "vector": "rows by index"}
            return f"{chosen.get(self.dynamic.kind, 'columns by index')} of {buffer!r}"
        ranges = self._ranges()
        if ranges:
            return f"[{', '.join(ranges)}] of {buffer!r}"
        pairs = ", ".join(f"[{step}, {count}]" for step, count in zip(self.strides, self.shape, strict=True))
        return f"elements {self.offset} + [{pairs}] of {buffer!r}"

    def _ranges(self) -> list[str]:
        """Slices of the buffer's dimensions that the view is; empty where it is none."""
        buffer = self.storage.buffer
        if self.dtype is not buffer.dtype or len(self.shape) != len(buffer.shape):
            return []
        found, left = [], self.offset
        for size, own, count, step in zip(
            buffer.shape, buffer.strides, self.shape, self.strides, strict=True
        ):
            start, left = divmod(left, own)
            skip = 1 if count == 1 else step // own
            stop = start + (count - 1) * skip + 1
            if (count > 1 and step % own) or skip < 1 or stop > size:
                return []
            found.append(f"{start}:{stop}" if skip == 1 else f"{start}:{stop}:{skip}")
        return found
