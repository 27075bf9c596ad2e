"""Cycles of instructions against the published formulas, and against times read off published profiles.

Formulas: the docstrings of ``nki.isa`` in Neuron 2.26; N is elements per partition.
"""

from __future__ import annotations

from itertools import product

import pytest
from timing_streams import issued

from twintrack.neuroncore.isa.legality import LEGALITY
from twintrack.neuroncore.timing.cost import NO_TABLE, unpublished, work_of
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

CHIPS = {chip: parameters_of(chip) for chip in ("trn1", "trn2")}
SIZES = (1, 63, 64, 200, 512)
F32, BF16, F16, F8 = nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3


def _made(shape, dtype=F32, buffer=nl.sbuf):
    """A tile that counts as written."""
    tile = nl.ndarray(shape, dtype, buffer=buffer)
    nisa.memset(tile, 0)
    return tile


def _last(kernel, chip):
    """The work of the last instruction that a kernel issues."""
    return work_of(issued(kernel, chip=chip)[-1], CHIPS[chip])


def _cycles(kernel, chip="trn1"):
    return _last(kernel, chip).cycles


def _one(function, *arguments, n, dtype=F32, **keywords):
    """A kernel of one instruction from a tile to a tile."""

    def kernel():
        data, out = _made((128, n), dtype), nl.ndarray((128, n), dtype)
        function(out, data, *arguments, **keywords)

    return kernel


# --- the published formulas -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "kernel",
    [
        lambda n: _one(nisa.tensor_copy, n=n),
        lambda n: _one(nisa.tensor_scalar, nl.add, 1.0, n=n),
        lambda n: _activation(nl.copy, n),
        lambda n: _activation(nl.exp, n),
    ],
    ids=["tensor_copy", "tensor_scalar", "activation copy", "activation exp"],
)
def test_one_input_takes_n_cycles_and_at_least_64(kernel, n):
    assert _cycles(kernel(n)) == max(64, n)


def _activation(op, n):
    def kernel():
        data, out = _made((128, n)), nl.ndarray((128, n), F32)
        nisa.activation(out, op, data)

    return kernel


@pytest.mark.parametrize("n", SIZES)
def test_a_sum_read_out_of_the_scalar_engine_takes_64_cycles_more(n):
    def kernel():
        data, out, total = _made((128, n)), nl.ndarray((128, n), F32), nl.ndarray((128, 1), F32)
        nisa.activation_reduce(out, nl.exp, data, nl.add, total)

    assert _cycles(kernel) == max(64, n) + 64


def _pair(n, first, second, dtypes=(F32, F32, F32), op=nl.add, stride=1):
    def kernel():
        one = _made((128, n * stride), dtypes[0], first)[:, ::stride]
        other = _made((128, n), dtypes[1], second)
        nisa.tensor_tensor(nl.ndarray((128, n), dtypes[2]), one, other, op=op)

    return kernel


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("places", "dtypes", "op", "stride", "factor"),
    [
        ((nl.sbuf, nl.sbuf), (F32, F32, F32), nl.add, 1, 2),
        ((nl.psum, nl.sbuf), (F32, F32, F32), nl.add, 1, 1),
        ((nl.sbuf, nl.psum), (F32, F32, F32), nl.divide, 1, 1),
        ((nl.sbuf, nl.sbuf), (BF16, BF16, BF16), nl.multiply, 1, 1),
        ((nl.sbuf, nl.sbuf), (BF16, BF16, BF16), nl.subtract, 1, 1),
        ((nl.sbuf, nl.sbuf), (BF16, BF16, BF16), nl.maximum, 1, 2),
        ((nl.sbuf, nl.sbuf), (BF16, BF16, F32), nl.add, 1, 2),
        ((nl.sbuf, nl.sbuf), (F16, F16, F16), nl.add, 1, 2),
        ((nl.sbuf, nl.sbuf), (BF16, BF16, BF16), nl.add, 2, 2),
    ],
)
def test_two_inputs_take_2n_unless_one_is_in_psum_or_all_is_plain_bfloat16(
    places, dtypes, op, stride, factor, n
):
    assert _cycles(_pair(n, *places, dtypes, op, stride)) == max(64, factor * n)


