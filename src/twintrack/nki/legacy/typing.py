"""``neuronxcc.nki.typing``: annotations of kernels; nothing checks them."""

from __future__ import annotations

from typing import Any

__all__ = ["tensor"]


class _Annotation(type):
    """A class that may be subscripted with anything: ``tensor[128, 512]``."""

    def __getitem__(cls, key: Any) -> Any:
        return cls


class tensor(metaclass=_Annotation):
    """A tensor, in annotations: ``tensor``, ``tensor[128, 512]`` or ``tensor[[128, 512], nl.float32]``."""
