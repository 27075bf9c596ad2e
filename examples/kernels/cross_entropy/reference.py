"""Inputs and expected result of cross-entropy: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected", "make_inputs"]

Array = npt.NDArray[Any]


def make_inputs(
    random: np.random.Generator, dtype: np.dtype[Any], tokens: int, vocabulary: int
) -> dict[str, Array]:
    """``logits`` [tokens, vocabulary] and ``targets`` [tokens] int32, the first and the last column among them.

    In some rows the first or the last logit is so large that the others' powers vanish, or would overflow if the
    maximum of their chunk were taken off instead of the row's.
    """
    targets = random.integers(0, vocabulary, tokens, dtype=np.int32)
    targets[:2] = 0, vocabulary - 1
    logits = 4 * random.standard_normal((tokens, vocabulary))
    logits[3::7, 0] += 120
    logits[5::7, -1] += 120
    return {"logits": logits.astype(dtype), "targets": targets}


def expected(logits: Array, targets: Array) -> tuple[Array, Array]:
    """The loss of each token [tokens], and the gradient of their sum with respect to the logits."""
    wide, rows = logits.astype(np.float64), np.arange(len(targets))
    largest = wide.max(axis=1, keepdims=True)
    log_sums = largest + np.log(np.exp(wide - largest).sum(axis=1, keepdims=True))
    gradient = np.exp(wide - log_sums)
    gradient[rows, targets] -= 1
    return log_sums[:, 0] - wide[rows, targets], gradient
