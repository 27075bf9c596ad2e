"""Stand-in for torch_xla, for suites that move tensors to "the device": here that is the CPU.

Only what those suites call. A kernel that is then called with CPU tensors runs on the emulator.
"""

from __future__ import annotations

import torch

__all__ = ["device", "sync"]


def device() -> torch.device:
    """The device to put tensors on: the CPU."""
    return torch.device("cpu")


def sync() -> None:
    """Nothing waits: each kernel has ended when its call returns."""
