"""What instructions that move data do, against NumPy and the documentation's own formulas."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_core import LAYOUTS, NUMBERS, bits, blank, core_of, is_written, numbers, tile, written_mask

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

SKIP = nisa.oob_mode.skip
EVERY = tuple(DTYPES)


def random_bits(tensor, core, seed=0):
    flat = tensor.array()
    width = flat.dtype.itemsize
    flat.view(f"u{width}")[...] = np.random.default_rng(seed).integers(
        0, 2 ** (8 * width), flat.shape, dtype=f"u{width}"
    )
    core.wrote(tensor)
    return tensor


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_copy_of_one_type_keeps_every_bit(name, layout):
    with core_of() as core:
        src = random_bits(blank((16, 6), name, layout=layout), core)
        for copy, region in (
            (nisa.dma_copy, "shared_hbm"),
            (nisa.dma_copy, "sbuf"),
            (nisa.tensor_copy, "psum"),
        ):
            dst = blank((16, 6), name, region, layout=layout if region != "shared_hbm" else "plain")
            copy(dst, src)
            assert np.array_equal(bits(dst.array()), bits(src.array()))
            assert is_written(dst)


@pytest.mark.parametrize("source", [name for name in NUMBERS if name not in ("float8_e4m3", "float8_e5m2")])
@pytest.mark.parametrize("target", ["float32", "bfloat16", "float16"])
def test_a_copy_between_types_goes_through_float32(source, target):
    values = np.array([[0, 1, 3, 100, 101, 127, 2**24 + 1 if "32" in source else 64, 77]])
    with core_of() as core:
        src = tile(core, values, source)
        for copy in (nisa.dma_copy, nisa.tensor_copy):
            dst = blank((1, 8), target)
            copy(dst, src)
            with np.errstate(over="ignore"):
                expected = src.array().astype(np.float32).astype(NUMBERS[target])
            assert np.array_equal(bits(dst.array()), bits(expected))


def test_a_copy_to_an_integer_rounds_to_even_and_saturates():
    with core_of() as core:
        src = tile(core, [[0.5, 1.5, -2.5, 300.0, -300.0, np.nan]], "float32")
        dst = blank((1, 6), "int8")
        nisa.tensor_copy(dst, src)
        assert np.array_equal(dst.array(), [[0, 2, -2, 127, -128, 0]])


@given(st.permutations(range(3)), st.integers(1, 3), st.integers(1, 2))
@settings(max_examples=30)
def test_a_dma_goes_in_row_major_order_of_both_shapes(order, step, extra):
    with core_of() as core:
        src = tile(core, np.arange(4 * 3 * 8).reshape(4, 3, 8), "int32", "shared_hbm")
        view = src.permute(tuple(order))[..., ::step]
        dst = blank(
            (view.size // extra, extra) if view.size % extra == 0 else (view.size,), "int32", "shared_hbm"
        )
        nisa.dma_copy(dst, view)
        assert np.array_equal(dst.array().reshape(-1), view.array().reshape(-1))


def test_an_overlapping_copy_reads_all_before_it_writes():
    with core_of() as core:
        row = tile(core, np.arange(8).reshape(1, 8), "float32")
        nisa.tensor_copy(row[:, 1:8], row[:, 0:7])
        assert np.array_equal(row.array(), [[0, 0, 1, 2, 3, 4, 5, 6]])


@pytest.mark.parametrize("name", EVERY)
def test_memset_fills_every_type(name):
    with core_of():
        dst = blank((4, 6), name)
        nisa.memset(dst, 0)
        assert not bits(dst.array()).any()
        assert is_written(dst)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("float32", 1.1, np.float32(1.1)),
        ("bfloat16", 1.1, ml_dtypes.bfloat16(1.1)),
        ("float8_e5m2", 3.3, ml_dtypes.float8_e5m2(3.3)),
        ("float16", 1e9, np.float16(np.inf)),
        ("int8", 300, 127),
        ("int8", -2.5, -2),
        ("uint8", -1, 0),
        ("uint32", 2**32 - 1, 2**32 - 1),
        ("int32", -(2**31), -(2**31)),
        ("int32", 2**70, 2**31 - 1),
        ("uint32", True, 1),
        ("bool", 7, 1),
        ("float8_e8m0fnu", 127, 127),
        ("float8_e8m0fnu", 2.0, 128),
        ("float32", 2**24 + 1, np.float32(2**24)),
        ("float32", np.float64(0.1), np.float32(0.1)),
    ],
)
def test_memset_rounds_once_and_saturates(name, value, expected):
    with core_of() as core:
        dst = blank((2, 3), name)
        nisa.memset(dst, value)
        assert (dst.array() == expected).all()
        assert core.count == 1


@pytest.mark.parametrize("predicate", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("scalar", [False, True])
def test_a_predicated_copy_changes_chosen_elements_only(predicate, reverse, scalar):
    random = np.random.default_rng(1)
    chosen = random.integers(0, 3, (8, 12))
    with core_of() as core:
        dst = tile(core, random.standard_normal((8, 12)), "bfloat16")
        before = numbers(dst)
        src = 1.25 if scalar else tile(core, random.standard_normal((8, 12)), "bfloat16")
        nisa.tensor_copy_predicated(dst, src, tile(core, chosen, predicate), reverse_pred=reverse)
        expected = np.where((chosen != 0) != reverse, 1.25 if scalar else numbers(src), before)
        assert np.array_equal(numbers(dst), expected)


def test_two_complementary_predicated_copies_write_all_of_a_new_tile():
    chosen = np.array([[1, 0, 0, 1], [0, 1, 1, 0]])
    with core_of() as core:
        dst, predicate = blank((2, 4), "float32"), tile(core, chosen, "uint8")
        nisa.tensor_copy_predicated(dst, 1.0, predicate)
        assert np.array_equal(written_mask(dst), chosen != 0)
        with pytest.raises(KernelError, match=r"element \[0, 1\] never written"):
            nisa.tensor_copy(blank((2, 4), "float32"), dst)
        nisa.tensor_copy_predicated(dst, 0.0, predicate, reverse_pred=True)
        assert np.array_equal(dst.array(), chosen)
        assert is_written(dst)


def test_a_predicated_copy_takes_operands_of_other_ranks():
    with core_of() as core:
        dst = tile(core, np.zeros((2, 2, 3)), "float32")
        nisa.tensor_copy_predicated(
            dst, tile(core, np.arange(12).reshape(2, 6), "float32"), tile(core, np.eye(2, 6), "uint8")
        )
        assert np.array_equal(dst.array().reshape(2, 6), np.eye(2, 6) * np.arange(12).reshape(2, 6))


# addresses known only at run time

INDICES = [3, 0, 7, 7, 12, 1]


def index_tile(core, values, name="int32"):
    return tile(core, np.array(values).reshape(-1, 1), name)


@pytest.mark.parametrize("form", ["ap", "vector_select"])
def test_a_gather_takes_the_rows_that_indices_name(form):
    with core_of() as core:
        data = tile(core, np.arange(16 * 5).reshape(16, 5), "float32", "shared_hbm")
        index = index_tile(core, INDICES)
        dst = blank((6, 5), "float32")
        rows = (
            data.ap([[5, 6], [1, 5]], vector_offset=index) if form == "ap" else data.vector_select(0, index)
        )
        nisa.dma_copy(dst, rows)
        assert np.array_equal(dst.array(), data.array()[INDICES])
        part = blank((6, 2), "float32")
        nisa.dma_copy(part, data.vector_select(0, index)[:, 1:5:2])
        assert np.array_equal(part.array(), data.array()[INDICES][:, 1:5:2])


def test_a_gather_from_a_slice_counts_from_it_and_casts():
    with core_of() as core:
        data = tile(core, np.arange(16 * 5).reshape(16, 5), "int32", "shared_hbm")
        dst = blank((3, 5), "float32")
        nisa.dma_copy(dst, data[4:].vector_select(0, index_tile(core, [0, 11, 2], "uint32")))
        assert np.array_equal(dst.array(), data.array()[[4, 15, 6]])


def test_a_scatter_writes_the_rows_that_indices_name_and_no_others():
    with core_of() as core:
        out = blank((16, 5), "float32", "shared_hbm")
        src = tile(core, np.arange(15).reshape(3, 5), "float32")
        nisa.dma_copy(out.ap([[5, 3], [1, 5]], vector_offset=index_tile(core, [9, 2, 15])), src)
        assert np.array_equal(out.array()[[9, 2, 15]], src.array())
        assert [row for row in range(16) if is_written(out[row])] == [2, 9, 15]


def test_indices_out_of_bounds_are_an_error_or_left_out():
    bad = [3, -1, 16, 5]
    with core_of() as core:
        data = tile(core, np.arange(32).reshape(16, 2), "float32", "shared_hbm")
        index = index_tile(core, bad)
        dst = tile(core, np.full((4, 2), -7), "float32")
        with pytest.raises(KernelError, match=r"from 0 below 16 in dimension 0.*index -1 for row 1"):
            nisa.dma_copy(dst, data.vector_select(0, index))
        nisa.dma_copy(dst, data.vector_select(0, index), oob_mode=SKIP)
        assert np.array_equal(dst.array(), [[6, 7], [-7, -7], [-7, -7], [10, 11]])
        fresh = blank((4, 2), "float32")
        nisa.dma_copy(fresh, data.vector_select(0, index), oob_mode=SKIP)
        assert np.array_equal(written_mask(fresh)[:, 0], [True, False, False, True])
        nisa.dma_copy(data.vector_select(0, index), tile(core, np.zeros((4, 2)), "float32"), oob_mode=SKIP)
        assert [row for row in range(16) if not data.array()[row].any()] == [3, 5]


def test_gathering_a_row_that_was_never_written_is_refused():
    with core_of() as core:
        data = blank((8, 4), "float32", "shared_hbm")
        nisa.dma_copy(data[2:5], tile(core, np.ones((3, 4)), "float32"))
        dst = blank((2, 4), "float32")
        nisa.dma_copy(dst, data.vector_select(0, index_tile(core, [4, 2])))
        with pytest.raises(KernelError, match=r"element \[5, 0\] never written"):
            nisa.dma_copy(dst, data.vector_select(0, index_tile(core, [4, 5])))
        with pytest.raises(KernelError, match="the index of src written before it is read"):
            nisa.dma_copy(dst, data.vector_select(0, blank((2, 1), "int32")))


@pytest.mark.parametrize("form", ["select", "ap", "register"])
def test_one_index_moves_a_view(form):
    with core_of() as core:
        data = tile(core, np.arange(4 * 6 * 3).reshape(4, 6, 3), "float32", "shared_hbm")
        dst = blank((6, 3), "float32")
        index = nisa.register_alloc(2) if form == "register" else index_tile(core, [2])
        if form == "ap":
            nisa.dma_copy(dst, data.ap([[3, 6], [1, 3]], scalar_offset=index, indirect_dim=0))
        else:
            nisa.dma_copy(dst, data.select(0, index))
        assert np.array_equal(dst.array(), data.array()[2])


def test_one_index_moves_a_view_on_chip_inside_its_partitions():
    with core_of() as core:
        data = tile(core, np.arange(4 * 8).reshape(4, 8), "float32")
        dst = blank((4, 3), "float32")
        for start in (0, 5):
            nisa.tensor_copy(
                dst, data.ap([[8, 4], [1, 3]], scalar_offset=index_tile(core, [start]), indirect_dim=1)
            )
            assert np.array_equal(dst.array(), data.array()[:, start : start + 3])
        with pytest.raises(KernelError, match="index 6"):
            nisa.tensor_copy(
                dst, data.ap([[8, 4], [1, 3]], scalar_offset=index_tile(core, [6]), indirect_dim=1)
            )
        nisa.tensor_copy(data.select(1, index_tile(core, [7])), dst[:, 0])
        assert np.array_equal(data.array()[:, 7], data.array()[:, 5])


def test_one_index_out_of_bounds_leaves_the_destination_alone_if_skipped():
    with core_of() as core:
        data = tile(core, np.zeros((4, 3)), "float32", "shared_hbm")
        dst = tile(core, np.ones((1, 3)), "float32")
        with pytest.raises(KernelError, match=r"from 0 below 4 in dimension 0.*index 4"):
            nisa.dma_copy(dst, data.select(0, index_tile(core, [4])))
        nisa.dma_copy(dst, data.select(0, index_tile(core, [4])), oob_mode=SKIP)
        nisa.dma_copy(data.select(0, index_tile(core, [-1])), dst, oob_mode=SKIP)
        assert dst.array().all()
        assert not data.array().any()


# transposes


@pytest.mark.parametrize("shape", [(40, 24), (10, 6, 24), (10, 3, 4, 24)])
@pytest.mark.parametrize("region", ["shared_hbm", "sbuf"])
@pytest.mark.parametrize("name", ["bfloat16", "float32", "uint16"])
def test_a_dma_transposes_by_the_documented_permutation(shape, region, name):
    axes = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(shape)]
    with core_of() as core:
        src = random_bits(blank(shape, name, region), core)
        dst = blank([shape[axis] for axis in axes], name)
        nisa.dma_transpose(dst, src, axes=axes)
        assert np.array_equal(bits(dst.array()), bits(src.array().transpose(axes)))


@pytest.mark.parametrize(("rows", "index_shape"), [(32, (32, 1)), (48, (64, 1)), (160, (128, 2))])
def test_an_indirect_transpose_gathers_by_columns_of_the_index(rows, index_shape):
    random = np.random.default_rng(2)
    indices = random.integers(0, 50, index_shape)
    with core_of() as core:
        data = tile(core, random.standard_normal((50, 20)), "bfloat16", "shared_hbm")
        dst = blank((20, rows), "bfloat16")
        nisa.dma_transpose(dst, data.ap([[20, rows], [1, 20]], vector_offset=tile(core, indices, "uint32")))
        flat = indices.T.flatten()[:rows]
        assert np.array_equal(numbers(dst), numbers(data)[flat].T)


def test_an_indirect_transpose_leaves_columns_alone_whose_index_is_out_of_bounds():
    indices = np.arange(16)
    indices[5] = 99
    with core_of() as core:
        data = tile(core, np.arange(16 * 4).reshape(16, 4), "bfloat16", "shared_hbm")
        dst = tile(core, np.full((4, 16), -1), "bfloat16")
        src = data.ap([[4, 16], [1, 4]], vector_offset=index_tile(core, indices, "uint32"))
        nisa.dma_transpose(dst, src, oob_mode=SKIP)
        expected = numbers(data).T
        expected[:, 5] = -1
        assert np.array_equal(numbers(dst), expected)


# computing DMAs


@given(
    st.integers(1, 16),
    st.sampled_from(["float32", "bfloat16", "int32"]),
    st.sampled_from(["float32", "bfloat16"]),
)
@settings(max_examples=25)
def test_a_computing_dma_adds_in_float32_in_order_and_rounds_once(count, source, target):
    random = np.random.default_rng(count)
    with core_of() as core:
        srcs = [
            tile(core, random.integers(-99, 99, (4, 6)) * 1.7, source, "shared_hbm") for _ in range(count)
        ]
        dst = blank((4, 6), target)
        nisa.dma_compute(dst, srcs, nl.add, scales=[1.0] * count)
        total = srcs[0].array().astype(np.float32)
        for one in srcs[1:]:
            total = total + one.array().astype(np.float32)
        assert np.array_equal(bits(dst.array()), bits(total.astype(NUMBERS[target])))


def test_a_scatter_adds_to_the_rows_in_place():
    with core_of() as core:
        data = tile(core, np.arange(32).reshape(8, 4), "float32", "shared_hbm")
        rows = data.ap([[4, 3], [1, 4]], vector_offset=index_tile(core, [6, 0, 3]))
        add = tile(core, np.full((3, 4), 100), "float32")
        expected = data.array().copy()
        expected[[6, 0, 3]] += 100
        nisa.dma_compute(rows, [rows, add], nl.add)
        assert np.array_equal(data.array(), expected)
        nisa.dma_compute(add, [data.vector_select(0, index_tile(core, [1, 1, 2])), add], nl.add)
        assert np.array_equal(add.array(), 100 + expected[[1, 1, 2]])


def test_a_scatter_refuses_indices_that_repeat():
    with core_of() as core:
        data = tile(core, np.zeros((8, 4)), "float32", "shared_hbm")
        rows = data.vector_select(0, index_tile(core, [6, 0, 6]))
        with pytest.raises(KernelError, match=r"unique indices.*row 6 2 times"):
            nisa.dma_compute(rows, [rows, tile(core, np.ones((3, 4)), "float32")], nl.add)


def test_a_computing_dma_leaves_rows_alone_that_are_out_of_bounds():
    with core_of() as core:
        data = tile(core, np.full((4, 2), -0.0), "float32", "shared_hbm")
        acc = tile(core, np.full((3, 2), -0.0), "float32")
        index = index_tile(core, [9, 1, -4])
        nisa.dma_compute(acc, [acc, data.vector_select(0, index)], nl.add, oob_mode=SKIP)
        assert np.signbit(acc.array()).all()
        with pytest.raises(KernelError, match="index 9 for row 0"):
            nisa.dma_compute(acc, [acc, data.vector_select(0, index)], nl.add)


# tensor indirection


@pytest.mark.parametrize("engine", ["vector", "scalar"])
def test_indirect_columns_are_gathered_and_scattered_in_snake_order_of_16_partitions(engine):
    random = np.random.default_rng(3)
    offsets = random.integers(0, 20, (32, 2))
    with core_of("trn3") as core:
        data, index = tile(core, random.standard_normal((32, 20)), "float32"), tile(core, offsets, "uint16")
        dst = blank((32, 27), "float32")
        nisa.tensor_copy(dst, data.indirect(index, 27), engine=nisa.engine[engine])
        out = blank((32, 20), "float32")
        nisa.tensor_copy(out.indirect(index, 27), dst, engine=nisa.engine[engine])
        written = np.zeros((32, 20), bool)
        for p in range(32):
            for i in range(27):
                column = offsets[p // 16 * 16 + i % 16, i // 16]
                assert dst.array()[p, i] == data.array()[p, column]
                assert out.array()[p, column] == data.array()[p, column]
                written[p, column] = True
        assert np.array_equal(written_mask(out), written)


def test_an_indirect_column_beyond_the_tile_is_an_error():
    with core_of("trn3") as core:
        data = tile(core, np.zeros((16, 8)), "float32")
        with pytest.raises(KernelError, match=r"from 0 below 8 in dimension 1.*index 8"):
            nisa.tensor_copy(
                blank((16, 16), "float32"), data.indirect(tile(core, np.full((16, 1), 8), "uint8"))
            )


def test_without_values_reads_are_still_of_what_was_written():
    with core_of("trn3", values=False) as core:
        data, index = blank((16, 8), "float32", "shared_hbm"), blank((4, 1), "int32")
        with pytest.raises(KernelError, match="the index of src written before"):
            nisa.dma_copy(blank((4, 8), "float32"), data.vector_select(0, index))
        core.wrote(index)
        with pytest.raises(KernelError, match="src written before"):
            nisa.dma_copy(blank((4, 8), "float32"), data.vector_select(0, index))
        core.wrote(data)
        dst = blank((4, 8), "float32")
        nisa.dma_copy(dst, data.vector_select(0, index))
        assert is_written(dst)
        words, scales = blank((64, 8), "float8_e4m3fn_x4"), blank((64, 8), "uint8")
        source = blank((64, 32), "bfloat16")
        core.wrote(source)
        nisa.quantize_mx(words, source, scales)
        assert not is_written(scales)
        psum = blank((8, 8), "float32", "psum")
        nisa.nc_matmul_mx(psum, words, words, scales, scales)
        assert is_written(psum)


@pytest.mark.parametrize("index", [0, 3, 7])
def test_a_copy_at_a_dynamic_address_moves_the_indexed_part(index):
    with core_of() as core:
        data = np.random.default_rng(0).standard_normal((16, 8, 4)).astype(np.float32)
        src = tile(core, data, "float32")
        at = tile(core, np.array([[index]]), "int32")
        taken, put = blank((16, 4), "float32"), tile(core, np.zeros((16, 8, 4)), "float32")
        nisa.tensor_copy_dynamic_src(taken, src.select(1, at))
        nisa.tensor_copy_dynamic_dst(put.select(1, at), taken)
        expected = np.zeros((16, 8, 4))
        expected[:, index] = data[:, index]
        assert np.array_equal(taken.array(), data[:, index])
        assert np.array_equal(put.array(), expected)
        for broken in (
            lambda: nisa.tensor_copy_dynamic_src(taken, src[:, 0, :]),
            lambda: nisa.tensor_copy_dynamic_dst(taken, src.select(1, at)),
        ):
            with pytest.raises(KernelError, match="an address known only at run time, found a static one"):
                broken()
