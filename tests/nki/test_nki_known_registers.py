"""Without values, registers whose value is known all the same give exactly the errors that they give with values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape

WIDE = 8


def said(kernel, values, **options):
    """What a run of a kernel on one array says; empty where it succeeds."""
    simulated = nki.simulate(kernel).with_options(generation=GENERATIONS["trn2"], values=values, **options)
    try:
        simulated(np.ones((4, WIDE), np.float32) if values else Shape((4, WIDE)))
    except KernelError as error:
        return str(error)
    return ""


def written_by(loop, first, count, step=1):
    def kernel(a):
        tile = nl.ndarray((4, WIDE), nl.float32, buffer=nl.sbuf)
        out = nl.ndarray((4, WIDE), nl.float32, buffer=nl.shared_hbm)

        def body(i):
            nisa.memset(tile[:, i], 1.0)

        if loop == "fori":
            nl.fori_loop(first, first + count * step, body, step)
        elif loop == "dynamic":
            for i in nl.dynamic_range(first, first + count * step, step):
                body(i)
        else:
            for at in range(first, first + count * step, step):
                body(nisa.register_alloc(at))
        nisa.dma_copy(out, tile)
        return out

    return kernel


@pytest.mark.parametrize("loop", ["fori", "dynamic", "unrolled"])
@pytest.mark.parametrize(
    ("first", "count", "expected"),
    [
        (0, WIDE, ""),
        (0, WIDE + 1, "found index 8 "),
        (0, WIDE - 1, "never written"),
        (1, WIDE - 1, "never written"),
    ],
)
def test_columns_that_known_registers_name_are_in_bounds_and_all_written(loop, first, count, expected):
    found = said(written_by(loop, first, count), values=False)
    assert expected in found
    assert bool(expected) == bool(found)
    assert found == said(written_by(loop, first, count), values=True)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["fori", "dynamic", "unrolled"]),
    st.integers(-2, WIDE + 1),
    st.integers(1, WIDE + 1),
    st.integers(1, 3),
)
def test_loops_over_known_registers_say_the_same_on_shapes(loop, first, count, step):
    kernel = written_by(loop, first, count, step)
    assert said(kernel, values=False) == said(kernel, values=True)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(-1, WIDE), max_size=6),
    st.lists(st.integers(-1, WIDE), min_size=1, max_size=4),
    st.sampled_from(["read", "copy", "skip"]),
)
def test_reads_and_writes_by_known_registers_say_the_same_on_shapes(writes, reads, how):
    def kernel(a):
        tile = nl.ndarray((4, WIDE), nl.float32, buffer=nl.sbuf)
        kept = nl.ndarray((4, len(reads)), nl.float32, buffer=nl.sbuf)
        out = nl.ndarray((4, len(reads)), nl.float32, buffer=nl.shared_hbm)
        for at in writes:
            nisa.memset(tile[:, nisa.register_alloc(at)], 1.0)
        for number, at in enumerate(reads):
            register = nisa.register_alloc()
            nisa.register_move(register, at)
            part = kept[:, number : number + 1]
            if how == "copy":
                nisa.tensor_copy(part, tile.select(1, register))
            elif how == "read":
                nisa.dma_copy(part, tile[:, register])
            else:
                nisa.dma_copy(part, a[:, register], oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(out, kept)
        return out

    assert said(kernel, values=False) == said(kernel, values=True)


def test_a_register_that_was_never_written_is_no_address_on_shapes_either():
    def kernel(a):
        tile = nl.load(a)
        nisa.memset(tile[:, nisa.register_alloc()], 0.0)
        return a

    assert "never written" in said(kernel, values=False)
    assert said(kernel, values=False) == said(kernel, values=True)


def test_a_register_loaded_from_memory_may_name_any_column_on_shapes():
    def kernel(a):
        tile = nl.ndarray((4, WIDE), nl.float32, buffer=nl.sbuf)
        number = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        out = nl.ndarray((4, WIDE), nl.float32, buffer=nl.shared_hbm)
        nisa.memset(number, WIDE)
        register = nisa.register_alloc()
        nisa.register_load(register, number)
        nisa.memset(tile[:, register], 1.0)
        for i in nl.dynamic_range(register):
            nisa.memset(tile[:, i], 1.0)
        nisa.dma_copy(out, tile)
        return out

    assert said(kernel, values=False, trip_counts={"": 2}) == ""
