"""Accumulator registers that nothing set are found on shapes alone exactly where a run with values finds them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

CMD = nisa.reduce_cmd
COMMANDS = {
    "activation": ["idle", "reset", "reduce", "reset_reduce"],
    "exponential": ["idle", "reduce", "reset_reduce", "load_reduce"],
    "range_select": ["idle", "reduce", "reset_reduce"],
    "tensor_scalar_reduce": ["reduce", "reset_reduce", "load_reduce"],
}


def _issue(name: str, command: str, lanes: slice, reads_out: bool, tiles: Any) -> None:
    x, y, sums, low, high = (tile[lanes, :] for tile in tiles)
    how: dict[str, Any] = {"reduce_cmd": CMD[command]}
    if reads_out:
        how["reduce_res"] = sums
    if name == "activation":
        nisa.activation(y, nl.exp, x, reduce_op=nl.add, **how)
    elif name == "exponential":
        nisa.exponential(
            y, x, max_value=0.0, **how, **({"reduce_init": 0.0} if command == "load_reduce" else {})
        )
    elif name == "range_select":
        nisa.range_select(
            y, x, comp_op0=nl.greater_equal, comp_op1=nl.less, bound0=low, bound1=high, range_start=0.0,
            reduce_op=nl.maximum, **{"reduce_res": sums, **how},
        )  # fmt: skip
    else:
        init = {"reduce_init": 0.0} if command == "load_reduce" else {}
        nisa.tensor_scalar_reduce(
            y, x, op0=nl.add, operand0=1.0, reduce_op=nl.add, **{"reduce_res": sums, **how, **init}
        )


def _refused(steps: list[tuple[str, str, int, bool]], *, values: bool) -> str:
    """What the run of these instructions is refused for; empty where it is not."""

    def kernel(a: Any) -> Any:
        out = nl.ndarray((64, 8), nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((64, n), nl.float32, buffer=nl.sbuf) for n in (8, 8, 1, 1, 1)]
        for tile in tiles:
            nisa.memset(tile, 0.5)
        for name, command, half, reads_out in steps:
            _issue(name, command, (slice(0, 64), slice(0, 32), slice(32, 64))[half], reads_out, tiles)
        nisa.dma_copy(dst=out, src=tiles[1])
        return out

    try:
        nki.simulate(kernel).with_options(values=values)(np.zeros((1, 1), np.float32))
    except KernelError as error:
        return str(error)
    return ""


_STEP = st.sampled_from(sorted(COMMANDS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(COMMANDS[name]), st.integers(0, 2), st.booleans())
)


@settings(max_examples=80, deadline=None)
@given(st.lists(_STEP, min_size=1, max_size=5))
def test_shapes_alone_find_what_values_find(steps: list[tuple[str, str, int, bool]]) -> None:
    assert _refused(steps, values=False) == _refused(steps, values=True)


def test_registers_that_nothing_set_are_found() -> None:
    assert "accumulator registers" in _refused([("activation", "reduce", 1, False)], values=False)
    assert "accumulator registers" in _refused(
        [("activation", "reset", 1, False), ("activation", "reduce", 0, False)], values=False
    )
    assert not _refused([("activation", "reset", 0, False), ("activation", "reduce", 2, True)], values=False)
