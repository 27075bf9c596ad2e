"""Collectives over ranks in one process, against NumPy in the order of the group's list."""

import functools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import collectives as cc
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape
from twintrack.nki.kernel import Options
from twintrack.nki.ranks import run_ranks

NUMPY = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}
OPS = {"add": nl.add, "minimum": nl.minimum, "maximum": nl.maximum}


def options(chip="trn2", **changes):
    return Options(GENERATIONS[chip], **changes)


def run(kernel, inputs, *, lnc=1, chip="trn2", node=None, **changes):
    arguments = [one if isinstance(one, tuple) else (one,) for one in inputs]
    return run_ranks(kernel, arguments, lnc=lnc, options=options(chip, **changes), ranks_per_node=node)


def refused(kernel, inputs, match, **changes):
    with pytest.raises(KernelError, match=match) as caught:
        run(kernel, inputs, **changes)
    assert "test_nki_collectives.py:" in caught.value.where
    return str(caught.value)


def everyone(count):
    return cc.ReplicaGroup([list(range(count))])


def on(region, a):
    """A copy of an argument in HBM of our own, or in SBUF."""
    made = nl.ndarray(a.shape, a.dtype, buffer=region)
    nisa.dma_copy(made, a)
    return made


def given_back(tensor):
    if not tensor.storage.buffer.on_chip:
        return tensor
    out = nl.ndarray(tensor.shape, tensor.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tensor)
    return out


def collective(call, shape=None, region=nl.shared_hbm):
    """A kernel that makes one call and returns its destination, of this shape where it is not the source's."""

    def kernel(a):
        src = on(region, a)
        dst = nl.ndarray(shape or a.shape, a.dtype, buffer=region)
        call([src], [dst])
        return given_back(dst)

    return kernel


def numbers(count, shape=(8, 6), dtype=np.float32, seed=0):
    generator = np.random.default_rng(seed)
    return [(generator.standard_normal(shape) * 8).astype(dtype) for _ in range(count)]


def reduced(op, arrays):
    """In the order of the list, from the left, in float32 (integers exactly), rounded once."""
    wide = [a.astype(np.float32) if a.dtype.kind not in "iu" else a for a in arrays]
    return functools.reduce(NUMPY[op], wide).astype(arrays[0].dtype)


# what the ranks get


@pytest.mark.parametrize("region", [nl.shared_hbm, nl.private_hbm, nl.sbuf])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_all_reduce_gives_every_rank_the_reduction(op, dtype, region):
    inputs = numbers(5, dtype=dtype)
    found = run(collective(lambda s, d: cc.all_reduce(s, d, everyone(5), OPS[op]), region=region), inputs)
    assert len(found) == 5
    for one in found:
        np.testing.assert_array_equal(one, reduced(op, inputs))


def test_a_reduction_takes_the_ranks_in_the_order_of_the_list():
    inputs = [np.full((1, 1), value, np.float32) for value in (1e8, 1.0, -1e8)]
    for order in ([0, 1, 2], [0, 2, 1], [2, 0, 1]):
        group = cc.ReplicaGroup([order])
        found = run(collective(lambda s, d, group=group: cc.all_reduce(s, d, group, nl.add)), inputs)
        expected = reduced("add", [inputs[rank] for rank in order])
        assert {float(one[0, 0]) for one in found} == {float(expected[0, 0])}
    assert reduced("add", inputs)[0, 0] != reduced("add", [inputs[0], inputs[2], inputs[1]])[0, 0]


def test_integers_wrap_as_their_type_does():
    inputs = [np.full((1, 1), 2**31 - 1, np.int32) for _ in range(2)]
    found = run(collective(lambda s, d: cc.all_reduce(s, d, everyone(2), nl.add)), inputs)
    assert found[0][0, 0] == -2


