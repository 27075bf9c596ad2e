"""No floating-point warnings from arithmetic: the engines give none.

Entering ``numpy.errstate`` takes as long as a small instruction's arithmetic, so a run enters it once, by ``quiet``;
functions that may be called outside a run say ``with silent():``, which costs next to nothing inside one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

import numpy as np

__all__ = ["quiet", "silent"]

_QUIET: ContextVar[bool] = ContextVar("twintrack.neuroncore.quiet", default=False)


class _Already:
    """A block in a run that is quiet already."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> None:
        return None


_ALREADY = _Already()


@contextmanager
def quiet() -> Iterator[None]:
    """NumPy warns of no overflow, division by zero or NaN in this thread until the block ends."""
    token = _QUIET.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _QUIET.reset(token)


def silent() -> AbstractContextManager[None]:
    """``quiet`` for one block, where no run has made it so."""
    return _ALREADY if _QUIET.get() else np.errstate(all="ignore")
