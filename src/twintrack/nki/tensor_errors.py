"""Errors of tensors and element types, at the kernel author's line."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DType, dtype_of
from twintrack.neuroncore.memory.view import View
from twintrack.nki.context import current_core

__all__ = ["as_whole", "tensor_error", "to_dtype", "whole", "wholes"]


def to_dtype(value: object) -> DType:
    """The element type that a kernel names.

    Raises:
        KernelError: if NKI has none of this name.
    """
    try:
        return dtype_of(value)
    except (KeyError, TypeError, ValueError):  # NumPy's words for what it cannot read as a type
        frame = current_core().author()
        raise KernelError(
            "an element type of nki.language",
            found=repr(value)[:80],
            where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
            remedy="use one such as nl.float32 or nl.bfloat16",
        ) from None


def tensor_error(tensor: View, required: str, found: str, remedy: str) -> KernelError:
    """The error of a view that cannot be made, at the author's line."""
    frame = current_core().author()
    return KernelError(
        required,
        found=f"{found} for {tensor.describe()}",
        where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
        remedy=remedy,
    )


def as_whole(value: Any) -> int | None:
    """The integer that a value is: Python's, NumPy's, or of a class with ``__index__``; ``None`` where it is none.

    A truth value is none: what a comparison gives was hardly meant as 0 or 1.

    Raises:
        RegisterError: for a register, whose value is not known when the kernel is traced.
    """
    if type(value) is int:
        return value
    if isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole(tensor: View, value: Any, what: str, least: int | None = None) -> int:
    """A whole number that a method of a tensor is given.

    Args:
        tensor: whose method.
        value: what the author gave.
        what: the method and its argument, for the message.
        least: the lowest that it may be.

    Raises:
        KernelError: if it is none, or lower.
    """
    found = as_whole(value)
    if found is None:
        shown = repr(value)[:80] if isinstance(value, bool | int | float | str) else type(value).__name__
        remedy = "divide with // in place of /, or convert it with int()"
        raise tensor_error(tensor, f"a whole number for {what}", shown, remedy)
    if least is not None and found < least:
        raise tensor_error(tensor, f"a whole number from {least} for {what}", f"{found}", "give one")
    return found


def wholes(tensor: View, values: Any, what: str) -> tuple[int, ...]:
    """Several of them.

    Raises:
        KernelError: if these are no such sequence.
    """
    if isinstance(values, str | bytes | View | Mapping) or not isinstance(values, Iterable):
        shown = repr(values)[:80] if isinstance(values, int | float | str) else type(values).__name__
        raise tensor_error(tensor, f"a tuple of whole numbers for {what}", shown, "write it as (a, b)")
    try:
        given = list(values)
    except TypeError:  # an array without dimensions has the method and refuses
        raise tensor_error(
            tensor, f"a tuple of whole numbers for {what}", type(values).__name__, "write it as (a, b)"
        ) from None
    return tuple([whole(tensor, one, what) for one in given])
