"""The names that an NKI kernel imports, over a NeuronCore in software.

``install()`` lets ``import nki`` find this package; ``jit`` and ``simulate`` run kernels. Functions of ``isa`` become
instructions of the running core, functions of ``language`` are made of them; nothing here computes a value.
"""

from __future__ import annotations

from twintrack.neuroncore.emulator.core import Checks
from twintrack.nki import collectives, isa, language, typing
from twintrack.nki.arrays import Shape
from twintrack.nki.installing import install, installed, uninstall
from twintrack.nki.kernel import Kernel, jit, simulate
from twintrack.nki.options import Options, options_from_environment
from twintrack.nki.profiling import profile

__all__ = [
    "Checks",
    "Kernel",
    "Options",
    "Shape",
    "collectives",
    "install",
    "installed",
    "isa",
    "jit",
    "language",
    "options_from_environment",
    "profile",
    "simulate",
    "typing",
    "uninstall",
]
