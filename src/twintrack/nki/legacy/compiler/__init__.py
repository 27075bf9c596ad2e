"""``neuronxcc.nki.compiler``: direct allocation, and directives, which change nothing here.

Directives tell the vendor's compiler how to schedule and allocate; values do not depend on them. ``force_auto_alloc``
is one that does change something: addresses inside the kernel are ignored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from twintrack.nki.legacy.compiler import psum, sbuf
from twintrack.nki.legacy.creation import ignoring_addresses

__all__ = [
    "Directive",
    "allocation_scope",
    "enable_stack_allocator",
    "force_auto_alloc",
    "multi_buffer",
    "no_reorder",
    "psum",
    "sbuf",
    "skip_middle_end_transformations",
]


class Directive(NamedTuple):
    """A directive to the vendor's compiler, as ``directives=`` of a loop takes it."""

    name: str
    factor: int = 0


@contextmanager
def allocation_scope() -> Iterator[None]:
    """A scope of allocations; tiles live from their first to their last use anyway."""
    yield


def enable_stack_allocator(func: Callable[..., Any] | None = None, log_level: int = 50) -> Any:
    """A decorator; the kernel as it is."""
    del log_level
    return (lambda kernel: kernel) if func is None else func


def skip_middle_end_transformations(func: Callable[..., Any] | None = None) -> Any:
    """A decorator; the kernel as it is."""
    return (lambda kernel: kernel) if func is None else func


def force_auto_alloc(func: Callable[..., Any] | None = None) -> Any:
    """A decorator: addresses that the kernel gives its tiles are ignored."""
    if func is None:
        return force_auto_alloc
    if hasattr(func, "changed"):
        return func.changed(force_auto_alloc(func.function))  # type: ignore[attr-defined]

    @functools.wraps(func)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with ignoring_addresses():
            return func(*args, **kwargs)

    return kernel


def multi_buffer(factor: int = 2) -> Directive:
    """Allocate several buffers in rotation."""
    return Directive("multi_buffer", factor)


def no_reorder() -> Directive:
    """Keep the order of instructions, which is kept here always."""
    return Directive("no_reorder")
