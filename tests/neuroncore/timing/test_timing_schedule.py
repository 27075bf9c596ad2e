"""When instructions start: after what they depend on, in the order of their engine, the same every time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timing_streams import issued, tile, trace_of

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.neuroncore.timing.cost import SBUF, Work
from twintrack.neuroncore.timing.dma import Transfer
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.schedule import DMA, schedule
from twintrack.neuroncore.timing.trace import ENGINES, Trace
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape

PARAMETERS = parameters_of("trn2")
TRN2 = GENERATIONS["trn2"]
TENSOR, VECTOR, SCALAR, GPSIMD = range(4)
KIB = 1024
LOAD = Transfer(65_536, 65_536, 16, 300.0, 128, False)


def _work(cycles=512.0):
    return Work(cycles, 144.0, memories=SBUF)


# --- properties over random streams ---------------------------------------------------------------------------------


@st.composite
def streams(draw):
    """Instructions over parts of a few tiles, some of them DMAs, some with edges."""
    buffers = [tile(n, KIB) for n in range(draw(st.integers(1, 3)))]
    regions = []
    for at in range(len(buffers)):
        for _ in range(draw(st.integers(1, 3))):
            low = draw(st.integers(0, 7))
            regions.append((at, low * 128, draw(st.integers(low + 1, 8)) * 128))
    which = st.lists(st.integers(0, len(regions) - 1), max_size=2, unique=True)
    steps = []
    for number in range(draw(st.integers(1, 25))):
        engine = draw(st.sampled_from([TENSOR, VECTOR, SCALAR, GPSIMD, DMA]))
        work = LOAD if engine == DMA else _work(draw(st.sampled_from([64.0, 512.0])))
        after = draw(st.lists(st.integers(0, number - 1), max_size=2)) if number else []
        steps.append((engine, work, draw(which), draw(which), after))
    return buffers, regions, steps


def _overlap(regions, one, other):
    (a, low, high), (b, start, end) = regions[one], regions[other]
    return a == b and low < end and start < high


def _depends(regions, earlier, later):
    """True, anti and output dependences, and edges, by brute force."""
    _, _, reads, writes, _ = earlier
    _, _, my_reads, my_writes, _ = later
    pairs = [*((w, r) for w in writes for r in my_reads), *((w, v) for w in writes for v in my_writes)]
    pairs += [(r, w) for r in reads for w in my_writes]
    return any(_overlap(regions, one, other) for one, other in pairs)


@settings(max_examples=150)
@given(streams())
def test_no_instruction_starts_before_what_it_depends_on_has_ended(stream):
    buffers, regions, steps = stream
    timeline = schedule(trace_of(PARAMETERS, buffers, regions, steps), TRN2)

    for at, later in enumerate(steps):
        for before in range(at):
            if _depends(regions, steps[before], later) or before in later[4]:
                assert timeline.spans[at].start >= timeline.spans[before].end - 1e-6


@settings(max_examples=100)
@given(streams())
def test_engines_take_their_instructions_in_order_and_one_at_a_time(stream):
    timeline = schedule(trace_of(PARAMETERS, *stream), TRN2)

    for engine in (TENSOR, VECTOR, SCALAR, GPSIMD):
        mine = [span for step, span in zip(stream[2], timeline.spans, strict=True) if step[0] == engine]
        assert all(second.start >= first.end - 1e-6 for first, second in pairwise(mine))
    assert timeline.seconds == pytest.approx(max(span.end for span in timeline.spans) * 1e-9)


@settings(max_examples=50)
@given(streams())
def test_a_trace_gives_the_same_times_every_time(stream):
    trace = trace_of(PARAMETERS, *stream)

    assert schedule(trace, TRN2).spans == schedule(trace, TRN2).spans


@settings(max_examples=50)
@given(streams())
def test_instructions_that_depend_on_nothing_wait_only_for_engine_queue_or_dma(stream):
    """Without dependences every engine works without a pause from the start."""
    buffers, regions, steps = stream
    free = [(engine, work, (), (), ()) for engine, work, *_ in steps if engine in (VECTOR, SCALAR)]
    timeline = schedule(trace_of(PARAMETERS, buffers, regions, free), TRN2)

    for engine in (VECTOR, SCALAR):
        now = 0.0
        for step, span in zip(free, timeline.spans, strict=True):
            if step[0] == engine:
                assert span.start == pytest.approx(now)
                now = span.end


# --- what each wait costs -------------------------------------------------------------------------------------------


def _spans(steps, buffers=None, regions=((0, 0, 128),), **options):
    return schedule(trace_of(PARAMETERS, buffers or [tile(0)], regions, steps), TRN2, **options).spans


def test_another_engine_is_seen_after_a_semaphore():
    first, second = _spans([(VECTOR, _work(), (), (0,), ()), (SCALAR, _work(), (0,), (), ())])

    assert second.start == pytest.approx(first.end + PARAMETERS.semaphore)
    assert (second.cause, second.reason) == (0, "data")


def test_the_own_engine_is_seen_at_once():
    first, second = _spans([(VECTOR, _work(), (), (0,), ()), (VECTOR, _work(), (0,), (), ())])

    assert second.start == first.end


def test_a_dma_is_seen_after_its_completion_and_starts_after_its_latency():
    first, second = _spans([(DMA, LOAD, (), (0,), ()), (VECTOR, _work(), (0,), (), ())])

    assert first.start == pytest.approx(PARAMETERS.dma_start)
    assert first.end == pytest.approx(PARAMETERS.dma_start + LOAD.engine_ns + PARAMETERS.dma_stagger)
    assert second.start == pytest.approx(first.end + PARAMETERS.dma_completion)


def test_reads_may_overlap_reads_and_a_write_waits_for_the_last_of_them():
    write = (GPSIMD, _work(), (), (0,), ())
    spans = _spans([(VECTOR, _work(), (0,), (), ()), (SCALAR, _work(9000.0), (0,), (), ()), write])

    assert spans[0].start == spans[1].start == 0
    assert spans[2].start == pytest.approx(max(spans[0].end, spans[1].end) + PARAMETERS.semaphore)


def test_an_edge_orders_what_nothing_else_does():
    spans = _spans([(VECTOR, _work(), (), (), ()), (SCALAR, _work(), (), (), (0,))])

    assert spans[1].start == pytest.approx(spans[0].end + PARAMETERS.semaphore)


def test_transfers_are_issued_one_after_the_other_and_share_the_engines():
    spans = _spans(
        [(DMA, LOAD, (), (0,), ()), (DMA, LOAD, (), (1,), ())], regions=((0, 0, 128), (0, 128, 256))
    )

    assert spans[1].start - spans[0].start == pytest.approx(max(PARAMETERS.dma_issue, LOAD.engine_ns))


def test_large_transfers_follow_each_other_at_the_rate_of_the_engines():
    large = Transfer(8_388_608, 8_388_608, 16, 20_000.0, 128, False)
    regions = [(0, 128 * n, 128 * n + 128) for n in range(8)]
    spans = _spans([(DMA, large, (), (n,), ()) for n in range(8)], regions=regions)

    assert spans[-1].end == pytest.approx(PARAMETERS.dma_start + 8 * 20_000 + PARAMETERS.dma_stagger)


def test_a_tile_waits_for_the_place_of_a_dead_one_unless_memory_has_no_limit():
    """Two tiles of 120 KiB do not fit in 224 KiB: the second takes the first one's place."""

    def steps():
        return [(VECTOR, _work(9000.0), (), (0,), ()), (SCALAR, _work(), (), (1,), ())]

    def buffers():
        return [tile(0, 120 * KIB), tile(1, 120 * KIB)]

    regions = ((0, 0, 128), (1, 0, 128))
    waits = _spans(steps(), buffers(), regions)
    free = _spans(steps(), buffers(), regions, unlimited=(MemoryRegion.sbuf,))

    assert waits[1].start == pytest.approx(waits[0].end + PARAMETERS.semaphore)
    assert waits[1].reason == "place"
    assert free[1].start == 0


