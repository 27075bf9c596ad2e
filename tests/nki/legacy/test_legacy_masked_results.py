"""A masked result, written again and assigned: what is copied is what was written of it by then."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.written import Written, pattern_of
from twintrack.nki import legacy as nki
from twintrack.nki.arrays import Shape
from twintrack.nki.legacy import isa as nisa
from twintrack.nki.legacy import language as nl
from twintrack.nki.profiling import profile

ROWS, COLUMNS = 64, 12
SIGNS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def predicate(mask, ix, iy):
    """The same comparison of index expressions and of NumPy's."""
    axis, sign, bound = mask
    return SIGNS[sign](ix if axis == "rows" else iy, bound)


masks = st.one_of(
    st.tuples(st.just("rows"), st.sampled_from(sorted(SIGNS)), st.sampled_from([0, 16, 32, 33, 64])),
    st.tuples(st.just("columns"), st.sampled_from(sorted(SIGNS)), st.integers(-1, COLUMNS + 1)),
)
reachable = st.one_of(  # by an engine, whose partitions start at a multiple of 32
    st.tuples(st.just("rows"), st.just("<"), st.sampled_from([0, 16, 32, 33, 64])),
    st.tuples(st.just("rows"), st.just(">="), st.sampled_from([0, 32, 64])),
    st.tuples(st.just("columns"), st.sampled_from(sorted(SIGNS)), st.integers(-1, COLUMNS + 1)),
)
spans = st.tuples(st.integers(0, COLUMNS - 1), st.integers(1, COLUMNS)).filter(lambda span: span[0] < span[1])
steps = st.one_of(
    st.tuples(st.just("fill"), st.sampled_from([(0, ROWS), (0, 32), (32, 64), (5, 9)]), spans),
    st.tuples(st.just("load"), masks),
    st.tuples(st.just("whole"), st.none()),
    st.tuples(st.just("double"), reachable),
)


def program(first, then, form):
    """A kernel: a masked load, further writes to the result, and its assignment to a tile that holds something."""

    @nki.jit
    def kernel(a, b, old):
        out = nl.ndarray((ROWS, COLUMNS), nl.float32, buffer=nl.shared_hbm)
        ix, iy = nl.mgrid[0:ROWS, 0:COLUMNS]
        result = nl.load(a[ix, iy], mask=predicate(first, ix, iy))
        for what, where, *more in then:
            if what == "fill":
                result[where[0] : where[1], more[0][0] : more[0][1]] = 7.0
            elif what == "load":
                result[ix, iy] = nl.load(b[ix, iy], mask=predicate(where, ix, iy))
            elif what == "whole":
                result[...] = nl.load(b[ix, iy])
            else:
                result[...] = nisa.tensor_scalar(result, np.multiply, 2.0, mask=predicate(where, ix, iy))
        if form == "same":
            target = nl.load(old[ix, iy])
            target[ix, iy] = result
            nl.store(out[ix, iy], target)
        else:
            shape = {"between": (ROWS, 1, COLUMNS), "last": (ROWS, COLUMNS, 1)}[form]
            target = nl.ndarray(shape, nl.float32, buffer=nl.sbuf)
            flat = target[:, 0, :] if form == "between" else target[:, :, 0]
            flat[...] = nl.load(old[ix, iy])
            target[...] = result
            nl.store(out[ix, iy], flat)
        return out

    return kernel


def expected(first, then, a, b, old):
    ix, iy = np.mgrid[0:ROWS, 0:COLUMNS]
    there = np.broadcast_to(predicate(first, ix, iy), (ROWS, COLUMNS)).copy()
    result = np.where(there, a, np.nan)
    for what, where, *more in then:
        if what == "fill":
            at = slice(*where), slice(*more[0])
            result[at], there[at] = 7.0, True
            continue
        mask = np.full_like(there, True) if where is None else predicate(where, ix, iy)
        result = np.where(mask, 2 * result if what == "double" else b, result)
        there |= mask
    return np.where(there, result, old).astype(np.float32)


