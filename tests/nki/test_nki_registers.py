"""Registers: what they hold, what is refused, and control flow that depends on them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack import nki
from twintrack.errors import KernelError, RegisterError
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape

TRN2 = GENERATIONS["trn2"]


def run(kernel, *args, **options):
    return nki.simulate(kernel).with_options(generation=TRN2, **options)(*args)


def stored(value, dtype=nl.int32):
    """A kernel's output that holds a register."""
    out = nl.ndarray((1, 1), dtype, buffer=nl.shared_hbm)
    nisa.register_store(out, value)
    return out


def value_of(make, dtype=nl.int32):
    return run(lambda: stored(make(), dtype))[0, 0]


def refused(make, match, error=KernelError):
    with pytest.raises(error, match=match) as caught:
        run(lambda: stored(make()))
    assert "test_nki_registers.py:" in caught.value.where
    return caught.value


def test_a_register_keeps_a_number_and_copies_are_independent():
    def kernel():
        first = nisa.register_alloc(7)
        second = nisa.register_alloc()
        nisa.register_move(second, first)
        nisa.register_move(first, -5)
        return stored(first), stored(second)

    first, second = run(kernel)
    assert (first[0, 0], second[0, 0]) == (-5, 7)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", -128),
        ("uint8", 255),
        ("int16", -30000),
        ("uint16", 65535),
        ("int32", -(2**31)),
        ("uint32", 2**32 - 1),
        ("float32", 1.5),
    ],
)
@pytest.mark.parametrize("region", [nl.sbuf, nl.hbm])
def test_a_load_and_a_store_of_one_type_keep_the_value(dtype, value, region):
    def kernel(a):
        source = nl.ndarray((1, 1), a.dtype, buffer=region)
        nisa.dma_copy(source, a)
        register = nisa.register_alloc()
        nisa.register_load(register, source)
        return stored(register, a.dtype)

    given_value = np.array([[value]], dtype)
    np.testing.assert_array_equal(run(kernel, given_value), given_value)


def test_a_store_writes_the_low_bits():
    assert value_of(lambda: nisa.register_alloc(0x1234), nl.uint8) == 0x34


def test_a_register_can_be_allocated_from_a_tensor():
    assert run(lambda a: stored(nisa.register_alloc(a)), np.array([[42]], np.int32))[0, 0] == 42


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.sampled_from(["+", "-", "*"]))
@settings(max_examples=25, deadline=None)
def test_arithmetic_wraps_at_32_bits(left, right, op):
    act = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}[op]
    expected = (act(left, right) + 2**31) % 2**32 - 2**31
    made = nisa.register_alloc
    assert value_of(lambda: act(made(left), made(right))) == expected
    assert value_of(lambda: act(made(left), right)) == expected
    assert value_of(lambda: act(left, made(right))) == expected


