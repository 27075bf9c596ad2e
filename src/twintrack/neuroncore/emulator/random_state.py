"""Pseudo-random generators of the Vector and GpSimd Engines: a state in, a state and bits out.

Documented (``nki.isa.rand_set_state``, ``trainium3_arch.rst`` of the AWS Neuron documentation): XORWOW with six words
for each of 128 compute lanes on GpSimd (NeuronCore-v3 and later), four such states a lane on the Vector Engine of
NeuronCore-v4, and a generator of the kind "LFSR" on earlier Vector Engines, seeded by one 32-bit word.

Our choices, where that is silent: XORWOW is that of Marsaglia ("Xorshift RNGs", Journal of Statistical Software 8,
2003), its words in the order x, y, z, w, v, d; the earlier generator is xorshift128 of the same paper, which is linear
over the bits as any LFSR is; a seed becomes words by SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014); a generator that nobody seeded is that of seed 0; of four states in a lane, state
``i % 4`` gives element ``i`` of an instruction, and all four step together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = [
    "LANES",
    "GeneratorKind",
    "GeneratorState",
    "draw",
    "generator_kind",
    "low_bits",
    "read_words",
    "seeded",
    "uniform",
    "write_words",
]

Words = npt.NDArray[np.uint32]

LANES = 128
"""Compute lanes of an engine, one for each partition."""

_XORWOW_WEYL = np.uint32(362437)
_GAMMA = 0x9E37_79B9_7F4A_7C15


@dataclass(frozen=True, slots=True)
class GeneratorKind:
    """Which generator an engine has.

    Args:
        algorithm: ``xorwow`` (five words and a counter) or ``xorshift128`` (four words).
        streams: independent states in each lane.
    """

    algorithm: Literal["xorwow", "xorshift128"]
    streams: int

    @property
    def history(self) -> int:
        """Words of one state that are shifted along."""
        return 5 if self.algorithm == "xorwow" else 4

    @property
    def words(self) -> int:
        """Words of one state."""
        return 6 if self.algorithm == "xorwow" else 4

    @property
    def lane_words(self) -> int:
        """Words of all states of a lane: what ``rand_get_state`` stores for a partition."""
        return self.words * self.streams


@dataclass(frozen=True, slots=True, eq=False)
class GeneratorState:
    """The states of all lanes of an engine.

    Args:
        kind: of generator.
        words: shape ``(128, streams, words)``, read-only.
    """

    kind: GeneratorKind
    words: Words

    def __post_init__(self) -> None:
        self.words.setflags(write=False)


def generator_kind(engine: Literal["vector", "gpsimd"], generation: int) -> GeneratorKind:
    """The generator of an engine in NeuronCore-v2, 3 or 4.

    Raises:
        KeyError: if that engine has none.
    """
    if engine == "vector" and generation >= 2:
        return GeneratorKind("xorwow", 4) if generation >= 4 else GeneratorKind("xorshift128", 1)
    if engine == "gpsimd" and generation >= 3:
        return GeneratorKind("xorwow", 1)
    raise KeyError((engine, generation))


def seeded(kind: GeneratorKind, seed: int) -> GeneratorState:
    """All lanes from one 32-bit seed (``nki.isa.set_rng_seed``); lanes and streams start differently.

    Raises:
        ValueError: if the seed is outside ``[0, 2**32)``.
    """
    if not 0 <= seed < 1 << 32:
        raise ValueError(f"a seed must lie in [0, 2**32), got {seed}")
    count = LANES * kind.lane_words
    # SplitMix64 started at the seed's place of a stream of its own, so that near seeds share no words
    start = int(_mix(np.array([seed], dtype=np.uint64) + np.uint64(_GAMMA))[0])
    counters = np.arange(1, count // 2 + 1, dtype=np.uint64) * np.uint64(_GAMMA) + np.uint64(start)
    words = _mix(counters).astype("<u8", copy=False).view("<u4").astype(np.uint32)
    return GeneratorState(kind, words.reshape(LANES, kind.streams, kind.words))


def read_words(state: GeneratorState, lane: int, lanes: int) -> Words:
    """The states of some lanes (``nki.isa.rand_get_state``).

    Args:
        lane: the first one.
        lanes: how many.

    Returns:
        shape ``(lanes, lane_words)``: the words of stream 0, then of stream 1 and so on.
    """
    return state.words[lane : lane + lanes].reshape(lanes, state.kind.lane_words).copy()


def write_words(state: GeneratorState, lane: int, words: Words) -> GeneratorState:
    """With the states of some lanes replaced by given words, taken as they are (``nki.isa.rand_set_state``).

    Args:
        lane: the first one.
        words: shape ``(lanes, lane_words)`` as ``read_words`` gives it.

    Raises:
        ValueError: if a lane is given another number of words, or lanes that do not exist.
    """
    if words.ndim != 2 or words.shape[1] != state.kind.lane_words or not 0 <= lane <= LANES - len(words):
        raise ValueError(
            f"{state.kind} takes {state.kind.lane_words} words a lane, got {words.shape} at {lane}"
        )
    changed = state.words.copy()
    changed[lane : lane + len(words)] = words.reshape(len(words), state.kind.streams, state.kind.words)
    return GeneratorState(state.kind, changed)


def draw(state: GeneratorState, lane: int, lanes: int, count: int) -> tuple[GeneratorState, Words]:
    """The next 32-bit words of some lanes; the others stay where they are.

    Args:
        lane: the first one.
        lanes: how many.
        count: words for each lane.

    Returns:
        The state after it, and the words, shape ``(lanes, count)``.
    """
    kind = state.kind
    steps = -(-count // kind.streams)
    part = state.words[lane : lane + lanes].reshape(lanes * kind.streams, kind.words).T
    history = _advance(kind, part[: kind.history], steps)
    output = history[kind.history :]
    after = history[steps:]
    if kind.algorithm == "xorwow":
        weyl = part[5] + np.arange(steps + 1, dtype=np.uint32)[:, None] * _XORWOW_WEYL
        output = output + weyl[1:]
        after = np.concatenate([after, weyl[-1:]])
    changed = state.words.copy()
    changed[lane : lane + lanes] = after.T.reshape(lanes, kind.streams, kind.words)
    bits = output.reshape(steps, lanes, kind.streams).transpose(1, 0, 2).reshape(lanes, steps * kind.streams)
    return GeneratorState(kind, changed), np.ascontiguousarray(bits[:, :count])


def uniform(bits: Words) -> npt.NDArray[np.float32]:
    """Multiples of ``2**-24`` in ``[0, 1)``, from the upper 24 bits of each word, exactly."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def low_bits(bits: Words, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The least significant bits of each word as an integer type: what ``nki.isa.rng`` writes."""
    return bits.astype(np.dtype(f"u{dtype.itemsize}")).view(dtype)


def _advance(kind: GeneratorKind, start: Words, steps: int) -> Words:
    """The last words and ``steps`` new ones, shape ``(history + steps, n)``.

    Both generators are ``new = last ^ shift(last) ^ f(oldest)``; ``f`` of as many words as the history holds is
    computed at once.
    """
    back = kind.history
    words = np.empty((back + steps, start.shape[1]), dtype=np.uint32)
    words[:back] = start
    for first in range(0, steps, back):
        size = min(back, steps - first)
        old = words[first : first + size]
        if kind.algorithm == "xorwow":
            fed = old ^ (old >> np.uint32(2))
            fed ^= fed << np.uint32(1)
        else:
            fed = old ^ (old << np.uint32(11))
            fed ^= fed >> np.uint32(8)
        for i in range(size):
            last = words[back + first + i - 1]
            shifted = last << np.uint32(4) if kind.algorithm == "xorwow" else last >> np.uint32(19)
            shifted ^= last
            np.bitwise_xor(shifted, fed[i], out=words[back + first + i])
    return words


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The output function of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return z ^ (z >> np.uint64(31))
