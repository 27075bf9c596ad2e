"""Placement of tiles on chip, against plain sweeps over time and searches through all placements."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.capacity import memory_use, placements
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.neuroncore.memory.generation import GENERATIONS, PSUM_BANK_BYTES, PSUM_BANKS

TRN2 = GENERATIONS["trn2"]
ROOM = TRN2.sbuf_partition_bytes
PART = ROOM // 8


def tile(number, first, last, size, *, region=MemoryRegion.sbuf, address=None, partitions=128):
    made = Buffer(number, region, DTYPES["uint8"], (partitions, size), "", None, 0, address)
    made.first_use, made.last_use = first, last
    return made


def live_at(tiles, when):
    return [one for one in tiles if one.first_use <= when <= one.last_use]


def together(a, b):
    return a.first_use <= b.last_use and b.first_use <= a.last_use


@st.composite
def tiles(draw, region=MemoryRegion.sbuf, unit=PART, most=10, most_units=6, placed=False):
    found = []
    for number in range(draw(st.integers(1, most))):
        first = draw(st.integers(0, 8))
        size = draw(st.integers(1, most_units)) * unit
        address = None
        if placed and draw(st.booleans()):
            address = (0, draw(st.integers(0, (ROOM - size) // unit)) * unit)
        last = first + draw(st.integers(0, 6))
        found.append(tile(number, first, last, size, region=region, address=address))
    return found


def least_spilled(found, units):
    """Fewest units of unplaced tiles without a place, by trying every subset and every placement in units."""
    sizes = [one.partition_bytes // PART for one in found]
    best = sum(sizes)
    for kept in itertools.product((True, False), repeat=len(found)):
        lost = sum(size for size, keep in zip(sizes, kept, strict=True) if not keep)
        if lost < best and _fits([one for one, keep in zip(found, kept, strict=True) if keep], units):
            best = lost
    return best


def _fits(found, units, at=()):
    if len(at) == len(found):
        return True
    one = found[len(at)]
    size = one.partition_bytes // PART
    for start in range(units - size + 1):
        clash = any(
            together(one, other) and start < begin + other.partition_bytes // PART and begin < start + size
            for other, begin in zip(found, at, strict=False)
        )
        if not clash and _fits(found, units, (*at, start)):
            return True
    return False


@given(tiles())
def test_the_peak_is_the_most_that_is_live_at_any_instruction(found):
    use = memory_use(found, TRN2)
    assert use.sbuf_peak == max(
        sum(one.partition_bytes for one in live_at(found, when)) for when in range(16)
    )
    assert (use.psum_peak, use.psum_over, use.sbuf_bytes) == (0, None, ROOM)


@given(tiles(placed=True))
def test_the_peak_counts_bytes_that_placed_tiles_share_once(found):
    def taken(when):
        live = live_at(found, when)
        free = sum(one.partition_bytes for one in live if one.address is None)
        held = set()
        for one in live:
            if one.address is not None:
                start = one.address[1] // PART
                held.update(range(start, start + one.partition_bytes // PART))
        return free + len(held) * PART

    assert memory_use(found, TRN2).sbuf_peak == max(taken(when) for when in range(16))


@given(tiles(placed=True))
def test_tiles_that_live_together_never_overlap_and_placed_ones_stay_where_they_are(found):
    where = placements(found, TRN2)
    for one in found:
        if one.address is not None:
            assert where[one.number] == one.address[1]
        elif one.number in where:
            assert 0 <= where[one.number] <= ROOM - one.partition_bytes
    for a, b in itertools.combinations([one for one in found if one.number in where], 2):
        if together(a, b) and (a.address is None or b.address is None):
            first, second = where[a.number], where[b.number]
            assert first + a.partition_bytes <= second or second + b.partition_bytes <= first


@given(tiles(placed=True))
def test_a_tile_is_either_placed_or_spilled_and_a_placed_one_is_never_spilled(found):
    spilled = {one.buffer.number for one in memory_use(found, TRN2).spills}
    assert not spilled & {one.number for one in found if one.address is not None}
    assert spilled ^ set(placements(found, TRN2)) == {one.number for one in found}


@given(tiles(most=5, most_units=7))
def test_spills_are_at_least_what_no_placement_avoids_and_none_where_half_the_room_is_enough(found):
    use = memory_use(found, TRN2)
    spilled = sum(one.buffer.partition_bytes for one in use.spills)
    least = least_spilled(found, 8) * PART
    assert spilled >= least
    if use.sbuf_peak > ROOM:
        assert spilled > 0
    if least == 0 and len(found) <= 3:
        assert spilled == 0
    assert use.spilled_bytes == spilled * 128


@given(tiles(most=14, most_units=1))
def test_tiles_of_one_size_are_spilled_only_while_more_are_live_than_fit(found):
    """Lowest gap first colours an interval graph with as few colours as its largest clique."""
    for one in found:
        one.shape, one.row = (128, 2 * PART), 2 * PART
    use = memory_use(found, TRN2)
    assert bool(use.spills) == (use.sbuf_peak > ROOM)


def test_the_tile_that_is_needed_last_is_spilled_where_the_room_ran_out():
    early = tile(0, 0, 2, 5 * PART)
    late = tile(1, 0, 9, 3 * PART)
    new = tile(2, 1, 3, 3 * PART)
    (spill,) = memory_use([early, late, new], TRN2).spills
    assert spill.buffer is late
    assert spill.bytes == 128 * 3 * PART


def test_a_tile_that_fits_nowhere_is_spilled_alone_and_nothing_is_given_up_for_it():
    fixed = tile(0, 0, 9, 6 * PART, address=(0, PART))
    small = tile(1, 0, 9, PART)
    large = tile(2, 1, 5, 2 * PART)
    assert [one.buffer for one in memory_use([fixed, small, large], TRN2).spills] == [large]


def test_a_tile_made_by_the_same_instruction_as_a_placed_one_keeps_clear_of_it():
    free = tile(0, 3, 5, 2 * PART)
    fixed = tile(1, 3, 5, PART, address=(0, 0))
    assert placements([free, fixed], TRN2) == {0: PART, 1: 0}


def test_largest_first_finds_room_where_the_order_of_use_leaves_holes():
    """In order, the first two tiles leave a hole that is too small for the third; by size all fit."""
    found = [
        tile(0, 0, 1, 2 * PART),
        tile(1, 0, 4, 2 * PART),
        tile(2, 2, 4, 6 * PART),
    ]
    assert memory_use(found, TRN2).sbuf_peak == ROOM
    assert not memory_use(found, TRN2).spills


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_each_generation_has_its_own_room(chip):
    generation = GENERATIONS[chip]
    room = generation.sbuf_partition_bytes
    assert not memory_use([tile(0, 0, 1, room)], generation).spills
    assert memory_use([tile(0, 0, 1, room), tile(1, 1, 2, 1)], generation).spills


def test_tiles_that_were_never_used_and_tiles_in_hbm_take_nothing():
    unused = tile(0, -1, -1, ROOM)
    away = tile(1, 0, 9, ROOM, region=MemoryRegion.private_hbm)
    assert memory_use([unused, away], TRN2).sbuf_peak == 0
    assert placements([unused, away], TRN2) == {}


# PSUM


@given(tiles(region=MemoryRegion.psum, unit=PSUM_BANK_BYTES // 4, most=12, most_units=9))
def test_a_small_tile_in_psum_stays_in_one_bank_and_a_large_one_begins_at_a_bank(found):
    for number, start in placements(found, TRN2).items():
        size = found[number].partition_bytes
        if size <= PSUM_BANK_BYTES:
            assert start // PSUM_BANK_BYTES == (start + size - 1) // PSUM_BANK_BYTES
        else:
            assert start % PSUM_BANK_BYTES == 0


def test_psum_holds_eight_banks_at_once_and_the_ninth_is_named():
    banks = [tile(n, 0, 5, PSUM_BANK_BYTES, region=MemoryRegion.psum) for n in range(PSUM_BANKS)]
    assert memory_use(banks, TRN2).psum_over is None
    assert memory_use(banks, TRN2).psum_peak == PSUM_BANKS * PSUM_BANK_BYTES
    ninth = tile(8, 1, 3, 4, region=MemoryRegion.psum)
    assert memory_use([*banks, ninth], TRN2).psum_over is not None


def test_tiles_that_waste_part_of_their_bank_do_not_fit_nine_times_though_their_bytes_would():
    """A bank is not shared where two tiles together are larger than it."""
    size = PSUM_BANK_BYTES * 5 // 8
    nine = [tile(n, 0, 5, size, region=MemoryRegion.psum) for n in range(9)]
    assert 9 * size < PSUM_BANKS * PSUM_BANK_BYTES
    assert memory_use(nine[:8], TRN2).psum_over is None
    assert memory_use(nine, TRN2).psum_over is not None
