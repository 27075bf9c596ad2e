"""Time on a shared resource is given once, never before it was asked for, and none is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.neuroncore.timing.pool import Pool

READY = st.integers(0, 400)
LENGTH = st.integers(1, 40)
REQUESTS = st.lists(st.tuples(READY, LENGTH), min_size=1, max_size=60)


def _free(pool, horizon):
    """Which ns are free, from the gaps and the end that the pool keeps."""
    free = [True] * horizon
    for at in range(int(pool._end)):
        free[at] = any(low <= at < high for low, high in pool._gaps)
    return free


@given(REQUESTS)
def test_sharing_takes_exactly_the_earliest_free_time(requests):
    """Brute force: each request takes the first free ns from when it is ready, as many as it needs."""
    pool, taken = Pool(), set()
    for ready, length in requests:
        mine, at = [], ready
        while len(mine) < length:
            if at not in taken:
                mine.append(at)
            at += 1
        taken.update(mine)

        begin, end = pool.share(ready, length)

        assert (begin, end) == (mine[0], mine[-1] + 1)
    assert pool.busy == len(taken) == sum(length for _, length in requests)
    horizon = int(pool._end) + 1
    assert {at for at, free in enumerate(_free(pool, horizon)) if not free} == taken


def test_requests_in_order_stand_behind_each_other():
    pool = Pool()

    assert [pool.share(0, 10)[0] for _ in range(4)] == [0, 10, 20, 30]
    assert pool.share(100, 10) == (100, 110)
    assert pool.share(0, 10) == (40, 50)  # before what is ready late


def test_old_gaps_are_forgotten_but_the_end_is_not():
    pool = Pool()
    for at in range(600):
        pool.share(at * 10, 5)

    late, _ = pool.share(0, 5)

    assert late == pytest.approx((600 - 256) * 10 - 5, abs=10)
    assert pool.share(0, 5000)[1] > 5995
