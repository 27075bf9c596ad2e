"""``NkiTensor``: a view of a buffer as a kernel author handles it.

Every method makes another view; none moves data, but for ``__setitem__``, which copies as an assignment to a slice is
documented to. Sizes, strides and offsets are in elements. On chip dimension 0 is the partitions and stays in front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import Register
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType, dtype_of
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import Dynamic, View
from twintrack.nki.context import current_core
from twintrack.nki.tensor_index import DynamicSlice, index
from twintrack.nki.tensor_shape import merged_strides, rearranged, reshaped_strides, split_sizes

if TYPE_CHECKING:
    from types import EllipsisType

__all__ = ["NKIObject", "NkiTensor", "tensor_error", "to_dtype"]


class NKIObject:
    """Base of what kernels handle besides Python's own values."""

    __slots__ = ()

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)


def to_dtype(value: object) -> DType:
    """The element type that a kernel names.

    Raises:
        KernelError: if NKI has none of this name.
    """
    try:
        return dtype_of(value)
    except KeyError:
        frame = current_core().author()
        raise KernelError(
            "an element type of nki.language",
            found=repr(value),
            where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
            remedy="use one such as nl.float32 or nl.bfloat16",
        ) from None


def tensor_error(tensor: View, required: str, found: str, remedy: str) -> KernelError:
    """The error of a view that cannot be made, at the author's line."""
    frame = current_core().author()
    return KernelError(
        required,
        found=f"{found} for {tensor.describe()}",
        where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
        remedy=remedy,
    )


