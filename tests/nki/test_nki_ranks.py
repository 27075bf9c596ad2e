"""``run_ranks``: arguments and results per rank, and what the ranks do not share."""

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import collectives as cc
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.kernel import Options
from twintrack.nki.ranks import ranks_of_node, run_ranks

OPTIONS = Options(GENERATIONS["trn2"])


def doubled(a, factor=2):
    tile = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(tile, a)
    nisa.tensor_scalar(tile, tile, nl.multiply, factor)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def increment(a):
    tile = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(tile, a)
    nisa.tensor_scalar(tile, tile, nl.add, 1)
    nisa.dma_copy(a, tile)


def arrays(count):
    return [np.full((2, 3), float(rank), np.float32) for rank in range(count)]


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_each_rank_has_its_arguments_and_its_result(lnc, count):
    found = run_ranks(nki.jit(doubled), [(a, 3) for a in arrays(count)], lnc=lnc, options=OPTIONS)
    assert [float(one[0, 0]) for one in found] == [3.0 * rank for rank in range(count)]


def test_a_rank_writes_to_its_own_argument():
    given = arrays(3)
    run_ranks(increment, [[a] for a in given], options=OPTIONS)
    assert [float(a[0, 0]) for a in given] == [1, 2, 3]


def test_an_array_of_several_ranks_may_be_read_but_not_written():
    common = np.ones((2, 3), np.float32)
    found = run_ranks(doubled, [[common]] * 3, options=OPTIONS)
    assert [float(one[0, 0]) for one in found] == [2.0] * 3
    with pytest.raises(KernelError, match="an array of its own for each rank that writes"):
        run_ranks(increment, [[common]] * 2, options=OPTIONS)
    np.testing.assert_array_equal(common, 1)


def test_overlapping_parts_of_an_array_are_found_and_disjoint_ones_are_written():
    whole = np.zeros((4, 3), np.float32)
    run_ranks(increment, [[whole[:2]], [whole[2:]]], options=OPTIONS)
    np.testing.assert_array_equal(whole, 1)
    with pytest.raises(KernelError, match="shares memory with another rank's argument"):
        run_ranks(increment, [[whole[:3]], [whole[2:]]], options=OPTIONS)


def test_shared_hbm_is_shared_within_a_rank_only():
    def kernel(a):
        out = nl.ndarray((2, 3), a.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        nisa.dma_copy(out[core : core + 1], a[core : core + 1])
        return out

    given = arrays(3)
    for one, expected in zip(
        run_ranks(kernel, [[a] for a in given], lnc=2, options=OPTIONS), given, strict=True
    ):
        np.testing.assert_array_equal(one, expected)


def test_torch_arguments_give_torch_results():
    torch = pytest.importorskip("torch")
    found = run_ranks(doubled, [[torch.ones(2, 3)], [torch.zeros(2, 3)]], options=OPTIONS)
    assert [one.sum().item() for one in found] == [12.0, 0.0]


@pytest.mark.parametrize(("arguments", "lnc"), [([], 1), ([[np.ones((1, 1), np.float32)]], 3)])
def test_no_ranks_or_other_sizes_of_a_rank_are_refused(arguments, lnc):
    with pytest.raises(KernelError, match="at least one rank, of 1 or 2 cores"):
        run_ranks(doubled, arguments, lnc=lnc, options=OPTIONS)


def test_an_error_of_one_rank_ends_all_and_has_its_line():
    def kernel(a, which):
        out = doubled(a)
        if which == 2:
            nisa.memset(nl.ndarray((256, 1), nl.float32), 0)
        cc.all_reduce(
            [out], [nl.ndarray(a.shape, a.dtype, buffer=nl.hbm)], cc.ReplicaGroup([[0, 1, 2]]), nl.add
        )
        return out

    with pytest.raises(KernelError, match="at most 128 partitions") as caught:
        run_ranks(kernel, [(a, rank) for rank, a in enumerate(arrays(3))], options=OPTIONS)
    assert "test_nki_ranks.py:" in caught.value.where


def test_ranks_of_one_instance_are_as_documented():
    assert [ranks_of_node(GENERATIONS["trn2"], lnc) for lnc in (1, 2)] == [128, 64]
    assert ranks_of_node(GENERATIONS["trn1"], 1) == 32


def test_many_ranks_meet():
    group = cc.ReplicaGroup([list(range(64))])

    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        cc.all_reduce([a], [out], group, nl.add)
        return out

    found = run_ranks(kernel, [[a] for a in arrays(64)], options=OPTIONS)
    assert {float(one[0, 0]) for one in found} == {float(sum(range(64)))}
