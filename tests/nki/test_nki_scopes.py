"""Tensors made in the body of a loop on the device are out of reach once the loop has ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl


def _escaping(loop: str, use: str) -> Any:
    """A kernel whose loop's body makes a tensor that something after the loop names."""

    def kernel(a: Any) -> Any:
        made: list[Any] = []
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=held, src=a)

        def body(register: Any) -> Any:
            region = nl.shared_hbm if use == "return" else nl.sbuf
            inside = nl.ndarray(a.shape, a.dtype, buffer=region)
            nisa.dma_copy(dst=inside, src=held)
            made.append(inside)
            if loop == "while":
                nisa.register_move(register, 0)
                return register
            return None

        if loop == "while":
            nl.while_loop(nisa.register_alloc(1), body)
        else:
            nl.fori_loop(0, 1, body)
        if use == "return":
            return made[0]
        if use == "write":
            nisa.memset(made[0], 1.0)
        if use == "read":
            nisa.tensor_copy(held, made[0])
        nisa.dma_copy(dst=out, src=held)
        return out

    return kernel


@pytest.mark.parametrize("loop", ["fori", "while"])
@pytest.mark.parametrize("use", ["read", "write", "return", "none"])
def test_a_tensor_of_a_loops_body_is_not_named_after_the_loop(loop: str, use: str) -> None:
    data = np.ones((4, 4), np.float32)
    if use == "none":
        assert np.array_equal(nki.simulate(_escaping(loop, use))(data), data)
        return
    with pytest.raises(
        KernelError, match=r"outside of loops that have ended.*made in the body of the loop at"
    ):
        nki.simulate(_escaping(loop, use))(data)
