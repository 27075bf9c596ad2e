"""Inputs and expected result of rotary position embedding: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], heads: int, positions: int, width: int
) -> dict[str, Array]:
    """``x`` [heads, positions, width]; ``cos`` and ``sin`` [positions, width / 2] with the usual base of 10,000."""
    frequencies = 10_000.0 ** -(np.arange(width // 2) / (width // 2))
    angles = np.arange(positions)[:, None] * frequencies
    return {
        "x": random.standard_normal((heads, positions, width)).astype(dtype),
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }


def expected(x: Array, cos: Array, sin: Array) -> Array:
    """Pairs ``(x[i], x[i + width / 2])`` seen as complex numbers, turned by their angle."""
    wide = x.astype(np.float64)
    half = wide.shape[-1] // 2
    turned = (wide[..., :half] + 1j * wide[..., half:]) * (cos.astype(np.float64) + 1j * sin)
    return np.concatenate([turned.real, turned.imag], axis=-1)
