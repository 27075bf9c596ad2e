"""``neuronxcc.nki.typing``: annotations of kernels, which nothing checks, and inputs told by shape and type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import dtype_of

__all__ = ["Described", "given", "tensor"]


@dataclass(frozen=True)
class Described:
    """An input that a kernel is timed on, as ``tensor[[128, 512], nl.float32]`` tells it: no values are given."""

    shape: tuple[int, ...]
    dtype: object

    def array(self) -> npt.NDArray[Any]:
        """Zeros. The documentation does not say what a measured kernel reads; this is our choice.

        Raises:
            KernelError: if NKI has no such type.
        """
        try:
            return np.zeros(self.shape, dtype_of(self.dtype).stored)
        except KeyError:
            raise KernelError(
                "a type that NKI has",
                found=str(self.dtype),
                where=f"tensor[{list(self.shape)}, ...]",
                remedy="name another",
            ) from None


def given(value: Any) -> Any:
    """An argument of a kernel, with an array where it was told by shape and type."""
    return value.array() if isinstance(value, Described) else value


class _Annotation(type):
    """A class that may be subscripted with anything: ``tensor[128, 512]``."""

    def __getitem__(cls, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], list | tuple):
            return Described(tuple(key[0]), key[1])
        return cls


class tensor(metaclass=_Annotation):
    """A tensor, in annotations: ``tensor``, ``tensor[128, 512]``.

    With a type, ``tensor[[128, 512], nl.float32]``, it can also be an argument of a kernel that is timed.
    """
