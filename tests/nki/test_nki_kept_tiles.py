"""Tiles that outlive their run or leave their core are refused; what cores share is not."""

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.ranks import run_ranks

X = np.full((4, 4), 7, np.float32)


def returned(source):
    out = nl.ndarray(source.shape, source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, source)
    return out


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("what", ["tile", "argument", "slice", "output", "constant"])
def test_a_tensor_kept_from_an_earlier_run_is_refused_at_the_line_that_uses_it(what, values):
    kept = {}

    @nki.jit
    def first(x):
        kept["tile"], kept["argument"], kept["output"] = nl.load(x), x, returned(x)
        kept["slice"], kept["constant"] = kept["tile"][:, 0:2], nl.shared_constant(X)
        nisa.dma_copy(nl.ndarray((4, 4), nl.float32), kept["constant"])
        return kept["output"]

    @nki.jit
    def second(x):
        nl.load(x)
        return returned(kept[what])

    first(X)
    with pytest.raises(KernelError, match="found one of another run in src, ") as caught:
        nki.simulate(second).with_options(values=values)(X)
    assert str(caught.value).startswith(f"{__file__}:")


def test_a_kept_index_and_a_kept_destination_are_refused_too():
    kept = []

    @nki.jit
    def first(x, at):
        kept.append(nl.load(at))
        return returned(x)

    @nki.jit
    def indexed(x):
        return returned(x.ap([[4, 1], [1, 4]], scalar_offset=kept[0]))

    @nki.jit
    def written(x):
        nisa.memset(kept[0], 1)
        return returned(x)

    first(X, np.ones((1, 1), np.int32))
    with pytest.raises(KernelError, match="found one of another run in the index of src"):
        indexed(X)
    with pytest.raises(KernelError, match="found one of another run in dst"):
        written(X)


def test_the_same_kernel_twice_and_a_tensor_returned_and_passed_again_work():
    @nki.jit
    def kernel(x):
        return returned(nl.load(x))

    assert np.array_equal(kernel(kernel(X)), X)


def test_a_tile_of_one_core_is_none_of_the_other():
    kept = {}

    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        kept[me] = nl.load(x)
        shared = nl.ndarray((2, 4, 4), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(shared[me], kept[0])
        return shared

    with pytest.raises(KernelError, match="found one of another core in src"):
        kernel[2](X)


def test_what_cores_share_is_of_both():
    """Arguments, shared HBM and constants, on the cores of LNC2, in grids, and on every rank."""

    @nki.jit
    def kernel(x):
        me = nl.program_id(0) if nl.num_programs(0) > 1 else 0
        shared = nl.ndarray((4, 4), x.dtype, buffer=nl.shared_hbm)
        tile, ones = nl.load(x), nl.load(nl.shared_constant(np.ones((4, 4), np.float32)))
        nisa.tensor_tensor(tile, tile, ones, nl.add)
        rows = nl.ds(2 * (me % 2), 2)
        half = nl.ndarray((2, 4), x.dtype)
        nisa.dma_copy(half, tile[rows])
        nisa.dma_copy(shared[rows], half)
        return shared

    for grid in (2, 4):
        assert np.array_equal(kernel[grid](X), X + 1)
    for one in run_ranks(kernel, [(X,), (X,), (X,)], lnc=2):
        assert np.array_equal(one, X + 1)


def test_a_tensor_of_another_rank_is_refused():
    kept = []

    @nki.jit
    def kernel(x):
        kept.append(x)
        return returned(kept[0])

    with pytest.raises(KernelError, match="found one of another core in src"):
        run_ranks(kernel, [(X.copy(),), (X.copy(),)])
