"""The order of rows, as a function of a seed, with a state that is two numbers.

The permutations come from the raw 64-bit outputs of PCG64 (O'Neill 2014, HMC-CS-2014-0905) seeded through
NumPy's ``SeedSequence``. NumPy keeps the streams of bit generators and of ``SeedSequence`` for good, but not
those of ``Generator`` methods such as ``permutation`` (NEP 19); so the shuffle itself is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from twintrack.errors import CheckpointError

__all__ = ["Sampler", "SamplerState", "Stream", "permutation", "uniform"]


class Stream(IntEnum):
    """What random numbers are for; the first part of every key, so that no two uses share a stream."""

    EPOCH = 1
    SPLIT = 2
    PACKING = 3
    ADAPTER = 4


def _raw(count: int, stream: Stream, key: tuple[int, ...]) -> npt.NDArray[np.uint64]:
    """``count`` 64-bit outputs of PCG64; a part of the key takes two 32-bit words, so that no keys
    collide."""
    words = [word for part in (stream.value, *key) for word in (part & 0xFFFF_FFFF, part >> 32)]
    bits = np.random.PCG64(np.random.SeedSequence(words))
    return np.asarray(bits.random_raw(count), dtype=np.uint64)


def permutation(count: int, stream: Stream, *key: int) -> npt.NDArray[np.int64]:
    """A permutation of ``0 .. count - 1`` that depends on ``stream`` and ``key`` alone, everywhere.

    Indices are sorted by one random 64-bit number each, stably. Each of the ``count!`` orders is equally
    likely but for ties, whose probability is below ``count**2 / 2**65``.

    Args:
        count: how many indices; may be 0.
        stream: what it is for.
        key: integers of at least 0 and below 2**64.
    """
    return np.argsort(_raw(count, stream, key), kind="stable").astype(np.int64)


def uniform(count: int, stream: Stream, *key: int) -> npt.NDArray[np.float32]:
    """``count`` float32 numbers on the grid of 2**-24 in [0, 1), from ``stream`` and ``key`` alone."""
    return ((_raw(count, stream, key) >> np.uint64(40)).astype(np.float32)) * np.float32(2.0**-24)


class SamplerState(TypedDict):
    """All that decides which rows come next; plain JSON."""

    num_rows: int
    seed: int
    epoch: int
    position: int


class Sampler:
    """Hands out row indices for ever: every epoch is a permutation of all rows, made from ``(seed, epoch)``.

    A batch may reach over the end of an epoch, so that no row is left out and every batch is full.
    """

    def __init__(self, num_rows: int, seed: int) -> None:
        if num_rows < 1:
            raise ValueError(f"a sampler needs at least one row, got {num_rows}")
        if not 0 <= seed < 2**64:
            raise ValueError(f"a seed must lie in 0 .. 2**64 - 1, got {seed}")
        self._num_rows = num_rows
        self._seed = seed
        self._epoch = 0
        self._position = 0
        self._order = permutation(num_rows, Stream.EPOCH, seed, 0)

    def next(self, count: int) -> tuple[int, ...]:
        """The next ``count`` row indices.

        Raises:
            ValueError: if ``count`` is below 1.
        """
        if count < 1:
            raise ValueError(f"at least one row must be asked for, got {count}")
        rows: list[int] = []
        while len(rows) < count:
            if self._position == self._num_rows:
                self._epoch += 1
                self._position = 0
                self._order = permutation(self._num_rows, Stream.EPOCH, self._seed, self._epoch)
            stop = min(self._num_rows, self._position + count - len(rows))
            rows += self._order[self._position : stop].tolist()
            self._position = stop
        return tuple(rows)

    @property
    def state(self) -> SamplerState:
        """The whole state; ``from_state`` continues with exactly the rows that would have come."""
        return SamplerState(
            num_rows=self._num_rows, seed=self._seed, epoch=self._epoch, position=self._position
        )

    @classmethod
    def from_state(cls, state: SamplerState | Mapping[str, object]) -> Sampler:
        """A sampler that continues where ``state`` was taken.

        Raises:
            CheckpointError: if the state is not one that a sampler gave.
        """
        names = ("num_rows", "seed", "epoch", "position")
        values = [state.get(name) for name in names]
        whole = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
        legal = set(state) == set(names) and len(whole) == len(names)
        if not legal or not _in_range(*whole):
            raise CheckpointError(
                "num_rows, seed, epoch and position of a sampler",
                found=repr(dict(state)),
                where="data position",
                remedy="resume from another checkpoint",
            )
        num_rows, seed, epoch, position = whole
        sampler = cls(num_rows, seed)
        sampler._epoch = epoch
        sampler._position = position
        sampler._order = permutation(num_rows, Stream.EPOCH, seed, epoch)
        return sampler


def _in_range(num_rows: int, seed: int, epoch: int, position: int) -> bool:
    return num_rows >= 1 and 0 <= seed < 2**64 and epoch >= 0 and 0 <= position <= num_rows
