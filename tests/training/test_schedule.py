"""Learning rates and AdamW's scalars, against PyTorch's and transformers' own."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup

from twintrack.job.records import Optimizer, Schedule
from twintrack.training.schedule import adamw_scalars, learning_rate

PEAK = Optimizer(learning_rate=1e-3)


def peer_rates(make: object, warmup: int, steps: int) -> list[float]:
    """Rates by transformers, which counts updates from 0 and reaches the end one update later than we do."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK.learning_rate)
    scheduler = make(optimizer, warmup, steps)  # type: ignore[operator]
    rates = []
    for _ in range(steps + 1):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("kind", "make"),
    [("cosine", get_cosine_schedule_with_warmup), ("linear", get_linear_schedule_with_warmup)],
)
@pytest.mark.parametrize("warmup", [3, 10])
def test_rates_are_those_of_transformers_by_count_of_updates(kind: str, make: object, warmup: int) -> None:
    schedule = Schedule(kind=kind, warmup_steps=warmup)  # type: ignore[arg-type]
    expected = peer_rates(make, warmup, 40)

    assert [learning_rate(step, 40, PEAK, schedule) for step in range(1, 41)] == pytest.approx(expected[1:41])


@given(
    steps=st.integers(2, 300),
    warmup=st.integers(0, 299),
    kind=st.sampled_from(["constant", "linear", "cosine"]),
    final=st.floats(0, 1),
)
def test_a_rate_never_leaves_its_range_and_ends_where_the_job_says(
    steps: int, warmup: int, kind: str, final: float
) -> None:
    warmup = min(warmup, steps - 1)
    schedule = Schedule(kind=kind, warmup_steps=warmup, final_fraction=final)  # type: ignore[arg-type]
    rates = [learning_rate(step, steps, PEAK, schedule) for step in range(1, steps + 1)]

    assert all(0.0 <= rate <= PEAK.learning_rate * (1 + 1e-12) for rate in rates)
    assert rates[max(warmup, 1) - 1] == pytest.approx(PEAK.learning_rate)
    after = rates[max(warmup, 1) - 1 :]
    assert all(a >= b - 1e-15 for a, b in pairwise(after))
    if kind != "constant":
        assert rates[-1] == pytest.approx(PEAK.learning_rate * final)


@given(step=st.integers(1, 10_000), rate=st.floats(1e-8, 1.0))
def test_scalars_are_the_bias_corrections(step: int, rate: float) -> None:
    optimizer = Optimizer(beta1=0.9, beta2=0.999, weight_decay=0.1)
    scalars = adamw_scalars(step, rate, optimizer)

    assert scalars["step_size"] * -math.expm1(step * math.log(0.9)) == pytest.approx(rate)
    assert scalars["second_correction"] ** -2 == pytest.approx(-math.expm1(step * math.log(0.999)), rel=1e-9)
    assert scalars["decay"] == 1.0 - rate * 0.1
