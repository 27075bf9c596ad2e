"""``nki.typing``: annotations that kernels use for their tensors."""

from __future__ import annotations

from typing import Any

__all__ = ["tensor"]


class tensor:
    """Annotation of a tensor argument; ``tensor[shape, dtype]`` is one too."""

    def __class_getitem__(cls, item: Any) -> Any:
        """The annotation of a tensor of this shape and type."""
        del item
        return cls
