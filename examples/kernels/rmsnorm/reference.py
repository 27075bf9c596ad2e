"""Inputs and expected result of RMSNorm: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(random: np.random.Generator, dtype: np.dtype[Any], rows: int, width: int) -> dict[str, Array]:
    """``x`` [rows, width], rows of very different size, and ``weight`` [width]."""
    size = 10.0 ** random.uniform(-2, 2, (rows, 1))
    return {
        "x": (size * random.standard_normal((rows, width))).astype(dtype),
        "weight": random.uniform(0.5, 1.5, width).astype(dtype),
    }


def expected(x: Array, weight: Array, epsilon: float = 1e-6) -> Array:
    """``x / sqrt(mean(x**2) + epsilon) * weight`` over the last dimension."""
    wide = x.astype(np.float64)
    mean = (wide**2).mean(axis=-1, keepdims=True)
    return np.asarray(wide / np.sqrt(mean + epsilon) * weight.astype(np.float64))
