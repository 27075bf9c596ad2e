"""Loops, their place in the stream, and regions in which order is kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape

TRN2 = GENERATIONS["trn2"]
UNROLLED = {"affine": nl.affine_range, "sequential": nl.sequential_range, "static": nl.static_range}


def run(kernel, *args, **options):
    return nki.simulate(kernel).with_options(generation=TRN2, **options)(*args)


def traced(body, *args, **options):
    """The instructions of a kernel's body; its output is made and written last."""
    kept = []

    def kernel(*tensors):
        body(*tensors)
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        nisa.register_store(out, nisa.register_alloc(0))
        return out

    run(kernel, *args, sink=lambda core, ins: kept.append(ins), **options)
    return kept[:-2]


def mark(tile):
    return nisa.memset(tile, 0)


def places(body, *args, **options):
    return [tuple(map(tuple, ins.loop)) for ins in traced(body, *args, **options)]


@given(st.integers(-5, 5), st.integers(-5, 8), st.integers(1, 4), st.sampled_from(sorted(UNROLLED)))
@settings(max_examples=30, deadline=None)
def test_unrolled_loops_are_pythons_range(start, stop, step, kind):
    made, expected = UNROLLED[kind](start, stop, step), range(start, stop, step)
    assert list(made) == list(expected)  # outside a kernel
    assert (len(made), list(reversed(made)), 3 in made) == (
        len(expected),
        list(reversed(expected)),
        3 in expected,
    )
    found = []
    traced(lambda: found.extend(UNROLLED[kind](start, stop, step)))
    assert found == list(expected)


def test_one_bound_counts_from_zero_and_a_negative_step_counts_down():
    assert list(nl.affine_range(3)) == [0, 1, 2]
    assert list(nl.static_range(3, 0, -1)) == [3, 2, 1]


def test_the_stream_tells_kind_and_iteration_of_every_loop():
    def body():
        tile = nl.ndarray((1, 1), nl.float32)
        mark(tile)
        for _ in nl.affine_range(2):
            for _ in nl.sequential_range(3, 5):
                mark(tile)
        for _ in nl.dynamic_range(2):
            mark(tile)

    assert places(body) == [
        (),
        ((0, "affine", 0), (1, "sequential", 0)),
        ((0, "affine", 0), (1, "sequential", 1)),
        ((0, "affine", 1), (2, "sequential", 0)),
        ((0, "affine", 1), (2, "sequential", 1)),
        ((3, "dynamic", 0),),
        ((3, "dynamic", 1),),
    ]


def test_leaving_a_loop_early_leaves_its_place():
    def body():
        tile = nl.ndarray((1, 1), nl.float32)
        for i in nl.affine_range(5):
            for _ in nl.static_range(5):
                break
            if i == 1:
                break
        mark(tile)
        try:
            for _ in nl.affine_range(2):
                raise ValueError
        except ValueError:
            mark(tile)
        for _, _ in zip(nl.affine_range(2), nl.static_range(1), strict=False):
            mark(tile)
        mark(tile)

    loop = [[kind for _, kind, _ in place] for place in places(body)]
    assert loop == [[], [], ["affine", "static"], []]


def test_a_dropped_outer_iterator_does_not_disturb_an_inner_loop():
    def body():
        tile = nl.ndarray((1, 1), nl.float32)
        outer = iter(nl.affine_range(2))
        next(outer)
        for i in nl.static_range(3):
            if i == 1:
                outer.close()
            mark(tile)

    assert [place[-1][1:] for place in places(body)] == [("static", 0), ("static", 1), ("static", 2)]


def test_registers_bound_only_loops_on_the_device():
    for make in UNROLLED.values():
        with pytest.raises(KernelError, match=r"known when the kernel is traced, found register 0 \(made at"):
            run(lambda make=make: list(make(nisa.register_alloc(3))))


# loops on the device