@pytest.mark.parametrize("n", SIZES)
def test_a_scan_takes_2n(n):
    def kernel():
        one, other = _made((128, n)), _made((128, n))
        nisa.tensor_tensor_scan(nl.ndarray((128, n), F32), one, other, 0.0, nl.multiply, nl.add)

    assert _cycles(kernel) == max(64, 2 * n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("dtype", "out", "op", "factor"),
    [
        (F32, F32, nl.add, 1),
        (BF16, BF16, nl.add, 0.5),
        (BF16, BF16, nl.maximum, 0.5),
        (BF16, BF16, nl.minimum, 1),
        (BF16, F32, nl.add, 1),
        (F16, F16, nl.add, 1),
    ],
)
def test_a_reduction_takes_n_or_half_of_it_for_sums_and_maxima_of_bfloat16(dtype, out, op, factor, n):
    def kernel():
        nisa.tensor_reduce(nl.ndarray((128, 1), out), op, _made((128, n), dtype), axis=1)

    assert _cycles(kernel) == max(64, factor * n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("dtype", "value", "factor"), [(F32, 0, 1), (BF16, 0, 0.5), (F16, 0, 0.5), (BF16, 1.0, 1)]
)
def test_a_fill_takes_n_or_half_of_it_for_zeros_of_16_bits(dtype, value, factor, n):
    def kernel():
        nisa.memset(nl.ndarray((128, n), dtype), value)

    assert _cycles(kernel) == max(64, factor * n)


@pytest.mark.parametrize("n", SIZES)
def test_a_reciprocal_takes_8n(n):
    assert _cycles(_one(nisa.reciprocal, n=n)) == max(64, 8 * n)


@pytest.mark.parametrize(("ops", "n", "factor"), [
    ((nl.subtract, nl.multiply), 512, 1),
    ((nl.subtract, nl.multiply), 511, 2),
    ((nl.add, nl.multiply), 512, 2),
])  # fmt: skip
def test_three_operands_take_n_only_for_an_even_bfloat16_difference_times_a_tile(ops, n, factor):
    def kernel():
        data, other = _made((128, n), BF16), _made((128, n), BF16)
        nisa.scalar_tensor_tensor(nl.ndarray((128, n), BF16), data, ops[0], 1.0, ops[1], other)

    assert _cycles(kernel) == factor * n


@pytest.mark.parametrize("n", SIZES)
def test_indices_take_150_and_n_cycles_of_the_gpsimd_engine(n):
    def kernel():
        nisa.iota(nl.ndarray((128, n), nl.int32), [[1, n]])

    found = _last(kernel, "trn1")
    assert (found.cycles, found.fixed) == (max(64, n), 150)


# --- the Tensor Engine ----------------------------------------------------------------------------------------------


def _matmul(k, m, n, dtype=BF16, **keywords):
    def kernel():
        product = nl.ndarray((m, n), F32, buffer=nl.psum)
        nisa.nc_matmul(product, _made((k, m), dtype), _made((k, n), dtype), accumulate=False, **keywords)

    return kernel


@pytest.mark.parametrize(("m", "n", "dtype"), list(product((1, 32, 64, 128), (1, 32, 64, 512), (BF16, F32))))
def test_a_multiplication_follows_the_formula(m, n, dtype):
    found = _last(_matmul(128, m, n, dtype), "trn2")

    passes = 4 if dtype == F32 else 1
    assert found.cycles == passes * max(min(64, m), n)
    assert found.fixed == pytest.approx(passes * CHIPS["trn2"].tensor_gap)
    assert found.flops == 2 * 128 * m * n


def test_a_hint_of_zeros_and_ones_halves_the_passes_of_float32():
    assert _cycles(_matmul(128, 128, 512, F32, is_moving_onezero=True)) == 2 * 512


def test_rows_that_are_fed_are_the_depth():
    assert _last(_matmul(32, 128, 512), "trn2").rows == 0.25


@pytest.mark.parametrize(("chip", "dtype", "passes"), [
    ("trn1", BF16, 1), ("trn2", BF16, 1), ("trn1", F32, 4), ("trn2", F32, 2),
])  # fmt: skip
@pytest.mark.parametrize(("p", "f"), [(128, 128), (32, 128), (128, 16), (16, 128)])
def test_a_transposition_takes_its_partitions_or_up_to_64_columns(chip, dtype, passes, p, f):
    def kernel():
        out = nl.ndarray((f, p), dtype, buffer=nl.psum)
        nisa.nc_transpose(out, _made((p, f), dtype), engine=nisa.engine.tensor)

    assert _cycles(kernel, chip) == passes * max(p, min(64, f))


def test_pairs_of_float8_rows_take_the_time_of_one():
    def kernel():
        stationary, moving = _made((128, 2, 128), F8), _made((128, 2, 512), F8)
        product = nl.ndarray((128, 512), F32, buffer=nl.psum)
        mode = nisa.matmul_perf_mode.double_row
        nisa.nc_matmul(product, stationary, moving, accumulate=False, perf_mode=mode)

    found = _last(kernel, "trn2")
    assert found.cycles == 512
    assert found.flops == 2 * 256 * 128 * 512


