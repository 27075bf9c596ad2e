"""``NkiTensor``: a view of a buffer as a kernel author handles it.

Every method makes another view; none moves data, but for ``__setitem__``, which copies as an assignment to a slice is
documented to. Sizes, strides and offsets are in elements. On chip dimension 0 is the partitions and stays in front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twintrack.neuroncore.isa.instruction import Register
from twintrack.neuroncore.memory.buffer import MemoryRegion, contiguous_strides
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import Dynamic, View
from twintrack.nki.objects import NKIObject
from twintrack.nki.tensor_dynamic import columns_of, keeps_front, pattern_of, rows_of, selected, still_static
from twintrack.nki.tensor_errors import tensor_error, to_dtype, whole, wholes
from twintrack.nki.tensor_index import DynamicSlice, cut_name, index, plain_index, sliced
from twintrack.nki.tensor_refusals import NoArray
from twintrack.nki.tensor_shape import (
    merged_strides,
    rearranged,
    reinterpreted,
    reshaped_strides,
    split_sizes,
    split_strides,
)

if TYPE_CHECKING:
    from types import EllipsisType

__all__ = ["NKIObject", "NkiTensor", "tensor_error", "to_dtype"]


class NkiTensor(NoArray, NKIObject):
    """A tensor in SBUF, PSUM or HBM, or a view of one.

    Args:
        shape: positive sizes.
        dtype: element type.
        storage: its elements.
        buffer: kept for the documented signature; the storage knows where it lies.
        name: kept for the documented signature; the storage knows it.

    Raises:
        KernelError: if shape and type do not fill the storage.
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
        kind, sizes = to_dtype(dtype), tuple(shape)
        View.__init__(self, storage, kind, sizes, contiguous_strides(sizes), 0)
        if self.size * kind.bytes != storage.buffer.bytes:
            raise tensor_error(
                self,
                f"a shape and type of {storage.buffer.bytes} bytes, as the storage has,",
                f"{list(sizes)} of {kind}",
                "use the shape of the buffer",
            )

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
        made._signature = made._cuts = made._array = None
        made._form = 0
        return made

    def __getitem__(self, key: int | slice | EllipsisType | DynamicSlice | tuple[Any, ...]) -> NkiTensor:
        """Select and slice as NumPy does; see ``tensor_index``.

        Raises:
            KernelError: if an index leaves the tensor.
        """
        cuts = self._cuts
        if cuts is None:
            return self._view(*(plain_index(self, key) or index(self, key)))
        name = cut_name(key)
        cut = cuts.get(name)
        if cut is None:
            plain = plain_index(self, key)
            if plain is None or name is None:
                return self._view(*(plain or index(self, key)))
            cut = cuts.remember(name, self._view(*plain))
        made = object.__new__(NkiTensor)  # as _view does, with one call less: slicing is frequent
        made.storage, made.dtype = self.storage, self.dtype
        made.shape, made.strides, made.offset, made._form, made._cuts = cut
        made.dynamic = made._signature = made._array = None
        return made

    def __setitem__(self, key: Any, value: NkiTensor | float) -> None:
        """Copy a tensor, or a number, to a slice: on chip by ``nisa.tensor_copy`` or ``memset``, else by a DMA."""
        from twintrack.nki.assign import assign

        assign(self[key], value)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Elements ``start`` to ``end`` (exclusive) of one dimension, every ``step``-th.

        Raises:
            KernelError: unless ``0 <= start < end <= shape[dim]`` and ``step >= 1``; negative ones count from the end.
        """
        dim = self._dim(dim)
        still_static(self, dim, "slice")
        shape, strides, offset = sliced(self, dim, start, end, step)
        return self._view(shape, strides, offset, self.dynamic)

    def select(self, dim: int, index: int | NkiTensor | Register) -> NkiTensor:
        """One element of a dimension, which is removed; a tensor or register of one index selects at run time.

        Raises:
            KernelError: if it is outside, or a second dynamic selection, or dynamic in the partition dimension.
        """
        dim = self._dim(dim)
        still_static(self, dim, "select")
        shape = self.shape[:dim] + self.shape[dim + 1 :]
        strides = self.strides[:dim] + self.strides[dim + 1 :]
        if not isinstance(index, Register | View):
            at = whole(self, index, "index of select, or a tensor in SBUF or a register")
            at = at + self.shape[dim] if at < 0 else at
            if not 0 <= at < self.shape[dim]:
                raise tensor_error(
                    self,
                    f"an index from 0 below {self.shape[dim]}",
                    f"{index}",
                    "select inside the dimension",
                )
            offset = self.offset + at * self.strides[dim]
            if self.storage.buffer.on_chip and dim == 0:
                return self._view((1, *shape), (self.strides[0], *strides), offset, self.dynamic)
            return self._at_least(shape, strides, offset, self.dynamic)
        return self._at_least(shape, strides, self.offset, selected(self, dim, index))

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Row ``vector_offset[p, 0]`` of dimension 0 for each partition ``p``; HBM only.

        Raises:
            KernelError: for another dimension, on chip, or as a second dynamic selection.
        """
        dynamic = rows_of(self, self._dim(dim), vector_offset)
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
        """An access pattern ``[[stride, count], ...]`` over the whole buffer, whatever shape the view has.

        Args:
            pattern: in elements of ``dtype``.
            offset: first element, counted from the view's own first element.
            scalar_offset: one index at run time, in steps of this tensor's dimension ``indirect_dim``.
            vector_offset: one index per row of dimension 0, in steps of this tensor's dimension 0; HBM only.
            indirect_dim: dimension of this tensor that the index counts in.
            dtype: as which the bits are seen.

        Raises:
            KernelError: if it leaves the buffer, skips partitions on chip, or the index is of another kind.
        """
        kind = self.dtype if dtype is None else to_dtype(dtype)
        shape, strides, start, dynamic = pattern_of(
            self, pattern, offset, scalar_offset, vector_offset, indirect_dim, kind
        )
        return self._view(shape, strides, start, dynamic, kind)

    def view(self, dtype: DType) -> NkiTensor:
        """The same bits as another type; the last dimension grows or shrinks by the ratio of their widths.

        Raises:
            KernelError: if the last dimension is not dense or does not divide, or the address is dynamic.
        """
        kind = to_dtype(dtype)
        shape, strides, offset = reinterpreted(self, kind)
        return self._view(shape, strides, offset, None, kind)

    reinterpret_cast = view

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Dimensions in another order.

        Raises:
            KernelError: unless ``dims`` is a permutation that leaves partitions (or gathered rows) in front.
        """
        order = tuple([dim + self.ndim if dim < 0 else dim for dim in wholes(self, dims, "dims of permute")])
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
        shape[dim], strides[dim] = whole(self, size, "size of broadcast", 1), 0
        return self._view(tuple(shape), tuple(strides), self.offset, self.dynamic)

    def expand_dim(self, dim: int) -> NkiTensor:
        """A new dimension of size 1 at ``dim``."""
        dim = whole(self, dim, "a dimension")
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
        return self._at_least(
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
        return self._view(
            self.shape[:dim] + sizes + self.shape[dim + 1 :],
            self.strides[:dim] + split_strides(self.strides[dim], sizes) + self.strides[dim + 1 :],
            self.offset,
            self.dynamic,
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Dimensions ``start_dim`` to ``end_dim`` (inclusive) as one; they must lie densely."""
        start, end = self._dim(start_dim), self._dim(end_dim)
        if start > end:
            raise tensor_error(self, "start_dim <= end_dim", f"{start} and {end}", "name the first one first")
        self._keeps_front(start == 0 and end > 0, "flatten_dims")
        count, step = merged_strides(self, start, end)
        return self._at_least(
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
        self._keeps_front(sizes[0] != self.shape[0], "reshape")
        return self._at_least(sizes, reshaped_strides(self, sizes), self.offset, self.dynamic)

    def rearrange(
        self,
        src_pattern: tuple[Any, ...],
        dst_pattern: tuple[Any, ...],
        fixed_sizes: dict[str, int] | None = None,
    ) -> NkiTensor:
        """Split, reorder and merge dimensions by name, as einops does."""
        return rearranged(self, src_pattern, dst_pattern, fixed_sizes or {})

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Tensor indirection of NeuronCore-v4: columns of the free axis that ``index`` names.

        The partitions of a group (16; 32 on the Tensor Engine) share their offsets: offset ``i`` of a group is element
        ``[i % group, i // group]`` of the group's rows of the index, which is known as snake order.

        Args:
            index: SBUF, integers, ``(P, K)`` with as many partitions as this tensor.
            num_elem: offsets used; ``index.size`` where ``None``.

        Raises:
            KernelError: on earlier generations, in HBM, for a view that is not dense per partition, or another index.
        """
        count, dynamic = columns_of(self, index, num_elem)
        return self._view((self.shape[0], count), (self.strides[0], 1), self.offset, dynamic)

    # guards

    def _dim(self, dim: int) -> int:
        dim = whole(self, dim, "a dimension")
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
        keeps_front(self, what, moved=moved)
