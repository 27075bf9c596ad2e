"""Python's search for reference cycles, paused where many small records are made that form none.

A trace keeps several records per instruction. Python looks through all that a process holds whenever their number has
grown by a quarter, and through all that is new when it is asked to search again: a tenth of the time of tracing and
timing (``benchmarks/nki_instructions.py``). What nothing refers to any more is freed as ever, and what was made
meanwhile is looked through with all else, by the next full search.
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
            if not gc.get_freeze_count():  # what a program has frozen stays so
                gc.freeze()  # and thawed again, what is new counts as old: no search begins because of it
                gc.unfreeze()
            gc.enable()
