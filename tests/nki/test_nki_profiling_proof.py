"""What an extrapolated loop leaves out is proven to do what the rest does; wherever it could not, all of it is traced.

Every kernel here is profiled twice, by default and whole, and must come out alike, errors too: the whole run is the
reference. Loops are long enough that only a proof stands between them and being extrapolated.
"""

from __future__ import annotations

import collections
import contextvars
import itertools
import random
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.errors import KernelError
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape
from twintrack.nki.profiling import profile

TRIPS = 900
A = Shape((TRIPS * 128, 2048))
AGREE = 1e-3


def load(a, i):
    tile = nl.ndarray((128, a.shape[1]), a.dtype)
    nisa.dma_copy(tile, a[i * 128 : (i + 1) * 128, :])
    return tile


def store(out, i, tile):
    nisa.dma_copy(out[i * 128 : (i + 1) * 128, :], tile)


def work(tile, times):
    for _ in range(times):
        nisa.activation(tile, nl.exp, tile)


def looping(times):
    """A kernel whose iteration ``i`` does ``times(i)`` activations."""

    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(TRIPS):
            tile = load(a, i)
            work(tile, times(i))
            store(out, i, tile)
        return out

    return kernel


def outcome(kernel, shapes, **options):
    try:
        return profile(kernel, *shapes, chip="trn2", what_if=False, **options)
    except KernelError as error:
        return str(error)


def require_alike(kernel, *shapes):
    """By default as whole; gives the default's profile."""
    whole, quick = outcome(kernel, shapes, extrapolate=False), outcome(kernel, shapes)
    if isinstance(whole, str):
        assert quick == whole
        return None
    assert not isinstance(quick, str), quick
    assert quick.seconds == pytest.approx(whole.seconds, rel=AGREE)
    assert quick.hbm_read_bytes == whole.hbm_read_bytes
    assert quick.hbm_written_bytes == whole.hbm_written_bytes
    counts = [{name: use.instructions for name, use in one.engines.items()} for one in (quick, whole)]
    assert counts[0] == counts[1]
    return quick


# what the index decides

TABLE = [20 if 400 < i < 500 else 1 for i in range(TRIPS)]
NUMBERS = np.array(TABLE)

# in the last iterations as in the first ones, so that only what the index is used for tells
DECIDED = {
    "in between": lambda i: 20 if 400 < i < 500 else 1,
    "once": lambda i: 20 if i == 444 else 1,
    "all but once": lambda i: 1 if i != 444 else 20,
    "by truth": lambda i: 1 if i - 444 else 20,
    "by not": lambda i: 20 if not i - 444 else 1,
    "a member": lambda i: 20 if i in (444, 445) else 1,
    "a member by hash": lambda i: 20 if i in {444, 445} else 1,
    "a key": lambda i: {444: 20}.get(i, 1),
    "a fraction": lambda i: 20 if 400.5 < i < 500.5 else 1,
    "a whole fraction": lambda i: 20 if i == 444.0 else 1,
    "a product": lambda i: 20 if 50_000 < i * 128 + 5 < 60_000 else 1,
    "counted down": lambda i: 20 if 400 < 899 - i < 500 else 1,
    "the least": lambda i: max(1, min(20, i - 400, 500 - i)),
    "a remainder": lambda i: 20 if i % 300 == 250 else 1,
    "a quotient": lambda i: 20 if i // 300 == 1 else 1,
    "a true quotient": lambda i: 20 if i / 2 == 222 else 1,
    "divided": lambda i: 20 if divmod(i, 300)[0] == 1 else 1,
    "a bit": lambda i: 20 if i & 256 and i < 512 else 1,
    "a shift": lambda i: 20 if i >> 8 == 1 else 1,
    "a power": lambda i: 20 if 160_000 < i**2 < 250_000 else 1,
    "a square": lambda i: 20 if 160_000 < i * i < 250_000 else 1,
    "a distance": lambda i: 20 if abs(i - 450) < 50 else 1,
    "a list": lambda i: TABLE[i],
    "an array": lambda i: int(NUMBERS[i]),
    "a range": lambda i: 20 if i in range(400, 500) else 1,
    "trips": lambda i: 20 if 400 < len(range(i)) < 500 else 1,
    "text": lambda i: 20 if str(i).startswith("44") else 1,
    "formatted": lambda i: 20 if "0400" < f"{i:04d}" < "0500" else 1,
    "bits": lambda i: 20 if i.bit_length() == 9 else 1,
    "a float": lambda i: 20 if 400 < float(i) < 500 else 1,
    "an int": lambda i: 20 if 400 < int(i) < 500 else 1,
    "its type": lambda i: 1 if type(i) is int else 20,
    "numpy": lambda i: 20 if 400 < np.int64(i) < 500 else 1,
    "a numpy bound": lambda i: 20 if np.int64(400) < i < np.int64(500) else 1,
    "a numpy sum": lambda i: 20 if np.int64(400) < np.int64(1) + i < 500 else 1,
    "repeated": lambda i: 20 if 400 < len("x" * i) < 500 else 1,
    "sorted": lambda i: 20 if sorted([400, i, 500])[1] not in (400, 500) else 1,
    "a slice": lambda i: 20 if 400 < len(TABLE[:i]) < 500 else 1,
}


