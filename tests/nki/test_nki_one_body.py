"""A loop on the device has one body: what Python changes between iterations is refused at its line."""

import re

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape


def run(kernel, *args, **options):
    return nki.simulate(kernel).with_options(generation=GENERATIONS["trn2"], **options)(*args)


def tile():
    return nl.zeros((2, 4), nl.float32)


def add(dst, number):
    nisa.tensor_scalar(dst, dst, nl.add, number)


def over_range(body):
    for index in nl.dynamic_range(3):
        body(index)


def over_fori(body):
    nl.fori_loop(0, 3, body)


def over_while(body):
    def step(register):
        left = register - 1
        body(register)
        return left

    nl.while_loop(nisa.register_alloc(3), step)


LOOPS = {"dynamic_range": over_range, "fori_loop": over_fori, "while_loop": over_while}


def counter(total, count):
    add(total, float(count))


def first_only(total, count):
    if count == 0:
        add(total, 1.0)
    add(total, 2.0)


def last_only(total, count):
    add(total, 2.0)
    if count == 2:
        add(total, 1.0)


def other_opcode(total, count):
    if count:
        nisa.memset(total, 1.0)
    else:
        add(total, 1.0)


def other_part(total, count):
    add(total[:, count : count + 1], 1.0)


def other_type(total, count):
    del total
    nisa.memset(nl.ndarray((2, 4), nl.float32 if count else nl.bfloat16), 1.0)


def other_shape(total, count):
    del total
    nisa.memset(nl.ndarray((2, 4 + count), nl.float32), 1.0)


def fewer_inner(total, count):
    for _ in nl.static_range(3 - count):
        add(total, 1.0)


def inner_loop_once(total, count):
    if count == 0:
        for _ in nl.dynamic_range(2):
            add(total, 1.0)
    add(total, 1.0)


def inner_loop_later(total, count):
    add(total, 1.0)
    if count == 1:
        nl.fori_loop(0, 2, lambda index: add(total, 1.0))


def inner_bound(total, count):
    for _ in nl.dynamic_range(count + 1):
        add(total, 1.0)


def inner_counter(total, count):
    for _ in nl.dynamic_range(2):
        add(total, float(count))


BROKEN = {
    counter: r"tensor_scalar with operand0=1.0, 0.0 in the first",
    first_only: r"tensor_scalar with operand0=2.0, 1.0 in the first",
    last_only: r"in iteration 2 nki.isa.tensor_scalar beyond the last instruction of the first iteration",
    other_opcode: r"nki.isa.memset, and nki.isa.tensor_scalar at",
    other_part: r"as dst, elements from 0 on, here from 1, in the first",
    other_type: r"as dst, \[2, 4\] of bfloat16 in the first",
    other_shape: r"as dst, \[2, 4\] of float32 in the first",
    fewer_inner: r"in iteration 1 no nki.isa.tensor_scalar, which the first one has here",
    inner_loop_once: r"nki.isa.tensor_scalar, and nl.dynamic_range at .*py:\d+ in the first",
    inner_loop_later: r"in iteration 1 nl.fori_loop beyond the last instruction",
    inner_bound: r"nl.dynamic_range with bounds other than in the first",
    inner_counter: r"tensor_scalar with operand0=1.0, 0.0 in the first",
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("body", BROKEN, ids=lambda body: body.__name__)
def test_what_python_changes_between_iterations_is_refused_at_its_line(loop, body):
    def kernel():
        total, seen = tile(), []

        def once(index):
            del index
            body(total, len(seen))
            seen.append(None)

        LOOPS[loop](once)
        return nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)

    with pytest.raises(KernelError, match=BROKEN[body]) as caught:
        run(kernel)
    assert "test_nki_one_body.py:" in caught.value.where
    assert re.search(r"the same instructions in every iteration of nl\.\w+ at .*one copy", str(caught.value))
    assert "nl.static_range" in str(caught.value)


def refused(body, match):
    def kernel():
        body()
        return nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)

    with pytest.raises(KernelError, match=match):
        run(kernel)


def test_rotating_buffers_by_a_python_counter_are_refused():
    def body():
        buffers = [tile(), tile()]
        for step, _ in enumerate(nl.dynamic_range(2)):
            add(buffers[step % 2], 1.0)

    refused(body, r"as dst, .* in the first")


def test_a_tile_kept_from_the_iteration_before_is_refused():
    def body():
        kept = tile()
        for _ in nl.dynamic_range(2):
            made = nl.ndarray((2, 4), nl.float32)
            nisa.tensor_copy(made, kept)
            kept = made

    refused(body, r"as src, made in an earlier iteration, .* in the first")


