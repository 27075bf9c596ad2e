"""The blocked matmul for Triton's interpreter (``TRITON_INTERPRET=1``, set before Triton is imported).

The interpreter of Triton 3.9 multiplies the bits of bfloat16 as integers, so blocks are widened to float32 before the
product: the same numbers, which a GPU would not need.
"""
# ruff: noqa: ANN001 - Triton reads the annotations of a kernel, and constants are upper case by its custom

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import triton
import triton.language as tl

__all__ = ["VERSION", "prepare"]

VERSION = f"Triton {triton.__version__}"
_M, _N, _K = 128, 512, 128


@triton.jit
def _matmul(lhs_t, rhs, out, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):  # noqa: ANN202
    """One block of results: a sum of products of blocks over K, in float32."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, size, K):
        depth = start + tl.arange(0, K)
        stationary = tl.load(lhs_t + depth[:, None] * size + rows[None, :])
        moving = tl.load(rhs + depth[:, None] * size + columns[None, :])
        sums = tl.dot(tl.trans(stationary).to(tl.float32), moving.to(tl.float32), sums)
    tl.store(out + rows[:, None] * size + columns[None, :], sums.to(tl.bfloat16))


def prepare(lhs_t: np.ndarray, rhs: np.ndarray) -> Callable[[], np.ndarray]:
    """A function that multiplies two square bfloat16 matrices, the first of them transposed, to float32."""
    size = len(rhs)
    first, second = (torch.from_numpy(each.view(np.int16)).view(torch.bfloat16) for each in (lhs_t, rhs))

    def run() -> np.ndarray:
        out = torch.empty((size, size), dtype=torch.bfloat16)
        _matmul[(size // _M, size // _N)](first, second, out, size, _M, _N, _K)
        return out.float().numpy()

    return run
