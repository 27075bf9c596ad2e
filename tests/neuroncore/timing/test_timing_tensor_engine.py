"""The Tensor Engine's pipeline, and its limit after idleness as documented."""

from __future__ import annotations

import pytest

from twintrack.neuroncore.timing.cost import Work
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.tensor_engine import TensorEngine

TRN2, TRN1 = parameters_of("trn2"), parameters_of("trn1")
CYCLE = 1 / 2.4
WORK = Work(512.0, 7.9)
FULL = (512 + 7.9) * CYCLE
FILL = 192 * CYCLE


def _run(engine, count, ready=0.0, work=WORK):
    return [engine.run(ready, work) for _ in range(count)]


def _lengths(spans):
    return [end - start for start, end in spans]


def test_work_begins_at_half_rate_for_the_window_and_then_runs_at_full_rate():
    spans = _run(TensorEngine(TRN2), 100)

    slow = [length for length in _lengths(spans)[1:] if length == pytest.approx(2 * FULL)]
    assert _lengths(spans)[-80:] == pytest.approx([FULL] * 80)
    assert sum(slow) == pytest.approx(3000, abs=2 * FULL + FILL * 2)


def test_only_an_instruction_that_finds_the_engine_waiting_pays_the_fill():
    engine = TensorEngine(TRN1)
    cycle = 1 / 2.8
    first, second = _run(engine, 2)
    third = engine.run(second[1] + 50, WORK)

    length = (512 + 7.9) * cycle
    assert _lengths([first, second, third]) == pytest.approx(
        [length + 192 * cycle, length, length + 192 * cycle]
    )


def test_an_operand_that_comes_while_the_engine_works_is_loaded_behind_it():
    engine = TensorEngine(TRN1)
    _, end = engine.run(0.0, WORK)

    start, done = engine.run(end - 192 / 2.8, WORK)

    assert start == end
    assert done - start == pytest.approx((512 + 7.9) / 2.8)


def test_an_idle_window_puts_the_limit_on_again():
    engine = TensorEngine(TRN2)
    end = _run(engine, 100)[-1][1]

    start, done = engine.run(end + 3001, WORK)

    assert done - start == pytest.approx(2 * (FULL + FILL))


def test_a_short_pause_does_not():
    engine = TensorEngine(TRN2)
    end = _run(engine, 100)[-1][1]

    start, done = engine.run(end + 500, WORK)

    assert done - start == pytest.approx(FULL + FILL)


def test_use_below_the_threshold_over_a_window_puts_the_limit_on():
    """Work for a quarter of the time: after a window of it the engine is slow again, and stays slow."""
    engine = TensorEngine(TRN2)
    now = _run(engine, 100)[-1][1]
    factors = []
    for _ in range(40):
        start, now = engine.run(now + 3 * FULL, WORK)
        factors.append((now - start) / (FULL + FILL))

    assert factors[0] == pytest.approx(1)
    assert factors[-10:] == pytest.approx([2] * 10)


def test_few_rows_count_as_little_use():
    """A quarter of the array's rows, back to back: use is a quarter, so the limit never lifts."""
    spans = _run(TensorEngine(TRN2), 100, work=WORK._replace(rows=0.25))

    assert _lengths(spans)[1:] == pytest.approx([2 * FULL] * 99)


def test_time_lost_to_the_limit_is_counted():
    engine = TensorEngine(TRN2)
    spans = _run(engine, 100)

    fills = 2 * FILL  # the first instruction's, at half rate
    assert engine.throttled_ns == pytest.approx(spans[-1][1] - 100 * FULL - fills)


def test_trn1_has_no_limit():
    engine = TensorEngine(TRN1)
    spans = _run(engine, 50)

    assert _lengths(spans)[1:] == pytest.approx([(512 + 7.9) / 2.8] * 49)
    assert engine.throttled_ns == 0