@pytest.mark.parametrize(
    ("region", "dim"), [(nl.shared_hbm, 0), (nl.private_hbm, 0), (nl.sbuf, 0), (nl.sbuf, 1)]
)
def test_all_gather_concatenates_in_the_order_of_the_list(region, dim):
    inputs = numbers(4, (8, 6))
    group = cc.ReplicaGroup([[2, 0], [3, 1]])
    shape = (16, 6) if dim == 0 else (8, 12)
    found = run(collective(lambda s, d: cc.all_gather(s, d, group, dim), shape, region), inputs)
    for ranks in ([2, 0], [3, 1]):
        expected = np.concatenate([inputs[rank] for rank in ranks], axis=dim)
        for rank in ranks:
            np.testing.assert_array_equal(found[rank], expected)


@pytest.mark.parametrize("region", [nl.shared_hbm, nl.sbuf])
@pytest.mark.parametrize("op", OPS)
def test_reduce_scatter_gives_each_rank_its_part(op, region):
    inputs = numbers(4)
    call = collective(lambda s, d: cc.reduce_scatter(s, d, everyone(4), 0, OPS[op]), (2, 6), region)
    for rank, one in enumerate(run(call, inputs)):
        np.testing.assert_array_equal(one, reduced(op, inputs)[2 * rank : 2 * rank + 2])


def test_all_to_all_is_a_transposition_of_parts():
    inputs = numbers(4)
    found = run(collective(lambda s, d: cc.all_to_all(s, d, everyone(4), 0)), inputs)
    for rank, one in enumerate(found):
        expected = np.concatenate([sent[2 * rank : 2 * rank + 2] for sent in inputs])
        np.testing.assert_array_equal(one, expected)


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 5),
    st.sampled_from([np.float32, ml_dtypes.bfloat16, np.int16]),
    st.integers(0, 99),
)
@settings(max_examples=20, deadline=None)
def test_reduce_scatter_and_all_gather_are_all_reduce(ranks, rows, columns, dtype, seed):
    def kernel(a):
        src = on(nl.shared_hbm, a)
        part = nl.ndarray((rows, columns), a.dtype, buffer=nl.shared_hbm)
        whole, once = (nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm) for _ in range(2))
        cc.reduce_scatter([src], [part], everyone(ranks), 0, nl.add)
        cc.all_gather([part], [whole], everyone(ranks), 0)
        cc.all_reduce([src], [once], everyone(ranks), nl.add)
        return whole, once

    for whole, once in run(kernel, numbers(ranks, (rows * ranks, columns), dtype, seed)):
        np.testing.assert_array_equal(whole, once)


def test_several_tensors_travel_in_one_call():
    def kernel(a):
        first, second = on(nl.hbm, a), on(nl.hbm, a[0:2])
        outs = [nl.ndarray(one.shape, one.dtype, buffer=nl.shared_hbm) for one in (first, second)]
        cc.all_reduce([first, second], outs, everyone(3), nl.maximum)
        return tuple(outs)

    inputs = numbers(3)
    for first, second in run(kernel, inputs):
        np.testing.assert_array_equal(first, reduced("maximum", inputs))
        np.testing.assert_array_equal(second, reduced("maximum", inputs)[:2])


def test_a_reduction_in_place_reduces_once_on_one_core_and_on_two():
    def kernel(a):
        made = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(made, a)
        cc.all_reduce([made], [made], everyone(3), nl.add)
        return made

    inputs = numbers(3)
    for lnc in (1, 2):
        for one in run(kernel, inputs, lnc=lnc):
            np.testing.assert_array_equal(one, reduced("add", inputs))


def test_eight_ranks_of_two_cores_each_with_its_half():
    """Core n exchanges with the cores n of the other ranks, here each its half in SBUF."""

    def kernel(a):
        core = nl.program_id(0)
        rows = slice(4 * core, 4 * core + 4)
        mine, total = (nl.ndarray((4, 6), a.dtype) for _ in range(2))
        nisa.dma_copy(mine, a[rows])
        cc.all_reduce([mine], [total], everyone(8), nl.add)
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[rows], total)
        return out

    inputs = numbers(8)
    for one in run(kernel, inputs, lnc=2):
        np.testing.assert_array_equal(one, reduced("add", inputs))


