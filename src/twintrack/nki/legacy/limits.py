"""Limits of float types, as ``nl.fp32.min``."""

from __future__ import annotations

import numpy as np

__all__ = ["bfp16", "fp32"]


class fp32:
    """Limits of float32."""

    min = float(np.finfo(np.float32).min)
    """The lowest number."""
    max = float(np.finfo(np.float32).max)
    """The highest number."""


class bfp16:
    """Limits of bfloat16."""

    min = -3.3895313892515355e38
    """The lowest number."""
    max = 3.3895313892515355e38
    """The highest number."""
