"""Errors of tensors and element types, at the kernel author's line."""

from __future__ import annotations

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DType, dtype_of
from twintrack.neuroncore.memory.view import View
from twintrack.nki.context import current_core

__all__ = ["tensor_error", "to_dtype"]


def to_dtype(value: object) -> DType:
    """The element type that a kernel names.

    Raises:
        KernelError: if NKI has none of this name.
    """
    try:
        return dtype_of(value)
    except KeyError:
        frame = current_core().author()
        raise KernelError(
            "an element type of nki.language",
            found=repr(value),
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
