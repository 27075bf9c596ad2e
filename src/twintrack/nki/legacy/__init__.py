"""``neuronxcc.nki``: the dialect of NKI as of Neuron 2.26, on the same core and instructions.

``indexing``, ``access`` and ``masks`` turn index expressions and masks into access patterns, ``tile`` is what kernels
handle, ``regions`` issues an operation on what its mask leaves; the other modules are the documented ones.
"""

from __future__ import annotations

from twintrack.nki.legacy import compiler, isa, language, typing
from twintrack.nki.legacy.launching import baremetal, benchmark, jit, profile, simulate_kernel, trace
from twintrack.nki.legacy.typing import tensor

__all__ = [
    "baremetal",
    "benchmark",
    "compiler",
    "isa",
    "jit",
    "language",
    "profile",
    "simulate_kernel",
    "tensor",
    "trace",
    "typing",
]
