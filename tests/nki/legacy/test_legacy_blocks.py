"""Block dimensions and direct allocation of the dialect until 2.26."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from twintrack.errors import KernelError
from twintrack.nki import legacy as nki
from twintrack.nki.kernel import simulate
from twintrack.nki.legacy import compiler as ncc
from twintrack.nki.legacy import isa as nisa
from twintrack.nki.legacy import language as nl

_RNG = np.random.default_rng(0)


def _modulo(base: int, sizes: tuple[int, ...], scale: int, index: tuple[int, ...]) -> int:
    """The documented allocation function, as plain loops."""
    sizes = sizes or (1,) * len(index)
    place = 0
    for at, size in zip(index, sizes, strict=True):
        place = place * size + at % size
    return base + place * scale


def test_blocks_are_tiles_of_their_own() -> None:
    data = _RNG.random((6, 8, 4), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray((2, 3, nl.par_dim(8), 4), dtype=a.dtype, buffer=nl.sbuf)
        assert held.shape == (2, 3, 8, 4)
        for i in nl.affine_range(2):
            for j in nl.affine_range(3):
                held[i, j] = nl.load(a[i * 3 + j])
                held[i, j, :, 1:3] += 1.0
                held[i][j, :, 0] = 0
        for i in nl.affine_range(2):
            for j in nl.affine_range(3):
                nl.store(out[i * 3 + j], held[i, j])
        return out

    simulated = simulate(kernel)
    expected = data.copy()
    expected[:, :, 1:3] += 1
    expected[:, :, 0] = 0
    assert np.array_equal(simulated(data), expected)
    assert simulated.last is not None
    shapes = [buffer.shape for buffer in simulated.last.cores[0].buffers if buffer.on_chip]
    assert shapes.count((8, 4)) >= 6


def test_a_block_dimension_is_indexed_before_an_operation() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        held = nl.zeros((2, nl.par_dim(8), 4), dtype=a.dtype)
        return nl.exp(held)

    with pytest.raises(KernelError, match=r"a tile for x of nl\.exp, found Blocks"):
        kernel(np.ones((8, 4), np.float32))


def test_block_indices_stay_inside() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        held = nl.zeros((2, nl.par_dim(8), 4), dtype=a.dtype)
        return held[2]

    with pytest.raises(KernelError, match="inside the 2 blocks of dimension 0"):
        kernel(np.ones((8, 4), np.float32))


@pytest.mark.parametrize("sizes", [(), (2, 1), (2, 3)])
def test_modulo_allocation_puts_tiles_where_its_documented_function_does(sizes: tuple[int, ...]) -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((32, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        place = ncc.sbuf.mod_alloc(base_addr=64, num_free_tiles=sizes)
        held = nl.ndarray((4, 3, nl.par_dim(32), 4), dtype=a.dtype, buffer=place)
        held[0, 0] = nl.load(a)
        nl.store(out, held[0, 0])
        return out

    simulated = simulate(kernel)
    simulated(np.ones((32, 4), np.float32))
    assert simulated.last is not None
    found = [one.address for one in simulated.last.cores[0].buffers if one.address is not None]
    expected = [(0, _modulo(64, sizes, 16, (i, j))) for i in range(4) for j in range(3)]
    assert found == expected


def test_psum_is_allocated_by_banks() -> None:
    data = _RNG.random((128, 8), np.float32)

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((4, 8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(a)
        place = ncc.psum.mod_alloc(base_bank=5, num_bank_tiles=(2,))
        total = nl.ndarray((4, nl.par_dim(8), 8), dtype=nl.float32, buffer=place)
        for i in nl.affine_range(4):
            for _ in nl.affine_range(2):
                total[i] += nisa.nc_matmul(tile, tile)  # reuses the bank of the last but one
            nl.store(out[i], total[i])
        return out

    simulated = simulate(kernel)
    assert np.allclose(simulated(data), np.broadcast_to(2 * data.T @ data, (4, 8, 8)), rtol=1e-5)
    assert simulated.last is not None
    found = [one.address for one in simulated.last.cores[0].buffers if one.address is not None]
    assert found == [(0, 5 * 2048), (0, 6 * 2048)] * 2


def test_a_tile_whose_place_was_taken_is_not_read() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((8, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray((2, nl.par_dim(8), 4), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        held[0] = nl.load(a)
        held[1] = nl.load(a)
        nl.store(out, held[0])
        return out

    with pytest.raises(KernelError, match="still holds what was written to it"):
        kernel(np.ones((8, 4), np.float32))


def test_force_auto_alloc_ignores_addresses() -> None:
    @ncc.force_auto_alloc
    @ncc.skip_middle_end_transformations
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((2, 8, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray((2, nl.par_dim(8), 4), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        for i in nl.affine_range(2):
            held[i] = nl.load(a) * (i + 1.0)
        for i in nl.affine_range(2):
            nl.store(out[i], held[i])
        return out

    data = _RNG.random((8, 4), np.float32)
    assert np.array_equal(kernel(data), np.stack([data, data * 2]))


def test_an_allocation_function_returns_an_address() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        nl.ndarray((8, 4), dtype=a.dtype, buffer=ncc.psum.alloc(lambda index, rows, size: (0, 0)))
        return a

    with pytest.raises(
        KernelError, match=r"\(bank_id, start_partition, byte_addr\) from the allocation function"
    ):
        kernel(np.ones((8, 4), np.float32))


def test_blocks_in_psum_need_not_fit_together_unless_told_so() -> None:
    """The compiler of 2.26 fused loops over blocks."""

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((12, 16, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(a)
        products = nl.ndarray((12, nl.par_dim(16), 512), dtype=nl.float32, buffer=nl.psum)
        for i in nl.affine_range(12):
            products[i] = nisa.nc_matmul(tile[:, 0:16], tile)
        for i in nl.affine_range(12):
            nl.store(out[i], products[i])
        return out

    data = _RNG.random((8, 512), np.float32)
    expected = np.broadcast_to(data[:, :16].T @ data, (12, 16, 512))
    assert np.allclose(kernel(data), expected, rtol=1e-5)
    with pytest.raises(KernelError, match="live tiles in PSUM that fit its 8 banks"):
        simulate(kernel).with_options(strict=True)(data)


def _addresses(kernel: Any) -> list[int]:
    simulated = simulate(kernel)
    simulated(np.ones((8, 4), np.float32))
    assert simulated.last is not None
    buffers = [one for one in simulated.last.cores[0].buffers if one.address is not None]
    return [one.address[1] for one in buffers if one.address is not None]


def test_a_body_traced_once_has_one_address_for_each_tile_it_makes() -> None:
    """An address that the body of a loop counts up is that of its first iteration, as when the body was traced."""

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        free = 64

        def tile() -> Any:
            nonlocal free
            made = nl.ndarray((8, 4), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=free))
            free += 16
            return made

        for _ in nl.sequential_range(3):
            first, second = tile(), tile()
            first[...] = nl.load(a)
            for _ in nl.affine_range(2):
                third = tile()
                third[...] = nl.copy(first)
            second[...] = nl.copy(third)
            nl.store(out, second)
        return out

    assert _addresses(kernel) == [64, 80, 96, 96] * 3


def test_an_unrolled_loop_has_the_addresses_that_it_computes() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for _ in nl.affine_range(2):
            for j in nl.static_range(3):
                tile = nl.ndarray((8, 4), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=64 * j))
                tile[...] = nl.load(a)
                nl.store(out, tile)
        return out

    assert _addresses(kernel) == [0, 64, 128] * 2


def _bank_of(bank_map: dict[Any, int], idx: Any, pdim_size: int, fdim_size: int) -> tuple[int, int, int]:
    assert (pdim_size, fdim_size) == (8, 16)
    return bank_map[idx], 0, 0


@pytest.mark.parametrize(
    "place",
    [
        functools.partial(_bank_of, bank_map={(0,): 1, (1,): 5}),
        functools.partial(_bank_of, {(0,): 1, (1,): 5}),
        lambda at, rows, size: ({(0,): 1, (1,): 5}[at], 0, 0),
        lambda idx, pdim_size, fdim_size: (1 + 4 * idx[0], 0, 0),
        lambda *given: (1 + 4 * given[0][0], 0, 0),
    ],
)
def test_an_allocation_function_is_called_by_the_documented_names_or_by_position(place: Any) -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((2, 8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        held = nl.ndarray((2, nl.par_dim(8), 4), dtype=nl.float32, buffer=ncc.psum.alloc(place))
        tile = nl.load(a)
        for i in nl.affine_range(2):
            held[i] = nl.copy(tile)
            nl.store(out[i], nl.copy(held[i]))
        return out

    assert _addresses(kernel) == [2048, 5 * 2048]