def gathered(make_loop):
    """A kernel that copies the elements of a row at a loop's indices, one after the other, into a sum."""

    def kernel(data, bounds):
        total = nl.zeros((1, 1), nl.float32)
        one = nl.ndarray((1, 1), nl.float32)
        lower, upper = nisa.register_alloc(bounds[0:1, 0:1]), nisa.register_alloc(bounds[0:1, 1:2])

        def body(index):
            nisa.dma_copy(one, data.ap([[1, 1], [1, 1]], scalar_offset=index, indirect_dim=1))
            nisa.tensor_tensor(total, total, one, nl.add)

        make_loop(lower, upper, body)
        out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    return kernel


def by_range(step):
    def make_loop(lower, upper, body):
        for index in nl.dynamic_range(lower, upper, step):
            body(index)

    return gathered(make_loop)


def by_fori(step):
    return gathered(lambda lower, upper, body: nl.fori_loop(lower, upper, body, step))


@pytest.mark.parametrize("make", [by_range, by_fori])
@given(st.integers(0, 8), st.integers(0, 8), st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_device_loops_go_by_the_values_of_registers(make, lower, upper, step):
    data = 2.0 ** np.arange(8, dtype=np.float32)[None]
    found = run(make(step), data, np.array([[lower, upper]], np.int32))
    assert found[0, 0] == sum(2.0**i for i in range(lower, upper, step))


@pytest.mark.parametrize("make", [by_range, by_fori])
def test_device_loops_without_values_take_a_trip_count(make):
    shapes = (Shape((1, 8)), Shape((1, 2), "int32"))
    with pytest.raises(
        KernelError, match=r"register 1 \(made at .*test_nki_loops.py:\d+\), loaded where values"
    ):
        run(make(1), *shapes, values=False)
    kept = []
    run(make(1), *shapes, values=False, trip_counts={"": 3}, sink=lambda core, ins: kept.append(ins.opcode))
    assert kept.count("tensor_tensor") == 3


def test_a_single_bound_of_dynamic_range_is_its_stop_and_the_index_tells_its_value_in_the_stream():
    seen = []

    def body():
        seen.extend(
            nisa.register_move(nisa.register_alloc(), index).handle.attributes["value"]
            for index in nl.dynamic_range(nisa.register_alloc(3))
        )

    traced(body)
    assert seen == [0, 1, 2]


def test_a_register_indexes_a_tensor():
    def kernel(a):
        tile, out = nl.ndarray((1, 4), nl.float32), nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        for index in nl.dynamic_range(3):
            nisa.dma_copy(tile, a[index, 0:4])
            nisa.dma_copy(out[2 - index, ...], tile)
        return out

    given_rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(run(kernel, given_rows), given_rows[::-1])


def test_a_register_outside_the_tensor_or_in_a_slice_is_refused():
    a = np.ones((3, 4), np.float32)

    def copied(pick):
        def kernel(a):
            nisa.dma_copy(nl.ndarray((1, 4), nl.float32), pick(a))

        return kernel

    with pytest.raises(KernelError, match="a dynamic index from 0 below 3"):
        run(copied(lambda a: a[nisa.register_alloc(3)]), a)
    with pytest.raises(KernelError, match="known when the kernel is traced as an index"):
        run(copied(lambda a: a[nisa.register_alloc(0) : 1]), a)
    with pytest.raises(KernelError, match="one address that is known only at run time"):
        run(copied(lambda a: a[nisa.register_alloc(0), nisa.register_alloc(0)]), a)


def test_writing_the_index_of_a_fori_loop_does_not_change_the_loop():
    seen = []

    def body(index):
        seen.append(index.value)
        nisa.register_move(index, 100)

    traced(lambda: nl.fori_loop(0, 3, body))
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("step", [0, -1, 1.0, True])
def test_the_step_of_a_device_loop_is_a_positive_integer(step):
    with pytest.raises(AssertionError, match="a positive integer known when the kernel is traced as step"):
        run(lambda: nl.dynamic_range(0, 3, step))
    with pytest.raises(KernelError, match=r"as step of nl.fori_loop"):
        run(lambda: nl.fori_loop(0, 3, print, step))


def test_the_step_of_a_device_loop_is_no_register():
    with pytest.raises(AssertionError, match="found register 0"):
        run(lambda: nl.dynamic_range(0, 3, nisa.register_alloc(1)))


def test_bounds_of_device_loops_are_integers_or_registers_that_were_written():
    with pytest.raises(KernelError, match=r"an integer or a register as a bound of nl.dynamic_range"):
        run(lambda: nl.dynamic_range(1.5))
    with pytest.raises(KernelError, match="never written"):
        run(lambda: nl.dynamic_range(nisa.register_alloc()))


def test_device_loops_of_too_many_iterations_are_named():
    with pytest.raises(KernelError, match=r"within 100,000 iterations, .* not of the device, found 100,001;"):
        run(lambda: nl.dynamic_range(100_001))
    with pytest.raises(KernelError, match=r"within 2 iterations, .*; check .* or raise .*--most-iterations"):
        run(lambda: nl.fori_loop(0, 3, print), most_iterations=2)


def halving(count):
    """How often a number can be halved, with ``nl.while_loop``."""
    left = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(left, count)
    rounds = nl.zeros((1, 1), nl.int32)

    def body(register):
        nisa.tensor_scalar(rounds, rounds, nl.add, 1)
        return register // 2

    nl.while_loop(nisa.register_alloc(left), body)
    out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, rounds)
    return out


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_while_loop_goes_by_the_register_that_its_body_returns(count):
    assert run(halving, np.array([[count]], np.int32))[0, 0] == count.bit_length()


