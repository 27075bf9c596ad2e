"""Arguments that earlier SDKs documented and the newest does not: kernels that pass them run as they did.

Functions have the parameters of the newest documentation. Where an older form had another one, what it meant stands
with the function as an adapter that calls it in today's form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from twintrack.errors import KernelError
from twintrack.nki.context import current_core, is_running

__all__ = ["also_took", "earlier_arguments", "renamed"]

Given = ParamSpec("Given")
Result = TypeVar("Result")
Adapter = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def also_took(adapt: Adapter, *names: str) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """A decorator: calls that name one of these arguments go to ``adapt``, all others to the function.

    Args:
        adapt: is given the function and the arguments by position and by name, and carries the call out.
        *names: arguments that the function itself does not have.
    """
    known = frozenset(names)

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        @wraps(function)
        def called(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            if known.isdisjoint(kwargs):
                return function(*args, **kwargs)
            found: Result = adapt(function, args, dict(kwargs))
            return found

        called.__earlier__ = known  # type: ignore[attr-defined]
        return called

    return decorate


def earlier_arguments(function: Callable[..., Any]) -> frozenset[str]:
    """Names of arguments that only earlier SDKs documented for a function, and that it takes."""
    found: frozenset[str] = getattr(function, "__earlier__", frozenset())
    return found


def renamed(
    function: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any], old: str, new: str
) -> dict[str, Any]:
    """Arguments by name, with what was called ``old`` under its name of today.

    Args:
        function: as it is today.
        args: by position.
        given: by name, with ``old``.
        old: the earlier name.
        new: today's.

    Raises:
        KernelError: if the call gives both.
    """
    rest = {name: value for name, value in given.items() if name != old}
    names = list(signature(function).parameters)
    if new in rest or new in names[: len(args)]:
        raise KernelError(
            f"{new}, or {old} as earlier SDKs called it, for {function.__name__}",
            found="both",
            where=current_core().author_line() if is_running() else function.__name__,
            remedy=f"give {new} alone",
        )
    return {**rest, new: given[old]}
