"""The base of what kernels handle besides Python's own values."""

from __future__ import annotations

from typing import Any

__all__ = ["NKIObject"]


class NKIObject:
    """Base of what kernels handle besides Python's own values."""

    __slots__ = ()

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)