@pytest.mark.parametrize("name", DECIDED)
def test_iterations_that_the_index_makes_different_are_not_left_out(name):
    require_alike(looping(DECIDED[name]), A)


@settings(max_examples=25, deadline=None)
@given(
    sign=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    coef=st.sampled_from([-3, -1, 1, 2, 128]),
    at=st.integers(-5, 125),
    off=st.integers(-1, 1),
)
def test_a_comparison_counts_in_the_iteration_in_which_it_comes_out_otherwise(sign, coef, at, off):
    bound = coef * at + off
    compare = {
        "<": lambda x: x < bound, "<=": lambda x: x <= bound, ">": lambda x: x > bound,
        ">=": lambda x: x >= bound, "==": lambda x: x == bound, "!=": lambda x: x != bound,
    }[sign]  # fmt: skip

    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(120):
            tile = load(a, i)
            work(tile, 25 if compare(coef * i) else 22)
            store(out, i, tile)
        return out

    require_alike(kernel, Shape((120 * 128, 8192)))


# what the body's Python remembers


class Counter:
    total = 0

    def __init__(self):
        self.count = 0

    def next(self):
        self.count += 1
        return 20 if 400 < self.count < 500 else 1


class Shared:
    count = 0


COUNTS = {"global": 0}
CALLS = [0]


def counting(calls=[0]):  # noqa: B006 - a state that a default keeps
    calls[0] += 1
    return 20 if 400 < calls[0] < 500 else 1


def remembered_local(a):
    out, count = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm), 0
    for i in nl.affine_range(TRIPS):
        count = count + 1
        tile = load(a, i)
        work(tile, 20 if 400 < count < 500 else 1)
        store(out, i, tile)
    return out


def remembered_closure(a):
    count = 0

    def times():
        nonlocal count
        count += 1
        return 20 if 400 < count < 500 else 1

    return looping(lambda _: times())(a)


def remembered_list(a):
    seen = []
    return looping(lambda _: seen.append(1) or (20 if 400 < len(seen) < 500 else 1))(a)


def remembered_dictionary(a):
    seen = {}
    return looping(
        lambda _: seen.update({"n": seen.get("n", 0) + 1}) or (20 if 400 < seen["n"] < 500 else 1)
    )(a)


def remembered_set(a):
    seen = set()
    return looping(lambda _: seen.add(len(seen)) or (20 if 400 < len(seen) < 500 else 1))(a)


def remembered_attribute(a):
    counter = Counter()
    return looping(lambda _: counter.next())(a)


