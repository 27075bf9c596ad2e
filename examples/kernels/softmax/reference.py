"""Inputs and expected result of the softmax: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], rows: int, columns: int
) -> dict[str, Array]:
    """``x`` [rows, columns]; each row moved by a number that would overflow ``exp`` if it were not taken off."""
    shift = random.uniform(-200.0, 200.0, (rows, 1))
    return {"x": (4 * random.standard_normal((rows, columns)) + shift).astype(dtype)}


def expected(x: Array) -> Array:
    """Softmax over the last dimension."""
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
