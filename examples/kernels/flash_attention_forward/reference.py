"""Inputs and expected result of causal attention: the plain formula in float64, no tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], heads: int, positions: int, width: int
) -> dict[str, Array]:
    """``q``, ``k`` and ``v`` [heads, positions, width].

    The last query is long and meets a key near the end whose score, 150, is far above all before: weights of earlier
    blocks would overflow if their maximum were not corrected.
    """
    q, k, v = random.standard_normal((3, heads, positions, width))
    q[:, -1] *= 10
    k[:, -5] = q[:, -1] * 150 * np.sqrt(width) / (q[:, -1] ** 2).sum(axis=-1, keepdims=True)
    return {"q": q.astype(dtype), "k": k.astype(dtype), "v": v.astype(dtype)}


def expected(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """Attention [heads, positions, width], and the logarithm of each row's sum of powers [heads, positions]."""
    wide_q, wide_k, wide_v = (x.astype(np.float64) for x in (q, k, v))
    scores = wide_q @ wide_k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    scores[:, ~np.tri(q.shape[1], dtype=bool)] = -np.inf
    largest = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - largest)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / total @ wide_v, (largest + np.log(total))[..., 0]
