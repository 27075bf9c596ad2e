"""Masks of the dialect until 2.26: which elements they leave, and what an instruction makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.errors import KernelError
from twintrack.nki import legacy as nki
from twintrack.nki.legacy import isa as nisa
from twintrack.nki.legacy import language as nl
from twintrack.nki.legacy.indexing import Predicate
from twintrack.nki.legacy.masks import regions

_OPS = ["lt", "le", "gt", "ge", "eq"]


def _holds(op: str, value: Any) -> Any:
    return {"lt": value < 0, "le": value <= 0, "gt": value > 0, "ge": value >= 0, "eq": value == 0}[op]


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4)),
    st.lists(
        st.tuples(
            st.sampled_from(_OPS),
            st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)),
            st.integers(-8, 8),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_rectangles_cover_exactly_what_a_mask_leaves(shape: Any, terms: Any) -> None:
    """Each element once, whatever axes the comparisons concern."""
    grid = nl.mgrid[tuple(slice(0, size) for size in shape)]
    mask: Any = True
    expected = np.ones(shape, bool)
    places = np.indices(shape)
    for op, steps, const in terms:
        expression = (
            sum((axis * step for axis, step in zip(grid, steps, strict=True)), start=grid[0] * 0) + const
        )
        compared = getattr(expression, f"__{op}__")(0)
        mask = compared & mask
        expected &= _holds(op, const + sum(step * one for step, one in zip(steps, places, strict=True)))
    assert isinstance(mask, Predicate)
    found = np.zeros(shape, int)
    for region in regions(mask, shape):
        found[tuple(slice(*span) for span in region)] += 1
    assert np.array_equal(found, expected.astype(int))


def test_a_kernel_for_any_number_of_rows_masks_its_last_tile() -> None:
    data = np.random.default_rng(0).random((150, 20), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for block in nl.affine_range(2):
            i, j = block * 128 + nl.arange(128)[:, None], nl.arange(20)[None, :]
            tile = nl.load(a[i, j], mask=i < 150)
            square = nl.square(tile)  # without a mask: the rest is undefined, and stays so
            total = nl.sum(square, axis=[1])
            nl.store(out[i, j], nl.multiply(tile, total), mask=i < 150)
        return out

    assert np.allclose(kernel(data), data * (data * data).sum(1, keepdims=True), rtol=1e-6)


def test_what_a_mask_leaves_out_of_a_result_is_nan() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        i, j = nl.mgrid[0:8, 0:6]
        return nl.exp(nl.load(a), mask=(i < 4) & (j >= 2))

    found = kernel(np.zeros((8, 6), np.float32))
    expected = np.full((8, 6), np.nan, np.float32)
    expected[:4, 2:] = 1
    assert np.array_equal(found, expected, equal_nan=True)


def test_a_masked_store_leaves_the_rest_of_the_output() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.zeros((8, 6), dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:8, 0:6]
        nl.store(out[i, j], nl.load(a), mask=j <= i)
        return out

    data = np.random.default_rng(1).random((8, 6), np.float32)
    assert np.array_equal(kernel(data), np.tril(data))


@pytest.mark.parametrize("mask", [True, False])
def test_a_mask_of_loop_indices_alone_is_a_truth_value(mask: bool) -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.zeros((4, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a), mask=mask)
        return out

    data = np.ones((4, 4), np.float32)
    assert np.array_equal(kernel(data), data * mask)


def test_a_binary_operation_masks_both_operands() -> None:
    data = np.random.default_rng(2).random((8, 6), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.zeros((8, 6), dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:8, 0:6]
        tile = nl.load(a)
        nl.store(out[i, j], nl.add(tile, nl.max(tile, axis=1), mask=i < 5), mask=i < 5)
        return out

    expected = data + data.max(1, keepdims=True)
    expected[5:] = 0
    assert np.array_equal(kernel(data), expected)


def test_a_mask_of_other_axes_than_the_tiles_is_refused() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        return nl.exp(nl.load(a), mask=nl.arange(5)[:, None] < 3)

    with pytest.raises(KernelError, match="a mask over the axes of the tile"):
        kernel(np.ones((8, 6), np.float32))


def test_a_predicate_as_index_takes_the_part_where_it_holds() -> None:
    data = np.random.default_rng(3).random((8, 6), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        return nl.copy(tile[nl.arange(6)[None, :] < 4])

    assert np.array_equal(kernel(data), data[:, :4])


@pytest.mark.parametrize("left", [(True, True), (False, True), (True, False), (False, False)])
def test_a_product_that_is_masked_away_leaves_a_sum_as_it_was_and_an_unwritten_one_undefined(
    left: Any,
) -> None:
    """The sum may be read; a later product overwrites what is undefined and adds to what an earlier one wrote."""
    data = np.random.default_rng(4).random((8, 8), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        row = nl.arange(8)[:, None]
        total = nl.ndarray((1, nl.par_dim(8), 8), dtype=nl.float32, buffer=nl.psum)
        for k in range(2):
            total[0] += nisa.nc_matmul(tile, tile, mask=row < (8 if left[k] else 0))
        return nl.copy(total[0])

    product = data.T @ data
    found = np.asarray(kernel(data))
    if any(left):
        assert np.allclose(found, sum(left) * product, rtol=1e-6)
    else:
        assert np.isnan(found).all()


def test_a_sum_that_was_set_to_zero_is_added_to_after_a_product_that_was_masked_away() -> None:
    data = np.random.default_rng(5).random((8, 8), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        row = nl.arange(8)[:, None]
        total = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
        total += nisa.nc_matmul(tile, tile, mask=row < 0)
        total[...] = 0.0
        total += nisa.nc_matmul(tile, tile, mask=row < 8)
        return nl.copy(total)

    assert np.allclose(np.asarray(kernel(data)), data.T @ data, rtol=1e-6)


_MASKED = {
    "isa": lambda tile, mask: nisa.tensor_scalar(tile, np.add, 1.0, mask=mask),
    "elementwise": lambda tile, mask: nl.add(tile, 1.0, mask=mask),
    "copy": lambda tile, mask: nl.copy(nl.add(tile, 1.0), mask=mask),
}


@pytest.mark.parametrize("rows", [0, 3, 8])
@pytest.mark.parametrize("name", list(_MASKED))
def test_an_assignment_of_a_masked_result_leaves_the_rest_of_its_target(name: str, rows: int) -> None:
    data = np.random.default_rng(6).random((8, 6), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        held = nl.zeros((8, 12), dtype=a.dtype, buffer=nl.sbuf)
        i, j = nl.mgrid[0:8, 0:6]
        held[i, 6 + j] = _MASKED[name](tile, (i < rows) & (j < 4))
        return nl.copy(held)

    expected = np.zeros((8, 12), np.float32)
    expected[:rows, 6:10] = data[:rows, :4] + 1
    assert np.array_equal(np.asarray(kernel(data)), expected)


def test_an_assignment_of_a_masked_result_to_what_nothing_wrote_leaves_it_undefined() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        held = nl.ndarray((8, 6), dtype=a.dtype, buffer=nl.sbuf)
        held[...] = nl.load(a, mask=nl.arange(8)[:, None] < 5)
        return nl.exp(held)

    found = np.asarray(kernel(np.zeros((8, 6), np.float32)))
    assert np.array_equal(found[:5], np.ones((5, 6)))
    assert np.isnan(found[5:]).all()


def test_a_masked_result_may_be_assigned_where_only_the_mask_keeps_the_index_inside() -> None:
    data = np.random.default_rng(7).random((8, 6), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        held = nl.zeros((8, 8), dtype=a.dtype, buffer=nl.sbuf)
        i, j = nl.mgrid[0:8, 0:6]
        held[i, 4 + j] = nl.add(tile, 1.0, mask=4 + j < 8)
        return nl.copy(held)

    expected = np.zeros((8, 8), np.float32)
    expected[:, 4:] = data[:, :4] + 1
    assert np.array_equal(np.asarray(kernel(data)), expected)
