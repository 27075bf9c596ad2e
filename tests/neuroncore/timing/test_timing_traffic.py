"""Traffic that no kernel states: tiles that are spilled, and loads that the compiler may drop."""

from __future__ import annotations

import pytest

from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape
from twintrack.nki.profiling import profile

WIDE = 8192


def many_tiles(a, count):
    """All tiles live until the end: more than SBUF holds from the eighth on."""
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    tiles = []
    for i in range(count):
        tile = nl.ndarray((128, WIDE), nl.float32)
        nisa.dma_copy(tile, a[:, i * WIDE : (i + 1) * WIDE])
        tiles.append(tile)
    total = nl.ndarray((128, 64), nl.float32)
    nisa.memset(total, 0.0)
    for tile in tiles:
        nisa.tensor_tensor(total, total, tile[:, :64], op=nl.add)
    nisa.dma_copy(out, total)
    return out


def of_tiles(count, **options):
    kernel = lambda a: many_tiles(a, count)  # noqa: E731 - the count is the test's
    return profile(kernel, Shape((128, count * WIDE)), chip="trn2", what_if=False, **options)


def test_tiles_that_fit_move_nothing_more():
    fits = of_tiles(6)

    assert not fits.spills
    assert fits.dma.bytes == 6 * 128 * WIDE * 4 + 128 * 64 * 4


@pytest.mark.parametrize("count", [8, 10])
def test_a_spilled_tile_is_moved_out_and_back(count):
    spilled = of_tiles(count)

    moved = 2 * sum(one.bytes for one in spilled.spills)
    assert spilled.spills
    assert spilled.dma.bytes == count * 128 * WIDE * 4 + 128 * 64 * 4 + moved
    assert any("do not fit in SBUF" in note for note in spilled.notes)
    assert spilled.dma.share <= 1.0


def reloading(a, spoil):
    """The same rows three times, into a new tile each; where spoiled the tile is overwritten before."""
    out = nl.ndarray((3, 128, 512), nl.float32, buffer=nl.shared_hbm)
    for i in range(3):
        tile = nl.ndarray((128, 512), nl.float32)
        nisa.dma_copy(tile, a)
        if spoil:
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nisa.dma_copy(out[i], tile)
    return out


@pytest.mark.parametrize(("spoil", "loads"), [(False, 1), (True, 3)])
def test_a_load_is_dropped_only_while_an_earlier_tile_still_holds_it(spoil, loads):
    kernel = lambda a: reloading(a, spoil)  # noqa: E731
    kept = profile(kernel, Shape((128, 512)), chip="trn2", what_if=False)
    dropped = profile(kernel, Shape((128, 512)), chip="trn2", what_if=False, drop_reloads=True)

    assert kept.hbm_read_bytes == 3 * 128 * 512 * 4
    assert dropped.hbm_read_bytes == loads * 128 * 512 * 4
    assert dropped.seconds <= kept.seconds
    assert any(f"{3 - loads} loads are left out" in note for note in dropped.notes)


def test_what_the_kernel_writes_itself_is_always_loaded():
    def kernel(a):
        scratch = nl.ndarray((128, 512), nl.float32, buffer=nl.hbm)
        out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
        for i in range(2):
            tile, again = nl.ndarray((128, 512), nl.float32), nl.ndarray((128, 512), nl.float32)
            nisa.dma_copy(tile, a[:, i * 512 : (i + 1) * 512])
            nisa.dma_copy(scratch, tile)
            nisa.dma_copy(again, scratch)
            nisa.dma_copy(out[i], again)
        return out

    found = profile(kernel, Shape((128, 1024)), chip="trn2", what_if=False, drop_reloads=True)

    assert any(note.startswith("0 loads are left out") for note in found.notes)
