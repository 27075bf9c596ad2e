"""Python's search for reference cycles, paused where many small records are made that form none.

A trace keeps several records per instruction. Python looks through all that a process holds whenever their number has
grown by a quarter, which took a twentieth of the time of tracing and timing (``benchmarks/nki_instructions.py``).
What nothing refers to any more is freed as ever.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected(*, wanted: bool = True) -> Iterator[None]:
    """No search for cycles in this process until the block ends, where there would be one.

    Args:
        wanted: whether to pause it.
    """
    pause = wanted and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()
