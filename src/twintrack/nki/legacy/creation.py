"""Tensors made by a kernel until 2.26: with block dimensions, and where direct allocation puts them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import isa
from twintrack.nki.context import current_core
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language import creation, shared
from twintrack.nki.language import random as current_random
from twintrack.nki.legacy.allocation import Placement, Traced
from twintrack.nki.legacy.blocks import Blocks, ParDim
from twintrack.nki.legacy.regions import operand
from twintrack.nki.legacy.tile import Tile, settle
from twintrack.nki.tensor import to_dtype

__all__ = [
    "empty_like",
    "full",
    "ignoring_addresses",
    "ndarray",
    "ones",
    "rand",
    "shared_constant",
    "shared_identity_matrix",
    "zeros",
    "zeros_like",
]

_IGNORING = "nki.legacy ignores addresses"
_TRACED = "nki.legacy addresses"


@contextmanager
def ignoring_addresses() -> Iterator[None]:
    """Tiles of the running core are placed by the compiler until the block ends."""
    state = current_core().state
    before = state.get(_IGNORING, False)
    state[_IGNORING] = True
    try:
        yield
    finally:
        state[_IGNORING] = before


def _placement(buffer: Any) -> Placement | MemoryRegion:
    """What a ``buffer`` argument means: a region, a placement, or one of the modules ``ncc.sbuf`` and ``ncc.psum``."""
    if buffer is None:
        return MemoryRegion.sbuf
    if isinstance(buffer, Placement | MemoryRegion):
        return buffer
    automatic = getattr(buffer, "auto_alloc", None)
    if automatic is not None:
        found = automatic()
        assert isinstance(found, Placement)  # noqa: S101 - our own modules
        return found
    try:
        return MemoryRegion("private_hbm" if buffer == "hbm" else str(buffer))
    except ValueError:
        raise author_error(
            "a memory such as nl.sbuf, nl.psum or nl.shared_hbm, or an allocation of nki.compiler",
            f"buffer={buffer!r}",
            "use one of them",
        ) from None


def ndarray(shape: Sequence[int], dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Any:
    """A new tensor, nothing written to it.

    Args:
        shape: positive sizes; on chip one may be ``nl.par_dim(n)``, and those before it are block dimensions.
        dtype: element type.
        buffer: a memory, or a placement of ``nki.compiler``; SBUF where ``None``.
        name: for messages and profiles.
        **kwargs: ``lazy_initialization``, which published kernels pass and which changes nothing; no other.

    Returns:
        A ``Tile``; with block dimensions, ``Blocks`` of them.

    Raises:
        KernelError: if sizes are not positive or a tile does not fit.
    """
    _no_more("nl.ndarray", kwargs)
    settle()
    placement = _placement(buffer)
    sizes = tuple(shape)
    at = next((dim for dim, size in enumerate(sizes) if isinstance(size, ParDim)), 0)
    region = placement.region if isinstance(placement, Placement) else placement
    if not region.on_chip:
        at = 0
    counts, inner = tuple([int(size) for size in sizes[:at]]), tuple([int(size) for size in sizes[at:]])
    if any(count < 1 for count in counts):
        raise author_error("positive sizes", f"shape {list(sizes)}", "give each dimension a size from 1")

    def make(index: tuple[int, ...]) -> Tile:
        core, address = current_core(), None
        if isinstance(placement, Placement) and not core.state.get(_IGNORING, False):
            size = math.prod(inner[1:]) * to_dtype(dtype).bytes
            traced: Traced = core.state.setdefault(_TRACED, Traced())
            address = traced.address(core, index, partial(placement.address, index, inner[0], size))
        return Tile.of(creation.ndarray(inner, dtype, region, name, address))

    if not counts:
        return make(())
    return Blocks(counts, {index: make(index) for index in itertools.product(*map(range, counts))})


def _no_more(function: str, kwargs: dict[str, Any]) -> None:
    unknown = [key for key in kwargs if key != "lazy_initialization"]
    if unknown:
        raise author_error(
            f"arguments that {function} has", ", ".join(unknown), "leave out what 2.26 does not document"
        )


def _each(made: Any, fill: Callable[[Tile], Any]) -> Any:
    for tile in made._tiles.values() if isinstance(made, Blocks) else (made,):
        fill(tile)
    return made


def full(
    shape: Sequence[int], fill_value: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Any:
    """A new tensor filled with a number; see ``ndarray``. In HBM by way of tiles and DMAs."""
    _no_more("nl.full", kwargs)
    placement = _placement(buffer)
    if isinstance(placement, MemoryRegion) and not placement.on_chip:
        settle()
        return Tile.of(creation.full(tuple(map(int, shape)), fill_value, dtype, placement, name))
    made = ndarray(shape, dtype, buffer=buffer, name=name)
    return _each(made, lambda tile: isa.memset(tile, fill_value))


def zeros(shape: Sequence[int], dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Any:
    """A new tensor of zeros; see ``full``."""
    return full(shape, 0, dtype, buffer=buffer, name=name, **kwargs)


def ones(shape: Sequence[int], dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Any:
    """A new tensor of ones; see ``full``."""
    return full(shape, 1, dtype, buffer=buffer, name=name, **kwargs)


def zeros_like(a: Any, dtype: Any = None, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Any:
    """Zeros of another tensor's shape, and of its type and memory where none are named."""
    like = operand("nl.zeros_like", "a", a)
    kind = like.dtype if dtype is None else dtype
    where = like.buffer if buffer is None else buffer
    return full(like.shape, 0, kind, buffer=where, name=name, **kwargs)


def empty_like(a: Any, dtype: Any = None, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Any:
    """A tensor of another's shape, and of its type and memory where none are named; nothing written to it."""
    like = operand("nl.empty_like", "a", a)
    kind = like.dtype if dtype is None else dtype
    where = like.buffer if buffer is None else buffer
    return ndarray(like.shape, kind, buffer=where, name=name, **kwargs)


def rand(shape: Sequence[int], dtype: Any = DTYPES["float32"], *, buffer: Any = None, name: str = "") -> Tile:
    """A new tile of uniform random numbers from 0 below 1; see the current ``nl.rand``."""
    settle()
    placement = _placement(buffer)
    region = placement.region if isinstance(placement, Placement) else placement
    return Tile.of(current_random.rand(tuple(map(int, shape)), dtype, region, name))


def shared_constant(constant: Any, dtype: Any = None, **kwargs: Any) -> Tile:
    """A tensor in HBM that holds an array, known when the program is loaded; of this type where one is named."""
    _no_more("nl.shared_constant", kwargs)
    return Tile.of(shared.shared_constant(constant, dtype=dtype))  # type: ignore[call-arg]  # as until 2.28


def shared_identity_matrix(n: int, dtype: Any = DTYPES["uint8"], **kwargs: Any) -> Tile:
    """The identity matrix in HBM, to be loaded."""
    import numpy as np

    _no_more("nl.shared_identity_matrix", kwargs)
    return shared_constant(np.eye(int(n), dtype=np.float32), to_dtype(dtype))
