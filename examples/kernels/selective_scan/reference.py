"""Inputs and expected result of the selective scan: the recurrence step by step, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], channels: int, states: int, steps: int
) -> dict[str, Array]:
    """``u`` and ``delta`` [channels, steps], ``a`` [channels, states] float32, ``b`` and ``c`` [states, steps]."""
    return {
        "u": random.standard_normal((channels, steps)).astype(dtype),
        "delta": random.uniform(0.001, 0.1, (channels, steps)).astype(dtype),
        "a": -np.tile(np.arange(1, states + 1, dtype=np.float32), (channels, 1)),
        "b": random.standard_normal((states, steps)).astype(dtype),
        "c": random.standard_normal((states, steps)).astype(dtype),
    }


def expected(u: Array, delta: Array, a: Array, b: Array, c: Array) -> Array:
    """``y`` [channels, steps] of ``h = exp(delta a) h + delta u b``, ``y = sum over states of c h``."""
    u, delta, a, b, c = (x.astype(np.float64) for x in (u, delta, a, b, c))
    y, h = np.zeros(u.shape), np.zeros(a.shape)
    for t in range(u.shape[1]):
        h = np.exp(delta[:, t, None] * a) * h + (delta[:, t] * u[:, t])[:, None] * b[:, t]
        y[:, t] = h @ c[:, t]
    return y