def remembered_bound_method(a):
    times = Counter().next
    return looping(lambda _: times())(a)


def remembered_class(a):
    Shared.count = 0

    def times():
        Shared.count += 1
        return 20 if 400 < Shared.count < 500 else 1

    return looping(lambda _: times())(a)


def remembered_global(a):
    COUNTS["global"] = 0

    def times():
        COUNTS["global"] += 1
        return 20 if 400 < COUNTS["global"] < 500 else 1

    return looping(lambda _: times())(a)


def remembered_default(a):
    counting.__defaults__[0][0] = 0
    return looping(lambda _: counting())(a)


def remembered_function_attribute(a):
    def times():
        times.count += 1
        return 20 if 400 < times.count < 500 else 1

    times.count = 0
    return looping(lambda _: times())(a)


def remembered_array(a):
    count = np.zeros(1)

    def times():
        count[0] += 1
        return 20 if 400 < count[0] < 500 else 1

    return looping(lambda _: times())(a)


def remembered_iterator(a):
    times = iter(TABLE)
    return looping(lambda _: next(times))(a)


def remembered_count(a):
    numbers = itertools.count()
    return looping(lambda _: 20 if 400 < next(numbers) < 500 else 1)(a)


def remembered_generator(a):
    def numbers():
        yield from TABLE

    times = numbers()
    return looping(lambda _: next(times))(a)


def remembered_chance(a):
    random.seed(1)
    return looping(lambda _: 1 + int(random.random() > 0.99))(a)


def remembered_numpy_chance(a):
    np.random.seed(1)
    return looping(lambda _: 1 + int(np.random.rand() > 0.99))(a)


def tick(count):
    return 20 if 400 < count < 500 else 1


def remembered_metaclass(a):
    class Meta(type):
        count = 0

        def times(cls):
            Meta.count += 1
            return tick(Meta.count)

    class Made(metaclass=Meta):
        pass

    return looping(lambda _: Made.times())(a)


def remembered_descriptor(a):
    class Count:
        def __init__(self):
            self.count = 0

        def __get__(self, one, kind):
            self.count += 1
            return tick(self.count)

    class Holder:
        times = Count()

    return looping(lambda _: Holder().times)(a)


def remembered_module(a):
    module = types.ModuleType("of_this_test")
    module.count = 0

    def times():
        module.count += 1
        return tick(module.count)

    return looping(lambda _: times())(a)


VARIABLE = contextvars.ContextVar("of_this_test", default=0)


def remembered_context(a):
    VARIABLE.set(0)
    return looping(lambda _: VARIABLE.set(VARIABLE.get() + 1) and tick(VARIABLE.get()))(a)


def remembered_deque(a):
    seen = collections.deque()
    return looping(lambda _: seen.append(1) or tick(len(seen)))(a)


def remembered_bytes(a):
    seen = bytearray()
    return looping(lambda _: seen.append(1) or tick(len(seen)))(a)


