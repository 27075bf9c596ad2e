"""Inputs and expected result of the router: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], tokens: int, width: int, experts: int
) -> dict[str, Array]:
    """``x_t`` [width, tokens] and ``weight`` [width, experts]."""
    return {
        "x_t": random.standard_normal((width, tokens)).astype(dtype),
        "weight": (random.standard_normal((width, experts)) / np.sqrt(width)).astype(dtype),
    }


def expected(x_t: Array, weight: Array, k: int = 2) -> tuple[Array, Array, Array]:
    """Weights [tokens, k], largest first, and experts [tokens, k] of each token; tokens per expert [1, experts]."""
    logits = x_t.astype(np.float64).T @ weight.astype(np.float64)
    chosen = np.argsort(-logits, axis=1)[:, :k]
    best = np.take_along_axis(logits, chosen, axis=1)
    powers = np.exp(best - best[:, :1])
    counts = np.bincount(chosen.ravel(), minlength=weight.shape[1])[None, :]
    return powers / powers.sum(axis=1, keepdims=True), chosen, counts
