"""Operators on tiles, results that come late, and what accumulates."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.nki import legacy as nki
from twintrack.nki.kernel import simulate
from twintrack.nki.legacy import isa as nisa
from twintrack.nki.legacy import language as nl

_RNG = np.random.default_rng(0)


def _opcodes(kernel: Any, *arrays: Any) -> tuple[Any, list[str]]:
    seen: list[str] = []

    def sink(core: int, instruction: Instruction) -> None:
        del core
        seen.append(instruction.opcode)

    return simulate(kernel).with_options(sink=sink)(*arrays), seen


@pytest.mark.parametrize("form", ["name", "view"])
def test_a_product_added_to_psum_accumulates_there(form: str) -> None:
    """One instruction per product, and no copy."""
    a, b = _RNG.random((256, 64), np.float32), _RNG.random((256, 32), np.float32)

    @nki.jit
    def kernel(x: Any, y: Any) -> Any:
        out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.zeros((64, 32), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(2):
            left, right = nl.load(x[nl.ds(k * 128, 128)]), nl.load(y[nl.ds(k * 128, 128)])
            if form == "name":
                total += nisa.nc_matmul(left, right)
            else:
                total[...] += nisa.nc_matmul(left, right)
        nl.store(out, total)
        return out

    found, seen = _opcodes(kernel, a, b)
    assert np.allclose(found, a.T @ b, rtol=1e-5)
    assert seen.count("nc_matmul") == 2
    assert seen.count("tensor_tensor") == 0
    assert seen.count("tensor_copy") == 1  # out of PSUM, to be stored


def test_a_product_added_to_what_a_copy_wrote_keeps_it_when_it_is_zero_only() -> None:
    """Accumulation onto PSUM that another instruction initialised is undefined before NeuronCore-v4."""
    a = _RNG.random((128, 16), np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        total = nl.full((16, 16), 1.0, nl.float32, buffer=nl.psum)
        tile = nl.load(x)
        total += nisa.nc_matmul(tile, tile)
        return total

    with pytest.raises(KernelError, match="accumulate=True onto the result of a matrix multiplication"):
        kernel(a)


def test_the_first_product_overwrites_psum_that_nothing_wrote() -> None:
    a = _RNG.random((128, 16), np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        total = nl.ndarray((16, 16), nl.float32, buffer=nl.psum)
        tile = nl.load(x)
        for _ in nl.affine_range(3):
            total[:, :] += nisa.nc_matmul(tile, tile)
        return total

    assert np.allclose(kernel(a), 3 * a.T @ a, rtol=1e-5)


def test_a_product_sees_its_operands_as_they_were_when_it_was_asked_for() -> None:
    """It is issued before whatever comes next, though it is used later."""
    a = _RNG.random((128, 16), np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        product = nisa.nc_matmul(tile, tile)
        tile[...] = 0
        return product

    assert np.allclose(kernel(a), a.T @ a, rtol=1e-5)


def test_a_product_that_was_accumulated_is_no_tile_of_its_own() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        total = nl.zeros((16, 16), nl.float32, buffer=nl.psum)
        tile = nl.load(x)
        product = nisa.nc_matmul(tile, tile)
        total += product
        nl.copy(product)
        return total

    with pytest.raises(KernelError, match="used once where it is accumulated"):
        kernel(np.ones((128, 16), np.float32))


@pytest.mark.parametrize("bound", ["name", "view"])
def test_loop_reduce_combines_the_iterations_of_its_loop(bound: str) -> None:
    """For each iteration of the loops around and inside it by itself."""
    a = _RNG.random((3, 2, 8, 4), np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((2, 8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        held = nl.zeros((8, 2, 4), nl.float32)
        for k in nl.affine_range(3):
            for m in nl.affine_range(2):
                if bound == "view":
                    held[:, m, :] = nl.loop_reduce(nl.load(x[k, m]), op=np.add, loop_indices=[k])
                else:
                    found = nl.loop_reduce(nl.load(x[k, m]), op=np.add, loop_indices=[k])
                    nl.store(out[m], found)
        if bound == "view":
            for m in nl.affine_range(2):
                nl.store(out[m], held[:, m, :])
        return out

    found, seen = _opcodes(kernel, a)
    assert np.allclose(found, a.sum(0), rtol=1e-6)
    assert seen.count("tensor_tensor") == (6 if bound == "view" else 4)


def test_loop_reduce_begins_where_nothing_was_written() -> None:
    a = _RNG.random((3, 8, 4), np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        held = nl.ndarray((8, 4), nl.float32)
        for k in nl.affine_range(3):
            held[...] = nl.loop_reduce(nl.load(x[k]), op=np.max, loop_indices=k)
        return held

    assert np.array_equal(kernel(-a), (-a).max(0))


def test_operators_compute_as_numpys_do() -> None:
    a, b = _RNG.random((8, 6), np.float32) + 1, _RNG.random((8, 1), np.float32) + 1

    @nki.jit
    def kernel(x: Any, y: Any) -> Any:
        p, q = nl.load(x), nl.load(y)
        found = [p + q, q - p, p * 3.0, 2.0 / p, -p, 1 - p, (p > q), p**2]
        outs = [nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm) for _ in found]
        for out, one in zip(outs, found, strict=True):
            nl.store(out, one)
        return tuple(outs)

    expected = [a + b, b - a, a * 3, 2 / a, -a, 1 - a, a > b, a**2]
    for found, wanted in zip(kernel(a, b), expected, strict=True):
        assert np.allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("by", ["number", "tile"])
def test_integers_divided_are_no_integers(by: str) -> None:
    a = np.arange(1, 13, dtype=np.int32).reshape(4, 3)

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        return nl.floor(tile / (5 if by == "number" else nl.add(nl.multiply(tile, 0), 5)), dtype=nl.int32)

    assert np.array_equal(kernel(a), a // 5)


@pytest.mark.parametrize("make", [nl.zeros, nl.ones, nl.ndarray])
def test_when_a_tensor_is_filled_is_not_the_kernels_affair(make: Any) -> None:
    """Published attention passes ``lazy_initialization``; another unknown argument is refused."""

    @nki.jit
    def kernel(x: Any, **more: Any) -> Any:
        tile = make((4, 3), dtype=nl.float32, buffer=nl.sbuf, **more)
        tile[...] = nl.load(x)
        return tile

    a = np.ones((4, 3), np.float32)
    for lazy in (False, True):
        assert np.array_equal(kernel(a, lazy_initialization=lazy), a)
    with pytest.raises(KernelError, match="unheard"):
        kernel(a, unheard=1)


def test_operators_in_place_change_the_tile() -> None:
    a = _RNG.random((8, 6), np.float32) + 1

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        same = tile
        tile += 1.0
        tile *= tile
        tile[:, 0:2] -= 1.0
        return same

    expected = (a + 1) ** 2
    expected[:, :2] -= 1
    assert np.allclose(kernel(a), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "shapes", [((128, 8), (1, 8)), ((1, 1), (128, 8)), ((128, 1), (1, 8)), ((4, 3, 1), (4, 1, 5))]
)
def test_partitions_broadcast_too(shapes: Any) -> None:
    """As 2.26 documents; the current dialect does not."""
    a, b = _RNG.random(shapes[0], np.float32), _RNG.random(shapes[1], np.float32)

    @nki.jit
    def kernel(x: Any, y: Any) -> Any:
        return nl.add(nl.load(x), nl.load(y))

    assert np.allclose(kernel(a, b), a + b, rtol=1e-6)


@pytest.mark.parametrize(
    ("tile", "scalar", "expected"),
    [
        ("float16", 1.5, "float32"),
        ("float16", np.float16(1.5), "float16"),
        ("int8", 2, "int32"),
        ("bfloat16", 2, "bfloat16"),
        ("int32", 0.5, "float32"),
    ],
)
def test_a_python_number_is_as_wide_as_its_kind(tile: str, scalar: Any, expected: str) -> None:
    """nki.api.shared.rst of 2.26, "Weakly Typed Scalar Type Inference"."""

    @nki.jit
    def kernel(x: Any) -> Any:
        return nl.multiply(nl.load(x), scalar)

    kind = ml_dtypes.bfloat16 if tile == "bfloat16" else np.dtype(tile)
    found = kernel(np.full((4, 4), 3, kind))
    assert found.dtype.name == expected
    assert np.array_equal(found.astype(np.float32), np.full((4, 4), 3 * float(scalar), np.float32))


@pytest.mark.parametrize("axis", [1, [1, 2], [1, 3], [-1], [2]])
def test_reductions_take_any_free_axes_and_keep_two_dimensions(axis: Any) -> None:
    a = _RNG.random((4, 2, 3, 5), np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        return nl.max(nl.load(x), axis=axis), nl.sum(nl.load(x), axis=axis, keepdims=True)

    axes = tuple(axis) if isinstance(axis, list) else axis
    highest, total = kernel(a)
    assert np.array_equal(highest, a.max(axes))
    assert np.allclose(total, a.sum(axes, keepdims=True), rtol=1e-6)


def test_a_whole_reduction_is_a_column() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return nl.mean(nl.load(x), axis=[1])

    assert kernel(np.ones((4, 6), np.float32)).shape == (4, 1)


def test_the_partition_axis_is_not_reduced() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return nl.sum(nl.load(x), axis=0)

    with pytest.raises(KernelError, match=r"free axes, 1 to 1, for nl\.sum"):
        kernel(np.ones((4, 6), np.float32))


def test_elements_are_assigned_at_any_partition() -> None:
    """Engines start at partitions 0, 32, 64 and 96 only: others are reached by a DMA."""

    @nki.jit
    def kernel() -> Any:
        tile = nl.zeros((5, 4), dtype=nl.int32)
        for i in nl.static_range(5):
            for j in nl.static_range(4):
                tile[i, j] = 10 * i + j
        return tile

    assert np.array_equal(kernel(), 10 * np.arange(5)[:, None] + np.arange(4))


def test_a_column_stays_one_when_its_axis_is_indexed_by_an_integer() -> None:
    a = _RNG.random((8, 6), np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((8, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x)[:, 2])
        return out

    assert np.array_equal(kernel(a), a[:, 2:3])


@pytest.mark.parametrize(
    ("key", "same"),
    [
        pytest.param((slice(0, 6), slice(None)), np.s_[0:6], id="slice"),
        pytest.param((slice(None), nl.ds(1, 3)), np.s_[:, 1:4], id="ds"),
        pytest.param((slice(None), slice(0, 6, 2)), np.s_[:, 0:6:2], id="step"),
        pytest.param((slice(0, 4), ...), np.s_[0:4], id="ellipsis"),
        pytest.param(nl.mgrid[0:4, 0:3], np.s_[0:4, 0:3], id="mgrid"),
    ],
)
def test_an_instruction_takes_a_view_however_it_was_indexed(key: Any, same: Any) -> None:
    a = _RNG.random((8, 6), np.float32)

    @nki.jit
    def kernel(x: Any) -> Any:
        view = nl.load(x)[key]
        out = nl.ndarray(view.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(view, view))
        return out

    assert np.array_equal(kernel(a), 2 * a[same])


def test_stores_convert_and_take_numbers_and_psum() -> None:
    a = np.arange(32, dtype=np.float32).reshape(8, 4)

    @nki.jit
    def kernel(x: Any) -> Any:
        whole = nl.ndarray((8, 4), dtype=nl.int32, buffer=nl.shared_hbm)
        same = nl.ndarray((8, 4), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        product = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.hbm)
        tile = nl.load(x)
        nl.store(whole, tile)
        nl.store(same, 100)
        nl.store(dst=product, value=nl.matmul(tile, tile, transpose_x=True))
        return whole, same, product

    whole, same, product = kernel(a)
    assert np.array_equal(whole, a.astype(np.int32))
    assert np.array_equal(same.astype(np.float32), np.full((8, 4), 100, np.float32))
    assert np.allclose(product, a.T @ a)
