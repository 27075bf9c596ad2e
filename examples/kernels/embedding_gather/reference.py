"""Inputs and expected result of the embedding: NumPy indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], tokens: int, vocabulary: int, width: int
) -> dict[str, Array]:
    """``table`` [vocabulary, width] and ``ids`` [tokens], the first and the last row among them."""
    ids = random.integers(0, vocabulary, tokens, dtype=np.int32)
    ids[:2] = 0, vocabulary - 1
    return {"table": random.standard_normal((vocabulary, width)).astype(dtype), "ids": ids}


def expected(table: Array, ids: Array) -> Array:
    """``table[ids]`` [tokens, width]."""
    return table.astype(np.float64)[ids]
