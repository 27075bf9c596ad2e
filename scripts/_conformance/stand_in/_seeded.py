"""A pytest plugin that seeds every generator before each test, so that a suite gives one result, not luck.

Some suites draw unseeded numbers on which their assertions depend.
"""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

__all__ = ["pytest_runtest_setup"]

_SEED = 20260101


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed before the test's own fixtures are made."""
    random.seed(_SEED)
    np.random.seed(_SEED)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(_SEED)
