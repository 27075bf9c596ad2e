"""Block dimensions: ``nl.ndarray((4, nl.par_dim(128), 512), ...)`` is four tiles, each a buffer of its own.

They are a matter of the program only: whether tiles live at the same time is decided by when each is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki.isa.issue import author_error
from twintrack.nki.legacy.indexing import Affine
from twintrack.nki.legacy.tile import Tile
from twintrack.nki.tensor import NKIObject

__all__ = ["Blocks", "ParDim"]


class ParDim(int):
    """``nl.par_dim(n)``: the partition dimension of a shape; an integer everywhere else."""


class Blocks(NKIObject):
    """Tiles by their block indices.

    Args:
        blocks: sizes of the block dimensions.
        tiles: one per block index.
    """

    __slots__ = ("_blocks", "_tiles")

    def __init__(self, blocks: tuple[int, ...], tiles: Mapping[tuple[int, ...], Tile]) -> None:
        self._blocks = blocks
        self._tiles = dict(tiles)

    @property
    def _one(self) -> Tile:
        return next(iter(self._tiles.values()))

    @property
    def shape(self) -> tuple[int, ...]:
        """Block dimensions, then those of a tile."""
        return (*self._blocks, *self._one.shape)

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._one.dtype

    @property
    def buffer(self) -> MemoryRegion:
        """Where the tiles lie."""
        return self._one.buffer

    def __len__(self) -> int:
        return self._blocks[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __repr__(self) -> str:
        return f"Blocks({list(self._blocks)} of {self._one!r})"

    def __getitem__(self, key: Any) -> Any:
        """A tile, or a view of one, where every block dimension is indexed; else the blocks that are left.

        Raises:
            KernelError: for block indices that are neither integers nor slices, or are outside.
        """
        keys = key if isinstance(key, tuple) else (key,)
        at = next((position for position, one in enumerate(keys) if one is Ellipsis), None)
        if at is not None:
            missing = self.ndim - len(keys) + 1
            keys = (*keys[:at], *(slice(None),) * missing, *keys[at + 1 :])
        named, rest = keys[: len(self._blocks)], keys[len(self._blocks) :]
        chosen = [self._indices(dim, one) for dim, one in enumerate(named)]
        chosen += [(range(size), True) for size in self._blocks[len(named) :]]
        if not any(kept for _, kept in chosen):
            tile = self._tiles[tuple([span[0] for span, _ in chosen])]
            return tile[rest] if rest else tile
        if any(not isinstance(one, slice) or one != slice(None) for one in rest):
            raise author_error(
                "an integer for every block dimension before a tile is indexed", f"{key}", "index one tile"
            )
        blocks = tuple([len(span) for span, kept in chosen if kept])
        found: dict[tuple[int, ...], Tile] = {}
        for position in itertools.product(*[range(len(span)) for span, _ in chosen]):
            old = tuple([span[at] for (span, _), at in zip(chosen, position, strict=True)])
            new = tuple([at for (_, kept), at in zip(chosen, position, strict=True) if kept])
            found[new] = self._tiles[old]
        return Blocks(blocks, found)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copy a tile or a number to one tile; a number to several."""
        from twintrack.nki.legacy.copies import assign

        target = self[key]
        if isinstance(target, Tile):
            assign(target, value)
            return
        if isinstance(value, Blocks):
            if value._blocks != target._blocks:
                raise author_error(
                    f"blocks {list(target._blocks)}", f"{list(value._blocks)}", "index them alike"
                )
            for at, tile in target._tiles.items():
                if tile is not value._tiles[at]:
                    assign(tile, value._tiles[at])
            return
        for tile in target._tiles.values():
            assign(tile, value)

    def _indices(self, dim: int, one: Any) -> tuple[range, bool]:
        """The blocks that an index names, and whether their dimension stays."""
        size = self._blocks[dim]
        if isinstance(one, slice):
            span = range(size)[one]
            if span:
                return span, True
        elif isinstance(one, Affine) and not any(one.coefs):
            one = one.const
        if not isinstance(one, slice | Affine):
            try:
                at = int(one.__index__())
            except AttributeError:
                at = size
            at = at + size if at < 0 else at
            if 0 <= at < size:
                return range(at, at + 1), False
        raise author_error(
            f"an integer inside the {size} blocks of dimension {dim}",
            f"{one!r}",
            "index blocks with loop variables",
        )
