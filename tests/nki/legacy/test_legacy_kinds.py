"""Arguments of another kind in the dialect until 2.26: told at the kernel author's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from twintrack.errors import KernelError
from twintrack.nki import legacy as nki
from twintrack.nki.legacy import isa as nisa
from twintrack.nki.legacy import language as nl

WRONG = [1.5, "x", object(), np.array([1, 2]), torch.ones(2), lambda one: one]
IDS = ["fraction", "text", "object", "array", "torch", "function"]
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sum axis": lambda tile, value: nl.sum(tile, axis=value),
    "var axis": lambda tile, value: nl.var(tile, axis=value),
    "softmax axis": lambda tile, value: nl.softmax(tile, axis=value),
    "max keepdims": lambda tile, value: nl.max(tile, axis=1, keepdims=value),
    "tensor_reduce axis": lambda tile, value: nisa.tensor_reduce(np.add, tile, axis=value),
    "broadcast_to shape": lambda tile, value: nl.broadcast_to(tile, shape=value),
    "zeros_like dtype": lambda tile, value: nl.zeros_like(tile, dtype=value),
    "load dtype": lambda tile, value: nl.copy(tile, dtype=value),
    "activation scale": lambda tile, value: nisa.activation(op=nl.exp, data=tile, bias=None, scale=value),
    "nc_matmul tile_position": lambda tile, value: nisa.nc_matmul(tile, tile, tile_position=value),
    "nc_matmul tile_size": lambda tile, value: nisa.nc_matmul(tile, tile, tile_size=value),
    "nc_matmul onezero": lambda tile, value: nisa.nc_matmul(tile, tile, is_moving_onezero=value),
    "ndarray shape": lambda tile, value: nl.ndarray(value, dtype=nl.float32, buffer=nl.sbuf),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("value", WRONG, ids=IDS)
def test_an_argument_of_another_kind_is_told_at_the_authors_line(name: str, value: Any) -> None:
    if (name == "activation scale" and type(value) is float) or (
        name == "ndarray shape" and isinstance(value, np.ndarray | torch.Tensor)
    ):
        pytest.skip("a scale may be a fraction, and a shape an array of whole numbers")

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        CALLS[name](tile, value)
        nl.store(out, tile)
        return out

    with pytest.raises(KernelError) as caught:
        nki.simulate_kernel(kernel, np.ones((64, 64), np.float32))
    assert __file__ in str(caught.value)
