"""Late results: products of matrices, which ``+=`` accumulates in PSUM, and ``nl.loop_reduce``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES, DType
from twintrack.nki import isa
from twintrack.nki.context import current_core
from twintrack.nki.isa.issue import author_error, flag, op_name
from twintrack.nki.language import matrix
from twintrack.nki.language.traced_index import is_traced
from twintrack.nki.legacy.copies import reachable
from twintrack.nki.legacy.grid import LoopIndex
from twintrack.nki.legacy.masks import regions, whole
from twintrack.nki.legacy.regions import fresh, in_sbuf, kind_of, on_chip, over, undefined
from twintrack.nki.legacy.tile import Tile

__all__ = ["Product", "loop_reduce", "matmul", "nc_matmul"]

_FLOAT32 = DTYPES["float32"]
_REDUCTIONS = "nki.legacy loop_reduce"


class Product:
    """``stationary.T @ moving``, not issued yet.

    Args:
        stationary: ``(K, M)`` in SBUF.
        moving: ``(K, N)`` in SBUF.
        options: other arguments of ``nisa.nc_matmul``.
        mask: over the axes K, M and N, or over K alone.
    """

    def __init__(self, stationary: Tile, moving: Tile, options: dict[str, Any], mask: Any) -> None:
        self.stationary = stationary
        self.moving = moving
        self.options = options
        self.mask = mask
        self.paired = str(options.get("perf_mode", "none")).rpartition(".")[2] != "none"
        columns = stationary.free_size // 2 if self.paired else stationary.free_size
        free = moving.shape[2:] if self.paired else moving.shape[1:]
        self.shape = (columns, *free) if len(free) else (columns, 1)
        transposed = bool(options.get("is_transpose"))
        self.dtype = stationary.dtype if transposed else _FLOAT32

    def make(self) -> Tile:
        """Issue it into a new tile in PSUM."""
        made = fresh(self.shape, self.dtype, MemoryRegion.psum)
        if self.mask is not None and self._left() != [whole(self._axes())]:
            undefined(made)
        self._issue(made, accumulate=False)
        return made

    def add_to(self, target: Tile) -> bool:
        """Accumulate onto a tile in PSUM."""
        if target.buffer is not MemoryRegion.psum or target.shape != self.shape:
            return False
        found = target.storage.written.touches(target.pattern())
        if not found and self.mask is not None and not self._left():
            undefined(target)  # it may be read, as all that a mask leaves out
        # the first product overwrites what nothing wrote
        self._issue(target, accumulate=True if found else None)
        return True

    def put_in(self, target: Tile) -> bool:
        """Write a view in PSUM."""
        if target.buffer is not MemoryRegion.psum or target.shape != self.shape or target._limits:
            return False
        self._issue(target, accumulate=False)
        return True

    def _axes(self) -> tuple[int, ...]:
        return (self.stationary.shape[0], self.stationary.free_size, self.moving.free_size)

    def _left(self) -> list[Any]:
        """What a mask leaves of K, M and N; one of two axes names K only, as the second would be ambiguous."""
        k, m, n = self._axes()
        comparisons = getattr(self.mask, "comparisons", ())
        if any(len(one.expression.shape) > 2 for one in comparisons):
            return list(regions(self.mask, (k, m, n)))
        if any(any(one.expression.aligned(2)[1:]) for one in comparisons):
            raise author_error(
                "a mask over the axes K, M and N of nisa.nc_matmul",
                "one over the free axis of both operands",
                "index the operands with predicates, or compare expressions over three axes",
            )
        return [(found[0], (0, m), (0, n)) for found in regions(self.mask, (k, 1))]

    def _issue(self, dst: Tile, *, accumulate: bool | None) -> None:
        options = {**self.options, "accumulate": accumulate}
        if self.mask is None:
            over(None, (1,), [], lambda: isa.nc_matmul(dst, self.stationary, self.moving, **options))
            return
        for k, m, n in self._left():
            parts = (
                _cut(dst, m, n) if (m, n) != ((0, dst.shape[0]), (0, dst.free_size)) else dst,
                _cut(self.stationary, k, m),
                _cut(self.moving, k, n),
            )
            over(None, (1,), [], lambda parts=parts: isa.nc_matmul(*parts, **options))


def _cut(tile: Tile, rows: tuple[int, int], columns: tuple[int, int]) -> Tile:
    if tile.ndim != 2:
        raise author_error(
            "operands of two dimensions where nisa.nc_matmul is masked",
            f"shape {list(tile.shape)}",
            "slice them",
        )
    return tile[slice(*rows), slice(*columns)]


def nc_matmul(
    stationary: Any,
    moving: Any,
    *,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: Sequence[int] = (),
    tile_size: Sequence[int] = (),
    mask: Any = None,
    perf_mode: Any = "none",
    name: str | None = None,
) -> Tile:
    """``stationary.T @ moving`` in PSUM, float32; ``psum += nisa.nc_matmul(...)`` accumulates.

    Args:
        stationary: SBUF, ``(K, M)``.
        moving: SBUF, ``(K, N)``.
        is_stationary_onezero: as of the current ``nisa.nc_matmul``, as are the next four.
        is_moving_onezero: see there.
        is_transpose: see there.
        tile_position: see there.
        tile_size: see there.
        mask: a predicate over the axes K, M, N, or over K alone.
        perf_mode: ``double_row`` or, as in kernels of 2.26, ``double_row_gen3``.
        name: for messages and profiles.

    Raises:
        KernelError: as the current one, where the product is used.
    """
    mode = str(getattr(perf_mode, "name", perf_mode))
    for each, value in (("tile_position", tile_position), ("tile_size", tile_size)):
        if not isinstance(value, list | tuple):  # the product is late: it would be told elsewhere
            raise author_error(
                f"two whole numbers as {each} of nisa.nc_matmul", repr(value)[:80], "write (row, column)"
            )
    options = {
        "is_stationary_onezero": flag("is_stationary_onezero", is_stationary_onezero),
        "is_moving_onezero": flag("is_moving_onezero", is_moving_onezero),
        "is_transpose": is_transpose,
        "tile_position": tile_position,
        "tile_size": tile_size,
        "perf_mode": "double_row" if mode == "double_row_gen3" else mode,
        "name": name,
    }
    left = _whole(in_sbuf("nisa.nc_matmul", "stationary", stationary))
    right = _whole(in_sbuf("nisa.nc_matmul", "moving", moving))
    return Tile.later(Product(left, right, options, mask))


def _whole(tile: Tile) -> Tile:
    """The tile, its index expressions checked."""
    found: list[Tile] = []
    over(None, tile.shape, [tile], found.append)
    return found[0]


def matmul(x: Any, y: Any, *, transpose_x: bool = False, mask: Any = None) -> Tile:
    """``x @ y``, or ``x.T @ y`` where ``x`` is transposed already; float32 in PSUM, and late as ``nc_matmul``.

    Args:
        x: ``(M, K)``, which the Tensor Engine transposes first; ``(K, M)`` with ``transpose_x``.
        y: ``(K, N)``.
        transpose_x: whether ``x`` is ``(K, M)``.
        mask: see ``nc_matmul``.

    Raises:
        KernelError: as ``nc_matmul``.
    """
    left, right = _whole(on_chip("nl.matmul", "x", x)), reachable(_whole(on_chip("nl.matmul", "y", y)))
    if not transpose_x:
        left = Tile.of(matrix.transpose(left))
    return nc_matmul(reachable(left), right, mask=mask)


class _Reduced:
    """``nl.loop_reduce``, not issued yet: combined with what is assigned to, or else with earlier iterations."""

    def __init__(self, x: Tile, op: str, dtype: DType, key: Any, mask: Any, *, first: bool) -> None:
        self.x = x
        self.op = op
        self.key = key
        self.mask = mask
        self.first = first
        self.shape = x.shape
        self.dtype = dtype

    def make(self) -> Tile:
        """Combine with the tile of the earlier iterations, which the first iteration makes."""
        held: dict[Any, Tile] = current_core().state.setdefault(_REDUCTIONS, {})
        if self.first or self.key not in held:
            made = held[self.key] = fresh(self.shape, self.dtype)
            over(self.mask, self.shape, [made, self.x], isa.tensor_copy, made)
        else:
            made = held[self.key]
            self._combine(made)
        return made

    def add_to(self, target: Tile) -> bool:
        del target
        return False

    def put_in(self, target: Tile) -> bool:
        """Combine with what a view holds, as documented; where nothing was written, the first iteration copies."""
        if target.shape != self.shape:
            return False
        if self.first and not target.storage.written.touches(target.pattern()):
            over(self.mask, self.shape, [target, self.x], isa.tensor_copy)
        else:
            self._combine(target)
        return True

    def _combine(self, target: Tile) -> None:
        issue: Callable[[Tile, Tile], Any] = lambda dst, x: isa.tensor_tensor(dst, dst, x, self.op)  # noqa: E731
        over(self.mask, self.shape, [target, self.x], issue)


def loop_reduce(
    x: Any, op: Any, loop_indices: Any, *, dtype: Any = None, mask: Any = None, name: str | None = None
) -> Tile:
    """Combine a tile with the earlier iterations of loops.

    ``b[...] = nl.loop_reduce(x, op, [k])`` is ``b[...] = b[...] <op> x``, as documented. Bound to a name, which cannot
    be seen, the first iteration copies ``x``: so ``b`` must have held what does not change it, as zeros do a sum.

    Args:
        x: a tile.
        op: an operator such as ``np.add``.
        loop_indices: one index of ``nl.affine_range`` or several.
        dtype: of the result; that of ``x`` where ``None``.
        mask: what of it is computed.
        name: for messages and profiles.
    """
    del name
    tile = _whole(on_chip("nl.loop_reduce", "x", x))
    indices = loop_indices if isinstance(loop_indices, list | tuple) else (loop_indices,)
    loops = [one for one in indices if type(one) is LoopIndex or is_traced(one)]
    reduced = {one.loop for one in loops}
    core = current_core()
    frame = core.author()
    around = tuple([(at, one.iteration) for at, one in enumerate(core.loops) if one.loop not in reduced])
    key = (frame.f_code, frame.f_lasti, around)
    first = all(one.first for one in loops)
    return Tile.later(_Reduced(tile, op_name(op), kind_of(dtype, tile.dtype), key, mask, first=first))