def test_a_collective_orders_what_the_two_cores_of_a_rank_do_before_and_after_it():
    def kernel(a, ordered):
        core = nl.program_id(0)
        rows, others = slice(4 * core, 4 * core + 4), slice(4 - 4 * core, 8 - 4 * core)
        src, dst, out = (nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm) for _ in range(3))
        nisa.dma_copy(src[rows], a[rows])
        if ordered:
            cc.all_reduce([src], [dst], everyone(2), nl.add)
        else:
            nisa.dma_copy(dst[rows], a[rows])
        nisa.dma_copy(out[rows], dst[others] if ordered or core else src[rows])
        return out

    inputs = numbers(2)
    found = run(kernel, [(a, True) for a in inputs], lnc=2, checks=Checks.ALL)
    np.testing.assert_array_equal(found[0], np.roll(reduced("add", inputs), 4, axis=0))
    refused(kernel, [(a, False) for a in inputs], "core_barrier", lnc=2, checks=Checks.ALL)


def test_a_kernel_launched_as_usual_is_rank_0_of_one():
    def kernel(a):
        src, dst = on(nl.hbm, a), nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        cc.all_reduce([src], [dst], everyone(1), nl.add)
        return dst

    (given_one,) = numbers(1)
    for launched in (nki.simulate(kernel), nki.simulate(kernel)[3]):
        found = launched.with_options(generation=GENERATIONS["trn2"])(given_one)
        np.testing.assert_array_equal(found, given_one)


# permutations


def test_collective_permute_sends_along_the_pairs_and_leaves_others_alone():
    pairs = [(0, 2), (2, 1), (1, 0)]

    def kernel(a):
        dst = on(nl.shared_hbm, a)
        cc.collective_permute([a], [dst], pairs)
        return dst

    inputs = numbers(4)
    found = run(kernel, inputs)
    for rank, source in ((2, 0), (1, 2), (0, 1), (3, 3)):
        np.testing.assert_array_equal(found[rank], inputs[source])


@pytest.mark.parametrize("region", [nl.shared_hbm, nl.sbuf])
def test_the_implicit_permutation_sends_to_the_successor_in_the_list(region):
    ring = [2, 0, 1]
    group = cc.ReplicaGroup([ring])
    inputs = numbers(3)
    call = collective(lambda s, d: cc.collective_permute_implicit([s], [d], group), region=region)
    found = run(call, inputs)
    for place, rank in enumerate(ring):
        np.testing.assert_array_equal(found[rank], inputs[ring[place - 1]])


def test_the_implicit_permutation_uses_several_channels():
    def kernel(a):
        halves = [on(nl.hbm, a[0:4]), on(nl.hbm, a[4:8])]
        outs = [nl.ndarray((4, 6), a.dtype, buffer=nl.shared_hbm) for _ in range(2)]
        cc.collective_permute_implicit(
            [[one] for one in halves], [[one] for one in outs], everyone(3), [0, 1]
        )
        return tuple(outs)

    inputs = numbers(3)
    for rank, halves in enumerate(run(kernel, inputs)):
        np.testing.assert_array_equal(np.concatenate(halves), inputs[rank - 1])


def test_the_implicit_permutation_with_reduction_sends_the_reduced():
    def kernel(a, b):
        dst = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        cc.collective_permute_implicit_reduce([[a]], [[b]], [[dst]], everyone(3), nl.add)
        return dst

    left, right = numbers(3, dtype=ml_dtypes.bfloat16), numbers(3, dtype=ml_dtypes.bfloat16, seed=1)
    found = run(kernel, list(zip(left, right, strict=True)))
    for rank, one in enumerate(found):
        np.testing.assert_array_equal(one, reduced("add", [left[rank - 1], right[rank - 1]]))


def test_a_ring_gathers_what_all_gather_does():
    """Each step puts what came from the predecessor where the current rank's data belong, at a register's address."""
    ring = [1, 3, 0, 2]
    group = cc.ReplicaGroup([ring])

    def kernel(a):
        out = nl.ndarray((4, 6), a.dtype, buffer=nl.shared_hbm)
        held = on(nl.private_hbm, a)
        tile = nl.ndarray((1, 6), a.dtype)
        for step in nl.static_range(4):
            rank = cc.collective_permute_implicit_current_processing_rank_id(step, group)
            nisa.dma_copy(tile, held)
            nisa.dma_copy(out.ap([[6, 1], [1, 6]], scalar_offset=rank * 1), tile)
            if step < 3:
                received = nl.ndarray(a.shape, a.dtype, buffer=nl.private_hbm)
                cc.collective_permute_implicit([[held]], [[received]], group)
                held = received
        return out

    inputs = numbers(4, (1, 6))
    for one in run(kernel, inputs):
        np.testing.assert_array_equal(one, np.concatenate(inputs))


