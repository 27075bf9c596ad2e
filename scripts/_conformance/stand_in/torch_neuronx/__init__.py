"""Stand-in for torch_neuronx: some scripts only import it, and some take its older name of ``nki.jit``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["nki_jit"]


def nki_jit(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel, jitted by the emulator of the older dialect."""
    jitted: Callable[..., Any] = importlib.import_module("neuronxcc.nki").jit(kernel)
    return jitted
