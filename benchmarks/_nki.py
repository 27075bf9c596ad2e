"""What benchmarks of the NeuronCore in software share: a blocked matmul, and time that other processes do not add to.

Times are CPU seconds of this process (``time.process_time``): with one thread they are its seconds on an idle
machine, and other processes in between do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from twintrack import nki
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

__all__ = [
    "bf16_operands",
    "load_block",
    "matmul",
    "matmul_kernel",
    "pairs_of",
    "seconds_of",
    "ufunc_seconds",
]

_P, _M, _N = 128, 128, 512
_CALLS = 50_000


def matmul_kernel(lhs_t: Any, rhs: Any) -> Any:
    """``lhs_t [K, M]`` transposed times ``rhs [K, N]``, rounded to the operands' type, in blocks of 128 x 512 results.

    A column of blocks keeps its ``rhs`` in SBUF; ``(K / 128) (M / 128) (N / 512)`` matrix instructions.
    """
    depth, rows, columns = lhs_t.shape[0] // _P, lhs_t.shape[1], rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for n in range(columns // _N):
        moving = load_block(rhs, depth, n * _N, _N)
        for m in range(rows // _M):
            stationary = load_block(lhs_t, depth, m * _M, _M)
            sums = nl.ndarray((_M, _N), dtype=nl.float32, buffer=nl.psum)
            for k in range(depth):
                nisa.nc_matmul(dst=sums, stationary=stationary[:, k, :], moving=moving[:, k, :])
            rounded = nl.ndarray((_M, _N), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=rounded, src=sums)
            nisa.dma_copy(dst=out[nl.ds(m * _M, _M), nl.ds(n * _N, _N)], src=rounded)
    return out


matmul = nki.jit(matmul_kernel)


def load_block(source: Any, depth: int, start: int, width: int) -> Any:
    """All of K for some columns, as [128, K / 128, width], by one DMA."""
    block = nl.ndarray((_P, depth, width), dtype=source.dtype, buffer=nl.sbuf)
    rows = source[:, nl.ds(start, width)].reshape_dim(0, (depth, _P)).permute((1, 0, 2))
    nisa.dma_copy(dst=block, src=rows)
    return block


def bf16_operands(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Two square bfloat16 matrices of normal numbers, made in parts so that no wider copy of one is ever whole."""
    random = np.random.default_rng(0)
    made = [np.empty((size, size), ml_dtypes.bfloat16) for _ in range(2)]
    for each in made:
        for start in range(0, size, _P):
            part = each[start : start + _P]
            part[...] = random.standard_normal(part.shape, np.float32)
    return made[0], made[1]


def seconds_of(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def pairs_of(
    first: Callable[[], object], second: Callable[[], object], pairs: int, warm: int = 1
) -> list[tuple[float, float]]:
    """CPU seconds of two things done in turn; the first ``warm`` pairs are left out."""
    return [(seconds_of(first), seconds_of(second)) for _ in range(warm + pairs)][warm:]


def ufunc_seconds() -> float:
    """CPU seconds of ``np.add`` on 8 elements, the unit of what an instruction may cost."""
    values = np.ones(8, np.float32)
    add = np.add
    start = time.process_time()
    for _ in range(_CALLS):
        add(values, values)
    return (time.process_time() - start) / _CALLS
