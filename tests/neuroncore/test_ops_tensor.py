"""What Tensor Engine instructions compute, against float64, exact sums and bit comparisons."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from single_core import LAYOUTS, NUMBERS, bits, blank, core_of, numbers, tile

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import isa as nisa

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
PAIRS = [(a, b) for a in FLOATS for b in FLOATS if (a == "float32") == (b == "float32")]
EVERY = tuple(name for name in DTYPES if name != "tfloat32")


def random_bits(tensor, seed=0):
    """Fill a tile with any bits, NaN payloads and infinities among them."""
    flat = tensor.array()
    width = flat.dtype.itemsize
    flat.view(f"u{width}")[...] = np.random.default_rng(seed).integers(
        0, 2 ** (8 * width), flat.shape, dtype=f"u{width}"
    )
    return tensor


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_product_is_that_of_float64_within_float32_sums(left, right, layout):
    random = np.random.default_rng(1)
    with core_of() as core:
        a = tile(core, random.standard_normal((48, 20)), left, layout=layout)
        b = tile(core, random.standard_normal((48, 7)), right, layout=layout)
        psum = blank((20, 7), "float32", "psum")
        nisa.nc_matmul(psum, a, b)
        exact = numbers(a).T @ numbers(b)
        bound = 48 * 2.0**-24 * (abs(numbers(a)).T @ abs(numbers(b)))
        assert (abs(numbers(psum) - exact) <= bound).all()


def test_products_of_narrow_floats_are_exact():
    """One product at a time: no sum, so no rounding at all."""
    random = np.random.default_rng(2)
    for name in ("bfloat16", "float16", "float8_e4m3", "float8_e5m2"):
        values = random.standard_normal((1, 64)).astype(NUMBERS[name])
        with core_of() as core:
            a, b = tile(core, values, name), tile(core, values[:, ::-1], name)
            psum = blank((64, 64), "float32", "psum")
            nisa.nc_matmul(psum, a, b)
            for m, n in ((0, 0), (3, 60), (63, 1), (17, 17)):
                exact = Fraction(float(values[0, m])) * Fraction(float(values[0, 63 - n]))
                assert Fraction(float(psum.array()[m, n])) == exact


def test_sums_are_kept_in_float32():
    """4096 + 1 is lost in bfloat16 and kept in PSUM; 2**24 + 1 is lost in float32."""
    with core_of() as core:
        a = tile(core, [[4096.0], [1.0]], "bfloat16")
        one = tile(core, [[1.0], [1.0]], "bfloat16")
        psum = blank((1, 1), "float32", "psum")
        nisa.nc_matmul(psum, a, one)
        assert psum.array()[0, 0] == 4097
        big = tile(core, [[2.0**24], [1.0]], "bfloat16")
        other = blank((1, 1), "float32", "psum")
        nisa.nc_matmul(other, big, one)
        assert other.array()[0, 0] == 2.0**24


def test_double_row_is_a_product_over_both_rows_of_a_partition():
    random = np.random.default_rng(3)
    a = random.integers(-8, 9, (32, 2, 24)).astype(np.float64)
    b = random.integers(-8, 9, (32, 2, 40)).astype(np.float64)
    with core_of() as core:
        left, right = tile(core, a, "float8_e4m3"), tile(core, b, "float8_e5m2")
        psum = blank((24, 40), "float32", "psum")
        nisa.nc_matmul(psum, left, right, perf_mode=nisa.matmul_perf_mode.double_row)
        assert np.array_equal(numbers(psum), np.einsum("kjm,kjn->mn", numbers(left), numbers(right)))


def product(core, value, rows=4, columns=6):
    """A product whose every element is ``value``."""
    return tile(core, np.full((1, rows), value), "float32"), tile(core, np.ones((1, columns)), "float32")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ((None, None), 3),
        ((False, True), 3),
        ((None, True), 3),
        ((None, False), 2),
        ((False, None), 3),
    ],
)
def test_accumulation_follows_the_flag_and_none_adds_after_a_first_product(told, expected):
    with core_of() as core:
        psum = blank((4, 6), "float32", "psum")
        nisa.nc_matmul(psum, *product(core, 1.0), accumulate=told[0])
        nisa.nc_matmul(psum, *product(core, 2.0), accumulate=told[1])
        assert (psum.array() == expected).all()


def test_overlapping_products_add_where_they_overlap_only():
    with core_of() as core:
        psum = blank((4, 10), "float32", "psum")
        nisa.nc_matmul(psum[:, 0:6], *product(core, 1.0))
        nisa.nc_matmul(psum[:, 4:10], *product(core, 2.0))
        assert np.array_equal(psum.array(), np.tile([1, 1, 1, 1, 3, 3, 2, 2, 2, 2], (4, 1)))


def test_adding_to_what_was_never_written_is_refused():
    for chip in ("trn2", "trn3"):
        with core_of(chip) as core, pytest.raises(KernelError, match="dst written before it is read"):
            nisa.nc_matmul(blank((4, 6), "float32", "psum"), *product(core, 1.0), accumulate=True)


def test_zeros_may_be_added_to_whoever_wrote_them():
    with core_of() as core:
        psum = blank((4, 6), "float32", "psum")
        nisa.memset(psum, 0)
        nisa.nc_matmul(psum, *product(core, 2.0), accumulate=True)
        nisa.nc_matmul(psum, *product(core, 3.0))
        assert (psum.array() == 5).all()


def test_values_of_another_instruction_are_added_to_on_neuroncore_v4_only():
    for told in (True, None):
        with core_of("trn3") as core:
            psum = blank((4, 6), "float32", "psum")
            nisa.memset(psum, 5.0)
            nisa.nc_matmul(psum, *product(core, 2.0), accumulate=told)
            assert (psum.array() == 7).all()
        with core_of("trn2") as core:
            psum = blank((4, 6), "float32", "psum")
            nisa.memset(psum, 5.0)
            with pytest.raises(KernelError, match="accumulate=True"):
                nisa.nc_matmul(psum, *product(core, 2.0), accumulate=told)
            nisa.nc_matmul(psum, *product(core, 2.0), accumulate=False)
            assert (psum.array() == 2).all()


def test_bfloat16_in_psum_is_added_in_float32_and_rounded_once():
    random = np.random.default_rng(4)
    a, b = random.standard_normal((16, 8)), random.standard_normal((16, 9))
    with core_of("trn3") as core:
        left, right = tile(core, a, "bfloat16"), tile(core, b, "bfloat16")
        psum = blank((8, 9), "bfloat16", "psum")
        wide = blank((8, 9), "float32", "psum")
        nisa.nc_matmul(wide, left, right)
        once = wide.array().copy()
        nisa.nc_matmul(psum, left, right)
        nisa.nc_matmul(psum, left, right)
        first = once.astype(ml_dtypes.bfloat16).astype(np.float32)
        assert np.array_equal(bits(psum.array()), bits((first + once).astype(ml_dtypes.bfloat16)))


def test_infinities_and_nan_follow_ieee_without_warnings():
    with core_of() as core:
        a = tile(core, [[np.inf, np.nan, 1.0]], "bfloat16")
        b = tile(core, [[0.0, 1.0]], "bfloat16")
        psum = blank((3, 2), "float32", "psum")
        nisa.nc_matmul(psum, a, b)
        assert np.array_equal(psum.array(), [[np.nan, np.inf], [np.nan, np.nan], [0, 1]], equal_nan=True)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("engine", ["tensor", "vector"])
def test_a_transpose_keeps_every_bit_of_every_type(name, engine):
    rows, columns = (96, 128) if engine == "tensor" else (32, 17)
    with core_of() as core:
        data = random_bits(blank((rows, columns), name))
        core.wrote(data)
        dst = blank((columns, rows), name, "psum")
        nisa.nc_transpose(dst, data, engine=nisa.engine[engine])
        assert np.array_equal(bits(dst.array()), bits(data.array()).T)


def test_a_transpose_takes_all_free_dimensions_as_one():
    with core_of() as core:
        data = tile(core, np.arange(2 * 3 * 4).reshape(2, 3, 4), "float32")
        dst = blank((12, 2), "float32", "psum")
        nisa.nc_transpose(dst, data)
        assert np.array_equal(dst.array(), data.array().reshape(2, 12).T)


@pytest.mark.parametrize("name", FLOATS)
def test_transpose_mode_keeps_every_bit(name):
    with core_of() as core:
        data = random_bits(blank((32, 24), name), seed=5)
        core.wrote(data)
        identity = tile(core, np.eye(32), name)
        dst = blank((24, 32), name, "psum")
        nisa.nc_matmul(dst, data, identity, is_transpose=True)
        assert np.array_equal(bits(dst.array()), bits(data.array()).T)


def test_transpose_mode_of_float8_fills_16_bits_with_zeros_above():
    with core_of() as core:
        data = random_bits(blank((8, 4), "float8_e4m3"))
        core.wrote(data)
        dst = blank((4, 8), "uint16", "psum")
        nisa.nc_matmul(dst, data, tile(core, np.eye(8), "float8_e4m3"), is_transpose=True)
        assert np.array_equal(dst.array(), bits(data.array()).T.astype(np.uint16))


def test_transpose_mode_moves_rows_by_a_permutation_and_refuses_other_values():
    with core_of() as core:
        data = tile(core, np.arange(12).reshape(4, 3), "bfloat16")
        order = [2, 0, 3, 1]
        dst = blank((3, 4), "bfloat16", "psum")
        nisa.nc_matmul(dst, data, tile(core, np.eye(4)[:, order], "bfloat16"), is_transpose=True)
        assert np.array_equal(numbers(dst), numbers(data)[order].T)
        with pytest.raises(KernelError, match=r"an identity matrix .* as moving in transpose mode"):
            nisa.nc_matmul(dst, data, tile(core, 2 * np.eye(4), "bfloat16"), is_transpose=True)


def test_the_tensor_engine_of_neuroncore_v2_spreads_nan_when_it_transposes():
    with core_of("trn1") as core:
        data = tile(core, [[1.0, np.nan], [2.0, 3.0]], "bfloat16")
        dst = blank((2, 2), "bfloat16", "psum")
        nisa.nc_transpose(dst, data, engine=nisa.engine.tensor)
        assert np.array_equal(numbers(dst), [[1, 2], [np.nan, np.nan]], equal_nan=True)
        whole = blank((2, 2), "float32", "psum")
        nisa.nc_matmul(whole, data, tile(core, np.eye(2), "bfloat16"), is_transpose=True)
        assert np.array_equal(numbers(whole), [[1, 2], [np.nan, np.nan]], equal_nan=True)
        nisa.nc_transpose(dst, tile(core, [[7, 8], [9, 10]], "bfloat16"), engine=nisa.engine.tensor)
        assert np.array_equal(numbers(dst), [[7, 9], [8, 10]])


# MX formats


def mx(core, values, name, scale_rows=0, scale_type="float8_e8m0fnu"):
    """Quantised values: words, and scales that begin at a partition of each quadrant."""
    partitions, free = values.shape
    src = tile(core, values, "bfloat16")
    words = blank((partitions, free // 4), name)
    scales = blank((partitions, free // 4), scale_type)[scale_rows:]
    nisa.quantize_mx(words, src, scales)
    return words, scales


def scaled(words, scales, element):
    """Numbers that words and scales mean, by one loop over groups."""
    patterns = np.ascontiguousarray(words.array()).view(np.uint8).view(element).astype(np.float64)
    found = patterns.reshape(words.shape[0], words.shape[1], 4).copy()
    for p in range(words.shape[0]):
        row = p // 32 * 32 + p % 32 // 8
        for f in range(words.shape[1]):
            found[p, f] *= 2.0 ** (int(scales.array()[row, f]) - 127)
    return found


@pytest.mark.parametrize(
    ("name", "element"),
    [("float8_e4m3fn_x4", ml_dtypes.float8_e4m3fn), ("float8_e5m2_x4", ml_dtypes.float8_e5m2)],
)
@pytest.mark.parametrize("scale_rows", [0, 12])
def test_an_mx_product_is_that_of_the_scaled_numbers(name, element, scale_rows):
    random = np.random.default_rng(6)
    with core_of("trn3") as core:
        left = mx(core, random.standard_normal((64, 32)) * 100, name, scale_rows, "uint8")
        right = mx(core, random.standard_normal((64, 20)), name, scale_rows)
        psum = blank((8, 5), "float32", "psum")
        nisa.nc_matmul_mx(psum, left[0], right[0], left[1], right[1])
        a, b = scaled(*left, element), scaled(*right, element)
        exact = np.einsum("kmq,knq->mn", a, b)
        bound = 256 * 2.0**-24 * np.einsum("kmq,knq->mn", abs(a), abs(b))
        assert (abs(numbers(psum) - exact) <= bound).all()


def test_quantisation_writes_scales_in_the_quadrants_of_their_groups_only():
    with core_of("trn3") as core:
        _, scales = mx(core, np.full((64, 4), 3.0), "float8_e4m3fn_x4")
        written = [
            p for p in range(64) if scales[p : p + 1].storage.written.covers(scales[p : p + 1].pattern())
        ]
        assert written == [0, 1, 2, 3, 32, 33, 34, 35]
        # largest magnitude 3: exponent 1, less (8 - 1)
        assert (scales.array()[written] == 127 + 1 - 7).all()


# tensor indirection


def test_an_indirect_product_gathers_columns_of_its_operands_and_scatters_those_of_dst():
    random = np.random.default_rng(7)
    with core_of("trn3") as core:
        left = tile(core, random.integers(-4, 5, (64, 30)), "bfloat16")
        right = tile(core, random.integers(-4, 5, (64, 30)), "bfloat16")
        columns = random.integers(0, 30, (64, 1))
        index = tile(core, columns, "uint16")
        psum = blank((32, 40), "float32", "psum")
        nisa.memset(psum, 0)
        places = random.permutation(40)[:32].reshape(32, 1)
        nisa.nc_matmul(
            psum.indirect(tile(core, places, "int32"), 32),
            left.indirect(index, 32),
            right.indirect(index, 32),
        )
        a, b = (np.empty((64, 32)) for _ in range(2))
        for p in range(64):
            for i in range(32):
                a[p, i] = numbers(left)[p, columns[p // 32 * 32 + i, 0]]
                b[p, i] = numbers(right)[p, columns[p // 32 * 32 + i, 0]]
        expected = np.zeros((32, 40))
        expected[:, places[:, 0]] = a.T @ b
        assert np.array_equal(numbers(psum), expected)
