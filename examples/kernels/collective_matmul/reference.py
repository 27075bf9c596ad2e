"""Inputs and expected result of the collective matrix multiplication: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], m: int, k: int, n: int, ranks: int
) -> list[dict[str, Array]]:
    """Per rank ``lhs_t`` [k / ranks, m] and ``rhs`` [k / ranks, n]: each rank's part of the contraction."""
    part = k // ranks
    return [
        {
            "lhs_t": random.standard_normal((part, m)).astype(dtype),
            "rhs": random.standard_normal((part, n)).astype(dtype),
        }
        for _ in range(ranks)
    ]


def expected(*inputs: dict[str, Array]) -> list[Array]:
    """Per rank its rows [m / ranks, n] of the sum of all ranks' products."""
    products = [one["lhs_t"].astype(np.float64).T @ one["rhs"].astype(np.float64) for one in inputs]
    return list(np.split(np.sum(products, axis=0), len(inputs)))
