"""What a run made is freed when it is let go: no search for cycles is needed, and none was changed for good."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from twintrack.neuroncore.collection import uncollected
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape
from twintrack.nki.kernel import options_from_environment
from twintrack.nki.launch import launch


def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.dma_copy(out, tile)
    return out


@pytest.fixture
def without_search():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("values", [True, False])
def test_nothing_of_a_run_outlives_what_it_gave(values, without_search):
    options = replace(options_from_environment(), values=values)
    given = np.ones((128, 8), np.float32) if values else Shape((128, 8))

    done = launch(doubled, (), (given,), {}, options)
    core, machine = (weakref.ref(one) for one in (done.cores[0], done.cores[0].machine))
    assert core() is not None
    del done

    assert core() is None
    assert machine() is None


@pytest.mark.parametrize("searching", [True, False])
def test_the_search_for_cycles_is_as_it_was(searching):
    was = gc.isenabled()
    (gc.enable if searching else gc.disable)()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() is searching
    finally:
        (gc.enable if was else gc.disable)()


def test_what_a_program_has_frozen_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with uncollected():
            made = [[] for _ in range(100)]
        assert gc.get_freeze_count() == frozen
        del made
    finally:
        gc.unfreeze()