@pytest.mark.parametrize("values", [True, False])
def test_ranks_are_known_as_registers_with_and_without_values(values):
    group = cc.ReplicaGroup([[2, 0], [1]])
    seen = []

    def kernel(a):
        steps = [cc.collective_permute_implicit_current_processing_rank_id(step, group) for step in (0, 1)]
        later = cc.collective_permute_implicit_current_processing_rank_id(nisa.register_alloc(3), group)
        seen.append([one.value for one in (cc.rank_id(), *steps, later)])
        return on(nl.shared_hbm, a)

    inputs = numbers(3) if values else [Shape((8, 6))] * 3
    run(kernel, inputs, values=values)
    assert seen == [[0, 0, 2, 2], [1, 1, 1, 1], [2, 2, 0, 0]]


def test_a_negative_step_of_the_ring_is_refused():
    def kernel(a):
        cc.collective_permute_implicit_current_processing_rank_id(-1, everyone(1))

    refused(kernel, numbers(1), "iteration_id from 0")


# determinism


@pytest.mark.parametrize("lnc", [1, 2])
def test_values_and_the_order_of_issue_are_the_same_in_every_run(lnc):
    call = collective(lambda s, d: cc.all_reduce(s, d, everyone(8), nl.add))
    runs = []
    for _ in range(3):
        kept = []
        found = run(
            call,
            numbers(8),
            lnc=lnc,
            sink=lambda core, ins, kept=kept: kept.append((core, ins.number, ins.opcode, ins.line)),
        )
        runs.append((kept, [one.tobytes() for one in found]))
    assert runs[0] == runs[1] == runs[2]
    assert {core for core, *_ in runs[0][0]} == set(range(8 * lnc))


def test_without_values_a_destination_counts_as_written_and_sources_must_be():
    call = collective(lambda s, d: cc.all_reduce(s, d, everyone(2), nl.add))
    found = run(call, [Shape((8, 6))] * 2, values=False)
    assert [one.dims for one in found] == [(8, 6)] * 2

    def unwritten(a):
        src, dst = (nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm) for _ in range(2))
        cc.all_reduce([src], [dst], everyone(2), nl.add)

    refused(unwritten, [Shape((8, 6))] * 2, "srcs written before it is read", values=False)
    refused(unwritten, numbers(2), "srcs written before it is read")


# ranks that do not agree


def by_rank(*kernels):
    """A kernel that does something else on each rank: only the caller's Python can tell them apart."""

    def kernel(a, which):
        return kernels[which](a)

    return kernel


def called(call):
    def body(a):
        dst = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        call([a], [dst])
        return dst

    return body


def add(group):
    return called(lambda s, d: cc.all_reduce(s, d, group, nl.add))


def test_a_rank_that_never_arrives_is_a_deadlock_that_is_named():
    kernel = by_rank(add(everyone(3)), add(everyone(3)), lambda a: on(nl.shared_hbm, a))
    inputs = [(a, at) for at, a in enumerate(numbers(3))]
    message = refused(kernel, inputs, "a deadlock: rank 0 waits for rank 2 in all_reduce at")
    assert "rank 1 waits for rank 2 in all_reduce" in message
    assert "ended: rank 2" in message


def test_a_core_that_never_arrives_is_named_with_its_rank():
    def kernel(a):
        dst = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            cc.all_reduce([a], [dst], everyone(2), nl.add)
        return dst

    message = refused(
        kernel, numbers(2), "a deadlock: rank 0 core 0 waits for rank 0 core 1, rank 1 core 1", lnc=2
    )
    assert "ended: rank 0 core 1, rank 1 core 1" in message


