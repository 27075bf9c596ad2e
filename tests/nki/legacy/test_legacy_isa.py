"""Instructions of the dialect until 2.26 make their results; values against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twintrack.errors import KernelError
from twintrack.nki import legacy as nki
from twintrack.nki.legacy import isa as nisa
from twintrack.nki.legacy import language as nl

_RNG = np.random.default_rng(0)


def _run(body: Any, *arrays: Any) -> Any:
    """The tile that a body makes of loaded arrays."""

    @nki.jit
    def kernel(*tensors: Any) -> Any:
        return body(*[nl.load(one) for one in tensors])

    return kernel(*arrays)


def test_iota_holds_the_values_of_an_expression() -> None:
    def body() -> Any:
        i, j, k = nl.mgrid[0:8, 0:3, 0:4]
        return nisa.iota(5 + 7 * i - 2 * j + 11 * k, dtype=nl.int32)

    i, j, k = np.mgrid[0:8, 0:3, 0:4]
    assert np.array_equal(_run(body), 5 + 7 * i - 2 * j + 11 * k)


@pytest.mark.parametrize("both", [False, True])
def test_affine_select_takes_comparisons_of_expressions(both: bool) -> None:
    data = _RNG.random((8, 6), np.float32)

    def body(tile: Any) -> Any:
        i, j = nl.mgrid[0:8, 0:6]
        pred = (j < i) & (i + j >= 4) if both else j < i
        return nisa.affine_select(pred=pred, on_true_tile=tile, on_false_value=nl.fp32.min)

    i, j = np.mgrid[0:8, 0:6]
    holds = (j < i) & (i + j >= 4) if both else j < i
    assert np.array_equal(_run(body, data), np.where(holds, data, np.finfo(np.float32).min))


@pytest.mark.parametrize("function", ["affine_select", "tensor_partition_reduce", "sequence_bounds"])
def test_gpsimd_takes_tiles_from_psum(function: str) -> None:
    """As published kernels of causal attention do with a product; the engine itself reads SBUF only."""

    def body(tile: Any, where: Any = nl.psum) -> Any:
        held = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=where)
        held[...] = nisa.tensor_copy(tile)
        if function == "affine_select":
            i, j = nl.mgrid[0:8, 0:6]
            return nisa.affine_select(pred=j < i, on_true_tile=held, on_false_value=-1.0, mask=(j < 6))
        if function == "tensor_partition_reduce":
            return nisa.tensor_partition_reduce(np.add, held)
        return nisa.sequence_bounds(segment_ids=held)

    rows = 1 if function == "sequence_bounds" else 8
    data = np.array([[1, 1, 2, 2, 2, 0]], np.float32).repeat(rows, axis=0)
    assert np.array_equal(_run(body, data), _run(lambda tile: body(tile, nl.sbuf), data))


def test_a_product_takes_transposes_where_they_lie() -> None:
    """As the vendor's attention does in its backward; the Tensor Engine itself reads SBUF only."""
    a, b = _RNG.random((48, 64), np.float32), _RNG.random((64, 40), np.float32)

    def body(left: Any, right: Any) -> Any:
        turned = nisa.nc_transpose(left)
        assert turned.buffer is nl.psum
        return nisa.nc_matmul(turned, nl.copy(right))

    assert np.allclose(_run(body, a, b), a @ b)


def test_numpys_functions_are_operators() -> None:
    data, column = _RNG.random((8, 6), np.float32), _RNG.random((8, 1), np.float32)

    def body(tile: Any, vector: Any) -> Any:
        scaled = nisa.tensor_scalar(tile, np.multiply, vector, op1=np.add, operand1=2.5)
        return nisa.tensor_reduce(np.max, nisa.tensor_tensor(scaled, tile, op=np.subtract), axis=[1])

    assert np.allclose(_run(body, data, column), (data * column + 2.5 - data).max(1, keepdims=True))


