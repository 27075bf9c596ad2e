"""Tensors held against each other to the bit."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["same_bits"]


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Whether type, shape and every bit agree; unlike ``==``, NaN equals itself and 0.0 is not -0.0.

    Tensors on the meta device have no bits; they agree where types and shapes do.
    """
    if left.dtype is not right.dtype or left.shape != right.shape:
        return False
    return left.is_meta or right.is_meta or torch.equal(_bytes(left), _bytes(right))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8)