def test_while_loop_passes_its_register_by_value():
    def body():
        condition = nisa.register_alloc(3)

        def step(register):
            assert register is not condition
            nisa.register_move(register, 0)
            return register

        nl.while_loop(condition, step)
        assert condition.value == 3

    traced(body)


def test_while_loop_without_values_takes_a_trip_count():
    shape = Shape((1, 1), "int32")
    with pytest.raises(KernelError, match="loaded where values are not computed"):
        run(halving, shape, values=False)
    kept = []
    run(halving, shape, values=False, trip_counts={"": 4}, sink=lambda core, ins: kept.append(ins.opcode))
    assert kept.count("register_alu") == 4


def test_while_loop_takes_registers_only():
    with pytest.raises(KernelError, match="a register as init"):
        run(lambda: nl.while_loop(3, lambda register: register))
    with pytest.raises(KernelError, match="a register as what the body returns"):
        run(lambda: nl.while_loop(nisa.register_alloc(1), lambda register: None))


def test_while_loop_that_never_ends_is_named():
    with pytest.raises(
        KernelError, match=r"within 20 iterations, the limit of this run .*, found register 1"
    ):
        run(lambda: nl.while_loop(nisa.register_alloc(1), lambda register: register), most_iterations=20)


def test_the_limit_of_iterations_can_be_raised_above_the_default():
    index = {}

    def body():
        for one in nl.dynamic_range(100_002):
            index["last"] = one.value

    traced(body, most_iterations=100_002)
    assert index["last"] == 100_001


@pytest.mark.parametrize("limit", [0, True, 2.0, None])
def test_the_limit_of_iterations_is_an_integer_from_1(limit):
    with pytest.raises(KernelError, match="an integer from 1, found"):
        run(lambda: None, most_iterations=limit)


# order


def test_no_reorder_chains_every_instruction_also_of_functions_that_it_calls():
    def body():
        tile = nl.ndarray((1, 1), nl.float32)
        mark(tile)
        with nl.no_reorder():
            mark(tile)
            for _ in nl.affine_range(2):
                mark(tile)
            with nl.no_reorder():
                mark(tile)
        mark(tile)
        with nl.no_reorder():
            mark(tile)

    assert [list(ins.after) for ins in traced(body)] == [[], [], [1], [2], [3], [], []]