def test_groups_that_differ_in_their_ranks_are_a_deadlock():
    kernel = by_rank(add(everyone(2)), add(cc.ReplicaGroup([[0, 1, 2]])), add(cc.ReplicaGroup([[0, 1, 2]])))
    refused(kernel, [(a, at) for at, a in enumerate(numbers(3))], "a deadlock: rank 0 waits for rank 1")


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (called(lambda s, d: cc.all_reduce(s, d, everyone(2), nl.maximum)), "the same op for all_reduce"),
        (called(lambda s, d: cc.all_to_all(s, d, everyone(2), 0)), "the same instruction for all_reduce"),
        (add(cc.ReplicaGroup([[1, 0]])), "the same replica_group"),
        (add(cc.ReplicaGroup([[0, 1], [2]])), "the same replica_group"),
        (
            lambda a: cc.all_reduce(
                [a[0:2]], [nl.ndarray((2, 6), a.dtype, buffer=nl.hbm)], everyone(2), nl.add
            ),
            "the same type and shape of dsts",
        ),
        (
            lambda a: cc.all_reduce(
                [a, a], [nl.ndarray(a.shape, a.dtype, buffer=nl.hbm) for _ in "ab"], everyone(2), nl.add
            ),
            "the same number of tensors",
        ),
    ],
)
def test_unequal_arguments_between_ranks_name_both_lines(other, match):
    kernel = by_rank(add(everyone(2)), other, functools.partial(on, nl.shared_hbm))
    message = refused(kernel, [(a, at) for at, a in enumerate(numbers(3))], match)
    assert message.count("test_nki_collectives.py:") == 3


# rules


HBM, SBUF = nl.shared_hbm, nl.sbuf


def made(shape=(8, 6), dtype=nl.float32, region=HBM):
    return nl.ndarray(shape, dtype, buffer=region)