def zipped(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i, times in zip(nl.affine_range(TRIPS), TABLE, strict=True):
        tile = load(a, i)
        work(tile, times)
        store(out, i, tile)
    return out


def enumerated(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for at, i in enumerate(nl.affine_range(TRIPS)):
        tile = load(a, i)
        work(tile, 20 if 400 < at < 500 else 1)
        store(out, i, tile)
    return out


def generated(a):
    """The loop is in a generator, its body elsewhere."""

    def indices():
        for i in nl.affine_range(TRIPS):
            yield i + 0

    out, count = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm), 0
    for i in indices():
        count = count + 1
        tile = load(a, i)
        work(tile, 20 if 400 < count < 500 else 1)
        store(out, i, tile)
    return out


def comprehended(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tiles = [load(a, i) for i in nl.affine_range(TRIPS)]
    for i, tile in enumerate(tiles):
        store(out, i, tile)
    return out


def kept_in_a_list(a):
    """What the loop makes is used after it."""
    out = nl.ndarray((128, 128), a.dtype, buffer=nl.shared_hbm)
    parts = []
    for i in nl.affine_range(TRIPS):
        tile, part = load(a, i), nl.ndarray((128, 1), nl.float32)
        nisa.tensor_reduce(part, nl.maximum, tile, axis=1)
        parts.append(part)
    total = nl.ndarray((128, 128), a.dtype)
    nisa.memset(total, 0.0)
    for part in parts:
        nisa.tensor_scalar(total, total, nl.add, part)
    nisa.dma_copy(out, total)
    return out


def trips_by_the_index(a):
    """An inner loop that later iterations alone go through."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(TRIPS):
        tile = load(a, i)
        for _ in nl.affine_range(i - 880):
            work(tile, 20)
        store(out, i, tile)
    return out


def left_early(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(TRIPS):
        if i == 500:
            break
        store(out, i, load(a, i))
    for i in range(500, TRIPS):
        store(out, i, load(a, i))
    return out


def index_used_afterwards(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(TRIPS):
        tile = load(a, i)
        store(out, i, tile)
    work(tile, i)
    store(out, i, tile)
    return out


REMEMBERING = [
    remembered_local, remembered_closure, remembered_list, remembered_dictionary, remembered_set,
    remembered_attribute, remembered_bound_method, remembered_class, remembered_global, remembered_default,
    remembered_function_attribute, remembered_array, remembered_iterator, remembered_count, remembered_generator,
    remembered_metaclass, remembered_descriptor, remembered_module, remembered_context, remembered_deque,
    remembered_bytes, remembered_chance, remembered_numpy_chance, zipped, enumerated, generated, comprehended,
    kept_in_a_list,
    trips_by_the_index,
    left_early, index_used_afterwards,
]  # fmt: skip


@pytest.mark.parametrize("kernel", REMEMBERING, ids=lambda one: one.__name__)
def test_what_iterations_remember_is_not_lost(kernel):
    require_alike(kernel, A)


# what later iterations touch


def beyond_the_end(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(-(-a.shape[0] // 128)):
        store(out, i, load(a, i))
    return out


def not_to_the_end(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(a.shape[0] // 128):
        store(out, i, load(a, i))
    return out


def tail(a):
    """The last tile is a part of one."""
    out, rows = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm), a.shape[0]
    for i in nl.affine_range(-(-rows // 128)):
        count = min(128, rows - i * 128)
        tile = nl.ndarray((count, a.shape[1]), a.dtype)
        nisa.dma_copy(tile, a[i * 128 : i * 128 + count, :])
        nisa.dma_copy(out[i * 128 : i * 128 + count, :], tile)
    return out


def every_other(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(a.shape[0] // 256):
        store(out, 2 * i, load(a, 2 * i))
    return out


def wraps_around(a):
    """A negative index counts from the end."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(a.shape[0] // 128):
        tile = nl.ndarray((128, a.shape[1]), a.dtype)
        for _ in range(5):
            nisa.memset(tile, 0.0)
        nisa.dma_copy(tile[0:1], a[300 - i, :].reshape((1, a.shape[1])))
        store(out, i, tile)
    return out


def scratch(missing):
    def kernel(a):
        """A loop reads what the loop before it wrote, or not quite."""
        middle = nl.ndarray(a.shape, a.dtype, buffer=nl.private_hbm)
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        trips = a.shape[0] // 128
        for i in nl.affine_range(trips - missing):
            tile = load(a, i)
            work(tile, 3)
            store(middle, i, tile)
        for i in nl.affine_range(trips):
            tile = load(middle, i)
            work(tile, 3)
            store(out, i, tile)
        return out

    return kernel


def placed(step):
    def kernel(a):
        """Tiles of the loop are placed by address: over one from before it, in some iteration, if they move."""
        out, width = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm), a.shape[1] * 4
        first = nl.ndarray((128, a.shape[1]), a.dtype, address=(0, 400 * step + width))
        nisa.memset(first, 1.0)
        for i in nl.affine_range(TRIPS):
            tile = nl.ndarray((128, a.shape[1]), a.dtype, address=(0, i * step))
            nisa.dma_copy(tile, a[i * 128 : (i + 1) * 128, :])
            work(tile, 1)
            store(out, i, tile)
        store(out, 0, first)
        return out

    return kernel


@pytest.mark.parametrize(
    ("kernel", "rows"),
    [
        (placed(0), TRIPS * 128),
        (placed(64), TRIPS * 128),
        (beyond_the_end, TRIPS * 128),
        (beyond_the_end, TRIPS * 128 - 77),
        (not_to_the_end, TRIPS * 128 - 77),
        (tail, TRIPS * 128),
        (tail, TRIPS * 128 - 77),
        (every_other, TRIPS * 128),
        (wraps_around, TRIPS * 128),
        (scratch(0), 2 * TRIPS * 128),
        (scratch(1), 2 * TRIPS * 128),
        (scratch(-1), 2 * TRIPS * 128),
    ],
)
def test_later_iterations_touch_what_they_would(kernel, rows):
    require_alike(kernel, Shape((rows, 2048)))


# what is proven all the same


class Layer:
    def __init__(self, depth):
        self.depth = depth

    def __call__(self, tile):
        work(tile, self.depth)


def first_differs(a):
    return looping(lambda i: 20 if i == 0 else 1)(a)


def checked(a):
    def times(i):
        if not 0 <= i < TRIPS:
            raise ValueError(i)
        return 1 if i <= TRIPS else 20

    return looping(times)(a)


def by_a_class(a):
    layer, out = Layer(2), nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(TRIPS):
        tile = load(a, i)
        layer(tile)
        store(out, i, tile)
    return out


def one_ahead(a):
    """The tile of the next iteration is loaded in this one."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tile = load(a, 0)
    for i in nl.affine_range(TRIPS - 1):
        ahead = load(a, i + 1)
        work(tile, 1)
        store(out, i, tile)
        tile = ahead
    store(out, TRIPS - 1, tile)
    return out


def counted_down(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(TRIPS - 1, -1, -1):
        store(out, i, load(a, i))
    return out


def by_length(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(TRIPS):
        tile = nl.ndarray((128, a.shape[1]), a.dtype)
        nisa.dma_copy(tile, a[nl.ds(i * 128, 128), :])
        nisa.dma_copy(out[nl.ds(128 * i, 128)], tile)
    return out


def by_pattern(a):
    out, width = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm), a.shape[1]
    for i in nl.affine_range(TRIPS):
        tile = nl.ndarray((128, width), a.dtype)
        nisa.dma_copy(tile, a.ap([[width, 128], [1, width]], offset=i * 128 * width))
        store(out, i, tile)
    return out


def into_a_tile(a):
    """Every iteration fills a column of a tile from before the loop."""
    out, total = nl.ndarray((128, TRIPS), a.dtype, buffer=nl.shared_hbm), nl.ndarray((128, TRIPS), a.dtype)
    for i in nl.affine_range(TRIPS):
        nisa.tensor_reduce(total[:, i : i + 1], nl.maximum, load(a, i), axis=1)
    nisa.dma_copy(out, total)
    return out


PROVEN = [
    first_differs, checked, by_a_class, one_ahead, counted_down, by_length, by_pattern, into_a_tile, tail, scratch(0)
]  # fmt: skip


@pytest.mark.parametrize("kernel", PROVEN, ids=lambda one: one.__name__)
def test_what_does_not_differ_is_proven(kernel):
    rows = 4 * TRIPS if kernel is PROVEN[-1] else TRIPS
    found = require_alike(kernel, Shape((rows * 128, 2048)))

    assert found is not None
    assert any("extrapolated" in note for note in found.notes)