@pytest.mark.parametrize(
    "loop",
    [
        lambda: nl.dynamic_range(2),
        lambda: nl.fori_loop(0, 2, print),
        lambda: nl.while_loop(nisa.register_alloc(1), lambda register: register),
        lambda: bool(nisa.register_alloc(1)),
    ],
)
def test_dynamic_loops_inside_no_reorder_are_refused(loop):
    def body():
        with nl.no_reorder():
            loop()

    with pytest.raises(KernelError, match="no_reorder") as caught:
        run(body)
    assert "test_nki_loops.py:" in caught.value.where


def test_no_reorder_inside_a_dynamic_loop_is_taken():
    def body():
        tile = nl.ndarray((1, 1), nl.float32)
        register = nisa.register_alloc(2)
        while register:
            with nl.no_reorder():
                mark(tile)
                mark(tile)
            nisa.register_move(register, register - 1)
        for _ in nl.dynamic_range(2):
            with nl.no_reorder():
                mark(tile)

    assert [len(ins.after) for ins in traced(body) if ins.opcode == "memset"] == [0, 1, 0, 1, 0, 0]


def test_depends_on_names_earlier_instructions_across_unrolled_loops():
    def body():
        tile = nl.ndarray((1, 1), nl.float32)
        first = mark(tile)
        for _ in nl.affine_range(2):
            second = mark(tile)
        mark(tile).depends_on(first).depends_on(second)

    assert traced(body)[-1].after == [0, 2]


def test_depends_on_into_a_dynamic_loop_from_outside_is_taken_but_not_out_of_it():
    def into():
        tile = nl.ndarray((1, 1), nl.float32)
        outside = mark(tile)
        for _ in nl.dynamic_range(2):
            mark(tile).depends_on(outside)

    assert [ins.after for ins in traced(into)] == [[], [0], [0]]

    def out_of():
        tile = nl.ndarray((1, 1), nl.float32)
        for _ in nl.dynamic_range(2):
            inside = mark(tile)
        mark(tile).depends_on(inside)

    with pytest.raises(KernelError, match="iteration 1 of dynamic loop 0 for no loop"):
        run(out_of)

    def between():
        tile = nl.ndarray((1, 1), nl.float32)
        kept = []
        for _ in nl.dynamic_range(2):
            kept.append(mark(tile))
            kept[-1].depends_on(*kept[:-1])

    with pytest.raises(KernelError, match="a producer in the same iteration of a dynamic loop"):
        run(between)


def test_depends_on_a_later_instruction_is_refused():
    def body():
        tile = nl.ndarray((1, 1), nl.float32)
        first, second = mark(tile), mark(tile)
        first.depends_on(second)

    with pytest.raises(KernelError, match="producers issued before their consumer"):
        run(body)


def test_an_order_made_by_no_reorder_satisfies_the_search_for_hazards():
    def kernel(a, at, ordered):
        index = nisa.register_alloc(at)
        tile = nl.ndarray((1, 1), nl.float32)
        if ordered:
            with nl.no_reorder():
                nisa.dma_copy(a[0:1, 2:3], nl.zeros((1, 1), nl.float32))
                nisa.dma_copy(tile, a.ap([[1, 1], [1, 1]], scalar_offset=index, indirect_dim=1))
        else:
            nisa.dma_copy(a[0:1, 2:3], nl.zeros((1, 1), nl.float32))
            nisa.dma_copy(tile, a.ap([[1, 1], [1, 1]], scalar_offset=index, indirect_dim=1))

    a, at = np.ones((1, 4), np.float32), np.array([[2]], np.int32)
    with pytest.raises(KernelError, match="nothing that orders"):
        run(kernel, a, at, False, checks=Checks.ALL)
    run(kernel, a, at, True, checks=Checks.ALL)
