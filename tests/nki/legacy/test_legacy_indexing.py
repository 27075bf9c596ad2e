"""Index expressions of the dialect until 2.26, against NumPy's advanced indexing."""

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
from twintrack.nki.legacy.indexing import Affine

_RNG = np.random.default_rng(0)


def _values(expression: Affine) -> Any:
    """The expression's values, by a sum of ``np.arange``."""
    found = np.full(expression.shape, expression.const)
    for axis, (size, step) in enumerate(zip(expression.shape, expression.coefs, strict=True)):
        shape = [1] * len(expression.shape)
        shape[axis] = size
        found = found + step * np.arange(size).reshape(shape)
    return found


@st.composite
def _free_index(draw: Any, size: int, axes: tuple[int, ...]) -> list[Any]:
    """Steps per axis and a constant that stay inside ``size``."""
    steps = []
    low = high = 0
    for count in axes:
        most = (size - 1 - (high - low)) // max(count - 1, 1)
        step = draw(st.integers(-most, most)) if count > 1 else draw(st.integers(-3, 3))
        span = step * (count - 1)
        low, high = low + min(span, 0), high + max(span, 0)
        steps.append(step)
    return [steps, draw(st.integers(-low, size - 1 - high))]


@st.composite
def _accesses(draw: Any) -> Any:
    shape = (draw(st.integers(1, 6)), draw(st.integers(2, 9)), draw(st.integers(2, 9)))
    rows = draw(st.integers(1, shape[0]))
    axes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    first = draw(st.integers(0, shape[0] - rows))
    return shape, rows, first, axes, draw(_free_index(shape[1], axes)), draw(_free_index(shape[2], axes))


def _expressions(rows: int, first: int, axes: tuple[int, ...], *indices: Any) -> list[Affine]:
    grid = nl.mgrid[(slice(0, rows), *(slice(0, count) for count in axes))]
    found = [grid.p + first]
    for steps, const in indices:
        total: Any = const
        for axis, step in zip(list(grid)[1:], steps, strict=True):
            total = total + axis * step
        found.append(total)
    return found


@settings(max_examples=60, deadline=None)
@given(_accesses())
def test_an_affine_index_reads_what_numpys_advanced_indexing_reads(access: Any) -> None:
    """In HBM and on chip: steps of either sign, sums over axes, overlaps."""
    shape, rows, first, axes, one, two = access
    data = _RNG.random(shape, np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        index = _expressions(rows, first, axes, one, two)
        direct = nl.ndarray((rows, *axes), dtype=a.dtype, buffer=nl.shared_hbm)
        through = nl.ndarray((rows, *axes), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(direct, nl.load(a[index[0], index[1], index[2]]))
        tile = nl.load(a[first : first + rows])
        index = _expressions(rows, 0, axes, one, two)
        nl.store(through, nl.copy(tile[index[0], index[1], index[2]]))
        return direct, through

    expected = data[tuple(_values(one) for one in _expressions(rows, first, axes, one, two))]
    direct, through = kernel(data)
    assert np.array_equal(direct, expected)
    assert np.array_equal(through, expected)


def test_an_affine_index_writes_where_numpys_advanced_indexing_writes() -> None:
    data = _RNG.random((4, 6), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.zeros((4, 12), dtype=a.dtype, buffer=nl.shared_hbm)
        wide = nl.zeros((4, 12), dtype=a.dtype)
        i, j = nl.arange(4)[:, None], nl.arange(6)[None, :]
        wide[i, 11 - 2 * j] = nl.load(a)
        nl.store(out[3 - i, 2 * j + 1], wide[i, 2 * j + 1])
        return out

    expected = np.zeros((4, 12), np.float32)
    expected[::-1, 1::2] = data[:, ::-1]
    assert np.array_equal(kernel(data), expected)


@pytest.mark.parametrize("where", ["load", "store", "compute"])
def test_an_index_outside_is_refused_where_an_instruction_uses_it(where: str) -> None:
    """Not where the tensor is indexed, as a mask may leave it out."""

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.zeros((4, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        i, j = nl.mgrid[0:4, 0:8]
        views = {"load": a[i + 1, j], "store": out[i + 1, j], "compute": tile[i, j + 1]}
        if where == "load":
            nl.load(views[where])
        elif where == "store":
            nl.store(views[where], tile)
        else:
            nl.exp(views[where])
        return out

    with pytest.raises(
        KernelError, match=r"index inside the [48] elements of dimension [01], found [48] into"
    ):
        kernel(np.ones((4, 8), np.float32))


def test_partitions_are_indexed_without_a_step() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        return nl.copy(tile[2 * nl.arange(2)[:, None], nl.arange(8)[None, :]])

    with pytest.raises(KernelError, match="adjacent partitions as the first axis"):
        kernel(np.ones((4, 8), np.float32))


def test_expressions_that_are_not_affine_are_refused() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        return nl.load(a[nl.arange(4)[:, None], nl.arange(8)[None, :] // 2])

    with pytest.raises(KernelError, match="affine index expression"):
        kernel(np.ones((4, 8), np.float32))


@pytest.mark.parametrize("through", ["view", "tile"])
def test_a_tile_of_row_numbers_gathers_and_scatters(through: str) -> None:
    data = _RNG.random((16, 8), np.float32)
    rows = np.array([[3], [0], [15], [7]], np.int32)

    @nki.jit
    def kernel(a: Any, index: Any) -> Any:
        out = nl.zeros((16, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        taken = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        at = nl.load(index)
        i, j = nl.arange(4)[:, None], nl.arange(8)[None, :]
        held = at if through == "tile" else at[i, 0]
        nl.store(taken, nl.load(a[held, 1 + 2 * nl.arange(4)[None, :]]))
        nl.store(out[held, j], nl.load(a[i, j]))
        return taken, out

    taken, out = kernel(data, rows)
    assert np.array_equal(taken, data[rows[:, 0], 1::2])
    expected = np.zeros((16, 8), np.float32)
    expected[rows[:, 0]] = data[:4]
    assert np.array_equal(out, expected)


def test_a_mask_leaves_out_rows_of_a_gather() -> None:
    data = _RNG.random((8, 4), np.float32)
    rows = np.array([[5], [2], [100]], np.int32)

    @nki.jit
    def kernel(a: Any, index: Any) -> Any:
        i, j = nl.mgrid[0:3, 0:4]
        at = nl.load(index)
        tile = nl.load(a[at[i, 0], j], mask=i < 2)
        out = nl.ndarray((2, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile[0:2])
        return out

    assert np.array_equal(kernel(data, rows), data[[5, 2]])


def test_one_element_of_a_tile_moves_a_view_on_chip() -> None:
    data = _RNG.random((8, 32), np.float32)

    @nki.jit
    def kernel(a: Any, offsets: Any) -> Any:
        out = nl.ndarray((8, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        tile, at = nl.load(a), nl.load(offsets)
        i, j = nl.mgrid[0:8, 0:4]
        nl.store(out, nisa.tensor_copy_dynamic_src(tile[i, at[0, 1] + j]))
        return out

    assert np.array_equal(kernel(data, np.array([[3, 17]], np.int32)), data[:, 17:21])


def test_axes_of_a_grid_have_names() -> None:
    grid = nl.mgrid[0:4, 2:10:2, 0:3]
    assert [one.shape for one in grid] == [(4, 1, 1), (1, 4, 1), (1, 1, 3)]
    assert _values(grid.x).reshape(-1).tolist() == [2, 4, 6, 8]
    assert grid.y is grid[2]
    with pytest.raises(AttributeError):
        grid.z  # noqa: B018 - the lookup is what is tested