class NkiTensor(View, NKIObject):
    """A tensor in SBUF, PSUM or HBM, or a view of one.

    Args:
        shape: positive sizes.
        dtype: element type.
        storage: its elements.
        buffer: where they must lie; kept for the documented signature, the storage knows it.
        name: unused where the storage has a name.
    """

    __slots__ = ()

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        storage: Storage,
        buffer: MemoryRegion | str = MemoryRegion.sbuf,
        name: str = "",
    ) -> None:
        del buffer, name
        View.__init__(self, storage, to_dtype(dtype), tuple(shape), storage.buffer.strides, 0)

    # what it is

    @property
    def buffer(self) -> MemoryRegion:
        """Where it lies."""
        return self.storage.buffer.region

    @property
    def name(self) -> str:
        """The name that the author gave, or empty."""
        return self.storage.buffer.name

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        """A tensor is not ``None``; its values are known on the device only."""
        return True

    def __repr__(self) -> str:
        return f"NkiTensor({self.describe()}, shape={self.shape}, dtype={self.dtype})"

    def is_contiguous(self) -> bool:
        """Whether its elements lie densely in row-major order; on chip within each partition."""
        step = 1
        first = 1 if self.storage.buffer.on_chip else 0
        for count, stride in reversed(list(zip(self.shape, self.strides, strict=True))[first:]):
            if count != 1 and stride != step:
                return False
            step *= count
        return True

    def get_pattern(self) -> list[list[int]]:
        """``[[stride, count], ...]`` of its dimensions, as ``ap`` takes them."""
        return [[stride, count] for stride, count in zip(self.strides, self.shape, strict=True)]

    def is_indirect(self) -> bool:
        """Whether its address is known only at run time."""
        return self.dynamic is not None

    # views

    def _view(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        dynamic: Dynamic | None = None,
        dtype: DType | None = None,
    ) -> NkiTensor:
        made = object.__new__(type(self))
        made.storage = self.storage
        made.dtype = dtype or self.dtype
        made.shape = shape
        made.strides = strides
        made.offset = offset
        made.dynamic = dynamic
        made._signature = None
        made._array = None
        return made

    def __getitem__(self, key: int | slice | EllipsisType | DynamicSlice | tuple[Any, ...]) -> NkiTensor:
        """Select and slice as NumPy does; see ``tensor_index``.

        Raises:
            KernelError: if an index leaves the tensor.
        """
        shape, strides, offset = index(self, key)
        return self._view(shape, strides, offset, self.dynamic)

    def __setitem__(self, key: Any, value: NkiTensor | float) -> None:
        """Copy a tensor, or a number, to a slice: on chip by ``nisa.tensor_copy`` or ``memset``, else by a DMA."""
        from twintrack.nki.assign import assign

        assign(self[key], value)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Elements ``start`` to ``end`` (exclusive) of one dimension, every ``step``-th.

        Raises:
            KernelError: unless ``0 <= start < end <= shape[dim]`` and ``step >= 1``.
        """
        dim = self._dim(dim)
        self._not_indirect(dim, "slice")
        if not 0 <= start < end <= self.shape[dim] or step < 1:
            raise tensor_error(
                self,
                f"0 <= start < end <= {self.shape[dim]} and step >= 1",
                f"start={start}, end={end}, step={step}",
                "slice inside the dimension",
            )
        shape, strides = list(self.shape), list(self.strides)
        shape[dim] = -(-(end - start) // step)
        strides[dim] *= step
        return self._view(tuple(shape), tuple(strides), self.offset + start * self.strides[dim], self.dynamic)

    def select(self, dim: int, index: int | NkiTensor | Register) -> NkiTensor:
        """One element of a dimension, which is removed; a tensor or register of one index selects at run time.

        Raises:
            KernelError: if it is outside, or a second dynamic selection, or dynamic in the partition dimension.
        """
        dim = self._dim(dim)
        self._not_indirect(dim, "select")
        shape = self.shape[:dim] + self.shape[dim + 1 :]
        strides = self.strides[:dim] + self.strides[dim + 1 :]
        if isinstance(index, int):
            if not 0 <= index < self.shape[dim]:
                raise tensor_error(
                    self,
                    f"an index from 0 below {self.shape[dim]}",
                    f"{index}",
                    "select inside the dimension",
                )
            offset = self.offset + index * self.strides[dim]
            if self.storage.buffer.on_chip and dim == 0:
                return self._view((1, *shape), (self.strides[0], *strides), offset, self.dynamic)
            return self._at_least(shape, strides, offset, self.dynamic)
        self._one_dynamic(index)
        if self.storage.buffer.on_chip and dim == 0:
            raise tensor_error(
                self,
                "a free dimension for a dynamic select on chip",
                "dimension 0",
                "select another dimension",
            )
        dynamic = Dynamic("scalar", index, self.strides[dim], self.shape[dim], dim)
        return self._at_least(shape, strides, self.offset, dynamic)

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Row ``vector_offset[p, 0]`` of dimension 0 for each partition ``p``; HBM only.

        Raises:
            KernelError: for another dimension, on chip, or as a second dynamic selection.
        """
        if dim != 0 or self.storage.buffer.on_chip:
            raise tensor_error(
                self,
                "dimension 0 of an HBM tensor for vector_select",
                f"dimension {dim} in {self.buffer.value}",
                "use nisa.nc_n_gather or nisa.local_gather on chip",
            )
        self._one_dynamic(vector_offset)
        dynamic = Dynamic("vector", vector_offset, self.strides[0], self.shape[0], 0)
        return self._view((vector_offset.shape[0], *self.shape[1:]), self.strides, self.offset, dynamic)

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: NkiTensor | Register | None = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: DType | None = None,
    ) -> NkiTensor:
        """An access pattern ``[[stride, count], ...]`` over the whole buffer, whatever view it is asked of.

        Args:
            pattern: in elements of ``dtype``.
            offset: first element; the view's own where ``None``.
            scalar_offset: one index at run time, in steps of the buffer's dimension ``indirect_dim``.
            vector_offset: one index per row of dimension 0, in steps of the buffer's dimension 0.
            indirect_dim: dimension of this tensor that the index counts in.
            dtype: as which the bits are seen.

        Raises:
            KernelError: if it leaves the buffer, or skips partitions on chip.
        """
        kind = self.dtype if dtype is None else to_dtype(dtype)
        shape = tuple(int(count) for _, count in pattern)
        strides = tuple(int(step) for step, _ in pattern)
        start = self.offset if offset is None else offset
        if offset is None and kind is not self.dtype:
            start = start * self.dtype.bytes // kind.bytes
        self._check_pattern(
            shape, strides, start, kind, fixed=scalar_offset is None and vector_offset is None
        )
        dynamic = self._indirection(scalar_offset, vector_offset, indirect_dim, kind)
        return self._view(shape, strides, start, dynamic, kind)

    def _indirection(
        self,
        scalar_offset: NkiTensor | Register | None,
        vector_offset: NkiTensor | None,
        dim: int,
        kind: DType,
    ) -> Dynamic | None:
        if scalar_offset is None and vector_offset is None:
            return None
        if scalar_offset is not None and vector_offset is not None:
            raise tensor_error(self, "scalar_offset or vector_offset", "both", "give one of them")
        buffer = self.storage.buffer
        dim = self._dim(dim)
        stride = math.prod(buffer.shape[dim + 1 :]) * buffer.dtype.bytes // kind.bytes
        if vector_offset is None:
            return Dynamic("scalar", scalar_offset, stride, 1 << 31, dim)
        if dim != 0 or buffer.on_chip:
            raise tensor_error(
                self,
                "dimension 0 of an HBM tensor for vector_offset",
                f"dimension {dim} in {self.buffer.value}",
                "gather on chip with nisa.nc_n_gather or nisa.local_gather",
            )
        return Dynamic("vector", vector_offset, stride, buffer.shape[0], 0)

    def _check_pattern(
        self, shape: tuple[int, ...], strides: tuple[int, ...], start: int, kind: DType, *, fixed: bool
    ) -> None:
        buffer = self.storage.buffer
        self._reinterpretable(kind)
        room = buffer.bytes // kind.bytes
        last = start + sum((count - 1) * step for step, count in zip(strides, shape, strict=True))
        lowest = start + sum(min(0, (count - 1) * step) for step, count in zip(strides, shape, strict=True))
        if any(count < 1 for count in shape) or lowest < 0 or (fixed and max(last, start) >= room):
            raise tensor_error(
                self,
                f"an access pattern inside the buffer's {room} elements",
                f"elements {lowest} to {max(last, start)} by {[list(p) for p in zip(strides, shape, strict=True)]}",
                "shorten the pattern or its offset",
            )
        row = buffer.row * buffer.dtype.bytes // kind.bytes
        if buffer.on_chip and shape[0] > 1 and strides[0] != row:
            raise tensor_error(
                self,
                f"a partition stride of {row}, the elements of one partition,",
                f"{strides[0]}",
                "access adjacent partitions; move data between partitions with a DMA",
            )

    def view(self, dtype: DType) -> NkiTensor:
        """The same bits as another type; the last dimension grows or shrinks by the ratio of their widths.

        Raises:
            KernelError: if the last dimension is not dense or does not divide, or the address is dynamic.
        """
        kind = to_dtype(dtype)
        self._reinterpretable(kind)
        if self.dynamic is not None:
            raise tensor_error(
                self, "a view with a static address", "an indirect one", "reinterpret it before"
            )
        old, new = self.dtype.bytes, kind.bytes
        if old == new:
            return self._view(self.shape, self.strides, self.offset, None, kind)
        if self.strides[-1] != 1 and self.shape[-1] != 1:
            raise tensor_error(self, "a dense last dimension", f"stride {self.strides[-1]}", "copy it first")
        total = self.shape[-1] * old
        starts = [self.offset * old, *(step * old for step in self.strides[:-1])]
        if total % new or any(at % new for at in starts):
            raise tensor_error(
                self, f"a last dimension and strides of whole {new}-byte elements", f"{total} bytes", "pad it"
            )
        strides = (*(step * old // new for step in self.strides[:-1]), 1)
        return self._view((*self.shape[:-1], total // new), strides, self.offset * old // new, None, kind)

    reinterpret_cast = view

    def _reinterpretable(self, kind: DType) -> None:
        held = self.storage
        if kind is self.dtype or held.precise or not (kind.is_float or held.buffer.dtype.is_float):
            return
        raise tensor_error(
            self,
            "NKI_PRECISE_FP=1 for a tensor seen as another type",
            "NKI_PRECISE_FP=0, under which narrow floats have no bits",
            "run it with precise floating point",
        )

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Dimensions in another order.

        Raises:
            KernelError: unless ``dims`` is a permutation that leaves partitions (or gathered rows) in front.
        """
        order = tuple(dims)
        if sorted(order) != list(range(self.ndim)):
            raise tensor_error(
                self, f"a permutation of 0 to {self.ndim - 1}", f"{order}", "name each dimension once"
            )
        self._keeps_front(order[0] != 0, "permute")
        return self._view(
            tuple(self.shape[d] for d in order),
            tuple(self.strides[d] for d in order),
            self.offset,
            self.dynamic,
        )

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """Repeat a dimension of size 1.

        Raises:
            KernelError: if it is not of size 1, or is the partition dimension.
        """
        dim = self._dim(dim)
        self._keeps_front(dim == 0, "broadcast")
        if self.shape[dim] != 1:
            raise tensor_error(self, f"size 1 in dimension {dim}", f"{self.shape[dim]}", "broadcast another")
        shape, strides = list(self.shape), list(self.strides)
        shape[dim], strides[dim] = size, 0
        return self._view(tuple(shape), tuple(strides), self.offset, self.dynamic)

    def expand_dim(self, dim: int) -> NkiTensor:
        """A new dimension of size 1 at ``dim``."""
        if dim < 0:
            dim += self.ndim + 1
        self._keeps_front(dim == 0, "expand_dim")
        if not 0 <= dim <= self.ndim:
            raise tensor_error(self, f"a position from 0 to {self.ndim}", f"{dim}", "choose one of them")
        step = self.shape[dim] * self.strides[dim] if dim < self.ndim else 1
        return self._view(
            (*self.shape[:dim], 1, *self.shape[dim:]),
            (*self.strides[:dim], step, *self.strides[dim:]),
            self.offset,
            self.dynamic,
        )

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Without a dimension of size 1."""
        dim = self._dim(dim)
        self._keeps_front(dim == 0, "squeeze_dim")
        if self.shape[dim] != 1:
            raise tensor_error(self, f"size 1 in dimension {dim}", f"{self.shape[dim]}", "squeeze another")
        return self._view(
            self.shape[:dim] + self.shape[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
            self.offset,
            self.dynamic,
        )

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """One dimension split into several; one size may be -1."""
        dim = self._dim(dim)
        sizes = split_sizes(self, self.shape[dim], shape)
        self._keeps_front(dim == 0 and len(sizes) > 1, "reshape_dim")
        inner = [self.strides[dim]]
        for count in reversed(sizes[1:]):
            inner.insert(0, inner[0] * count)
        return self._view(
            self.shape[:dim] + sizes + self.shape[dim + 1 :],
            self.strides[:dim] + tuple(inner) + self.strides[dim + 1 :],
            self.offset,
            self.dynamic,
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Dimensions ``start_dim`` to ``end_dim`` (inclusive) as one; they must lie densely."""
        start, end = self._dim(start_dim), self._dim(end_dim)
        self._keeps_front(start == 0 and end > 0, "flatten_dims")
        count, step = merged_strides(self, start, end)
        return self._view(
            (*self.shape[:start], count, *self.shape[end + 1 :]),
            (*self.strides[:start], step, *self.strides[end + 1 :]),
            self.offset,
            self.dynamic,
        )

    def reshape(self, shape: Sequence[int]) -> NkiTensor:
        """Another shape of the same elements, where the layout allows it without a copy.

        Raises:
            KernelError: if the number of elements differs, the layout does not allow it, or partitions would change.
        """
        sizes = split_sizes(self, self.size, shape)
        moved = bool(sizes) and sizes[0] != self.shape[0]
        self._keeps_front(moved, "reshape")
        return self._view(sizes, reshaped_strides(self, sizes), self.offset, self.dynamic)

    def rearrange(
        self,
        src_pattern: tuple[Any, ...],
        dst_pattern: tuple[Any, ...],
        fixed_sizes: dict[str, int] | None = None,
    ) -> NkiTensor:
        """Split, reorder and merge dimensions by name, as einops does."""
        return rearranged(self, src_pattern, dst_pattern, fixed_sizes or {})

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Tensor indirection of NeuronCore-v4: columns named by ``index``, read in a snake over partition groups.

        Raises:
            KernelError: on earlier generations.
        """
        core = current_core()
        if core.generation.number < 4:
            raise tensor_error(
                self, "NeuronCore-v4 for .indirect", f"{core.generation.chip}", "gather with nisa.nc_n_gather"
            )
        self._one_dynamic(index)
        if index.shape[0] != self.shape[0]:
            raise tensor_error(
                self, f"{self.shape[0]} partitions in the index", f"{index.shape[0]}", "allocate it so"
            )
        count = index.size if num_elem is None else num_elem
        dynamic = Dynamic("tensor", index, 1, self.size // self.shape[0], 1)
        return self._view((self.shape[0], count), (self.strides[0], 1), self.offset, dynamic)

    # guards

    def _dim(self, dim: int) -> int:
        at = dim + self.ndim if dim < 0 else dim
        if not 0 <= at < self.ndim:
            raise tensor_error(self, f"a dimension from 0 to {self.ndim - 1}", f"{dim}", "choose one of them")
        return at

    def _at_least(
        self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, dynamic: Dynamic | None
    ) -> NkiTensor:
        least = 2 if self.storage.buffer.on_chip else 1
        while len(shape) < least:
            shape, strides = (*shape, 1), (*strides, 1)
        return self._view(shape, strides, offset, dynamic)

    def _keeps_front(self, moved: bool, what: str) -> None:
        if not moved:
            return
        if self.storage.buffer.on_chip:
            raise tensor_error(
                self,
                f"the partition dimension to stay as it is in {what}",
                f"a {what} through dimension 0",
                "move data between partitions with nisa.nc_transpose or a DMA",
            )
        if self.dynamic is not None and self.dynamic.kind == "vector":
            raise tensor_error(
                self,
                f"the gathered dimension to stay in front in {what}",
                "dimension 0 moved",
                "do it before",
            )

    def _not_indirect(self, dim: int, what: str) -> None:
        if self.dynamic is not None and self.dynamic.kind == "vector" and dim == 0:
            raise tensor_error(
                self, f"a dimension without indirection for {what}", "the indirect one", f"{what} before"
            )

    def _one_dynamic(self, index: object) -> None:
        if self.dynamic is not None:
            raise tensor_error(
                self,
                "one dynamic selection per tensor",
                "a second one",
                "check is_indirect() and copy it first",
            )
        if isinstance(index, NkiTensor) and not (index.storage.buffer.on_chip and index.dtype.is_integer):
            raise tensor_error(
                index,
                "an integer tensor in SBUF as an index",
                f"{index.dtype} in {index.buffer.value}",
                "convert it",
            )
