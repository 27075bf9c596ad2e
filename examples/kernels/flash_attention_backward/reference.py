"""Inputs and expected gradients of causal attention: the plain formulas in float64, no tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], heads: int, positions: int, width: int
) -> dict[str, Array]:
    """What the forward pass took and gave, and the gradient of its result: all [heads, positions, width].

    ``log_sums`` [heads, positions] is float32.
    """
    shape = (heads, positions, width)
    made = {name: random.standard_normal(shape).astype(dtype) for name in ("q", "k", "v", "grad")}
    weights, log_sums = _weights(made["q"], made["k"])
    made["out"] = (weights @ made["v"].astype(np.float64)).astype(dtype)
    made["log_sums"] = log_sums.astype(np.float32)
    return made


def expected(
    q: Array, k: Array, v: Array, grad: Array, out: Array, log_sums: Array
) -> tuple[Array, Array, Array]:
    """Gradients with respect to ``q``, ``k`` and ``v``; ``out`` and ``log_sums`` are computed again, exactly."""
    del out, log_sums
    wide_q, wide_k, wide_v, wide_grad = (x.astype(np.float64) for x in (q, k, v, grad))
    weights, _ = _weights(q, k)
    grad_weights = wide_grad @ wide_v.swapaxes(1, 2)
    grad_scores = weights * (grad_weights - (weights * grad_weights).sum(axis=-1, keepdims=True))
    grad_scores /= np.sqrt(q.shape[-1])
    return (
        grad_scores @ wide_k,
        grad_scores.swapaxes(1, 2) @ wide_q,
        weights.swapaxes(1, 2) @ wide_grad,
    )


def _weights(q: Array, k: Array) -> tuple[Array, Array]:
    """Softmax of the scores up to the diagonal, and the logarithm of the sum of their powers."""
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) / np.sqrt(q.shape[-1])
    scores[:, ~np.tri(q.shape[1], dtype=bool)] = -np.inf
    largest = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - largest)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / total, (largest + np.log(total))[..., 0]
