"""Elementwise operators of ``nki.language`` against NumPy float64, for shapes, types and operands."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from nki_language_cases import on_tiles, rounded

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.operators import ACTIVATIONS, OPERATORS
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import language as nl
from twintrack.nki.language import operators
from twintrack.nki.language.tiles import promoted

TRN3 = GENERATIONS["trn3"]
ARITHMETIC = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "fmod": np.fmod,
    "mod": np.mod,
}
BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
# quarters of small numbers: exact in every float type here, ties in comparisons, sums and products exact in float32
QUARTERS = st.integers(-12, 12).map(lambda n: n / 4)


def _array(draw, shape, dtype):
    count = int(np.prod(shape))
    values = draw(st.lists(QUARTERS, min_size=count, max_size=count))
    return np.array(values, np.float32).reshape(shape).astype(DTYPES[dtype].stored)


@st.composite
def _operands(draw):
    """Two tiles, or a tile and a number, in an order; free dimensions of one may be 1."""
    shape = (draw(st.sampled_from([1, 3, 32])), *draw(st.sampled_from([(4,), (1,), (2, 3)])))
    dtypes = st.sampled_from(["float32", "bfloat16", "float16", "int32", "int8"])
    first = _array(draw, shape, draw(dtypes))
    kind = draw(st.sampled_from(["tile", "row", "column", "number"]))
    if kind == "number":
        return first, draw(QUARTERS), draw(st.booleans())
    free = {"tile": shape[1:], "column": (1,) * len(shape[1:]), "row": (1, *shape[2:])}[kind]
    second = _array(draw, (shape[0], *free), draw(dtypes))
    return first, second, draw(st.booleans())


def _expected_dtype(x, y):
    kinds = [DTYPES[one.dtype.name] for one in (x, y) if isinstance(one, np.ndarray)]
    return kinds[0] if len(kinds) == 1 else promoted(*kinds)


@pytest.mark.parametrize("name", ARITHMETIC)
@settings(max_examples=12, deadline=None)
@given(operands=_operands())
def test_arithmetic_agrees_with_numpy_in_float64(name, operands):
    first, second, swapped = operands
    x, y = (second, first) if swapped else (first, second)
    function = getattr(nl, name)
    if isinstance(second, float):
        found = on_tiles(lambda t: function(second, t) if swapped else function(t, second), first)
    else:
        found = on_tiles(function, x, y)

    kind = _expected_dtype(x, y)
    with np.errstate(all="ignore"):
        exact = ARITHMETIC[name](np.asarray(x, np.float64), np.asarray(y, np.float64))
    assert found.dtype == kind.stored
    np.testing.assert_array_equal(
        np.asarray(found, np.float64), np.asarray(rounded(exact, kind.name), np.float64)
    )


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "uint8"])
@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("second", ["tile", "column", "number"])
def test_bits_agree_with_numpy(name, dtype, second):
    draw = np.random.default_rng(1)
    limits = np.iinfo(dtype)
    x = draw.integers(limits.min, limits.max, (8, 6), dtype, endpoint=True)
    y = draw.integers(limits.min, limits.max, (8, 6 if second == "tile" else 1), dtype, endpoint=True)
    if second == "number":
        found = on_tiles(lambda t: getattr(nl, name)(t, 5), x)
        np.testing.assert_array_equal(found, BITS[name](x, np.array(5, dtype)))
        return
    found = on_tiles(getattr(nl, name), x, y)

    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, BITS[name](x, y))


def test_bits_of_unequal_widths_give_the_wider_type():
    x, y = np.array([[0xFF]], np.uint8), np.array([[0x12345678]], np.uint32)
    for first, second in ((x, y), (y, x)):
        found = on_tiles(nl.bitwise_and, first, second)
        assert found.dtype == np.uint32
        np.testing.assert_array_equal(found, [[0x78]])


def test_shifts_bring_in_zeros():
    x = np.array([[0x80000001, 0x0F0F0F0F, 1]], np.uint32)

    np.testing.assert_array_equal(on_tiles(lambda t: nl.right_shift(t, 4), x), x >> 4)
    np.testing.assert_array_equal(on_tiles(lambda t: nl.left_shift(t, 4), x), x << np.uint32(4))
    signed = np.array([[-8, 8]], np.int32)
    np.testing.assert_array_equal(
        on_tiles(lambda t: nl.right_shift(t, 1), signed), (signed.view(np.uint32) >> 1).view(np.int32)
    )


def test_invert_and_logical_not():
    x = np.array([[0, 1, -7, 127]], np.int8)
    np.testing.assert_array_equal(on_tiles(nl.invert, x), ~x)
    np.testing.assert_array_equal(on_tiles(nl.invert, x.view(np.uint8)), ~x.view(np.uint8))

    truths = np.array([[0.0, 1.0]], np.float32)
    np.testing.assert_array_equal(on_tiles(nl.logical_not, truths), [[1.0, 0.0]])


def test_two_tiles_of_32_bit_integers_are_exact():
    x = np.array([[2**24 + 1, -(2**30)]], np.int32)
    y = np.array([[2, 3]], np.int32)
    np.testing.assert_array_equal(on_tiles(nl.add, x, y), x + y)


@pytest.mark.parametrize("second", ["tile", "number"])
def test_power_agrees_with_numpy(second):
    x = np.array([[0.5, 1.0, 2.0, 3.0]], np.float32)
    y = np.array([[2.0, -1.0, 0.5, 3.0]], np.float32)
    if second == "number":
        found = on_tiles(lambda t: nl.power(t, 3), x)
        np.testing.assert_allclose(found, x.astype(np.float64) ** 3, rtol=1e-6)
    else:
        np.testing.assert_allclose(on_tiles(nl.power, x, y), x.astype(np.float64) ** y, rtol=1e-6)


def test_power_of_tiles_in_psum_goes_by_way_of_sbuf():
    x = np.array([[2.0, 3.0]], np.float32)
    np.testing.assert_allclose(on_tiles(nl.power, x, x, region="psum"), x**x, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"), [("abs_max", [[-5.0, -1.0, 3.0]]), ("abs_min", [[3.0, -1.0, 1.0]])]
)
def test_larger_and_smaller_magnitude_keep_the_sign_and_ties_give_the_second(name, expected):
    x = np.array([[-5.0, 1.0, 1.0]], np.float32)
    y = np.array([[3.0, -1.0, 3.0]], np.float32)

    np.testing.assert_array_equal(on_tiles(getattr(nl, name), x, y, generation=TRN3), expected)


@pytest.mark.parametrize("name", ["abs_max", "abs_min"])
def test_magnitudes_need_neuroncore_v4(name):
    x = np.ones((1, 2), np.float32)
    with pytest.raises(KernelError, match=r"v4|trn3|NeuronCore"):
        on_tiles(getattr(nl, name), x, x)


def test_one_operand_may_lie_in_psum():
    x = np.ones((4, 4), np.float32)
    np.testing.assert_array_equal(on_tiles(lambda t: nl.add(t, 1.0), x, region="psum"), x + 1)
    with pytest.raises(KernelError, match="PSUM"):
        on_tiles(nl.add, x, x, region="psum")


def test_dtype_of_the_result_can_be_named():
    x = np.array([[1.5, 300.0]], np.float32)
    found = on_tiles(lambda t: nl.add(t, 0.25, dtype=nl.uint8), x)

    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, [[2, 255]])


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("int32", "float16", "float16"),
        ("uint16", "tfloat32", "tfloat32"),
        ("float32", "tfloat32", "float32"),
        ("float32", "bfloat16", "float32"),
        ("float16", "bfloat16", "float32"),
        ("float8_e4m3", "float16", "float16"),
        ("float8_e4m3", "bfloat16", "bfloat16"),
        ("float8_e4m3", "float8_e5m2", "bfloat16"),
        ("int16", "int32", "int32"),
        ("uint8", "uint16", "uint16"),
        ("uint16", "int32", "int32"),
        ("int8", "uint8", "int16"),
        ("int8", "uint16", "int32"),
        ("int32", "uint32", "float32"),
    ],
)
def test_types_are_promoted_as_documented(first, second, result):
    assert promoted(DTYPES[first], DTYPES[second]) is DTYPES[result]
    assert promoted(DTYPES[second], DTYPES[first]) is DTYPES[result]


# limits


@pytest.mark.parametrize(
    ("mine", "theirs", "remedy"),
    [
        ((128, 4), (1, 4), "(128, 4)"),
        ((1, 1), (32, 1), "(32, 1)"),
        ((128, 1), (1, 128), "(128, 128)"),
        ((1, 128), (128, 1), "(128, 128)"),
    ],
)
def test_partitions_are_not_repeated_and_the_message_says_how_to(mine, theirs, remedy):
    x, y = np.ones(mine, np.float32), np.ones(theirs, np.float32)
    with pytest.raises(KernelError, match="does not broadcast over partitions") as caught:
        on_tiles(nl.multiply, x, y)
    assert f"nl.broadcast_to(..., {remedy})" in str(caught.value)


@pytest.mark.parametrize(("mine", "theirs"), [((4, 6), (4, 3)), ((4, 2, 3), (4, 3)), ((4, 2, 3), (4, 3, 3))])
def test_shapes_that_do_not_fit_are_refused(mine, theirs):
    x, y = np.ones(mine, np.float32), np.ones(theirs, np.float32)
    with pytest.raises(KernelError, match="agree in every dimension"):
        on_tiles(nl.add, x, y)


def test_two_numbers_are_refused():
    with pytest.raises(KernelError, match="at least one tile"):
        on_tiles(lambda t: nl.add(1, 2), np.ones((1, 1), np.float32))


def test_an_operand_in_hbm_is_refused():
    from twintrack import nki

    @nki.jit
    def kernel(a):
        return nl.add(a, 1.0)

    with pytest.raises(KernelError, match="SBUF or PSUM") as caught:
        kernel(np.ones((4, 4), np.float32))
    assert "nl.load" in str(caught.value)


def test_bits_of_floats_are_refused():
    with pytest.raises(KernelError, match="integer"):
        on_tiles(lambda t: nl.bitwise_and(t, 1), np.ones((4, 4), np.float32))


# operators as arguments


def test_every_operator_and_activation_is_an_argument_under_its_name():
    for name in {**OPERATORS, **ACTIVATIONS}:
        assert getattr(nl, name).nki_op == name
    assert nl.max.nki_op == "maximum"
    assert nl.min.nki_op == "minimum"
    assert repr(operators.bypass) == "nl.bypass"


# truth


def test_a_comparison_is_true_where_all_its_elements_are():
    def kernel(x):
        assert nl.equal(x, x)
        assert not nl.equal(x, nl.add(x, [0.0, 1.0][1]))
        assert nl.less(x, 100.0)
        assert not nl.greater(x, 1.0)
        assert bool(nl.equal(x, 1.0)[:, 0:1])
        return nl.copy(x)

    on_tiles(kernel, np.array([[1.0, 2.0]], np.float32))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "int32", "uint8"])
def test_truth_of_every_type(dtype):
    def kernel(x):
        assert nl.equal(x, x, dtype=DTYPES[dtype])
        assert not nl.not_equal(x, x, dtype=DTYPES[dtype])
        return x

    on_tiles(kernel, np.array([[1.0, 2.0]], np.float32))


def test_any_other_tile_is_true_as_it_is_not_none():
    def kernel(x):
        assert nl.subtract(x, x)
        return x

    on_tiles(kernel, np.zeros((1, 2), np.float32))


def branch_if(tile):
    if nl.greater(tile, 0.0):
        return nl.copy(tile)
    return tile


def branch_while(tile):
    while not nl.greater(tile, 0.0):
        tile = nl.add(tile, 1.0)
    return tile


def branch_and(tile):
    nl.greater(tile, 0.0) and nl.copy(tile)
    return tile


def branch_or(tile):
    nl.less(tile, 0.0) or nl.copy(tile)
    return tile


def branch_expression(tile):
    return nl.copy(tile) if nl.greater(tile, 0.0) else tile


def branch_named(tile):
    positive = nl.greater(tile, 0.0)
    if (
        tile.ndim == 2
        and positive
    ):  # fmt: skip
        return nl.copy(tile)
    return tile


def branch_comprehension(tile):
    (found,) = [one for one in (tile,) if nl.greater(one, 0.0)]
    return found


BRANCHES = (
    branch_if, branch_while, branch_and, branch_or, branch_expression, branch_named, branch_comprehension
)  # fmt: skip


@pytest.mark.parametrize("branch", BRANCHES, ids=lambda one: one.__name__)
def test_a_strict_run_has_no_branch_on_a_comparison(branch):
    from twintrack import nki

    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, branch(nl.load(a)))
        return out

    ones = np.ones((1, 2), np.float32)
    simulated = nki.simulate(kernel).with_options(generation=TRN3)
    np.testing.assert_array_equal(simulated(ones), ones)
    with pytest.raises(KernelError, match="no Python branch on a comparison of tiles") as caught:
        simulated.with_options(strict=True)(ones)
    first = branch.__code__.co_firstlineno
    file, line = caught.value.where.rsplit(":", 1)
    assert (file, int(line) in range(first, first + 9)) == (branch.__code__.co_filename, True)


def test_a_strict_run_takes_assertions_and_truths_that_nothing_branches_on():
    from twintrack import nki

    def kernel(a):
        tile = nl.load(a)
        assert nl.greater(tile, 0.0)
        assert not nl.less(tile, 0.0) and (tile.ndim == 1 or nl.greater(tile, 0.0)), "positive"  # noqa: PT018 - as authors write it
        assert (  # noqa: PT018 - as authors write it
            nl.greater(tile, 0.0)
            and nl.less(tile, 2.0)
        )  # fmt: skip
        print(bool(nl.greater(tile, 0.0)), not nl.less(tile, 0.0), end="")
        if tile:
            nl.store(a, nl.where(nl.greater(tile, 0.0), tile, 0.0))
        return a

    nki.simulate(kernel).with_options(generation=TRN3, strict=True)(np.ones((1, 2), np.float32))


def test_a_strict_run_of_code_without_source_refuses_nothing():
    from twintrack import nki

    names = {"nl": nl}
    exec("def kernel(a):\n    if nl.greater(nl.load(a), 0.0):\n        return a\n", names)  # noqa: S102
    nki.simulate(names["kernel"]).with_options(generation=TRN3, strict=True)(np.ones((1, 2), np.float32))


def test_truth_needs_values():
    from twintrack import nki
    from twintrack.nki.arrays import Shape

    @nki.jit
    def kernel(a):
        tile = nl.load(a)
        assert nl.equal(tile, tile)
        return a

    with pytest.raises(KernelError, match="run without values"):
        nki.simulate(kernel).with_options(values=False)(Shape((1, 2)))
