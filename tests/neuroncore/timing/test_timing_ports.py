"""Engines that share a port of SBUF or PSUM are never on it at once; all others run side by side."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.neuroncore.timing.cost import PSUM, SBUF, Work
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.ports import Ports
from twintrack.neuroncore.timing.trace import ENGINES

VECTOR, SCALAR, GPSIMD = (ENGINES.index(name) for name in ("vector", "scalar", "gpsimd"))
BOTH = SBUF | PSUM


def _work(memories, mode=1):
    return Work(100.0, 0.0, mode, memories=memories)


def _excluded(chip, one, other):
    """Whether two instructions of different engines may not run at once, by the documentation."""
    (first, mine), (second, theirs) = sorted([one, other], key=lambda entry: entry[0])
    common = mine.memories & theirs.memories
    if chip == "trn2":
        return (first, second) == (VECTOR, GPSIMD) and mine.mode > 1 and bool(theirs.memories & SBUF)
    return ((first, second) == (VECTOR, GPSIMD) and bool(common & SBUF)) or (
        (first, second) == (VECTOR, SCALAR) and bool(common & PSUM)
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from([VECTOR, SCALAR, GPSIMD]),
        st.sampled_from([SBUF, PSUM, BOTH]),
        st.sampled_from([1, 2]),
        st.integers(0, 300),
        st.integers(1, 40),
    ),
    max_size=40,
)


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@given(steps=STEPS)
def test_instructions_that_exclude_each_other_never_overlap(chip, steps):
    ports = Ports(parameters_of(chip))
    free = dict.fromkeys((VECTOR, SCALAR, GPSIMD), 0.0)
    ran = []
    for engine, memories, mode, ready, length in steps:
        work = _work(SBUF if mode > 1 else memories, mode if engine == VECTOR else 1)
        could = max(float(ready), free[engine])
        start = ports.take(engine, work, could, length)

        assert start >= could
        free[engine] = start + length
        ran.append((engine, work, start, start + length))

    for one, other in combinations(ran, 2):
        if one[0] != other[0] and _excluded(chip, one[:2], other[:2]):
            assert one[3] <= other[2] or other[3] <= one[2]


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@given(steps=STEPS)
def test_an_instruction_waits_only_for_one_that_excludes_it(chip, steps):
    """Where nothing that excludes it stands in the way, it starts when it could."""
    ports = Ports(parameters_of(chip))
    free = dict.fromkeys((VECTOR, SCALAR, GPSIMD), 0.0)
    ran = []
    for engine, memories, mode, ready, length in steps:
        work = _work(SBUF if mode > 1 else memories, mode if engine == VECTOR else 1)
        could = max(float(ready), free[engine])
        in_the_way = any(
            _excluded(chip, (engine, work), (other, theirs)) and low < could + length and high > could
            for other, theirs, low, high in ran
            if other != engine
        )
        start = ports.take(engine, work, could, length)

        assert (start > could) == in_the_way
        free[engine] = start + length
        ran.append((engine, work, start, start + length))


def test_an_instruction_fits_between_two_of_the_other_engine():
    ports = Ports(parameters_of("trn1"))
    ports.take(GPSIMD, _work(SBUF), 0.0, 10)
    ports.take(GPSIMD, _work(SBUF), 30.0, 10)

    assert ports.take(VECTOR, _work(SBUF), 0.0, 20) == 10
    assert ports.take(VECTOR, _work(SBUF), 30.0, 5) == 40
