"""The sampler: every epoch whole, any interruption exact, the same on every machine."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.errors import CheckpointError
from twintrack.training.sampler import Sampler, Stream, permutation, uniform

RECORDED = [9, 1, 5, 7, 6, 2, 0, 3, 4, 8]
RECORDED_STREAM = (1, 3, 0, 4, 2, 2, 0, 1, 3, 4, 1, 3)

rows = st.integers(1, 40)
seeds = st.integers(0, 2**63 - 1)
batches = st.lists(st.integers(1, 17), min_size=1, max_size=12)


@given(rows, seeds, batches, st.data())
def test_any_interruption_continues_with_the_same_rows(num_rows, seed, sizes, data):
    """Stopping after any batch, through JSON and into a new sampler, changes nothing that follows."""
    whole = Sampler(num_rows, seed)
    expected = [whole.next(size) for size in sizes]
    cut = data.draw(st.integers(0, len(sizes)))
    first = Sampler(num_rows, seed)
    got = [first.next(size) for size in sizes[:cut]]
    second = Sampler.from_state(json.loads(json.dumps(first.state)))
    got += [second.next(size) for size in sizes[cut:]]
    assert got == expected
    assert second.state == whole.state


@given(rows, seeds, batches)
def test_batch_sizes_do_not_change_the_order_and_epochs_are_whole(num_rows, seed, sizes):
    """The stream is one: cutting it differently gives the same rows, and each epoch holds every row once."""
    by_batches = Sampler(num_rows, seed)
    stream = [row for size in sizes for row in by_batches.next(size)]
    one_by_one = Sampler(num_rows, seed)
    assert stream == [one_by_one.next(1)[0] for _ in stream]
    for start in range(0, len(stream) - num_rows + 1, num_rows):
        assert sorted(stream[start : start + num_rows]) == list(range(num_rows))


def test_order_is_the_one_recorded():
    """A resumed run may meet another machine or NumPy: these orders never change."""
    assert permutation(10, Stream.SPLIT, 1234).tolist() == RECORDED
    assert Sampler(5, 7).next(12) == RECORDED_STREAM


def test_permutation_sorts_by_raw_pcg64_outputs():
    """Reference: Python's own sort over NumPy's documented raw outputs."""
    raw = np.random.PCG64(np.random.SeedSequence([3, 0, 3, 0, 9, 0])).random_raw(500).tolist()
    assert permutation(500, Stream.PACKING, 3, 9).tolist() == sorted(range(500), key=lambda i: raw[i])


def test_seeds_and_epochs_give_different_orders():
    orders = {tuple(permutation(20, Stream.EPOCH, seed, epoch)) for seed in range(10) for epoch in range(10)}
    assert len(orders) == 100


def test_first_places_are_uniform():
    """Chi-square over the row that comes first, 2000 seeds, 8 rows; 24.3 is the 0.1 % limit (7 degrees)."""
    counts = np.bincount([permutation(8, Stream.SPLIT, seed)[0] for seed in range(2000)], minlength=8)
    assert ((counts - 250) ** 2 / 250).sum() < 24.3


def test_uniform_stays_below_one_and_has_the_right_moments():
    values = uniform(100_000, Stream.ADAPTER, 5)
    assert values.dtype == np.float32
    assert 0.0 <= values.min() < values.max() < 1.0
    assert abs(values.mean() - 0.5) < 5 / np.sqrt(12 * 100_000)
    assert permutation(0, Stream.SPLIT).size == 0


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"num_rows": 4, "seed": 1, "epoch": 0},
        {"num_rows": 4, "seed": 1, "epoch": 0, "position": 5},
        {"num_rows": 4, "seed": 1, "epoch": -1, "position": 0},
        {"num_rows": 4, "seed": 1, "epoch": 0, "position": 1.0},
        {"num_rows": 4, "seed": True, "epoch": 0, "position": 1},
        {"num_rows": 4, "seed": 1, "epoch": 0, "position": 1, "more": 1},
    ],
)
def test_a_state_that_no_sampler_gave_is_refused(state):
    with pytest.raises(CheckpointError, match="data position"):
        Sampler.from_state(state)


@pytest.mark.parametrize("arguments", [(0, 1), (-1, 1), (3, -1)])
def test_impossible_samplers_are_refused(arguments):
    with pytest.raises(ValueError, match=r"got -?[0-9]"):
        Sampler(*arguments)
    with pytest.raises(ValueError, match="got 0"):
        Sampler(3, 1).next(0)