def test_a_table_is_loaded_when_the_function_changes():
    def work(table):
        return Work(512.0, 349.0, table=table)

    spans = _spans([(SCALAR, work(table), (), (), ()) for table in ("exp", "exp", "", "exp", "gelu", "exp")])
    plain = (512 + 349) / 1.2
    lengths = [span.end - span.start for span in spans]

    assert lengths == pytest.approx([plain + 1282, plain, plain, plain, plain + 1282, plain + 1282])


def test_other_parameters_change_the_schedule_but_not_the_trace():
    trace = trace_of(PARAMETERS, [tile(0)], [(0, 0, 128)], [(DMA, LOAD, (), (0,), ())])
    later = schedule(trace, TRN2, PARAMETERS.changed(dma_start=2000.0))

    assert later.spans[0].start == pytest.approx(2000)
    assert schedule(trace, TRN2).spans[0].start == pytest.approx(739)


# --- the same in every process --------------------------------------------------------------------------------------


def _kernel(source, out):
    for column in range(0, source.shape[1], 512):
        data, result = nl.ndarray((128, 512), nl.float32), nl.ndarray((128, 512), nl.float32)
        nisa.dma_copy(data, source[:, column : column + 512])
        nisa.activation(result, nl.exp, data)
        nisa.tensor_tensor(result, result, data, op=nl.add)
        nisa.dma_copy(out[:, column : column + 512], result)
    return out


def _digest_of_a_run():
    trace = Trace(PARAMETERS)
    for instruction in issued(_kernel, Shape((128, 8192)), Shape((128, 8192))):
        trace.keep(0, instruction)
    timeline = schedule(trace, TRN2)
    times = [(span.start.hex(), span.end.hex(), span.cause, span.reason) for span in timeline.spans]
    return hashlib.sha256(repr(times).encode()).hexdigest()


@pytest.mark.slow
def test_another_process_with_another_hash_seed_gives_the_same_times_to_the_last_bit():
    here = Path(__file__).resolve().parent
    code = f"import sys; sys.path.insert(0, {str(here)!r}); import {Path(__file__).stem} as t; "
    code += "print(t._digest_of_a_run())"
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert ran.stdout.strip() == _digest_of_a_run()


def test_engines_are_numbered_as_here():
    assert ENGINES[:4] == ("tensor", "vector", "scalar", "gpsimd")
