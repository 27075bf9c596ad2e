"""Collectives with counts per rank, against the documented rows of their metadata in plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import collectives as cc
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape
from twintrack.nki.kernel import Options
from twintrack.nki.ranks import run_ranks

FILL = -1.0


def run(kernel, inputs, *, lnc=2, chip="trn3", node=None, **changes):
    options = Options(GENERATIONS[chip], **changes)
    return run_ranks(kernel, inputs, lnc=lnc, options=options, ranks_per_node=node)


def refused(kernel, inputs, match, **changes):
    with pytest.raises(KernelError, match=match) as caught:
        run(kernel, inputs, **changes)
    assert "test_nki_collectives_by_counts.py:" in caught.value.where
    return str(caught.value)


def exchange(call, group, slots, *, on_chip=False, **flags):
    """A kernel that fills its destination, makes one call, and returns it with the metadata."""

    def kernel(src, metadata):
        dst = nl.ndarray((1, slots), src.dtype, buffer=nl.shared_hbm)
        fill = nl.ndarray((1, slots), src.dtype)
        nisa.memset(fill, FILL)
        rows, columns = metadata.shape
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst, fill)
        back = nl.ndarray((rows, columns), metadata.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(back, metadata)
        if nl.num_programs() > 1:
            nisa.core_barrier(dst, (0, 1))
        held = back
        if on_chip:
            held = nl.ndarray((1, rows, columns), metadata.dtype)
            nisa.dma_copy(held, metadata.reshape((1, rows, columns)))
        call([src], [dst], group, held, **flags)
        if on_chip and nl.program_id(0) == 0:
            nisa.dma_copy(back, held.reshape((1, rows * columns)))
        return dst, back

    return kernel


def chunks(ranks, size, seed):
    """Sources, and counts and displacements that fit slots of ``size`` elements, of every rank for every rank."""
    generator = np.random.default_rng(seed)
    sources = [generator.standard_normal((1, 3 * size)).astype(np.float32) for _ in range(ranks)]
    counts = generator.integers(0, size + 1, (ranks, ranks))
    displs = generator.integers(0, 2 * size, (ranks, ranks))
    return sources, counts, displs


def metadata_of(counts, displs, extra=()):
    empty = np.full(len(counts), 9)
    return np.stack([counts, displs, empty, *extra]).astype(np.uint32)


def received(place, sources, counts, displs, starts, slots):
    found = np.full(slots, FILL, np.float32)
    for sender, source in enumerate(sources):
        count, displ = counts[sender][place], displs[sender][place]
        found[starts[sender] : starts[sender] + count] = source[0, displ : displ + count]
    return found


@pytest.mark.parametrize("on_chip", [False, True])
@given(seed=st.integers(0, 1000), size=st.integers(1, 4))
@settings(max_examples=6, deadline=None)
def test_all_to_all_v_moves_the_chunks_of_each_rank_to_each(on_chip, seed, size):
    sources, counts, displs = chunks(8, size, seed)
    kernel = exchange(cc.all_to_all_v, cc.ReplicaGroup([list(range(8))]), 8 * size, on_chip=on_chip)
    inputs = [(source, metadata_of(counts[r], displs[r])) for r, source in enumerate(sources)]
    for rank, (dst, back) in enumerate(run(kernel, inputs)):
        starts = [size * sender for sender in range(8)]
        np.testing.assert_array_equal(dst[0], received(rank, sources, counts, displs, starts, 8 * size))
        np.testing.assert_array_equal(back[2], counts[:, rank])
        np.testing.assert_array_equal(back[:2], [counts[rank], displs[rank]])


def test_all_to_all_v_puts_chunks_where_row_3_says():
    sources, counts, displs = chunks(8, 2, 3)
    starts = np.random.default_rng(1).permutation(8) * 2
    kernel = exchange(cc.all_to_all_v, cc.ReplicaGroup([list(range(8))]), 16, has_rdispls=True)
    inputs = [(source, metadata_of(counts[r], displs[r], [starts])) for r, source in enumerate(sources)]
    for rank, (dst, _) in enumerate(run(kernel, inputs)):
        np.testing.assert_array_equal(dst[0], received(rank, sources, counts, displs, starts, 16))


@pytest.mark.parametrize("on_chip", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_all_gather_v_sends_the_chunk_of_the_first_column_to_all(on_chip, known):
    size = 3
    sources, counts, displs = chunks(4, size, 5)
    counts, displs = counts[:, :1].repeat(4, 1), displs[:, :1].repeat(4, 1)
    group = cc.ReplicaGroup([[2, 0, 3, 1]])
    order = [2, 0, 3, 1]
    kernel = exchange(cc.all_gather_v, group, 4 * size, on_chip=on_chip, recv_counts_known=known)
    inputs = []
    for rank, source in enumerate(sources):
        metadata = metadata_of(counts[rank], displs[rank])
        metadata[:2, 1:] = 77  # only the first column counts
        inputs.append((source, metadata))
    starts = [size * place for place in range(4)]
    ordered = [[one[rank] for rank in order] for one in (sources, counts, displs)]
    for dst, back in run(kernel, inputs, chip="trn2"):
        np.testing.assert_array_equal(dst[0], received(0, *ordered, starts, 4 * size))
        np.testing.assert_array_equal(back[2], [9] * 4 if known else [counts[rank, 0] for rank in order])


def test_before_trn3_all_to_all_v_joins_ranks_of_one_index_in_different_nodes():
    sources, counts, displs = chunks(4, 2, 7)
    group = cc.ReplicaGroup([[0, 2], [1, 3]])
    inputs = [(one, metadata_of(counts[r][:2], displs[r][:2])) for r, one in enumerate(sources)]
    found = run(exchange(cc.all_to_all_v, group, 4), inputs, lnc=1, chip="trn2", node=2)
    pair = [0, 2]
    expected = received(1, [sources[r] for r in pair], counts[pair], displs[pair], [0, 2], 4)
    np.testing.assert_array_equal(found[2][0][0], expected)
    refused(
        exchange(cc.all_to_all_v, cc.ReplicaGroup([[0, 1], [2, 3]]), 4),
        inputs,
        r"ranks of the same index in nodes of 2 ranks",
        lnc=1,
        chip="trn2",
        node=2,
    )


def test_counts_are_not_read_without_values_and_the_destination_counts_as_written():
    def kernel(src, metadata):
        dst = nl.ndarray((1, 8), src.dtype, buffer=nl.shared_hbm)
        cc.all_gather_v([src], [dst], cc.ReplicaGroup([[0, 1, 2, 3]]), metadata)
        return dst

    found = run(kernel, [(Shape((1, 6)), Shape((3, 4), "uint32"))] * 4, values=False)
    assert [one.dims for one in found] == [(1, 8)] * 4


@pytest.mark.parametrize("values", [True, False])
def test_counts_that_were_never_written_are_refused(values):
    def kernel(src):
        dst = nl.ndarray((1, 8), src.dtype, buffer=nl.shared_hbm)
        metadata = nl.ndarray((3, 4), nl.uint32, buffer=nl.shared_hbm)
        cc.all_gather_v([src], [dst], cc.ReplicaGroup([[0, 1, 2, 3]]), metadata)

    inputs = [(np.ones((1, 6), np.float32) if values else Shape((1, 6)),) for _ in range(4)]
    refused(kernel, inputs, "metadata_tensor written before it is read", values=values)


# rules


def gather_inputs(ranks=4, count=1, displ=0):
    metadata = metadata_of(np.full(4, count), np.full(4, displ))
    return [(np.ones((1, 6), np.float32), metadata.copy()) for _ in range(ranks)]


FOUR = cc.ReplicaGroup([[0, 1, 2, 3]])


def test_a_chunk_outside_the_source_or_larger_than_a_slot_names_the_rank():
    kernel = exchange(cc.all_gather_v, FOUR, 8)
    refused(kernel, gather_inputs(count=2, displ=5), r"send_displ 5 and send_count 2 inside src.* on rank 0")
    refused(kernel, gather_inputs(count=3), r"at most 2 elements from rank 0, which sends 3")


def test_a_place_outside_the_destination_is_refused():
    kernel = exchange(cc.all_to_all_v, cc.ReplicaGroup([list(range(8))]), 8, has_rdispls=True)
    metadata = metadata_of(np.ones(8), np.zeros(8), [np.full(8, 8)])
    inputs = [(np.ones((1, 6), np.float32), metadata.copy()) for _ in range(8)]
    refused(kernel, inputs, r"at most 0 elements from rank 0")


def test_where_all_gather_v_is_supported():
    refused(exchange(cc.all_gather_v, FOUR, 8), gather_inputs(), "LNC2", lnc=1)
    refused(exchange(cc.all_gather_v, FOUR, 8, has_rdispls=True), gather_inputs(), "has_rdispls=False")
    two = cc.ReplicaGroup([[0, 1], [2, 3]])
    refused(exchange(cc.all_gather_v, two, 8), gather_inputs(), "4 ranks in each rank list")
    across = cc.ReplicaGroup([[0, 1, 2, 4], [3, 5, 6, 7]])
    refused(exchange(cc.all_gather_v, across, 8), gather_inputs(8), "the 4 ranks of one chip")


def test_where_all_to_all_v_is_supported():
    def inputs(size, ranks=8):
        metadata = metadata_of(np.ones(size), np.zeros(size))
        return [(np.ones((1, 6), np.float32), metadata.copy()) for _ in range(ranks)]

    eight = cc.ReplicaGroup([list(range(8))])
    refused(exchange(cc.all_to_all_v, eight, 8), inputs(8), "LNC2", lnc=1)
    refused(exchange(cc.all_to_all_v, FOUR, 8), inputs(4, 4), "two or more whole devices")
    swapped = cc.ReplicaGroup([[1, 0, 2, 3, 4, 5, 6, 7]])
    refused(exchange(cc.all_to_all_v, swapped, 8), inputs(8), "sequential ranks")
    refused(
        exchange(cc.all_to_all_v, eight, 8, has_rdispls=True),
        inputs(8),
        "has_rdispls=False before",
        chip="trn2",
    )


def made(shape, dtype=nl.float32, region=nl.shared_hbm):
    return nl.ndarray(shape, dtype, buffer=region)


META = {"dtype": nl.uint32}


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: ([made((1, 6))] * 2, [made((1, 8))], made((3, 4), **META)), "one tensor in srcs"),
        (lambda: ([made((1, 6))], [made((1, 8))] * 2, made((3, 4), **META)), "one tensor in srcs"),
        (lambda: ([made((1, 6))], [made((1, 8), nl.int32)], made((3, 4), **META)), "the source's type"),
        (lambda: ([made((1, 6), region=nl.sbuf)], [made((1, 8))], made((3, 4), **META)), "srcs in HBM"),
        (lambda: ([made((1, 6))], [made((1, 8), region=nl.sbuf)], made((3, 4), **META)), "dsts in HBM"),
        (lambda: ([made((1, 6))], [made((1, 7))], made((3, 4), **META)), "a multiple of 4 elements"),
        (lambda: ([made((4, 6))[:, 0:3]], [made((1, 8))], made((3, 4), **META)), "a dense tensor"),
        (lambda: ([made((1, 6))], [made((1, 8))], made((3, 4), nl.int32)), "type uint32"),
        (lambda: ([made((1, 6))], [made((1, 8))], made((4, 4), **META)), r"shape \[3, 4\]"),
        (lambda: ([made((1, 6))], [made((1, 8))], made((3, 4), nl.uint32, nl.sbuf)), r"shape \[1, 3, 4\]"),
        (lambda: ([made((1, 6))], [made((1, 8))], made((3, 4), nl.uint32, nl.psum)), "HBM or SBUF"),
        (lambda: ([made((1, 6))], [made((1, 8))], 3), "a tensor for metadata_tensor"),
    ],
)
def test_operands_that_break_a_rule_are_refused(call, match):
    def kernel():
        srcs, dsts, metadata = call()
        cc.all_gather_v(srcs, dsts, FOUR, metadata)

    refused(kernel, [()] * 4, match)
