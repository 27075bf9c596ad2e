"""What a kernel is called with, checked before and explained after: names that fit, tuples that stand for no array."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from twintrack.errors import KernelError, UserError, nearest

__all__ = ["arrays_expected", "require_arguments"]


def require_arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """A call of a kernel must fit its parameters.

    Args:
        function: the kernel.
        args: by position.
        kwargs: by name.

    Raises:
        KernelError: naming arguments that are missing, unknown, given twice or too many.
    """
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
        return
    except TypeError as error:
        told = str(error)
    parameters = signature.parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    unknown = [] if takes_all else [name for name in kwargs if name not in parameters]
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [name for name, one in parameters.items() if one.kind in by_position][: len(args)]
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    missing = [
        name
        for name, one in parameters.items()
        if name not in taken
        and name not in kwargs
        and one.default is inspect.Parameter.empty
        and one.kind not in variable
    ]
    found = [f"none given for {', '.join(missing)}"] if missing else []
    found += [f"unknown to it: {', '.join(unknown)}"] if unknown else []
    hint = nearest(unknown[0], list(parameters)) if unknown else ""
    raise KernelError(
        f"the kernel's arguments ({', '.join(parameters)})",
        found=", ".join(found) or told,
        where=getattr(function, "__name__", "kernel"),
        remedy=hint or "pass arrays or shapes by position and other values by name, as settings",
    )


@contextmanager
def arrays_expected(named: Mapping[str, Any]) -> Iterator[None]:
    """Where a kernel fails in Python, a plain tuple of integers, or "128x512", among its arguments is
    named: it is no shape.

    Args:
        named: arguments by name.

    Raises:
        KernelError: in place of the Python error, if there is such an argument; other errors pass.
    """
    try:
        yield
    except UserError:
        raise
    except (AttributeError, TypeError) as error:
        plain = [name for name, value in named.items() if _is_plain_shape(value)]
        if not plain:
            raise
        first = named[plain[0]]
        dims = tuple(map(int, first.split("x"))) if isinstance(first, str) else tuple(first)
        raise KernelError(
            "an array or a Shape where the kernel uses one",
            found=f"the plain {type(first).__name__} {first!r} ({type(error).__name__}: {error})"[:200],
            where=plain[0],
            remedy=f'pass Shape({dims!r}, "float32"), or an array',
        ) from error


def _is_plain_shape(value: object) -> bool:
    if isinstance(value, str):  # as the command line writes shapes
        return "x" in value and all(part.isascii() and part.isdigit() for part in value.split("x"))
    return (
        isinstance(value, tuple | list)
        and bool(value)
        and all(isinstance(one, int) and not isinstance(one, bool) for one in value)
    )