def test_another_register_is_refused():
    def body():
        registers = [nisa.register_alloc(1), nisa.register_alloc(2)]
        for step, _ in enumerate(nl.dynamic_range(2)):
            nisa.register_move(registers[step], 3)

    refused(body, "register_move with registers other than in the first")


def test_another_dynamic_index_is_refused():
    def kernel(a):
        registers, one = [nisa.register_alloc(1), nisa.register_alloc(2)], nl.ndarray((1, 4), nl.float32)
        for step, _ in enumerate(nl.dynamic_range(2)):
            nisa.dma_copy(one, a[registers[step], 0:4])

    with pytest.raises(KernelError, match="another dynamic index in the first"):
        run(kernel, np.ones((3, 4), np.float32))


def test_constants_of_other_elements_are_refused_and_equal_ones_taken():
    def kernel(change):
        one = nl.ndarray((1, 1), nl.float32)
        for step, _ in enumerate(nl.dynamic_range(3)):
            nisa.dma_copy(one, nl.shared_constant(np.full((1, 1), step * change, np.float32)))
        out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, one)
        return out

    assert run(kernel, 0)[0, 0] == 0
    with pytest.raises(KernelError, match="as src"):
        run(kernel, 1)
    assert run(kernel, 1, checks=Checks.OFF)[0, 0] == 2


@pytest.mark.parametrize("values", [True, False])
def test_what_the_device_can_do_is_taken(values):
    """Tiles made in the body, static loops and branches on constants, nested loops of any trip count, registers."""

    def kernel(a, flag):
        total = nl.zeros((1, 1), nl.float32)
        rows = nisa.register_alloc(0)
        for i in nl.dynamic_range(3):
            one = nl.ndarray((1, 4), nl.float32)
            nisa.dma_copy(one, a[i, 0:4])
            for column in nl.static_range(4):
                part = nl.copy(one[:, column : column + 1])
                nisa.tensor_tensor(total, total, part, nl.add)
            if flag:
                add(total, float("nan") if flag > 1 else 0.0)
            for _ in nl.dynamic_range(rows):  # none at first, then more and more
                inner = nl.zeros((1, 1), nl.float32)
                add(inner, 1.0)
                after = inner
                nisa.tensor_tensor(total, total, inner, nl.add)
                for _ in nl.dynamic_range(rows):
                    nisa.tensor_tensor(total, total, inner, nl.add)
            last = nl.ndarray((1, 1), nl.float32)
            nisa.tensor_copy(last, total)
            nisa.tensor_copy(total, last)
            nisa.register_move(rows, rows + 1)
        del after
        out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    if not values:
        run(kernel, Shape((3, 4)), 1, values=False)
        return
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert run(kernel, a, 1)[0, 0] == a.sum() + sum(n + n * n for n in range(3))
    assert np.isnan(run(kernel, a, 2)[0, 0])


def test_tiles_of_a_finished_inner_loop_are_the_same_in_every_iteration():
    def kernel():
        total = tile()
        for _ in nl.dynamic_range(3):
            for _ in nl.dynamic_range(2):
                made = tile()
                add(made, 1.0)
            nisa.tensor_tensor(total, total, made, nl.add)
        out = nl.ndarray((2, 4), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    assert (run(kernel) == 3).all()


def test_two_cores_are_compared_each_with_itself():
    def kernel(change):
        core = nl.program_id(0)
        total = tile()
        for step, _ in enumerate(nl.dynamic_range(3)):
            shared = nl.ndarray((2, 4), nl.float32, buffer=nl.shared_hbm)
            add(total, float(core + change * step))
            nisa.dma_copy(shared[core : core + 1], total[core : core + 1])
        out = nl.ndarray((2, 4), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out[core : core + 1], total[core : core + 1])
        return out

    found = nki.simulate(kernel)[2].with_options(generation=GENERATIONS["trn2"])(0)
    np.testing.assert_array_equal(found, [[0] * 4, [3] * 4])
    with pytest.raises(KernelError, match=r"in iteration 1 nki\.isa\.tensor_scalar with operand0"):
        nki.simulate(kernel)[2].with_options(generation=GENERATIONS["trn2"])(1)


def test_a_loop_left_early_and_one_that_raised_leave_nothing_behind():
    def kernel():
        total = tile()
        for _ in nl.dynamic_range(3):
            break
        try:
            for _ in nl.dynamic_range(3):
                raise ValueError
        except ValueError:
            add(total, 1.0)
        for step in nl.static_range(3):
            add(total, float(step))
        out = nl.ndarray((2, 4), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    assert (run(kernel) == 4).all()