G2 = cc.ReplicaGroup([[0, 1]])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: cc.all_reduce([made()], [made()], G2, nl.multiply), "nl.add, nl.minimum or nl.maximum"),
        (lambda: cc.all_reduce([made()], [made((8, 5))], G2, nl.add), r"a destination of shape \[8, 6\]"),
        (lambda: cc.all_reduce([made()], [made(dtype=nl.int32)], G2, nl.add), "the source's type"),
        (
            lambda: cc.all_reduce([made()], [made(region=SBUF)], G2, nl.add),
            "all tensors in HBM, or all in SBUF",
        ),
        (lambda: cc.all_reduce([made(region=nl.psum)], [made()], G2, nl.add), "HBM or SBUF"),
        (
            lambda: cc.all_reduce([made(region=SBUF)] * 2, [made(region=SBUF)] * 2, G2, nl.add),
            "one tensor in SBUF",
        ),
        (
            lambda: cc.all_reduce([made((8, 2, 3), region=SBUF)], [made((8, 2, 3), region=SBUF)], G2, nl.add),
            "2-D tensors in SBUF",
        ),
        (lambda: cc.all_reduce([made()] * 2, [made()], G2, nl.add), "as many dsts as srcs"),
        (lambda: cc.all_reduce([], [], G2, nl.add), "at least one"),
        (lambda: cc.all_reduce(made(), [made()], G2, nl.add), "a list of tensors for srcs"),
        (lambda: cc.all_reduce([1], [made()], G2, nl.add), "a tensor for srcs"),
        (lambda: cc.all_reduce([made()], [made()], [[0, 1]], nl.add), "a ReplicaGroup"),
        (lambda: cc.all_reduce([made()], [made()], cc.ReplicaGroup([0, 1]), nl.add), "lists of ranks"),
        (lambda: cc.all_reduce([made()], [made()], cc.ReplicaGroup([[5]]), nl.add), r"this rank \(0\)"),
        (lambda: cc.all_reduce([made()], [made()], cc.ReplicaGroup([[0, 5], [1]]), nl.add), "found rank 5"),
        (lambda: cc.all_reduce([made()], [made()], cc.ReplicaGroup([[0, 1], [1]]), nl.add), "rank 1 twice"),
        (
            lambda: cc.all_reduce([made()], [made()], G2, nl.add, priority=1),
            "no priority before NeuronCore-v4",
        ),
        (lambda: cc.all_gather([made()], [made((16, 6))], G2, 1), "collective_dim 0 for these tensors"),
        (
            lambda: cc.all_gather([made(region=SBUF)], [made((16, 6), region=SBUF)], G2, 2),
            "collective_dim 0 or 1",
        ),
        (lambda: cc.all_gather([made()], [made()], G2, 0), r"a destination of shape \[16, 6\]"),
        (lambda: cc.reduce_scatter([made()], [made((4, 6))], G2, 1, nl.add), "collective_dim 0"),
        (lambda: cc.reduce_scatter([made()], [made()], G2, 0, nl.add), r"shape \[4, 6\]"),
        (
            lambda: cc.reduce_scatter([made((7, 6))], [made((3, 6))], G2, 0, nl.add),
            "a multiple of the 2 ranks in dimension 0",
        ),
        (lambda: cc.all_to_all([made(region=SBUF)], [made(region=SBUF)], G2, 0), "srcs in HBM"),
        (lambda: cc.all_to_all([made()], [made()], G2, 1), "collective_dim 0"),
        (lambda: cc.all_to_all([made((7, 6))], [made((7, 6))], G2, 0), "a multiple of the 2 ranks"),
        (lambda: cc.collective_permute([made(region=SBUF)], [made(region=SBUF)], [(0, 1)]), "srcs in HBM"),
        (lambda: cc.collective_permute([made()] * 2, [made()] * 2, [(0, 1)]), "one tensor here"),
        (lambda: cc.collective_permute([made()], [made((8, 5))], [(0, 1)]), "dst of the shape of src"),
        (
            lambda: cc.collective_permute([made()], [made()], [(0, 1), (0, 0)]),
            "each rank as source at most once",
        ),
        (
            lambda: cc.collective_permute([made()], [made()], [(0, 1), (1, 1)]),
            "each rank as target at most once",
        ),
        (lambda: cc.collective_permute([made()], [made()], [(0, 9)]), "found rank 9"),
        (
            lambda: cc.collective_permute_implicit([made()], [[made()]], G2),
            "a list of tensors for srcs_by_channel",
        ),
        (lambda: cc.collective_permute_implicit([[made()] * 2], [[made()]], G2), "one tensor per channel"),
        (lambda: cc.collective_permute_implicit([[made()]], [[made()]], G2, [1]), "channel_ids 0, 1, 2"),
        (
            lambda: cc.collective_permute_implicit([[made()]], [[made()]], G2, [0, 1]),
            "for each of 2 channels",
        ),
        (
            lambda: cc.collective_permute_implicit([[made()]] * 3, [[made()]] * 3, G2, [0, 1, 2]),
            "at most 2 channels",
        ),
        (lambda: cc.collective_permute_implicit([[made()]], [[made(region=SBUF)]], G2), "all in SBUF"),
        (
            lambda: cc.collective_permute_implicit_reduce([[made()]], [[made()]], [[made()]], G2, nl.power),
            "nl.add, nl.minimum or nl.maximum",
        ),
        (
            lambda: cc.collective_permute_implicit_reduce([[made()]], [], [[made()]], G2, nl.add),
            "as many channels in srcs0_by_channel",
        ),
        (
            lambda: cc.collective_permute_implicit_current_processing_rank_id(0, G2, 4),
            "a channel_id from 0 to 3",
        ),
    ],
)
def test_calls_that_break_a_rule_are_refused_at_their_line(call, match):
    refused(lambda a: call(), numbers(2), match)


def test_priorities_are_0_to_3_from_v4():
    def call(priority):
        return collective(lambda s, d: cc.all_reduce(s, d, everyone(2), nl.add, priority=priority))

    run(call(3), numbers(2), chip="trn3")
    refused(call(4), numbers(2), "a priority from 0 to 3", chip="trn3")


def test_four_channels_where_the_group_holds_a_whole_node():
    def kernel(a):
        outs = [made() for _ in range(4)]
        cc.collective_permute_implicit([[a]] * 4, [[one] for one in outs], everyone(2), [0, 1, 2, 3])
        return tuple(outs)

    run(kernel, numbers(2), node=2)
    refused(kernel, numbers(2), "at most 2 channels", node=4)
