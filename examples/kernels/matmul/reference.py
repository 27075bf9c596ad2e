"""Inputs and expected result of the matrix multiplications: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], m: int, k: int, n: int
) -> dict[str, Array]:
    """``lhs_t`` [K, M] and ``rhs`` [K, N]."""
    return {
        "lhs_t": random.standard_normal((k, m)).astype(dtype),
        "rhs": random.standard_normal((k, n)).astype(dtype),
    }


def expected(lhs_t: Array, rhs: Array) -> Array:
    """``lhs_t.T @ rhs`` [M, N]."""
    return lhs_t.astype(np.float64).T @ rhs.astype(np.float64)
