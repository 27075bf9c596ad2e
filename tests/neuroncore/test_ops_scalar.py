"""Activation functions, reciprocal, exponential and dropout compute what the documentation states."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_arithmetic import each, f32, stored, two
from single_core import LAYOUTS, NUMBERS, bits, blank, core_of, message, numbers, tile

from twintrack.neuroncore.emulator.activations import ERROR_ULPS
from twintrack.nki import isa as nisa

CMD = nisa.reduce_cmd
PLACES = st.sampled_from([("sbuf", layout) for layout in LAYOUTS] + [("psum", "plain"), ("psum", "strided")])
TYPES = st.sampled_from(sorted(NUMBERS))
SHAPES = st.sampled_from([(1, 1), (3, 5), (4, 2, 3)])
SEEDS = st.integers(0, 2**16)
few = settings(max_examples=60, deadline=None)
EXACT = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "relu": lambda x: math.nan if math.isnan(x) else max(x, 0.0),
    "abs": abs,
    "sign": lambda x: math.nan if math.isnan(x) else float((x > 0) - (x < 0)),
}
CLOSE = {
    "exp": math.exp,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "erf": math.erf,
    "softplus": lambda x: math.log1p(math.exp(x)),
    "arctan": math.atan,
    "sin": math.sin,
}


def near(seed, shape, name="float32"):
    """Numbers of a type in the valid range of every function."""
    values = np.random.default_rng(seed).uniform(-1.5, 1.5, shape)
    if name not in ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"):
        values = np.abs(np.rint(values))
    return values.astype(np.float32).astype(NUMBERS[name])


def operand(core, seed, count, vector, name="float32"):
    """A number, or a vector of them, for the instruction and for the reference."""
    values = near(seed, (count, 1), name)
    wide = values.astype(np.float64)
    return (tile(core, values), wide) if vector else (float(values[0, 0]), np.full((count, 1), wide[0, 0]))


def column(values, ndim):
    return values.reshape(-1, *(1,) * (ndim - 1))


def same(tensor, expected):
    np.testing.assert_array_equal(tensor.array().astype(np.float64), expected.astype(np.float64))


@few
@given(
    op=st.sampled_from(sorted(EXACT)),
    vectors=st.tuples(*[st.booleans()] * 2),
    bias_type=st.sampled_from(sorted(NUMBERS)),
    types=st.tuples(TYPES, TYPES),
    places=st.tuples(PLACES, PLACES),
    shape=SHAPES,
    seed=SEEDS,
)
def test_activation_scales_then_adds_the_bias_then_applies_the_function(
    op, vectors, bias_type, types, places, shape, seed
):
    with core_of() as core:
        data = tile(core, near(seed, shape, types[1]), types[1], *places[1])
        dst = blank(shape, types[0], *places[0])
        scale, s = operand(core, seed + 1, shape[0], vectors[0])
        bias, b = operand(core, seed + 2, shape[0], vectors[1], bias_type)
        nisa.activation(dst, op, data, bias, scale)

        def expected(x, q, r):
            return f32(EXACT[op](two("add", two("multiply", x, q), r)))

        x = numbers(data)
        same(dst, stored(each(expected, x, column(s, x.ndim), column(b, x.ndim)), types[0]))


@pytest.mark.parametrize("op", sorted(CLOSE))
def test_activation_is_within_the_stated_bound(op):
    with core_of() as core:
        data = tile(core, near(3, (8, 32)))
        dst = blank((8, 32), "float32")
        nisa.activation(dst, op, data)
        exact = each(CLOSE[op], data.array())
        ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
        assert (np.abs(dst.array() - exact) <= (ERROR_ULPS[op] + 0.5) * ulp).all()


def test_sin_beyond_pi_is_the_documented_cubic():
    with core_of() as core:
        dst = blank((1, 1), "float32")
        nisa.activation(dst, "sin", tile(core, np.array([[9.0]], np.float32)))
        assert dst.array()[0, 0] == pytest.approx(27.65, abs=0.01)


def test_a_function_of_one_tile_is_not_changed_by_a_second_use_of_its_input():
    with core_of() as core:
        data = tile(core, near(1, (2, 4)))
        before = data.array().copy()
        nisa.activation(blank((2, 4), "float32"), "copy", data, bias=1.0)
        nisa.activation(blank((2, 4), "bfloat16"), "copy", data)
        assert data.array().tolist() == before.tolist()


def summed(values):
    """Within the error of summing in any order: the exact sum, and half a unit in the last place of each addition."""
    total = math.fsum(values)
    return total, len(values) * 2.0**-24 * math.fsum(abs(x) for x in values)


@few
@given(shape=SHAPES, out=TYPES, places=st.tuples(PLACES, PLACES), seed=SEEDS, reduced=PLACES)
def test_activation_sums_float32_results_before_they_are_rounded(shape, out, places, seed, reduced):
    with core_of() as core:
        data = tile(core, near(seed, shape), None, *places[1])
        dst, total = blank(shape, out, *places[0]), blank((shape[0], 1), "float32", *reduced)
        nisa.activation(dst, "square", data, None, 1.0, "add", total, CMD.reset_reduce)
        for row, found in zip(numbers(data).reshape(shape[0], -1), total.array()[:, 0], strict=True):
            exact, error = summed([f32(x * x) for x in row])
            assert abs(float(found) - exact) <= error


def test_registers_go_on_over_instructions_and_stay_with_idle():
    with core_of() as core:
        data = tile(core, np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
        dst, total = blank((2, 2), "float32"), blank((2, 1), "float32")
        nisa.activation(dst, "copy", data, reduce_op="add", reduce_cmd=CMD.reset_reduce)
        nisa.activation(dst, "copy", data, scale=100.0)
        nisa.activation(dst, "copy", data, scale=10.0, reduce_op="add", reduce_cmd=CMD.reduce)
        nisa.activation(dst, "copy", data, reduce_res=total)
        assert total.array().tolist() == [[33.0], [77.0]]
        nisa.activation(dst, "copy", data, reduce_res=total, reduce_cmd=CMD.reset)
        assert total.array().tolist() == [[0.0], [0.0]]
        assert dst.array().tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_activation_reduce_is_activation_with_reset_reduce():
    with core_of() as core:
        data = tile(core, near(5, (3, 4)))
        dst, total = blank((3, 4), "float32"), blank((3, 1), "float32")
        again, other = blank((3, 4), "float32"), blank((3, 1), "float32")
        bias = tile(core, near(6, (3, 1)))
        nisa.activation(dst, "exp", data, bias, 0.5, "add", total, CMD.reset_reduce)
        nisa.activation_reduce(again, "exp", data, "add", other, bias, 0.5)
        assert bits(dst.array()).tolist() == bits(again.array()).tolist()
        assert bits(total.array()).tolist() == bits(other.array()).tolist()
        nisa.activation_reduce(again, "exp", data, "add", None)
        nisa.activation(dst, "exp", data, reduce_res=total)
        np.testing.assert_allclose(total.array()[:, 0], np.exp(data.array()).sum(1), rtol=1e-6)


def test_registers_are_those_of_the_partitions_of_the_data():
    with core_of() as core:
        low, high = (
            tile(core, np.ones((4, 2), np.float32)),
            tile(core, np.ones((4, 2)), "float32", "sbuf", "low"),
        )
        dst, total = blank((4, 2), "float32"), blank((4, 1), "float32")
        nisa.activation_reduce(dst, "copy", low, "add", None)
        nisa.activation_reduce(dst, "copy", high, "add", None, scale=5.0)
        nisa.activation(dst, "copy", low, reduce_res=total)
        assert total.array().tolist() == [[2.0]] * 4


@pytest.mark.parametrize(
    "options", [{"reduce_op": "add", "reduce_cmd": CMD.reduce}, {}], ids=["reduce", "read"]
)
def test_registers_that_nothing_has_set_are_not_used(options):
    with core_of() as core:
        data, total = tile(core, np.ones((2, 2), np.float32)), blank((2, 1), "float32")
        text = message(lambda: nisa.activation(data, "copy", data, reduce_res=total, **options))
        assert "accumulator registers that an earlier instruction has set" in text


def test_vector_and_scalar_engine_have_registers_of_their_own():
    with core_of("trn3") as core:
        data, total = tile(core, np.ones((2, 2), np.float32)), blank((2, 1), "float32")
        nisa.activation_reduce(data, "copy", data, "add", None)
        text = message(
            lambda: nisa.tensor_scalar_reduce(data, data, "add", 1.0, "add", total, reduce_cmd=CMD.reduce)
        )
        assert "accumulator registers" in text


PAIRS = [("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass")]
PAIRS += [("subtract", "bypass"), ("bypass", "bypass")]


@few
@given(
    pair=st.sampled_from(PAIRS),
    flags=st.tuples(*[st.booleans()] * 4),
    types=st.tuples(TYPES, TYPES),
    shape=SHAPES,
    place=PLACES,
    seed=SEEDS,
)
def test_activate2_applies_two_operators_then_the_function(pair, flags, types, shape, place, seed):
    with core_of("trn3") as core:
        data = tile(core, near(seed, shape, types[1]), types[1], *place)
        dst = blank(shape, types[0])
        first, y0 = operand(core, seed + 1, shape[0], flags[0])
        second, y1 = operand(core, seed + 2, shape[0], flags[1])
        reverse = [flag and op != "bypass" for flag, op in zip(flags[2:], pair, strict=True)]
        nisa.activate2(dst, "relu", data, first, second, *pair, reverse0=reverse[0], reverse1=reverse[1])

        def expected(x, *operands):
            for op, y, turned in zip(pair, operands, reverse, strict=True):
                if op != "bypass":
                    x = two(op, y, x) if turned else two(op, x, y)
            return max(x, 0.0)

        x = numbers(data)
        same(dst, stored(each(expected, x, column(y0, x.ndim), column(y1, x.ndim)), types[0]))


@pytest.mark.parametrize("vector", [False, True])
def test_prelu_takes_its_slope_from_relu_param(vector):
    with core_of("trn3") as core:
        data = tile(core, np.array([[-2.0, 3.0], [-4.0, -0.5]], np.float32))
        slopes = np.array([[0.25], [0.5]], np.float32)
        dst = blank((2, 2), "float32")
        slope = tile(core, slopes) if vector else 0.25
        nisa.activate2(dst, "prelu", data, 0.0, 0.0, "bypass", "bypass", slope)
        second = 0.5 if vector else 0.25
        assert dst.array().tolist() == [[-0.5, 3.0], [-4.0 * second, -0.5 * second]]


REDUCED = {
    "add": ([-3.0, 1.0, 2.5], 0.5),
    "maximum": ([-3.0, 1.0, 2.5], 2.5),
    "minimum": ([-3.0, 1.0, 2.5], -3.0),
    "abs_max": ([-3.0, 1.0, 2.5], -3.0),
    "abs_min": ([-3.0, 1.0, 2.5], 1.0),
}


@pytest.mark.parametrize("op", sorted(REDUCED))
def test_activate2_reduces_from_the_identity_and_goes_on(op):
    row, expected = REDUCED[op]
    with core_of("trn3") as core:
        data = tile(core, np.array([row], np.float32))
        far = tile(core, np.array([[0.0 if op in ("add", "maximum", "abs_max") else 100.0]], np.float32))
        dst, one, total = blank((1, 3), "float32"), blank((1, 1), "float32"), blank((1, 1), "float32")
        rest = ("copy", data, 0.0, 0.0, "bypass", "bypass")
        nisa.activate2(dst, *rest, reduce_op=op, reduce_cmd=CMD.reset_reduce)
        nisa.activate2(one, "copy", far, *rest[2:], reduce_op=op, reduce_res=total, reduce_cmd=CMD.reduce)
        assert total.array().tolist() == [[expected]]


@few
@given(types=st.tuples(TYPES, TYPES), places=st.tuples(PLACES, PLACES), shape=SHAPES, seed=SEEDS)
def test_reciprocal_is_one_over_the_element(types, places, shape, seed):
    with core_of() as core:
        values = near(seed, shape, types[1])
        data = tile(core, np.where(values == 0, 1, values).astype(values.dtype), types[1], *places[1])
        dst = blank(shape, types[0], *places[0])
        nisa.reciprocal(dst, data)
        same(dst, stored(each(lambda x: f32(1 / x), numbers(data)), types[0]))


def test_reciprocal_of_zero_is_infinite_without_a_warning():
    with core_of() as core:
        dst = blank((1, 2), "float32")
        nisa.reciprocal(dst, tile(core, np.array([[0.0, -0.0]], np.float32)))
        assert dst.array().tolist() == [[math.inf, -math.inf]]


@few
@given(
    vector=st.booleans(),
    out=st.sampled_from(["float32", "bfloat16", "int16"]),
    shape=SHAPES,
    places=st.tuples(PLACES, PLACES),
    seed=SEEDS,
)
def test_exponential_subtracts_then_sums(vector, out, shape, places, seed):
    with core_of("trn3") as core:
        src = tile(core, near(seed, shape), None, *places[0])
        largest, y = operand(core, seed + 1, shape[0], vector)
        dst, total = blank(shape, out, *places[1]), blank((shape[0], 1), "float32")
        nisa.exponential(dst, src, largest, total, CMD.reset_reduce)
        x = numbers(src)
        exact = each(lambda p, q: math.exp(two("subtract", p, q)), x, column(y, x.ndim))
        sums = exact.reshape(shape[0], -1).sum(1)
        np.testing.assert_allclose(total.array()[:, 0], sums, rtol=2e-6)
        if out == "float32":
            np.testing.assert_allclose(dst.array(), exact, rtol=5e-7)
        elif out == "bfloat16":
            np.testing.assert_allclose(dst.array().astype(np.float64), exact, rtol=2.0**-8)
        else:
            assert np.abs(dst.array() - exact).max() <= 0.5 + 1e-5


def test_exponential_accumulates_and_loads():
    with core_of("trn3") as core:
        src = tile(core, np.zeros((2, 3), np.float32))
        dst, total = blank((2, 3), "float32"), blank((2, 1), "float32")
        nisa.exponential(dst, src, reduce_cmd=CMD.reset_reduce)
        nisa.exponential(dst, src, reduce_res=total, reduce_cmd=CMD.reduce)
        assert total.array().tolist() == [[6.0], [6.0]]
        start = tile(core, np.array([[10.0], [20.0]], np.float32))
        nisa.exponential(dst, src, 0.0, total, CMD.load_reduce, start)
        assert total.array().tolist() == [[13.0], [23.0]]
        nisa.exponential(dst, src, 0.0, total, CMD.load_reduce, 0.5)
        assert total.array().tolist() == [[3.5], [3.5]]


def test_exponential_with_idle_leaves_the_registers_unknown():
    with core_of("trn3") as core:
        src = tile(core, np.zeros((2, 3), np.float32))
        dst, total = blank((2, 3), "float32"), blank((2, 1), "float32")
        nisa.exponential(dst, src, reduce_cmd=CMD.reset_reduce)
        nisa.exponential(dst, src)
        text = message(lambda: nisa.exponential(dst, src, reduce_res=total, reduce_cmd=CMD.reduce))
        assert "left unknown by an instruction with reduce_cmd.idle" in text


def test_registers_of_the_vector_engine_are_shared_by_its_instructions():
    with core_of("trn3") as core:
        src = tile(core, np.zeros((2, 3), np.float32))
        dst, total = blank((2, 3), "float32"), blank((2, 1), "float32")
        nisa.exponential(dst, src, reduce_cmd=CMD.reset_reduce)
        nisa.tensor_scalar_reduce(dst, src, "add", 2.0, "add", total, reduce_cmd=CMD.reduce)
        assert total.array().tolist() == [[9.0], [9.0]]


@few
@given(
    name=TYPES,
    chip=st.sampled_from(["trn1", "trn2", "trn3"]),
    places=st.tuples(PLACES, PLACES),
    shape=st.sampled_from([(3, 40), (2, 4, 10)]),
    seed=SEEDS,
)
def test_dropout_keeps_bits_or_writes_zero(name, chip, places, shape, seed):
    with core_of(chip) as core:
        values = np.where(near(seed, shape, name) == 0, 1, near(seed, shape, name)).astype(NUMBERS[name])
        data, dst = tile(core, values, name, *places[0]), blank(shape, name, *places[1])
        nisa.dropout(dst, data, 0.5)
        held, kept = bits(data.array()), bits(dst.array())
        assert ((kept == held) | (kept == 0)).all()
        assert 0 < (kept == 0).sum() < kept.size


@pytest.mark.parametrize("prob", [1.0, 57.0, math.nan])
def test_dropout_of_all(prob):
    with core_of() as core:
        data, dst = tile(core, np.full((2, 50), np.nan, np.float32)), blank((2, 50), "float32")
        nisa.dropout(dst, data, prob)
        assert (dst.array() == 0).all()


def test_dropout_of_none_keeps_nan_and_signed_zeros():
    with core_of() as core:
        data, dst = tile(core, np.array([[np.nan, -0.0, 2.0] * 20], np.float32)), blank((1, 60), "float32")
        nisa.dropout(dst, data, 0.0)
        assert bits(dst.array()).tolist() == bits(data.array()).tolist()


def test_dropout_takes_one_probability_per_partition_and_meets_it():
    probabilities = np.array([[0.0], [0.1], [0.5], [1.0]], np.float32)
    with core_of() as core:
        data, dst = tile(core, np.ones((4, 4000), np.float32)), blank((4, 4000), "float32")
        nisa.dropout(dst, data, tile(core, probabilities))
        dropped = 1 - dst.array().mean(1)
        # five standard deviations of a binomial share of 4000
        assert (np.abs(dropped - probabilities[:, 0]) <= 5 * np.sqrt(0.25 / 4000)).all()
        assert dropped[0] == 0
        assert dropped[3] == 1


def test_dropout_draws_anew_and_the_same_in_every_run():
    def run():
        with core_of() as core:
            data = tile(core, np.ones((2, 64), np.float32))
            first, second = blank((2, 64), "float32"), blank((2, 64), "float32")
            nisa.dropout(first, data, 0.5)
            nisa.dropout(second, data, 0.5)
            return first.array().tolist(), second.array().tolist()

    assert run() == run()
    assert run()[0] != run()[1]


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_dropout_follows_the_seed_of_the_vector_engine(chip):
    def run(seed):
        with core_of(chip) as core:
            data, dst = tile(core, np.ones((2, 64), np.float32)), blank((2, 64), "float32")
            nisa.set_rng_seed(tile(core, np.array([[seed]], np.uint32)))
            nisa.dropout(dst, data, 0.5)
            return dst.array().tolist()

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_operands_that_overlap_the_destination_are_read_first():
    values = near(9, (3, 8))
    with core_of("trn3") as core:
        for issue in (
            lambda x, dst: nisa.activation(dst, "exp", x[:, 1:6], bias=x[:, 3:4], scale=x[:, 2:3]),
            lambda x, dst: nisa.activate2(
                dst, "prelu", x[:, 1:6], x[:, 2:3], x[:, 3:4], "multiply", "subtract", relu_param=x[:, 4:5]
            ),
            lambda x, dst: nisa.exponential(dst, x[:, 1:6], x[:, 3:4], None, CMD.load_reduce, x[:, 2:3]),
        ):
            apart, fresh, within = tile(core, values), blank((3, 5), "float32"), tile(core, values)
            issue(apart, fresh)
            issue(within, within[:, 2:7])
            assert bits(within[:, 2:7].array()).tolist() == bits(fresh.array()).tolist()


def test_dropout_of_none_keeps_what_the_smallest_number_was_drawn_for(monkeypatch):
    smallest = "twintrack.neuroncore.emulator.ops.scalar.random_words"
    monkeypatch.setattr(
        smallest, lambda _core, _engine, dst: np.zeros((dst.shape[0], dst.free_size), np.uint32)
    )
    with core_of() as core:
        data, dst = tile(core, np.ones((2, 3), np.float32)), blank((2, 3), "float32")
        nisa.dropout(dst, data, 0.0)
        assert dst.array().tolist() == [[1.0] * 3] * 2