@given(st.integers(0, 2**31 - 1), st.integers(1, 2**31 - 1))
@settings(max_examples=15, deadline=None)
def test_division_and_remainder_are_those_of_whole_numbers(left, right):
    assert value_of(lambda: nisa.register_alloc(left) // right) == left // right
    assert value_of(lambda: left % nisa.register_alloc(right)) == left % right


@pytest.mark.parametrize(("left", "right"), [(-1, 3), (3, 0), (3, -2)])
def test_division_of_negative_numbers_or_by_zero_is_refused(left, right):
    refused(lambda: nisa.register_alloc(left) // right, "// with a dividend from 0 and a divisor from 1")


def test_arithmetic_is_in_the_stream_with_its_values():
    kept = []

    def kernel():
        return stored(nisa.register_alloc(6) * 7)

    run(kernel, sink=lambda core, ins: kept.append((ins.opcode, ins.attributes["value"])))
    assert kept == [("register_move", 6), ("register_alu", 42), ("register_store", 42)]


# what is refused


@pytest.mark.parametrize("value", [1.0, "1", 2**32, -(2**31) - 1])
def test_only_integers_of_32_bits_fit(value):
    refused(lambda: nisa.register_alloc(value), "an integer of 32 bits")


def test_reading_an_unwritten_register_names_where_it_was_made():
    refused(nisa.register_alloc, r"register 0 \(made at .*test_nki_registers.py:\d+\) never written")
    refused(lambda: nisa.register_alloc() + 1, "never written")


@pytest.mark.parametrize(
    "use",
    [
        int,
        range,
        lambda r: r == 1,
        lambda r: r != 1,
        lambda r: r < 1,
        lambda r: r >= 1,
        lambda r: [1, 2][r],
    ],
)
def test_a_register_is_no_python_number(use):
    error = refused(lambda: use(nisa.register_alloc(1)), "known when the kernel is traced", RegisterError)
    assert isinstance(error, TypeError)
    assert "register 0 (made at" in error.found


def test_arithmetic_with_other_things_is_a_type_error():
    with pytest.raises(TypeError):
        run(lambda: stored(nisa.register_alloc(1) + "a"))


def test_only_registers_are_written_and_stored():
    refused(lambda: nisa.register_move(3, 4), "a register for nki.isa.register_move")
    refused(lambda: 5, "a register for nki.isa.register_store")


def test_the_index_of_a_dynamic_loop_cannot_be_written():
    def kernel():
        for index in nl.dynamic_range(2):
            nisa.register_move(index, 0)

    with pytest.raises(KernelError, match="the index of a dynamic loop"):
        run(kernel)


@pytest.mark.parametrize(
    ("shape", "dtype", "region", "match"),
    [
        ((1, 2), nl.int32, nl.sbuf, "a tensor of one element"),
        ((1, 1), nl.bfloat16, nl.sbuf, "an integer up to 32 bits or float32"),
        ((1, 1), nl.int32, nl.psum, "HBM or SBUF"),
    ],
)
def test_memory_of_other_size_type_or_place_is_refused(shape, dtype, region, match):
    def load():
        register = nisa.register_alloc()
        nisa.register_load(register, nl.ndarray(shape, dtype, buffer=region))
        return register

    refused(load, match)

    def store():
        nisa.register_store(nl.ndarray(shape, dtype, buffer=region), nisa.register_alloc(1))
        return nisa.register_alloc(1)

    refused(store, match)


def test_a_float_in_a_register_is_no_integer():
    one = np.array([[1.0]], np.float32)
    with pytest.raises(KernelError, match="destination of the kind of the register, which holds a float32"):
        run(lambda a: stored(nisa.register_alloc(a)), one)
    with pytest.raises(KernelError, match="required integers"):
        run(lambda a: stored(nisa.register_alloc(a) + 1), one)
    with pytest.raises(KernelError, match=r"with the float32 1.0"):
        run(lambda a: list(nl.dynamic_range(nisa.register_alloc(a))), one)


def test_loading_memory_that_was_never_written_is_refused():
    refused(lambda: nisa.register_alloc(nl.ndarray((1, 1), nl.int32)), "written before it is read")


# control flow


def counting(flag):
    """A while loop on the device that runs as often as a tensor says."""
    left = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(left, flag)
    rounds = nl.zeros((1, 1), nl.int32)
    register = nisa.register_alloc()
    nisa.register_load(register, left)
    while register:
        nisa.tensor_scalar(left, left, nl.subtract, 1)
        nisa.tensor_scalar(rounds, rounds, nl.add, 1)
        nisa.register_load(register, left)
    out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, rounds)
    return out


@pytest.mark.parametrize("count", [0, 1, 5])
def test_while_runs_until_the_register_is_zero(count):
    assert run(counting, np.array([[count]], np.int32))[0, 0] == count


def test_without_values_a_loop_on_a_loaded_register_needs_a_trip_count():
    with pytest.raises(
        KernelError, match=r"register 0 \(made at .*\), loaded where values are not"
    ) as caught:
        run(counting, Shape((1, 1), "int32"), values=False)
    line = caught.value.where
    for key in (line, line.rsplit("/", 1)[-1], ""):
        opcodes = []
        run(
            counting,
            Shape((1, 1), "int32"),
            values=False,
            trip_counts={key: 3},
            sink=lambda core, ins, opcodes=opcodes: opcodes.append(ins.opcode),
        )
        assert opcodes.count("register_load") == 1 + 3


def test_without_values_a_known_register_decides():
    def kernel():
        left = nisa.register_alloc(4)
        tile = nl.ndarray((1, 1), nl.int32)
        rounds = 0
        while left:
            nisa.memset(tile, 0)
            nisa.register_move(left, left - 1)
            rounds += 1
        assert rounds == 4
        return stored(left)

    run(kernel, values=False)


def test_trip_counts_start_anew_in_each_iteration_of_an_outer_loop():
    rounds = []

    def kernel(a):
        register = nisa.register_alloc(a)
        for i in nl.static_range(2):
            while register:
                rounds.append(i)
                if len(rounds) == 1:
                    break
        return stored(nisa.register_alloc(0))

    run(kernel, Shape((1, 1), "int32"), values=False, trip_counts={"": 2})
    assert rounds == [0, 1, 1]


def test_a_while_loop_that_never_ends_is_named():

    def kernel():
        register = nisa.register_alloc(1)
        while register:
            pass

    with pytest.raises(KernelError, match=r"a loop that ends within 50 iterations, .*, found register 0"):
        run(kernel, most_iterations=50)