@settings(max_examples=120, deadline=None)
@given(masks, st.lists(steps, max_size=4), st.sampled_from(["same", "between", "last"]))
def test_an_assigned_result_takes_the_place_of_what_was_written_of_it(first, then, form):
    generator = np.random.default_rng(3)
    a, b, old = (generator.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in range(3))
    kernel = program(first, then, form)

    np.testing.assert_array_equal(nki.simulate_kernel(kernel, a, b, old), expected(first, then, a, b, old))
    profile(kernel, *[Shape((ROWS, COLUMNS))] * 3, what_if=False)


def test_a_part_of_a_masked_result_is_assigned_as_far_as_it_was_written():
    @nki.jit
    def kernel(a, old):
        out = nl.ndarray((ROWS, 8), nl.float32, buffer=nl.shared_hbm)
        ix, iy = nl.mgrid[0:ROWS, 0:COLUMNS]
        result = nl.load(a[ix, iy], mask=iy < 6)
        target = nl.load(old[:, 0:8])
        target[...] = result[:, 3:11]
        nl.store(out, target)
        return out

    a, old = (np.random.default_rng(at).standard_normal((ROWS, COLUMNS)).astype(np.float32) for at in (0, 1))
    wanted = old[:, :8].copy()
    wanted[:, :3] = a[:, 3:6]

    np.testing.assert_array_equal(nki.simulate_kernel(kernel, a, old), wanted)


def test_a_target_of_other_axes_is_refused_where_a_mask_left_a_part():
    @nki.jit
    def kernel(a):
        ix, iy = nl.mgrid[0:ROWS, 0:COLUMNS]
        target = nl.zeros((ROWS, 3, 4), nl.float32)
        target[...] = nl.load(a[ix, iy], mask=iy < 6)

    with pytest.raises(
        KernelError, match="a target of the same shape for a result of which a mask left a part"
    ):
        nki.simulate_kernel(kernel, np.zeros((ROWS, COLUMNS), np.float32))


def test_a_product_takes_the_place_of_a_sum_of_which_masks_left_nothing():
    """On shapes as with values: what is undefined is nothing that one adds to."""

    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((ROWS, COLUMNS), nl.float32, buffer=nl.shared_hbm)
        left, right = nl.load(a), nl.load(b)
        sums = nl.ndarray((ROWS, COLUMNS), nl.float32, buffer=nl.psum)
        rows = nl.arange(ROWS)[:, None]
        sums += nisa.nc_matmul(left, right, mask=rows < 0)
        sums += nisa.nc_matmul(left, right)
        sums += nisa.nc_matmul(left, right)
        nl.store(out, nl.copy(sums))
        return out

    a, b = np.eye(ROWS, dtype=np.float32), np.ones((ROWS, COLUMNS), np.float32)

    np.testing.assert_array_equal(nki.simulate_kernel(kernel, a, b), 2 * b)
    profile(kernel, Shape(a.shape), Shape(b.shape), what_if=False)


pieces = st.tuples(st.integers(0, 23), st.integers(1, 24)).filter(lambda span: span[0] < span[1])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["mark", "allow", "clear"]), pieces), max_size=8), pieces)
def test_what_may_be_read_is_what_was_written_or_is_undefined(steps, asked):
    """Byte by byte, against two plain arrays."""
    found = Written(24)
    written, undefined = np.zeros(24, np.bool_), np.zeros(24, np.bool_)
    for what, (start, stop) in steps:
        pattern = pattern_of((1, stop - start), (24, 1), start, 1)
        getattr(found, what)(pattern)
        if what == "clear":
            written[start:stop] = undefined[start:stop] = False
        elif what == "mark":
            written[start:stop] = True
        elif not written.all():
            undefined[start:stop] = True
    start, stop = asked
    pattern = pattern_of((1, stop - start), (24, 1), start, 1)
    readable = (written | undefined)[start:stop]

    assert found.covers(pattern) == readable.all()
    assert found.covers_rows(np.array([start]), (0, (), stop - start)).all() == readable.all()
    assert found.touches(pattern) == written[start:stop].any()
    first = found.first_missing(pattern)
    assert first == (-1 if readable.all() else start + int(np.argmin(readable)))
    np.testing.assert_array_equal(found.which((stop - start,), (1,), start, 1), written[start:stop])
