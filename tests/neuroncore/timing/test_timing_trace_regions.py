"""Views become regions: like tiles alike, and what may lie anywhere is not taken for what lies at its first place."""

from timing_streams import tile

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import dtype_of
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import Dynamic, View
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.regions import overlaps
from twintrack.neuroncore.timing.trace import Trace

BYTE = dtype_of("uint8")


def copied(trace, out, source):
    """The regions that a copy writes and reads."""
    trace.keep(0, Instruction("dma_copy", Engine.DMA, (out,), (source,), {}))
    step = trace.steps[-1]
    return trace.region_boxes[step.writes[0]], trace.region_boxes[step.reads[0]]


def rows(storage, first, count, dynamic=None):
    """Some rows of 64 bytes."""
    return View(storage, BYTE, (count, 64), (64, 1), first * 64, dynamic)


def held(number, count, region=MemoryRegion.sbuf):
    return Storage.empty(tile(number, 64, rows=count, region=region), values=False)


def test_an_indirect_view_is_another_region_than_the_plain_one_at_its_first_place():
    trace = Trace(parameters_of("trn2"))
    hbm, sbuf = held(0, 256, MemoryRegion.private_hbm), held(1, 128)
    _, plain = copied(trace, rows(sbuf, 0, 8), rows(hbm, 0, 8))
    somewhere = Dynamic("scalar", 0, 64, 256, 0)
    _, indirect = copied(trace, rows(sbuf, 0, 8), rows(hbm, 0, 8, somewhere))
    assert plain.rows != indirect.rows
    assert indirect.rows[1] >= 256


def test_tiles_of_other_shapes_with_as_many_bytes_are_cut_by_their_own_rows():
    trace = Trace(parameters_of("trn2"))
    narrow, wide = tile(0, 64, rows=128), tile(1, 128, rows=64)
    found = []
    for buffer in (narrow, wide):
        storage = Storage.empty(buffer, values=False)
        view = View(storage, BYTE, (1, 64), (64, 1), 512)  # as .ap() may ask for
        found.append(copied(trace, view, rows(held(2, 128), 0, 1))[0])
    assert [one.rows for one in found] == [(8, 9), (4, 5)]


def test_like_tiles_overlap_within_themselves_only():
    trace = Trace(parameters_of("trn2"))
    tiles = [held(number, 128) for number in range(3)]
    for storage in tiles:
        for first in (0, 16, 32):
            copied(trace, rows(storage, first, 32), rows(storage, first, 32))
    found = overlaps(trace)
    for at, others in enumerate(found):
        start = at // 3 * 3
        expected = {0: {1}, 1: {0, 2}, 2: {1}}[at - start]
        assert set(others) == {start + one for one in expected}
