"""Dropout whose mask is a function of a key, a site and an element's place, and of nothing else.

A generator's state cannot be captured in a graph or carried from one device to another; a counter can (Salmon
et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). The loop sets the key once per micro-batch, every
module has its own site, and the mask is the same on every track, across any kill and resume.

The mixing function is a 32-bit permutation of the form found by C. Wellons' hash-prospector (shifts 16, 15,
15, multipliers 0x21f0aaad and 0x735a2d97). It is evaluated in int64 with plain operators: both multipliers
are below 2**31, so that no product overflows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["KeyedDropout", "dropout_key_names", "keyed_uniform_bits", "set_dropout_key"]

_MASK = 0xFFFF_FFFF


def _mix(value: Tensor) -> Tensor:
    """A permutation of the integers below 2**32; int64 in, int64 out."""
    value = torch.bitwise_xor(value, torch.bitwise_right_shift(value, 16))
    value = torch.bitwise_and(value * 0x21F0_AAAD, _MASK)
    value = torch.bitwise_xor(value, torch.bitwise_right_shift(value, 15))
    value = torch.bitwise_and(value * 0x735A_2D97, _MASK)
    return torch.bitwise_xor(value, torch.bitwise_right_shift(value, 15))


def keyed_uniform_bits(key: Tensor, site: Tensor, count: int) -> Tensor:
    """``count`` integers, uniform below 2**32, for elements 0 .. count - 1; int64 of shape [count].

    Two words are made from key and site and enter before and after a first mixing of the element's index.
    With one word alone, the masks of two sites would be rearrangements of each other.

    Args:
        key: int64 of shape [], at least 0.
        site: int64 of shape [], 0 .. 2**32 - 1.
        count: below 2**32.
    """
    low = torch.bitwise_and(key, _MASK)
    high = torch.bitwise_right_shift(key, 32)
    first = _mix(torch.bitwise_xor(_mix(torch.bitwise_xor(_mix(low), high)), site))
    second = _mix(torch.bitwise_xor(first, 0x9E37_79B9))
    index = torch.arange(count, dtype=torch.int64, device=key.device)
    inner = _mix(torch.bitwise_xor(index, first))
    return _mix(torch.bitwise_and(inner + second, _MASK))


class KeyedDropout(nn.Module):
    """In training, sets elements to zero with probability ``p`` and scales the others by ``1 / (1 - p)``.

    Buffers, neither of them saved:
        key: int64 of shape []; the loop sets it before every micro-batch, see ``set_dropout_key``.
        site: int64 of shape []; different for every module of a model.

    Raises:
        ValueError: if ``p`` is not in [0, 1).
    """

    key: Tensor
    site: Tensor

    def __init__(self, p: float, site: int) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"dropout must lie in [0, 1), got {p}")
        self.p = p
        self.register_buffer("key", torch.zeros((), dtype=torch.int64), persistent=False)
        self.register_buffer("site", torch.tensor(site, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` of any shape and floating type, unchanged in evaluation; elements are counted in row-major
        order."""
        if not self.training or self.p == 0.0:
            return x
        bits = keyed_uniform_bits(self.key, self.site, x.numel())
        kept = torch.ge(bits, round(self.p * 2**32)).reshape(x.shape).to(x.dtype)
        return x * kept * (1.0 / (1.0 - self.p))

    def extra_repr(self) -> str:
        """Shown in the printed model."""
        return f"p={self.p}, site={int(self.site)}"


def dropout_key_names(model: nn.Module) -> tuple[str, ...]:
    """Names of all key buffers of a model, as ``named_buffers`` gives them."""
    return tuple(
        f"{name}.key" if name else "key"
        for name, module in model.named_modules()
        if isinstance(module, KeyedDropout)
    )


def set_dropout_key(model: nn.Module, key: int) -> None:
    """Give every ``KeyedDropout`` the key of the micro-batch that comes next.

    Raises:
        ValueError: if the key is not in 0 .. 2**63 - 1.
    """
    if not 0 <= key < 2**63:
        raise ValueError(f"a dropout key must lie in 0 .. 2**63 - 1, got {key}")
    for module in model.modules():
        if isinstance(module, KeyedDropout):
            module.key.fill_(key)
