"""Long loops of the dialect until 2.26: extrapolated only where all iterations do the same."""

from __future__ import annotations

import numpy as np
import pytest

from twintrack.nki import legacy as nki
from twintrack.nki.arrays import Shape
from twintrack.nki.legacy import language as nl
from twintrack.nki.profiling import profile

TRIPS = 900


def require_alike(kernel, rows=TRIPS * 128):
    shape = Shape((rows, 2048))
    whole = profile(kernel, shape, chip="trn2", what_if=False, extrapolate=False)
    quick = profile(kernel, shape, chip="trn2", what_if=False)
    assert quick.seconds == pytest.approx(whole.seconds, rel=1e-3)
    assert (quick.hbm_read_bytes, quick.hbm_written_bytes) == (whole.hbm_read_bytes, whole.hbm_written_bytes)
    return quick


def masking(mask):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        ix, iy = nl.mgrid[0:128, 0 : a.shape[1]]
        for i in nl.affine_range(-(-a.shape[0] // 128)):
            there = i * 128 + ix < a.shape[0]
            tile = nl.load(a[i * 128 + ix, iy], mask=there)
            more = nl.exp(tile, mask=mask(i, ix))
            nl.store(out[i * 128 + ix, iy], nl.copy(tile), mask=there)
            del more
        return out

    return kernel


MASKS = {
    "in between": lambda i, ix: (i * 128 + ix >= 51_200) & (i * 128 + ix < 64_000),
    "later": lambda i, ix: i * 128 + ix >= 51_200,
    "earlier": lambda i, ix: i * 128 + ix < 51_200,
    "reversed": lambda i, ix: (64_000 - i * 128 - ix > 0) & (51_200 - i * 128 - ix <= 0),
    "arange": lambda i, ix: (nl.arange(i * 128, i * 128 + 128)[:, None] >= 51_200) & (ix + i * 128 < 64_000),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_later_iterations_are_not_left_out(name):
    require_alike(masking(MASKS[name]))


def test_a_tail_that_a_mask_leaves_out_is_not_lost():
    require_alike(masking(lambda i, ix: None), rows=TRIPS * 128 - 77)


@pytest.mark.parametrize("mask", [lambda i, ix: None, lambda i, ix: i * 128 + ix < TRIPS * 128])
def test_a_mask_that_leaves_out_nothing_is_proven(mask):
    found = require_alike(masking(mask))

    assert any("extrapolated" in note for note in found.notes)


def test_an_index_that_knows_its_loop_is_proven():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, a.shape[1]), nl.float32, buffer=nl.shared_hbm)
        total = nl.zeros((128, a.shape[1]), nl.float32)
        for i in nl.affine_range(TRIPS):
            tile = nl.load(a[nl.ds(i * 128, 128), :])
            total[...] = nl.loop_reduce(tile, np.add, [i])
        nl.store(out, total)
        return out

    found = require_alike(kernel)

    assert any("extrapolated" in note for note in found.notes)
