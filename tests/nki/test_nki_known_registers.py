"""Registers whose value is known without values too: on shapes alone a kernel makes exactly the mistakes of a run."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape
from twintrack.nki.profiling import profile

WIDTH = 8
X = np.arange(128 * WIDTH, dtype=np.float32).reshape(128, WIDTH)


def told(run):
    """The message of a mistake, or nothing; numbers of registers aside."""
    try:
        run()
    except KernelError as error:
        return re.sub(r"register \d+", "register", str(error))
    return None


def alike(kernel):
    """The mistake that shapes find, which is that of a run with values."""
    with_values = told(lambda: nki.simulate(nki.jit(kernel))(X))
    on_shapes = told(lambda: profile(kernel, Shape(X.shape), what_if=False))
    assert on_shapes == with_values
    return on_shapes


def tile_of(x):
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    return tile


def column():
    made = nl.ndarray((128, 1), nl.float32)
    nisa.memset(made, 1.0)
    return made


def result(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("loop", ["fori", "dynamic", "while"])
@pytest.mark.parametrize("trips", [WIDTH - 1, WIDTH, WIDTH + 1])
@pytest.mark.parametrize("reads", [True, False])
def test_columns_by_the_register_of_a_loop(loop, trips, reads):
    def kernel(x):
        tile, one = tile_of(x) if reads else nl.ndarray(x.shape, x.dtype), column()

        def body(at):
            nisa.tensor_copy(*((one, tile[:, at]) if reads else (tile[:, at], one)))

        if loop == "fori":
            nl.fori_loop(0, trips, body)
        elif loop == "dynamic":
            for at in nl.dynamic_range(trips):
                body(at)
        else:
            left = nisa.register_alloc(trips)
            while left:
                nisa.register_move(left, left - 1)
                body(left)
        return result(tile)

    wrong = trips > WIDTH if reads else trips != WIDTH
    assert (alike(kernel) is not None) == wrong


steps = st.tuples(
    st.sampled_from(["read", "write", "store", "skip", "fetch"]),
    st.integers(-1, WIDTH + 1),
    st.sampled_from(["register", "sum", "select", "ap"]),
)


@settings(max_examples=150, deadline=None)
@given(st.booleans(), st.lists(steps, max_size=5))
def test_programs_of_known_registers_make_the_same_mistakes(filled, program):
    def kernel(x):
        tile, one = tile_of(x) if filled else nl.ndarray(x.shape, x.dtype), column()
        kept = nl.ndarray((128, WIDTH), nl.float32, buffer=nl.private_hbm)
        for what, at, how in program:
            register = nisa.register_alloc(at)
            register = register + 1 - 1 if how == "sum" else register
            held = kept if what in ("store", "skip", "fetch") else tile
            if how == "ap":
                place = held.ap([[WIDTH, 128], [1, 1]], scalar_offset=register, indirect_dim=1)
            else:
                place = held.select(1, register) if how == "select" else held[:, register]
            if what == "read":
                nisa.tensor_copy(one, place)
            elif what == "write":
                nisa.tensor_copy(place, one)
            elif what == "fetch":
                nisa.dma_copy(one, place)
            else:
                mode = nisa.oob_mode.skip if what == "skip" else nisa.oob_mode.error
                nisa.dma_copy(place, one, oob_mode=mode)
        nisa.dma_copy(kept[:, 0:1], tile[:, WIDTH - 1 : WIDTH])
        return result(tile)

    alike(kernel)


def test_a_register_that_nothing_wrote_is_no_address():
    def kernel(x):
        tile, one = tile_of(x), column()
        nisa.tensor_copy(one, tile[:, nisa.register_alloc()])
        return result(tile)

    assert "never written" in alike(kernel)


def test_a_register_that_was_loaded_may_name_any_element_on_shapes():
    """What it holds only values tell."""

    def kernel(x):
        tile, at, one = tile_of(x), nl.ndarray((1, 1), nl.int32), column()
        nisa.memset(at, WIDTH + 5)
        register = nisa.register_alloc()
        nisa.register_load(register, at)
        nisa.tensor_copy(one, tile[:, register])
        return result(tile)

    assert told(lambda: profile(kernel, Shape(X.shape), what_if=False)) is None
    assert "found index 13" in told(lambda: nki.simulate(nki.jit(kernel))(X))
