"""Long affine loops are extrapolated to what tracing them whole gives, or not at all."""

from __future__ import annotations

import pytest

from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape
from twintrack.nki.profiling import profile

AGREE = 1e-3
TRIPS = 1024
ROWS = TRIPS * 128


def out_like(a):
    return nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)


def load(a, i, dtype=None):
    tile = nl.ndarray((128, a.shape[1]), dtype or a.dtype)
    nisa.dma_copy(tile, a[i * 128 : (i + 1) * 128, :])
    return tile


def keep(out, i, tile):
    nisa.dma_copy(out[i * 128 : (i + 1) * 128, :], tile)


def copies(a):
    out = out_like(a)
    for i in nl.affine_range(TRIPS):
        keep(out, i, load(a, i))
    return out


def adds(a):
    out = out_like(a)
    for i in nl.affine_range(TRIPS):
        tile = load(a, i)
        nisa.tensor_tensor(tile, tile, tile, op=nl.add)
        keep(out, i, tile)
    return out


def activations(a):
    out = out_like(a)
    for i in nl.affine_range(TRIPS):
        tile = load(a, i)
        nisa.activation(tile, nl.exp, tile)
        nisa.activation(tile, nl.tanh, tile)
        keep(out, i, tile)
    return out


def softmaxes(a):
    out = out_like(a)
    for i in nl.affine_range(TRIPS):
        tile, top, total = load(a, i), nl.ndarray((128, 1), nl.float32), nl.ndarray((128, 1), nl.float32)
        nisa.tensor_reduce(top, nl.maximum, tile, axis=1, negate=True)
        nisa.activation(tile, nl.exp, tile, bias=top)
        nisa.tensor_reduce(total, nl.add, tile, axis=1)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(tile, tile, nl.multiply, total)
        keep(out, i, tile)
    return out


