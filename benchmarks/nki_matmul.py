"""A bfloat16 matmul on the software NeuronCore, in NumPy float32 matmuls: ``python benchmarks/nki_matmul.py``.

Three ratios, each a median of pairs that were measured in turn on one thread, in CPU seconds: 1024^3 with ``fast``
checks against NumPy, 4096^3 (8,192 matrix instructions) likewise, and 1024^3 with ``all`` checks against ``fast``. Ends
with exit code 1 where one is over its limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from _nki import bf16_operands, matmul, pairs_of
from _one_thread import one_thread
from _pairs import line, median_ratio, verdict
from twintrack import nki
from twintrack.neuroncore.emulator.core import Checks

SMALL, SMALL_PAIRS, SMALL_LIMIT = 1024, 9, 10.0
LARGE, LARGE_PAIRS, LARGE_LIMIT = 4096, 3, 3.0
CHECKS_PAIRS, CHECKS_LIMIT = 9, 3.0


def works(size: int) -> tuple[Callable[[], object], Callable[[], object], Callable[[], object]]:
    """The matmul with ``fast`` and with ``all`` checks, and NumPy's in float32, on the same numbers."""
    lhs_t, rhs = bf16_operands(size)
    wide_t, wide = lhs_t.astype(np.float32), rhs.astype(np.float32)
    fast = nki.simulate(matmul).with_options(checks=Checks.FAST)
    everything = nki.simulate(matmul).with_options(checks=Checks.ALL)
    return lambda: fast(lhs_t, rhs), lambda: everything(lhs_t, rhs), lambda: wide_t.T @ wide


def compare(
    names: tuple[str, str], works: tuple[Callable[[], object], Callable[[], object]], pairs: int, limit: float
) -> bool:
    """Print medians of both and whether their ratio keeps the limit."""
    found = pairs_of(*works, pairs)
    for name, column in zip(names, zip(*found, strict=True), strict=True):
        print(line(name, [1e3 * each for each in column], "ms"))
    text, kept = verdict(f"{names[0]} / {names[1]}", median_ratio(found), limit, at_most=True)
    print(text, flush=True)
    return kept


def main() -> int:
    """Print the figures and whether the ratios keep their limits."""
    one_thread()
    fast, everything, reference = works(SMALL)
    kept = [compare((f"{SMALL}^3 fast", "NumPy float32"), (fast, reference), SMALL_PAIRS, SMALL_LIMIT)]
    kept.append(
        compare((f"{SMALL}^3 all", f"{SMALL}^3 fast"), (everything, fast), CHECKS_PAIRS, CHECKS_LIMIT)
    )
    fast, _, reference = works(LARGE)
    kept.append(compare((f"{LARGE}^3 fast", "NumPy float32"), (fast, reference), LARGE_PAIRS, LARGE_LIMIT))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
