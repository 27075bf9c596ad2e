"""The blocked matmul for the TPU interpret mode of JAX Pallas, with and without its search for races."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

__all__ = ["VERSION", "prepare"]

VERSION = f"JAX {jax.__version__}"
_M, _N, _K = 128, 512, 128


def _kernel(lhs_t: Any, rhs: Any, out: Any, sums: Any, *, steps: int) -> None:
    """One product of blocks; sums over K wait in VMEM in float32."""

    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        sums[...] = jnp.zeros_like(sums)

    contracted = (((0,), (0,)), ((), ()))
    sums[...] += jax.lax.dot_general(lhs_t[...], rhs[...], contracted, preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == steps - 1)
    def _() -> None:
        out[...] = sums[...].astype(out.dtype)


def prepare(lhs_t: np.ndarray, rhs: np.ndarray, *, races: bool) -> Callable[[], np.ndarray]:
    """A function that multiplies two square bfloat16 matrices, the first of them transposed, to float32."""
    size = len(rhs)
    first, second = jnp.asarray(lhs_t), jnp.asarray(rhs)
    call = pl.pallas_call(
        functools.partial(_kernel, steps=size // _K),
        grid=(size // _M, size // _N, size // _K),
        in_specs=[
            pl.BlockSpec((_K, _M), lambda m, _, k: (k, m)),
            pl.BlockSpec((_K, _N), lambda _, n, k: (k, n)),
        ],
        out_specs=pl.BlockSpec((_M, _N), lambda m, n, _: (m, n)),
        out_shape=jax.ShapeDtypeStruct((size, size), jnp.bfloat16),
        scratch_shapes=[pltpu.VMEM((_M, _N), jnp.float32)],
        interpret=pltpu.InterpretParams(detect_races=races),
    )
    compiled = jax.jit(call)
    return lambda: np.asarray(compiled(first, second).astype(jnp.float32))
