"""Tiles that live at the same time never share a place, and a place is taken again as late as memory allows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from timing_streams import tile

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.neuroncore.timing.rotation import predecessors

TRN2 = GENERATIONS["trn2"]
KIB = 1024


@st.composite
def lifetimes(draw):
    """Tiles of some KiB, used over stretches of instructions."""
    found = []
    for number in range(draw(st.integers(1, 40))):
        first = draw(st.integers(0, 60))
        found.append(
            tile(number, KIB * draw(st.integers(1, 90)), first=first, last=first + draw(st.integers(0, 20)))
        )
    return found


@given(lifetimes())
def test_a_tile_takes_only_places_of_dead_tiles(buffers):
    for at, dead in predecessors(buffers, TRN2).items():
        for other in dead:
            assert buffers[other].last_use < buffers[at].first_use


@given(lifetimes())
def test_placed_tiles_that_live_at_once_fit_in_the_memory(buffers):
    """Tiles with an entry were placed: those alive at an instruction take no more than a partition holds."""
    placed = predecessors(buffers, TRN2)
    for now in range(90):
        living = [buffers[at] for at in placed if buffers[at].first_use <= now <= buffers[at].last_use]
        assert sum(one.partition_bytes for one in living) <= TRN2.sbuf_partition_bytes


def test_a_place_is_taken_again_only_when_memory_was_used_once():
    """224 KiB hold 14 tiles of 16 KiB: the fifteenth takes the place of the first, and so on."""
    buffers = [tile(n, 16 * KIB, first=n, last=n) for n in range(30)]

    found = predecessors(buffers, TRN2)

    assert all(found[n] == () for n in range(14))
    assert all(found[n] == (n - 14,) for n in range(14, 30))


def test_a_larger_tile_takes_the_places_of_several():
    buffers = [tile(n, 16 * KIB, first=n, last=n) for n in range(14)]
    buffers.append(tile(14, 32 * KIB, first=14, last=14))

    assert predecessors(buffers, TRN2)[14] == (0, 1)


def test_living_tiles_are_jumped_over():
    buffers = [
        tile(0, 16 * KIB, first=0, last=99),
        *(tile(n, 16 * KIB, first=n, last=n) for n in range(1, 20)),
    ]

    assert predecessors(buffers, TRN2)[14] == (1,)


def test_products_rotate_through_the_banks_of_psum():
    buffers = [tile(n, 2 * KIB, region=MemoryRegion.psum, first=n, last=n) for n in range(20)]

    found = predecessors(buffers, TRN2)

    assert all(found[n] == () for n in range(8))
    assert all(found[n] == (n - 8,) for n in range(8, 20))


def test_a_product_never_crosses_banks():
    buffers = [tile(n, KIB + 512, region=MemoryRegion.psum, first=n, last=n) for n in range(9)]

    assert predecessors(buffers, TRN2)[8] == (0,)


def test_tiles_placed_by_hand_wait_for_what_was_there():
    buffers = [
        tile(0, 4 * KIB, first=0, last=3, address=(0, 8 * KIB)),
        tile(1, 4 * KIB, first=4, last=5, address=(0, 10 * KIB)),
        tile(2, 4 * KIB, first=6, last=7, address=(0, 64 * KIB)),
    ]

    assert predecessors(buffers, TRN2) == {0: (), 1: (0,), 2: ()}


def test_tiles_placed_in_other_partitions_do_not_wait():
    buffers = [
        tile(0, 4 * KIB, first=0, last=9, address=(0, 0), rows=32),
        tile(1, 4 * KIB, first=1, last=9, address=(32, 0), rows=32),
        tile(2, 4 * KIB, first=10, last=11, address=(0, 0), rows=64),
    ]

    assert predecessors(buffers, TRN2) == {0: (), 1: (), 2: (0, 1)}


def test_a_tile_that_fits_nowhere_takes_nobodys_place():
    buffers = [tile(0, 200 * KIB, first=0, last=9), tile(1, 100 * KIB, first=1, last=2)]

    assert 1 not in predecessors(buffers, TRN2)