def transposes(a):
    out = nl.ndarray((TRIPS, 128, 128), a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(TRIPS):
        tile, turned = load(a, i), nl.ndarray((128, 128), a.dtype, buffer=nl.psum)
        nisa.nc_transpose(turned, tile[:, 0:128])
        kept = nl.ndarray((128, 128), a.dtype)
        nisa.tensor_copy(kept, turned)
        nisa.dma_copy(out[i], kept)
    return out


def scans(a):
    out = out_like(a)
    for i in nl.affine_range(TRIPS):
        tile, summed = load(a, i), nl.ndarray((128, a.shape[1]), nl.float32)
        nisa.tensor_tensor_scan(summed, tile, tile, 0.0, nl.multiply, nl.add)
        keep(out, i, summed)
    return out


def products(a):
    """A loop whose body has a loop of its own, with PSUM banks in turn."""
    weights = nl.ndarray((128, 128), a.dtype)
    nisa.memset(weights, 1.0)
    out = nl.ndarray((a.shape[0], 256), a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(TRIPS):
        tile, kept = load(a, i), nl.ndarray((128, 256), a.dtype)
        for half in nl.affine_range(2):
            psum = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(psum, weights, tile[:, half * 128 : half * 128 + 128])
            nisa.tensor_copy(kept[:, half * 128 : half * 128 + 128], psum)
        keep(out, i, kept)
    return out


def shared_accumulator(a):
    """Every iteration adds to one tile: a dependence from iteration to iteration."""
    out = nl.ndarray((128, a.shape[1]), nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, a.shape[1]), nl.float32)
    nisa.memset(total, 0.0)
    for i in nl.affine_range(TRIPS):
        nisa.tensor_tensor(total, total, load(a, i), op=nl.add)
    nisa.dma_copy(out, total)
    return out


def two_loops(a):
    out = out_like(a)
    for i in nl.affine_range(TRIPS):
        keep(out, i, load(a, i))
    again = out_like(a)
    for i in nl.affine_range(TRIPS):
        tile = load(a, i)
        nisa.activation(tile, nl.sigmoid, tile)
        keep(again, i, tile)
    return out, again


def with_ends(a):
    """Work before and after the loop."""
    out = out_like(a)
    first = load(a, 0)
    for _ in range(5):
        nisa.reciprocal(first, first)
    for i in nl.affine_range(TRIPS):
        tile = load(a, i)
        nisa.tensor_tensor(tile, tile, first, op=nl.multiply)
        keep(out, i, tile)
    for _ in range(5):
        nisa.reciprocal(first, first)
    keep(out, 0, first)
    return out


KERNELS = (
    copies,
    adds,
    activations,
    softmaxes,
    transposes,
    scans,
    products,
    shared_accumulator,
    two_loops,
    with_ends,
)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_an_extrapolated_time_is_that_of_the_whole_kernel(kernel, chip):
    whole = profile(kernel, Shape((ROWS, 2048)), chip=chip, extrapolate=False, what_if=False)
    quick = profile(kernel, Shape((ROWS, 2048)), chip=chip, what_if=False)

    assert quick.seconds == pytest.approx(whole.seconds, rel=AGREE)
    assert quick.flops == whole.flops
    assert (quick.hbm_read_bytes, quick.hbm_written_bytes) == (whole.hbm_read_bytes, whole.hbm_written_bytes)
    assert {name: use.instructions for name, use in quick.engines.items()} == {
        name: use.instructions for name, use in whole.engines.items()
    }
    for name, use in quick.engines.items():
        assert use.active_seconds == pytest.approx(whole.engines[name].active_seconds, rel=0.01, abs=1e-9)


def test_most_of_these_kernels_are_extrapolated_and_say_so():
    told = [
        bool(profile(kernel, Shape((ROWS, 2048)), chip="trn2", what_if=False).notes) for kernel in KERNELS
    ]

    assert sum(told) >= 8, dict(zip([one.__name__ for one in KERNELS], told, strict=True))


def chain(a):
    """Loads, two engines and stores that compete for the DMA engines: long before it is steady it looks so."""
    out = out_like(a)
    for i in nl.affine_range(TRIPS):
        tile = load(a, i)
        warm, done = nl.ndarray(tile.shape, nl.float32), nl.ndarray(tile.shape, a.dtype)
        nisa.activation(warm, nl.exp, tile)
        nisa.tensor_tensor(done, warm, tile, op=nl.add)
        keep(out, i, done)
    return out


@pytest.mark.parametrize("width", [896, 960, 1024, 1100])
def test_a_loop_is_not_taken_for_steady_while_loads_still_run_ahead(width):
    shape = Shape((ROWS, width), "bfloat16")
    whole = profile(chain, shape, chip="trn2", extrapolate=False, what_if=False)
    quick = profile(chain, shape, chip="trn2", what_if=False)

    assert quick.seconds == pytest.approx(whole.seconds, rel=AGREE)
    assert quick.dma.share <= 1.0


def uneven(a):
    """Later iterations do more: not affine."""
    out = out_like(a)
    for i in nl.affine_range(TRIPS):
        tile = load(a, i)
        for _ in range(i % 4):  # no two successive iterations alike
            nisa.activation(tile, nl.exp, tile)
        keep(out, i, tile)
    return out


def gathering(a, rows):
    """Addresses that data decide."""
    out = out_like(a)
    for i in nl.affine_range(TRIPS):
        at = nl.ndarray((128, 1), nl.int32)
        nisa.dma_copy(at, rows[i * 128 : (i + 1) * 128, :])
        tile = nl.ndarray((128, a.shape[1]), a.dtype)
        nisa.dma_copy(tile, a.ap([[a.shape[1], 128], [1, a.shape[1]]], vector_offset=at, indirect_dim=0))
        keep(out, i, tile)
    return out


def sequential(a):
    out = out_like(a)
    for i in nl.sequential_range(TRIPS):
        keep(out, i, load(a, i))
    return out


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        (uneven, [Shape((ROWS, 2048))]),
        (gathering, [Shape((ROWS, 2048)), Shape((ROWS, 1), "int32")]),
        (sequential, [Shape((ROWS, 2048))]),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_loop_that_is_not_proven_affine_is_timed_whole(kernel, shapes):
    whole = profile(kernel, *shapes, chip="trn2", extrapolate=False, what_if=False)
    quick = profile(kernel, *shapes, chip="trn2", what_if=False)

    assert quick.seconds == whole.seconds
    assert quick.engines == whole.engines
    assert not quick.notes


def test_a_broken_kernel_gives_its_own_error_and_no_time():
    def broken(a):
        out = out_like(a)
        for i in nl.affine_range(TRIPS):
            tile = nl.ndarray((128, 2048), nl.float32)
            if i < TRIPS - 1:
                nisa.dma_copy(tile, a[i * 128 : (i + 1) * 128, :])
            keep(out, i, tile)
        return out

    with pytest.raises(Exception, match="written before it is read"):
        profile(broken, Shape((ROWS, 2048)), chip="trn2", extrapolate=False)
