"""Arguments of the wrong kind: told at the kernel author's line, by what the function's annotations say it takes.

Instructions are issued too often to look at the kind of every argument each time. So functions fail as Python has it,
and only then is looked what they were given. Where all of it is of the right kind the error stays as it is: it is ours.
"""

from __future__ import annotations

import inspect
import operator
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from types import FrameType, TracebackType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DType, dtype_of
from twintrack.neuroncore.memory.view import View

__all__ = ["misuse_told"]

_OURS = ("twintrack.nki", "twintrack.neuroncore", "numpy.")
_FOR_KERNELS = tuple(
    [f"twintrack.nki.{room}" for room in ("isa", "language", "tensor", "collectives", "legacy")]
)
"""Rooms whose functions kernels call."""
_MOST_SHOWN = 60


@contextmanager
def misuse_told() -> Iterator[None]:
    """While a kernel runs: an error of Python in one of NKI's functions is told as what its caller did wrong.

    Raises:
        KernelError: naming the arguments that are of another kind than the function takes.
    """
    try:
        yield
    except KernelError:
        raise
    except Exception as error:
        told = _told(error)
        if told is None:
            raise
        raise told from error


def _told(error: Exception) -> KernelError | None:
    found = _call(error.__traceback__)
    if found is None:
        return None
    where, frame = found
    function = _function(frame)
    if function is None:
        return None
    wrong = _wrong(function, frame.f_locals)
    if not wrong:
        return None
    name = getattr(function, "__name__", "the function")
    return KernelError(
        " and ".join(f"{_described(hint)} as {each}" for each, _, hint in wrong) + f" of {name}",
        found=", ".join(_shown(value) for _, value, _ in wrong),
        where=where,
        remedy="pass one; the documentation of the function says what it takes",
    )


def _call(traceback: TracebackType | None) -> tuple[str, FrameType] | None:
    """The author's line at which the failing function of NKI was called, and that function's frame."""
    found = author = None
    while traceback is not None:
        frame = traceback.tb_frame
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(_OURS):
            author, found = f"{frame.f_code.co_filename}:{traceback.tb_lineno}", None
        elif not found and author and module.startswith(_FOR_KERNELS) and _function(frame) is not None:
            found = frame
        traceback = traceback.tb_next
    return None if author is None or found is None else (author, found)


def _function(frame: FrameType) -> Callable[..., Any] | None:
    """The public function, or method of a tensor, that runs in a frame."""
    code = frame.f_code
    owner = frame.f_locals.get("self")
    scope: Mapping[str, Any] = frame.f_globals
    found = getattr(type(owner), code.co_name, None) if owner is not None else scope.get(code.co_name)
    found = inspect.unwrap(found) if callable(found) else None
    return found if getattr(found, "__code__", None) is code and not code.co_name.startswith("_") else None


def _wrong(function: Callable[..., Any], given: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Names, values and what is asked for, of the arguments that are of another kind."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):  # names that are known to type checkers only
        return []
    plain = [name for name, one in inspect.signature(function).parameters.items() if one.kind not in (2, 4)]
    return [
        (name, given[name], hints[name])
        for name in plain
        if name in hints and name in given and not _is_of(given[name], hints[name])
    ]


def _is_of(value: Any, hint: Any) -> bool:
    if hint is Any or isinstance(hint, str):
        return True
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_is_of(value, one) for one in get_args(hint))
    if origin is not None:
        return _is_container(value, origin, get_args(hint))
    if hint is DType:
        return _is_dtype(value)
    if hint in (int, float):
        return _is_number(value, whole=hint is int)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return isinstance(value, hint)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _is_container(value: Any, origin: Any, inside: tuple[Any, ...]) -> bool:
    if origin is Callable or not isinstance(origin, type):
        return callable(value) if origin is Callable else True
    if isinstance(value, str | View) or not isinstance(value, origin):
        return False
    return not (isinstance(value, Sequence) and inside) or all(_is_of(one, inside[0]) for one in value)


def _is_number(value: Any, *, whole: bool) -> bool:
    if isinstance(value, bool | np.bool_) or bool(getattr(value, "ndim", 0)):
        return False
    if not whole and isinstance(value, float | np.floating):
        return True
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_dtype(value: Any) -> bool:
    try:
        dtype_of(value)
    except (KeyError, TypeError, ValueError):
        return False
    return True


_NAMES = {int: "a whole number", float: "a number", bool: "True or False", str: "text", type(None): "None"}


def _described(hint: Any) -> str:
    """What a type hint asks for, in words."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_described(one) for one in get_args(hint)))
    if hint is DType:
        return "an element type"
    if hint in _NAMES:
        return _NAMES[hint]
    if isinstance(hint, type) and issubclass(hint, View):
        return "a tensor"
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        inside = get_args(hint)
        return f"a sequence of {_described(inside[0])}" if inside else "a sequence"
    name = getattr(origin or hint, "__name__", str(hint))
    return f"one of nki.isa.{name}" if isinstance(hint, type) and issubclass(hint, Enum) else f"a {name}"


def _shown(value: Any) -> str:
    if isinstance(value, bool | int | float | str | None):
        return repr(value)[:_MOST_SHOWN]
    return type(value).__name__
