"""``Tile``: a tensor of the dialect until 2.26, with index expressions, operators, and results that come late.

What an operation returns is a tile like any other, but for two: the product of a matrix multiplication and the value of
``nl.loop_reduce`` are *late*: their instruction is issued when the tile is first used, or before the next operation.
So ``psum += nisa.nc_matmul(...)`` accumulates in PSUM, as documented, and makes no tile of its own.
"""

from __future__ import annotations

from typing import Any, Protocol

from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.view import Dynamic
from twintrack.nki.context import current_core
from twintrack.nki.isa.issue import author_error
from twintrack.nki.legacy.access import Indirect, Limit, is_advanced, select
from twintrack.nki.legacy.indexing import Affine, Grid, Predicate
from twintrack.nki.legacy.masks import regions
from twintrack.nki.tensor import NkiTensor, tensor_error, to_dtype

__all__ = ["Late", "Tile", "settle"]

_LATE = "nki.legacy late"


class Late(Protocol):
    """The operation of a late result."""

    shape: tuple[int, ...]
    dtype: DType

    def make(self) -> NkiTensor:
        """Issue it into a tile of its own."""

    def add_to(self, target: Tile) -> bool:
        """Issue it so that it adds to a tile; ``False`` if it cannot."""

    def put_in(self, target: Tile) -> bool:
        """Issue it so that its value is in this view; ``False`` if it cannot."""


