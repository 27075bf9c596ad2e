"""Streams of instructions for tests of the timing model: issued by a tiny kernel, or made by hand."""

from __future__ import annotations

from dataclasses import replace

from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.dtypes import dtype_of
from twintrack.neuroncore.timing.trace import Box, Step, Trace
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.kernel import options_from_environment
from twintrack.nki.launch import launch


def issued(kernel, *shapes, chip="trn2", **keywords):
    """Instructions that a kernel issues, from shapes; it need not have an output."""
    kept = []

    def with_an_output(*arguments, **more):
        kernel(*arguments, **more)
        tile, out = nl.ndarray((1, 1), nl.float32), nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
        nisa.memset(tile, 0)
        nisa.dma_copy(out, tile)
        return out

    options = options_from_environment({}, chip=chip)
    given = replace(options, values=False, sink=lambda core, ins: kept.append(ins))
    launch(with_an_output, (), shapes, keywords, given)
    return kept[:-2]


def tile(number, row=1024, *, region=MemoryRegion.sbuf, first=-1, last=-1, address=None, rows=128):
    """A buffer of ``rows`` partitions with ``row`` bytes each, used from one instruction to another."""
    made = Buffer(number, region, dtype_of("uint8"), (rows, row), f"t{number}", None, 0, address)
    made.first_use, made.last_use = first, last
    return made


def put_regions(trace, buffers, regions):
    """Let a trace have these regions: positions of buffers, and boxes in them."""
    trace.buffers = list(buffers)
    trace.region_buffers, trace.region_boxes = ([one[at] for one in regions] for at in range(2))
    trace.members = [[] for _ in trace.buffers]
    for at, (buffer, _) in enumerate(regions):
        trace.members[buffer].append(at)


def trace_of(parameters, buffers, regions, steps):
    """A trace of steps ``(engine, work, reads, writes, after)`` over regions ``(buffer, first, last byte)``."""
    trace = Trace(parameters)
    put_regions(
        trace,
        buffers,
        [(buffer, Box((0, 128), (low, high), 0, 128 * (high - low))) for buffer, low, high in regions],
    )
    for number, (engine, work, reads, writes, after) in enumerate(steps):
        trace.steps.append(
            Step(engine, work, tuple(reads), tuple(writes), "made", 0, number, list(after), "", 0, ())
        )
        for region in (*reads, *writes):
            used = trace.buffers[trace.region_buffers[region]]
            used.first_use = number if used.first_use < 0 else used.first_use
            used.last_use = number
    return trace