def test_a_transposition_is_in_psum_by_the_tensor_engine_and_in_sbuf_by_the_vector_engine() -> None:
    data = _RNG.random((32, 16), np.float32)

    def body(tile: Any) -> Any:
        first = nisa.nc_transpose(tile)
        second = nisa.nc_transpose(tile, engine=nisa.vector_engine)
        assert (first.buffer, second.buffer) == (nl.psum, nl.sbuf)
        return first + second

    assert np.array_equal(_run(body, data), 2 * data.T)


@pytest.mark.parametrize("shape", [(16, 8), (16, 3, 8)])
def test_dma_transpose_makes_a_tile_of_hbm(shape: tuple[int, ...]) -> None:
    data = _RNG.random(shape, np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        return nisa.dma_transpose(a)

    assert np.array_equal(kernel(data), data.transpose())


def test_dma_copy_adds_to_rows_that_a_tile_names() -> None:
    data, rows = _RNG.random((4, 6), np.float32), np.array([[6], [1], [3], [0]], np.int32)

    @nki.jit
    def kernel(a: Any, index: Any) -> Any:
        out = nl.ones((8, 6), dtype=a.dtype, buffer=nl.shared_hbm)
        at, j = nl.load(index), nl.arange(6)[None, :]
        nisa.dma_copy(dst=out[at, j], src=nl.load(a), dst_rmw_op=np.add)
        nl.atomic_rmw(out[at, j], nl.load(a), np.add)
        return out

    expected = np.ones((8, 6), np.float32)
    expected[rows[:, 0]] += 2 * data
    assert np.allclose(kernel(data, rows), expected, rtol=1e-6)


def test_an_index_outside_is_skipped_where_it_is_told_to_be() -> None:
    data, rows = _RNG.random((4, 6), np.float32), np.array([[3], [9], [0]], np.int32)

    def kernel(mode: Any) -> Any:
        @nki.jit
        def run(a: Any, index: Any) -> Any:
            tile = nisa.memset((3, 6), -1, a.dtype)
            nisa.dma_copy(dst=tile, src=a[nl.load(index), nl.arange(6)[None, :]], oob_mode=mode)
            return tile

        return run(data, rows)

    found = kernel(nisa.oob_mode.skip)
    assert np.array_equal(found, np.stack([data[3], np.full(6, -1, np.float32), data[0]]))
    with pytest.raises(KernelError, match="found index 9"):
        kernel(nisa.oob_mode.error)


def test_lookups_take_masks() -> None:
    data = _RNG.permutation(16 * 32).reshape(16, 32).astype(np.float32)

    def body(tile: Any) -> Any:
        i, j = nl.mgrid[0:16, 0:32]
        return nisa.max8(src=tile[i, j], mask=j < 20)

    assert np.array_equal(_run(body, data), -np.sort(-data[:, :20], axis=1)[:, :8])


def test_a_bool_predicate_copies() -> None:
    data, chosen = _RNG.random((8, 6), np.float32), _RNG.random((8, 6)) < 0.5

    @nki.jit
    def kernel(a: Any, predicate: Any) -> Any:
        tile = nl.zeros((8, 6), dtype=a.dtype)
        nisa.tensor_copy_predicated(src=nl.load(a), dst=tile, predicate=nl.load(predicate))
        return tile

    assert np.array_equal(kernel(data, chosen), np.where(chosen, data, 0))


def test_statistics_of_chunks_are_combined() -> None:
    data = _RNG.random((8, 24), np.float32)

    def body(tile: Any) -> Any:
        stats = nl.ndarray((8, 2, 6), dtype=nl.float32)
        for at in nl.affine_range(2):
            stats[:, at, :] = nisa.bn_stats(tile[:, nl.ds(at * 12, 12)])
        return nisa.bn_aggr(stats)

    expected = np.stack([data.mean(1), data.var(1)], axis=1)
    assert np.allclose(_run(body, data), expected, rtol=1e-5)


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        _run(lambda tile: nisa.tensor_copy(tile, colour="red"), np.ones((4, 4), np.float32))
