"""Inputs and expected result of one step of AdamW: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs", "step_of"]

Array = npt.NDArray[Any]


def make_inputs(random: np.random.Generator, dtype: np.dtype[Any], size: int, step: int) -> dict[str, Array]:
    """Parameters and gradients of ``dtype``, masters and moments float32, all [size]; ``step`` as the kernel takes it.

    Gradients reach over six orders of magnitude.
    """
    master = random.standard_normal(size).astype(np.float32)
    grad = random.standard_normal(size) * 10.0 ** random.uniform(-6, 0, size)
    return {
        "parameters": master.astype(dtype),
        "grad": grad.astype(dtype),
        "master": master,
        "first": (0.1 * grad * random.uniform(-1, 1, size)).astype(np.float32),
        "second": (grad**2 * random.uniform(0.5, 2, size)).astype(np.float32),
        "step": step_of(step, learning_rate=1e-3, weight_decay=0.1),
    }


def step_of(
    step: int, learning_rate: float, weight_decay: float, beta1: float = 0.9, beta2: float = 0.999
) -> Array:
    """What changes from step to step, computed by the caller: [step size, 1 / (1 - beta2^step), decay], float32."""
    size = learning_rate / (1 - beta1**step)
    return np.array([size, 1 / (1 - beta2**step), 1 - learning_rate * weight_decay], np.float32)


def expected(
    parameters: Array,
    grad: Array,
    master: Array,
    first: Array,
    second: Array,
    step: Array,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> tuple[Array, Array, Array, Array]:
    """Parameters, masters, first and second moments after the step (Loshchilov and Hutter, 2019, Algorithm 2)."""
    del parameters
    wide_grad, (size, correction, decay) = grad.astype(np.float64), step.astype(np.float64)
    new_first = beta1 * first.astype(np.float64) + (1 - beta1) * wide_grad
    new_second = beta2 * second.astype(np.float64) + (1 - beta2) * wide_grad**2
    new = decay * master.astype(np.float64) - size * new_first / (np.sqrt(correction * new_second) + epsilon)
    return new, new, new_first, new_second