class Tile(NkiTensor):
    """A tensor, or a view of one, as kernels until 2.26 handle it."""

    __slots__ = ("_late", "_limits")

    _late: Late | None
    _limits: tuple[Limit, ...]

    @classmethod
    def of(cls, tensor: NkiTensor) -> Tile:
        """The same view as a tile."""
        if isinstance(tensor, Tile):
            return tensor
        made = object.__new__(cls)
        made._late, made._limits = None, ()
        made._take(tensor)
        return made

    @classmethod
    def later(cls, late: Late) -> Tile:
        """The result of an operation that is not issued yet."""
        made = object.__new__(cls)
        made._late, made._limits = late, ()
        made.shape, made.dtype = late.shape, late.dtype
        settle()
        current_core().state[_LATE] = made
        return made

    def _take(self, tensor: NkiTensor) -> None:
        self.storage, self.dtype, self.shape = tensor.storage, tensor.dtype, tensor.shape
        self.strides, self.offset, self.dynamic = tensor.strides, tensor.offset, tensor.dynamic
        self._signature = self._cuts = self._array = None
        self._form = 0

    def __getattr__(self, name: str) -> Any:
        """What a late result lacks until its instruction is issued."""
        if name.startswith("__") or name in ("_late", "_limits") or self._late is None:
            raise AttributeError(f"a tensor has no '{name}'")
        self.settled()
        return getattr(self, name)

    def settled(self) -> Tile:
        """Itself, once its instruction is issued.

        Raises:
            KernelError: if the result was accumulated elsewhere, and so is no tile.
        """
        late, self._late = self._late, None
        if late is not None:
            core = current_core()
            if core.state.get(_LATE) is self:
                del core.state[_LATE]
            self._take(late.make())
        return self

    def taken_by(self, target: Tile, how: str) -> bool:
        """Whether a late result goes into another tile, instead of one of its own.

        Args:
            target: the other.
            how: ``add_to`` or ``put_in`` of ``Late``.
        """
        late = self._late
        if late is None:
            return False
        state = current_core().state
        waiting = state.pop(_LATE, None)  # its instruction is the one that is issued now
        if getattr(late, how)(target):
            self._late = _Spent(self.shape, self.dtype)
            return True
        if waiting is not None:
            state[_LATE] = waiting
        return False

    def _view(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        dynamic: Dynamic | None = None,
        dtype: DType | None = None,
    ) -> Tile:
        made = super()._view(shape, strides, offset, dynamic, dtype)
        assert isinstance(made, Tile)  # noqa: S101 - a view is of its tensor's class
        made._late, made._limits = None, ()
        return made

    # indexing

    def __getitem__(self, key: Any) -> Tile:
        """A view: integers and slices as everywhere, index expressions and tiles of indices as in ``access``.

        A predicate takes the part of the tile where it holds ("operand masking").

        Raises:
            KernelError: if an index leaves the tensor; for expressions, when an instruction uses the view.
        """
        keys = key if isinstance(key, tuple) else tuple(key) if isinstance(key, Grid) else (key,)
        if len(keys) == 1 and isinstance(keys[0], Predicate):
            return self._where(keys[0])
        if self._limits:
            raise tensor_error(
                self, "an index inside the tensor before it is indexed again", f"{key}", "index once"
            )
        if is_advanced(self, keys):
            return select(self, keys)
        made = super().__getitem__(key)
        assert isinstance(made, Tile)  # noqa: S101
        return made

    def _where(self, predicate: Predicate) -> Tile:
        found = regions(predicate, self.shape)
        if len(found) != 1:
            raise tensor_error(
                self, "a predicate that leaves one rectangle", f"{len(found)}", "compare one axis at a time"
            )
        offset = self.offset + sum(a * step for (a, _), step in zip(found[0], self.strides, strict=True))
        return self._view(tuple([b - a for a, b in found[0]]), self.strides, offset, self.dynamic)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copy a tile, or a number, to a view: an instruction of its own, but for what is late."""
        from twintrack.nki.legacy.copies import assign

        assign(self[key], value)

    # the documented methods

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.bytes

    def assert_shape(self, shape: Any) -> Tile:
        """Itself, if it has this shape.

        Raises:
            KernelError: if it has another.
        """
        if self.shape != tuple(shape):
            raise tensor_error(self, f"shape {list(shape)}", f"{list(self.shape)}", "pass another tensor")
        return self

    def astype(self, dtype: Any) -> Tile:
        """A copy as another type."""
        from twintrack.nki.legacy.copies import copied

        return copied(self, to_dtype(dtype))

    def broadcast_to(self, shape: Any) -> Tile:
        """A view in which free dimensions of size 1 are repeated; a copy where partitions are."""
        from twintrack.nki.legacy.copies import repeated

        return repeated("broadcast_to", self, tuple(shape))

    def expand_dims(self, axis: int) -> Tile:
        """A view with a dimension of size 1 at this position."""
        made = self.expand_dim(axis)
        assert isinstance(made, Tile)  # noqa: S101
        return made

    # operators

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Affine):
            return Indirect(self, other)
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.__add__(other) if isinstance(other, Affine) else _binary("add", other, self)

    def __sub__(self, other: Any) -> Tile:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Tile:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Tile:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Tile:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Tile:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tile:
        return _binary("divide", other, self)

    def __pow__(self, other: Any) -> Tile:
        return _binary("power", self, other)

    def __and__(self, other: Any) -> Tile:
        return _binary("bitwise_and", self, other)

    def __or__(self, other: Any) -> Tile:
        return _binary("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Tile:
        return _binary("bitwise_xor", self, other)

    def __lshift__(self, other: Any) -> Tile:
        return _binary("left_shift", self, other)

    def __rshift__(self, other: Any) -> Tile:
        return _binary("right_shift", self, other)

    def __lt__(self, other: Any) -> Tile:
        return _binary("less", self, other)

    def __le__(self, other: Any) -> Tile:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Tile:
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> Tile:
        return _binary("greater_equal", self, other)

    def __neg__(self) -> Tile:
        return _binary("multiply", self, -1)

    def __iadd__(self, other: Any) -> Tile:
        """Add in place; a product of matrices accumulates in PSUM."""
        if isinstance(other, Tile) and other.taken_by(self.settled(), "add_to"):
            return self
        return _binary("add", self, other, target=self)

    def __isub__(self, other: Any) -> Tile:
        return _binary("subtract", self, other, target=self)

    def __imul__(self, other: Any) -> Tile:
        return _binary("multiply", self, other, target=self)

    def __itruediv__(self, other: Any) -> Tile:
        return _binary("divide", self, other, target=self)

    __array_ufunc__ = None  # type: ignore[assignment]  # NumPy scalars leave arithmetic to this class


class _Spent:
    """What is left of a late result that was accumulated."""

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype

    def make(self) -> NkiTensor:
        raise author_error(
            "a result that is used once where it is accumulated with +=",
            f"a second use of the {list(self.shape)} result",
            "assign it to a tile first, or compute it again",
        )

    def add_to(self, target: Tile) -> bool:
        del target
        self.make()
        return False

    put_in = add_to


def _binary(op: str, x: Any, y: Any, target: Tile | None = None) -> Tile:
    from twintrack.nki.legacy.elementwise import binary

    return binary(op, x, y, target=target)


def settle() -> None:
    """Issue the late result, if there is one: what comes next must come after it."""
    waiting = current_core().state.get(_LATE)
    if waiting is not None:
        waiting.settled()
