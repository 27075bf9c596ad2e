"""Which core the kernel that is running belongs to.

Functions such as ``nl.ndarray`` take no core, so the running one is found in a context variable. It is set for the
time of a kernel's run only, and each thread of a many-core run has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.emulator.quiet import quiet

__all__ = ["current_core", "is_running", "running"]

_CORE: ContextVar[Core] = ContextVar("twintrack.nki.core")


def current_core() -> Core:
    """The core whose kernel is running.

    Raises:
        KernelError: outside a kernel.
    """
    core = _CORE.get(None)
    if core is None:
        raise KernelError(
            "an NKI function called by a kernel",
            found="no kernel running",
            where="nki",
            remedy="call it inside a function run by nki.simulate or decorated with nki.jit",
        )
    return core


def is_running() -> bool:
    """Whether a kernel runs in this thread."""
    return _CORE.get(None) is not None


@contextmanager
def running(core: Core) -> Iterator[Core]:
    """This core's kernel runs in this thread until the block ends; its arithmetic gives no warnings."""
    token = _CORE.set(core)
    try:
        with quiet():
            yield core
    finally:
        _CORE.reset(token)
