"""Random bits that depend on a seed and a counter, and on nothing else.

Philox 4x64-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with the
key ``(seed, counter)``: every pair names its own stream, so that an operator's bits do not depend on what
ran before it, on threads, or on any global generator, and a resumed run finds them again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["random_words"]

_LIMIT = 1 << 64


def random_words(seed: int, counter: int, count: int, *, bits: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The first ``count`` words of stream ``(seed, counter)``, each uniform over ``bits`` bits.

    A longer request starts with the words of a shorter one.

    Returns:
        shape ``(count,)``; uint16 for ``bits=16``, uint32 for ``bits=32``.

    Raises:
        ValueError: if seed or counter is outside ``[0, 2**64)``, or ``bits`` is neither 16 nor 32.
    """
    if not (0 <= seed < _LIMIT and 0 <= counter < _LIMIT):
        raise ValueError(f"seed and counter must lie in [0, 2**64), got {seed} and {counter}")
    if bits not in (16, 32):
        raise ValueError(f"bits must be 16 or 32, got {bits}")
    per_word = 64 // bits
    philox = np.random.Philox(key=np.array([seed, counter], dtype=np.uint64))
    raw = philox.random_raw(-(-count // per_word)).astype("<u8", copy=False)
    return raw.view("<u2" if bits == 16 else "<u4")[:count]
