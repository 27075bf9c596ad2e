"""Inputs and expected result of centering: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], rows: int, columns: int
) -> dict[str, Array]:
    """``x`` [rows, columns], every column around a number of its own."""
    return {"x": (random.standard_normal((rows, columns)) + random.uniform(-3, 3, columns)).astype(dtype)}


def expected(x: Array) -> tuple[Array, Array]:
    """``x`` less the mean of its column [rows, columns], and the means [1, columns]."""
    wide = x.astype(np.float64)
    means = wide.mean(axis=0, keepdims=True)
    return wide - means, means