# --- performance modes of NeuronCore-v3 -----------------------------------------------------------------------------


def _copied(source, target, places=(nl.sbuf, nl.sbuf), stride=1, n=512):
    def kernel():
        data = _made((128, n * stride), source, places[0])[:, ::stride]
        nisa.tensor_copy(nl.ndarray((128, n), target, buffer=places[1]), data, engine=nisa.engine.vector)

    return kernel


@pytest.mark.parametrize(("kernel", "rate"), [
    (_copied(BF16, BF16), 4),
    (_copied(BF16, F16), 4),
    (_copied(BF16, BF16, stride=2), 2),
    (_copied(BF16, BF16, (nl.psum, nl.sbuf)), 2),
    (_copied(BF16, BF16, (nl.sbuf, nl.psum)), 2),
    (_copied(BF16, BF16, (nl.psum, nl.psum)), 1),
    (_copied(BF16, BF16, (nl.psum, nl.sbuf), stride=2), 1),
    (_copied(F32, F32), 2),
    (_copied(BF16, F8), 2),
    (_copied(F32, BF16, (nl.psum, nl.sbuf)), 1),
    (_copied(F32, F32, stride=2), 1),
])  # fmt: skip
def test_a_copy_follows_the_conditions_of_the_performance_modes(kernel, rate):
    found = _last(kernel, "trn2")

    assert (found.cycles, found.mode) == (max(64, 512 / rate), rate)
    assert _last(kernel, "trn1").cycles == 512


@pytest.mark.parametrize(("dtypes", "places", "factor"), [
    ((BF16, BF16, BF16), (nl.sbuf, nl.sbuf), 1),
    ((BF16, F16, BF16), (nl.sbuf, nl.sbuf), 1),
    ((BF16, BF16, F32), (nl.sbuf, nl.sbuf), 2),
    ((BF16, BF16, BF16), (nl.psum, nl.sbuf), 1),
])  # fmt: skip
def test_two_inputs_of_16_bits_in_sbuf_run_at_twice_the_rate(dtypes, places, factor):
    assert _cycles(_pair(512, *places, dtypes, nl.maximum), "trn2") == factor * 512


def test_other_engines_have_no_performance_mode():
    def kernel():
        nisa.tensor_copy(nl.ndarray((128, 512), BF16), _made((128, 512), BF16), engine=nisa.engine.gpsimd)

    assert _last(kernel, "trn2").cycles == 512


# --- times read off published profiles ------------------------------------------------------------------------------


def _ns(work, ghz):
    return (work.cycles + work.fixed) / ghz


@pytest.mark.parametrize(("kernel", "chip", "clock", "published"), [
    (_activation(nl.exp, 128), "trn2", "scalar_ghz", 398),
    (_activation(nl.exp, 4096), "trn2", "scalar_ghz", 3705),
    (_copied(F32, F32), "trn2", "vector_ghz", 420),
    (_pair(512, nl.sbuf, nl.psum), "trn2", "vector_ghz", 685),
    (_pair(8192, nl.sbuf, nl.sbuf), "trn1", "vector_ghz", 14_968),
    (_copied(BF16, F8, n=16_384), "trn2", "vector_ghz", 8778),
    (_matmul(128, 128, 512, F32), "trn2", "tensor_ghz", 2 * 429),
])  # fmt: skip
def test_an_instruction_takes_about_the_time_of_a_published_profile(kernel, chip, clock, published):
    """Read off images, to 5 to 30 ns."""
    found = _ns(_last(kernel, chip), getattr(CHIPS[chip], clock))

    assert found == pytest.approx(published, rel=0.03)


# --- what is not published ------------------------------------------------------------------------------------------


def test_instructions_without_a_published_cost_say_so():
    def kernel():
        nisa.rng(nl.ndarray((128, 512), nl.uint32))

    assert not _last(kernel, "trn2").published
    assert _last(_one(nisa.tensor_copy, n=512), "trn2").published


def test_every_instruction_of_an_engine_is_published_or_listed_as_not():
    assert unpublished() <= set(LEGALITY)


@pytest.mark.parametrize(("op", "table"), [(nl.exp, "exp"), (nl.copy, ""), (nl.relu, ""), (nl.gelu, "gelu")])
def test_functions_of_the_scalar_engine_need_a_table_unless_they_are_simple(op, table):
    assert _last(_activation(op, 64), "trn2").table == table
    assert "copy" in NO_TABLE
