"""Loads, stores, gathers, choices, matrix products and constants of ``nki.language`` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from nki_language_cases import STORED, on_tiles

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl


def _numbers(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(STORED[dtype])


# load and store


@nki.jit
def _copied(src, dtype=None):
    tile = nl.load(src[0:128, 2:9], dtype=dtype)
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


@pytest.mark.parametrize("dtype", [None, nl.bfloat16, nl.int32])
def test_load_and_store_move_and_cast(dtype):
    x = _numbers((200, 10))
    found = _copied(x, dtype=dtype)

    assert found.dtype == (dtype or nl.float32).stored
    np.testing.assert_array_equal(found.astype(np.float64), x[:128, 2:9].astype(np.float64))


def test_a_load_of_one_dimension_has_one_element_per_partition():
    @nki.jit
    def kernel(src):
        tile = nl.load(src)
        assert tile.shape == (5, 1)
        out = nl.ndarray((5,), src.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(kernel(_numbers(5)), _numbers(5))


def test_more_than_128_partitions_are_refused():
    @nki.jit
    def kernel(src):
        return nl.load(src)

    with pytest.raises(KernelError, match="at most 128") as caught:
        kernel(_numbers((129, 2)))
    assert "slices of 128" in str(caught.value)


def test_a_load_from_sbuf_and_a_store_from_psum_are_refused():
    with pytest.raises(KernelError, match=r"HBM for src of nl.load"):
        on_tiles(nl.load, _numbers((4, 4)))

    @nki.jit
    def kernel(src):
        out = nl.ndarray(src.shape, src.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros(src.shape, src.dtype, buffer=nl.psum))
        return out

    with pytest.raises(KernelError, match="PSUM") as caught:
        kernel(_numbers((4, 4)))
    assert "nl.copy" in str(caught.value)


@pytest.mark.parametrize("shape", [(128, 128), (512, 128), (19, 72), (128, 1), (448, 64)])
@pytest.mark.parametrize("dtype", [None, nl.bfloat16])
def test_load_transpose2d_is_the_transpose(shape, dtype):
    @nki.jit
    def kernel(src):
        tile = nl.load_transpose2d(src, dtype=dtype)
        out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = _numbers(shape)
    found = kernel(x)
    assert found.dtype == (dtype or nl.float32).stored
    np.testing.assert_array_equal(found.astype(np.float32), x.T)


def test_load_transpose2d_leaves_dimensions_of_size_1_out():
    @nki.jit
    def kernel(src):
        out = nl.ndarray((6, 4), src.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(src[:, :, 1:2]))
        return out

    x = _numbers((4, 6, 3))
    np.testing.assert_array_equal(kernel(x), x[:, :, 1].T)


def test_load_transpose2d_of_more_than_128_columns_is_refused():
    @nki.jit
    def kernel(src):
        return nl.load_transpose2d(src)

    with pytest.raises(KernelError, match="up to 128"):
        kernel(_numbers((4, 129)))


# views and broadcasting


def test_ds_is_a_slice_by_its_length():
    x = _numbers((4, 12))
    np.testing.assert_array_equal(on_tiles(lambda t: nl.copy(t[:, nl.ds(3, 4)]), x), x[:, 3:7])


@pytest.mark.parametrize(("axis", "shape"), [(1, (4, 1, 6)), (2, (4, 6, 1)), (-1, (4, 6, 1))])
def test_expand_dims_inserts_a_free_dimension(axis, shape):
    x = _numbers((4, 6))
    found = on_tiles(lambda t: nl.expand_dims(t, axis), x)

    np.testing.assert_array_equal(found, np.expand_dims(x, axis))
    assert found.shape == shape


def test_expand_dims_before_the_partitions_is_refused():
    with pytest.raises(KernelError, match="partition"):
        on_tiles(lambda t: nl.expand_dims(t, 0), _numbers((4, 6)))


@pytest.mark.parametrize(
    ("mine", "shape"),
    [
        ((1, 6), (128, 6)),
        ((1, 6), (5, 6)),
        ((1, 1), (128, 9)),
        ((4, 1), (4, 7)),
        ((1, 600), (3, 600)),
        ((1, 3, 1), (33, 3, 4)),
        ((4, 6), (4, 6)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "float8_e5m2"])
@pytest.mark.parametrize("region", ["sbuf", "psum"])
def test_broadcast_to_agrees_with_numpy(mine, shape, dtype, region):
    x = _numbers(mine, dtype) if dtype != "uint8" else np.abs(_numbers(mine)).astype(np.uint8)
    found = on_tiles(lambda t: nl.broadcast_to(t, shape), x, region=region)

    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found.astype(np.float64), np.broadcast_to(x, shape).astype(np.float64))


def test_broadcast_to_keeps_large_integers_and_specials():
    whole = np.array([[2**31 - 1, -(2**31), 2**24 + 1]], np.int32)
    np.testing.assert_array_equal(
        on_tiles(lambda t: nl.broadcast_to(t, (9, 3)), whole), np.repeat(whole, 9, 0)
    )
    special = np.array([[np.nan, np.inf, -np.inf, 1e-38, 3.4e38, 1 / 3]], np.float32)
    np.testing.assert_array_equal(
        on_tiles(lambda t: nl.broadcast_to(t, (9, 6)), special), np.repeat(special, 9, 0)
    )


def test_broadcast_to_of_a_slice_from_any_partition():
    x = _numbers((40, 8))
    for row in (3, 32):
        found = on_tiles(lambda t, row=row: nl.broadcast_to(t[row : row + 1, 1:8:2], (128, 4)), x)
        np.testing.assert_array_equal(found, np.repeat(x[row : row + 1, 1:8:2], 128, 0))


def test_broadcast_to_of_a_permuted_tile():
    x = _numbers((1, 3, 4))
    found = on_tiles(lambda t: nl.broadcast_to(t.permute((0, 2, 1)), (5, 4, 3)), x)
    np.testing.assert_array_equal(found, np.repeat(x.transpose(0, 2, 1), 5, 0))


def test_broadcast_to_the_same_shape_is_the_tile_itself():
    def kernel(tile):
        assert nl.broadcast_to(tile, tile.shape) is tile
        assert nl.broadcast_to(tile, tile.shape, dtype=nl.bfloat16).dtype == "bfloat16"
        return tile

    on_tiles(kernel, _numbers((4, 4)))


@pytest.mark.parametrize("shape", [(4, 7), (8, 6), (4, 6, 1), (129, 6)])
def test_broadcast_to_what_does_not_fit_is_refused(shape):
    x = _numbers((1, 6)) if shape[0] == 129 else _numbers((4, 6))
    with pytest.raises(KernelError, match=r"nl.broadcast_to"):
        on_tiles(lambda t: nl.broadcast_to(t, shape), x)


# choosing


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_where_chooses_and_a_nan_that_is_not_chosen_does_no_harm(dtype):
    condition = np.array([[1.0, 0.0, 2.5, 0.0]], np.float32)
    x, y = _numbers((1, 4), dtype), _numbers((1, 4), dtype, seed=1)
    if dtype == "float32":
        x[0, 1], y[0, 0] = np.nan, np.inf
    found = on_tiles(nl.where, condition, x, y)

    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found.astype(np.float64), np.where(condition, x, y).astype(np.float64))


def test_where_of_two_types_gives_the_promoted_one():
    condition = np.array([[1.0, 0.0]], np.float32)
    x, y = np.array([[1.5, 2.5]], STORED["bfloat16"]), np.array([[1 / 3, 1 / 7]], np.float32)
    for first, second in ((x, y), (y, x)):
        found = on_tiles(nl.where, condition, first, second)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.where(condition, first, second).astype(np.float32))


def test_where_repeats_free_dimensions_and_takes_numbers():
    condition = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], np.float32)
    column = np.array([[7.0], [8.0]], np.float32)
    np.testing.assert_array_equal(
        on_tiles(lambda c, x: nl.where(c, x, 0.0), condition, column), np.where(condition, column, 0)
    )
    np.testing.assert_array_equal(
        on_tiles(lambda c, x: nl.where(nl.greater(x, 7.5), 1.0, c), condition, column),
        np.where(column > 7.5, 1, condition),
    )
    np.testing.assert_array_equal(
        on_tiles(lambda c: nl.where(c, 2.0, -1.0, dtype=nl.int8), condition), np.where(condition, 2, -1)
    )


@pytest.mark.parametrize("kind", ["uint32", "int32", "uint16"])
def test_gather_flattened_gathers_in_every_partition(kind):
    data = _numbers((4, 3, 5))
    indices = np.random.default_rng(2).integers(0, 15, (4, 7)).astype(kind)
    found = on_tiles(nl.gather_flattened, data, indices)

    np.testing.assert_array_equal(found, np.take_along_axis(data.reshape(4, 15), indices.astype(np.int64), 1))


def test_gather_flattened_refuses_indices_of_floats_and_another_axis():
    data, indices = _numbers((4, 5)), np.zeros((4, 2), np.float32)
    with pytest.raises(KernelError, match="integers"):
        on_tiles(nl.gather_flattened, data, indices)
    with pytest.raises(KernelError, match="axis=0"):
        on_tiles(lambda d, i: nl.gather_flattened(d, i, axis=1), data, indices.astype(np.uint32))


# matrix


@pytest.mark.parametrize("transpose_x", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(128, 128, 512), (1, 7, 3), (5, 1, 1), (64, 100, 33)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_matmul_agrees_with_float64_and_lies_in_psum(transpose_x, m, k, n, dtype):
    x, y = _numbers((m, k), dtype), _numbers((k, n), dtype, seed=1)

    def kernel(a, b):
        made = nl.matmul(a, b, transpose_x=transpose_x)
        assert made.buffer == nl.psum
        return made

    found = on_tiles(kernel, x.T.copy() if transpose_x else x, y)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, x.astype(np.float64) @ y.astype(np.float64))


def test_matmul_refuses_what_the_engine_does():
    with pytest.raises(KernelError, match="contraction"):
        on_tiles(lambda a, b: nl.matmul(a, b, transpose_x=True), _numbers((4, 4)), _numbers((5, 4)))
    with pytest.raises(KernelError, match="512"):
        on_tiles(lambda a, b: nl.matmul(a, b), _numbers((4, 4)), _numbers((4, 513)))


@pytest.mark.parametrize("shape", [(128, 128), (5, 9), (1, 128), (32, 32)])
@pytest.mark.parametrize("dtype", [None, nl.bfloat16])
@pytest.mark.parametrize("region", ["sbuf", "psum"])
def test_transpose_exchanges_partitions_and_free_dimension(shape, dtype, region):
    x = _numbers(shape)

    def kernel(tile):
        made = nl.transpose(tile, dtype=dtype)
        assert made.buffer == nl.psum
        return made

    found = on_tiles(kernel, x, region=region)
    assert found.dtype == (dtype or nl.float32).stored
    np.testing.assert_array_equal(found.astype(np.float32), x.T)


@pytest.mark.parametrize("shape", [(4, 129), (4, 2, 2)])
def test_transpose_of_larger_or_deeper_tiles_is_refused(shape):
    with pytest.raises(KernelError, match=r"128|two dimensions"):
        on_tiles(nl.transpose, _numbers(shape))


# constants


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "int32", "int8", "uint16", "float8_e5m2"]
)
def test_shared_constant_holds_the_array(dtype):
    values = np.abs(_numbers((3, 4))).astype(STORED[dtype])

    @nki.jit
    def kernel(src):
        constant = nl.shared_constant(values)
        assert constant.buffer == nl.shared_hbm
        assert constant.dtype == dtype
        out = nl.ndarray(constant.shape, constant.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(constant))
        return out

    np.testing.assert_array_equal(
        kernel(np.zeros((1, 1), np.float32)).astype(np.float32), values.astype(np.float32)
    )


def test_shared_constant_reads_a_file_and_refuses_others(tmp_path):
    np.save(tmp_path / "values.npy", _numbers((2, 3)))
    (tmp_path / "broken.npy").write_bytes(b"nothing")

    def kernel(tile, path=tmp_path / "values.npy"):
        return nl.load(nl.shared_constant(str(path)))

    np.testing.assert_array_equal(on_tiles(kernel, _numbers((1, 1))), _numbers((2, 3)))
    for name in ("broken.npy", "absent.npy"):
        with pytest.raises(KernelError, match=r"\.npy file"):
            on_tiles(lambda tile, name=name: kernel(tile, tmp_path / name), _numbers((1, 1)))
    with pytest.raises(KernelError, match="element type"):
        on_tiles(lambda tile: nl.load(nl.shared_constant(np.zeros(3, np.float64))), _numbers((1, 1)))


@pytest.mark.parametrize("n", [1, 17, 128])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "bfloat16", "float8_e4m3"])
def test_shared_identity_matrix(n, dtype):
    found = on_tiles(lambda t: nl.shared_identity_matrix(n, dtype=DTYPES[dtype]), _numbers((1, 1)))

    assert found.dtype == STORED[dtype]
    np.testing.assert_array_equal(found.astype(np.float32), np.eye(n))


def test_shared_identity_matrix_writes_to_a_given_tile_of_its_shape():
    def kernel(tile):
        dst = nl.ndarray((4, 4), nl.float32)
        assert nl.shared_identity_matrix(4, dst=dst) is dst
        return dst

    np.testing.assert_array_equal(on_tiles(kernel, _numbers((1, 1))), np.eye(4))
    with pytest.raises(KernelError, match="shape"):
        on_tiles(lambda t: nl.shared_identity_matrix(5, dst=t), _numbers((4, 4)))
    with pytest.raises(KernelError, match="1 to 128"):
        on_tiles(lambda t: nl.shared_identity_matrix(129), _numbers((1, 1)))


# created tensors


@pytest.mark.parametrize("buffer", ["sbuf", "psum", "shared_hbm"])
@pytest.mark.parametrize(("make", "value"), [(nl.zeros, 0), (nl.ones, 1)])
def test_zeros_and_ones(make, value, buffer):
    @nki.jit
    def kernel(src):
        made = make((130, 3) if buffer == "shared_hbm" else (5, 3), nl.float32, buffer=buffer)
        if buffer == "shared_hbm":
            return made
        out = nl.ndarray(made.shape, made.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(made))
        return out

    found = kernel(np.zeros((1, 1), np.float32))
    np.testing.assert_array_equal(found, np.full(found.shape, value, np.float32))


def test_full_and_likes():
    def kernel(tile):
        assert nl.empty_like(tile).shape == tile.shape
        assert nl.empty_like(tile, dtype=nl.int8, buffer=nl.psum).dtype == "int8"
        held = nl.ndarray((2, 3), nl.float32, buffer=nl.psum)
        assert nl.zeros_like(held).buffer == nl.sbuf
        assert nl.empty_like(held).buffer == nl.psum
        zeros = nl.zeros_like(tile)
        assert nl.equal(zeros, 0.0)
        return nl.full(tile.shape, 0x9E3779B9, nl.uint32)

    found = on_tiles(kernel, _numbers((2, 3)))
    np.testing.assert_array_equal(found, np.full((2, 3), 0x9E3779B9, np.uint32))


# random


def _drawn(shape, dtype, seed=42):
    def kernel(tile):
        nl.random_seed(nl.full((1, 1), seed, nl.int32))
        return nl.rand(shape, dtype)

    return on_tiles(kernel, _numbers((1, 1)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3"])
def test_rand_is_uniform_from_zero_below_one(dtype):
    found = _drawn((128, 64), DTYPES[dtype]).astype(np.float64)

    assert found.min() >= 0
    assert found.max() < 1
    assert abs(found.mean() - 0.5) < 0.05
    assert abs(np.var(found) - 1 / 12) < 0.01
    step = {"float32": 24, "bfloat16": 8, "float16": 11, "float8_e4m3": 4}[dtype]
    assert (found * 2**step == np.floor(found * 2**step)).all(), "multiples of the type's step below 1"
    if dtype != "float8_e4m3":
        assert np.histogram(found, 8, (0, 1))[0].min() > 0.8 * found.size / 8


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    first = _drawn((4, 32), nl.float32)
    np.testing.assert_array_equal(first, _drawn((4, 32), nl.float32))
    assert (first != _drawn((4, 32), nl.float32, seed=43)).mean() > 0.9

    def kernel(tile):
        seed = nl.full((1, 1), 42, dtype=nl.int32)
        nl.random_seed(seed)
        a = nl.rand((8, 16), dtype=nl.float32)
        nl.random_seed(seed)
        assert nl.equal(a, nl.rand((8, 16), dtype=nl.float32))
        return tile

    on_tiles(kernel, _numbers((1, 1)))


def test_rand_fills_hbm_and_psum_and_refuses_integers():
    @nki.jit
    def kernel(src):
        out = nl.rand((130, 4), nl.float32, buffer=nl.shared_hbm)
        nl.rand((4, 4), nl.float32, buffer=nl.psum)
        return out

    found = kernel(np.zeros((1, 1), np.float32))
    assert len(np.unique(found)) > 500
    with pytest.raises(KernelError, match="float type"):
        on_tiles(lambda t: nl.rand((4, 4), nl.int32), _numbers((1, 1)))


@pytest.mark.parametrize("dtype", [None, nl.bfloat16])
def test_dropout_keeps_or_zeroes(dtype):
    x = np.full((128, 64), 3.0, np.float32)
    found = on_tiles(lambda t: nl.dropout(t, 0.25, dtype=dtype), x).astype(np.float32)

    assert set(np.unique(found)) == {0.0, 3.0}
    assert abs((found == 0).mean() - 0.25) < 0.03


def test_dropout_takes_a_rate_for_each_partition():
    x = np.ones((2, 50), np.float32)
    rate = np.array([[0.0], [1.0]], np.float32)
    np.testing.assert_array_equal(on_tiles(nl.dropout, x, rate), x * (1 - rate))


# printing


def test_print_shows_the_elements_of_a_tile(capsys):
    def kernel(tile):
        print(tile)
        print(nl.ndarray((2, 2), nl.float32))
        assert "\n" not in repr(tile)
        return tile

    on_tiles(kernel, np.array([[1.5, 2.0]], np.float32))
    shown = capsys.readouterr().out
    assert "1.5" in shown
    assert "never written" in shown


def test_a_tensor_can_be_looked_at():
    def kernel(tile):
        np.testing.assert_array_equal(tile.sim_value, [[1.5, 2.0]])
        tile.sim_value[:] = 0  # a copy
        assert tile.device_value is None
        assert tile.is_identity()
        assert not tile[:, 0:1].is_identity()
        part = nl.ndarray((1, 2), nl.float32)
        part[:, 0:1] = tile[:, 1:2]
        print(part)
        return tile

    np.testing.assert_array_equal(on_tiles(kernel, np.array([[1.5, 2.0]], np.float32)), [[1.5, 2.0]])


def test_a_tensor_without_values_says_so(capsys):
    @nki.jit
    def kernel(src):
        print(nl.load(src))
        return src.sim_value

    with pytest.raises(KernelError, match="required values"):
        nki.simulate(kernel).with_options(values=False)(nki.arrays.Shape((2, 2)))
    assert "not computed" in capsys.readouterr().out


def test_every_name_of_the_language_is_listed():
    assert set(nl.__all__) <= set(dir(nl))
    assert nisa.reduce_cmd is not None
