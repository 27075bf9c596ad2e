"""Arguments that earlier SDKs documented and the newest does not: kernels that pass them run as they did.

Functions have the parameters of the newest documentation. Where an older form had another one, what it meant stands
with the function as an adapter that calls it in today's form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["also_took", "earlier_arguments"]

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
