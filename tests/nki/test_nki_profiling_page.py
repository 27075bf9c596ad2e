"""The timeline on the page of a kernel whose long loop was traced in part."""

from __future__ import annotations

import pytest

from twintrack.neuroncore.timing.page import timeline_of
from twintrack.neuroncore.timing.profile import counted
from twintrack.nki import Shape, options_from_environment
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.profiling import profile

TRIPS = 1024


def exponentials(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(TRIPS):
        tile = nl.ndarray((128, a.shape[1]), a.dtype)
        nisa.dma_copy(tile, a[i * 128 : (i + 1) * 128, :])
        nisa.activation(tile, nl.exp, tile)
        nisa.activation(tile, nl.tanh, tile)
        nisa.dma_copy(out[i * 128 : (i + 1) * 128, :], tile)
    return out


@pytest.mark.parametrize("extrapolated", [True, False])
def test_it_spans_what_was_traced_and_says_so_where_that_is_a_part(extrapolated):
    options = options_from_environment({}, "trn2")
    shape = Shape((TRIPS * 128, 2048))
    made = profile(exponentials, shape, options=options, what_if=False, extrapolate=extrapolated)
    tracks = timeline_of(made)
    last = max(span.start + span.length for lane in tracks.lanes for span in lane.spans)
    assert last > 0.9 * tracks.length
    assert ("the part that was traced" in tracks.note) is extrapolated
    assert (tracks.length < 0.5e12 * made.seconds) is extrapolated


def test_a_count_of_one_is_singular():
    assert [counted(count, "row") for count in (0, 1, 2, 1000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]
