"""The stated test on loss curves: its interval against theory, its errors by simulation, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.pilot.compare.losses import block_length, bootstrap_mean, loss_test
from twintrack.pilot.summary_parts import Curve
from twintrack.quantity import Provenance, Quantity

TOLERANCE = Quantity(0.02, "", Provenance.ASSUMED, "test")


def curve(values, over=()):
    return Curve("", Provenance.MEASURED, "x", tuple(range(1, len(values) + 1)), tuple(values), over)


def judged(a, b, seed=0, resamples=400):
    return loss_test(curve(a), curve(b), TOLERANCE, resamples=resamples, seed=seed)


def autoregressive(count, correlation, random):
    """Noise of unit variance in which neighbours have the given correlation."""
    noise = random.standard_normal(count + 60)
    for at in range(1, len(noise)):
        noise[at] += correlation * noise[at - 1]
    return noise[60:] * math.sqrt(1 - correlation**2)


def rates(shift, spread, *, count, correlation, trials=300):
    """How often curves whose true relative difference is ``shift`` are called equivalent, different, or neither."""
    random = np.random.default_rng(5)
    found = {"equivalent": 0, "different": 0, "not shown": 0}
    for trial in range(trials):
        ratio = 1 + shift + spread * autoregressive(2 * count, correlation, random)
        first = np.linspace(4, 2, 2 * count)
        found[judged(first * ratio, first, seed=trial, resamples=300).verdict] += 1
    return {verdict: number / trials for verdict, number in found.items()}


@pytest.mark.parametrize(
    ("count", "correlation", "most"), [(16, 0.0, 0.05), (32, 0.3, 0.06), (128, 0.5, 0.06)]
)
def test_curves_that_differ_by_just_the_tolerance_are_seldom_called_equivalent_or_different(
    count, correlation, most
):
    """On the edge of the tolerance either verdict is wrong: 2.5 % each by construction, for independent differences."""
    shift = 1 / (1 - 0.02) - 1  # (b − a) / max(|a|, |b|) is then −2 %
    found = rates(shift, 0.01, count=count, correlation=correlation)

    assert found["equivalent"] <= most
    assert found["different"] <= most
    assert found["not shown"] >= 1 - 2 * most


def test_curves_without_a_true_difference_are_called_equivalent_where_their_noise_allows_it():
    assert rates(0.0, 0.01, count=32, correlation=0.3)["equivalent"] > 0.95


def test_curves_far_apart_are_called_different():
    assert rates(0.06, 0.01, count=32, correlation=0.3)["different"] > 0.95


def test_noise_that_hides_the_difference_shows_nothing():
    assert rates(0.0, 0.3, count=32, correlation=0.0)["equivalent"] == 0


def test_the_interval_is_that_of_students_t_for_independent_values():
    """Over many samples the mean width of the interval is near 2 t s / sqrt(n)."""
    random = np.random.default_rng(3)
    count = 100
    widths = []
    for trial in range(60):
        values = random.standard_normal(count)
        found = bootstrap_mean(values.tolist(), block_length(count), resamples=600, seed=trial)
        widths.append((found.high - found.low) / (2 * 1.984 * values.std(ddof=1) / math.sqrt(count)))

    assert 0.9 < np.mean(widths) < 1.2


def test_neighbours_that_are_alike_widen_the_interval():
    """Values that come in equal runs of five tell as much as a fifth of them: the interval is about sqrt(5) wider."""
    random = np.random.default_rng(4)
    ratios = []
    for trial in range(30):
        values = random.standard_normal(80)
        alone = bootstrap_mean(np.tile(values, 5).tolist(), 20, resamples=400, seed=trial)
        alike = bootstrap_mean(np.repeat(values, 5).tolist(), 20, resamples=400, seed=trial)
        ratios.append((alike.high - alike.low) / (alone.high - alone.low))

    assert 1.8 < np.mean(ratios) < 2.7


@pytest.mark.parametrize(
    ("steps", "verdict"), [(30, "not shown"), (31, "equivalent"), (2, "not shown"), (0, "not shown")]
)
def test_too_few_steps_show_nothing_even_where_the_curves_are_the_same(steps, verdict):
    found = judged([3.0] * steps, [3.0] * steps)

    assert found.verdict == verdict
    assert found.mean.known is (verdict == "equivalent")
    assert verdict == "equivalent" or "too few" in found.reason


def test_only_the_last_half_counts():
    """A start that differs by a third does not, an end that does counts."""
    same, apart = [3.0] * 40, [4.0] * 40

    assert judged(same + same, apart + same).verdict == "equivalent"
    assert judged(same + same, same + apart).verdict == "different"
    assert judged(same + same, apart + same).first_step == 41


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=32, max_size=80),
    st.integers(0, 2**32),
)
def test_a_seed_gives_one_interval_and_exchanging_the_runs_mirrors_it(pairs, seed):
    a, b = zip(*pairs, strict=True)
    found, again, mirrored = judged(a, b, seed), judged(a, b, seed), judged(b, a, seed)

    assert found == again
    assert found.low.value <= found.mean.value <= found.high.value
    assert found.mean.value == -mirrored.mean.value
    assert found.low.value == pytest.approx(-mirrored.high.value, abs=1e-9)


def test_means_over_several_steps_are_compared_with_means_of_the_same_steps():
    """A trainer that logs every fifth step beside one that logs each: 160 steps give 32 pairs."""
    each = [4 - at / 100 for at in range(160)]
    fifth = Curve(
        "",
        Provenance.MEASURED,
        "x",
        tuple(range(5, 161, 5)),
        tuple(float(np.mean(each[at : at + 5])) for at in range(0, 160, 5)),
        (5,) * 32,
    )
    found = loss_test(curve(each), fifth, TOLERANCE, resamples=100, seed=0)

    assert found.pairs.value == 16
    assert found.verdict == "equivalent"
    assert abs(found.mean.value) < 1e-12


def test_losses_that_are_not_finite_are_left_out():
    spoiled = [math.nan, *[3.0] * 39]
    assert judged(spoiled, [3.0] * 40).pairs.value == 20
    assert judged([3.0] * 20 + [math.inf] * 20, [3.0] * 40).verdict == "not shown"


@pytest.mark.parametrize("arguments", [([1.0] * 7, 4, 10), ([1.0] * 8, 0, 10), ([1.0] * 8, 4, 0)])
def test_an_interval_needs_two_blocks_and_a_resample(arguments):
    values, block, resamples = arguments
    with pytest.raises(ValueError, match="two blocks and a resample"):
        bootstrap_mean(values, block, resamples=resamples, seed=0)


@given(st.integers(1, 10_000))
def test_a_block_is_the_least_whole_number_that_reaches_the_root(count):
    block = block_length(count)
    assert (block - 1) ** 2 < count <= block**2
