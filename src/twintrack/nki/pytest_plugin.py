"""Run a test suite on the software NeuronCore: ``pytest -p twintrack.nki.pytest_plugin``.

The names (``nki``, ``neuronxcc.nki``) are installed and ``NKI_SIMULATOR=1`` is set before the first ``conftest.py`` is
loaded; both are undone when pytest ends. It works in the workers of pytest-xdist too, which load the same plugins.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from twintrack.errors import UserError
from twintrack.nki.installing import installed, simulator_requested

__all__ = ["pytest_configure", "pytest_load_initial_conftests", "pytest_report_header"]


class _Config(Protocol):
    """What the plugin asks of pytest's configuration; the package itself needs no pytest."""

    def add_cleanup(self, func: Callable[[], None]) -> None: ...


def pytest_load_initial_conftests(early_config: _Config) -> None:
    """Install before any ``conftest.py`` can import ``nki``; pytest calls plugins named by ``-p`` so early."""
    _install(early_config)


def pytest_configure(config: _Config) -> None:
    """Install where pytest learnt of the plugin later, from ``pytest_plugins`` in a ``conftest.py``."""
    _install(config)


def pytest_report_header() -> str:
    """Say on top of the report what the kernels run on."""
    chip = (
        os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE")
        or "trn2, as NEURON_PLATFORM_TARGET_OVERRIDE names none"
    )
    return f"nki: kernels run on the software NeuronCore of twintrack ({chip})"


def _install(config: _Config) -> None:
    """Install, and leave the undoing to pytest, which does it even where another plugin fails. Twice is once."""
    stack = ExitStack()
    try:
        stack.enter_context(installed())
    except UserError as mistake:
        raise importlib.import_module("pytest").UsageError(str(mistake)) from mistake
    stack.enter_context(simulator_requested())
    config.add_cleanup(stack.close)
