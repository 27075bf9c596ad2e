"""Where an allocation of the dialect until 2.26 puts a tile: whole numbers, whole elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twintrack.errors import KernelError
from twintrack.nki import legacy as nki
from twintrack.nki.legacy import compiler as ncc
from twintrack.nki.legacy import language as nl

SBUF, PSUM = ncc.sbuf, ncc.psum

WRONG = {
    "a fraction as base": (lambda: SBUF.mod_alloc(base_addr=2.5), "a whole number for the base of an allocation"),
    "a truth value as base": (lambda: SBUF.mod_alloc(base_addr=True), "a whole number for the base"),
    "between elements": (lambda: SBUF.mod_alloc(base_addr=1), "a multiple of the 4 bytes of float32"),
    "no tiles": (lambda: SBUF.mod_alloc(base_addr=0, num_free_tiles=(0,)), "numbers of tiles from 1"),
    "less than none": (lambda: SBUF.mod_alloc(base_addr=0, num_free_tiles=(-1,)), "numbers of tiles from 1"),
    "a fraction of tiles": (lambda: SBUF.mod_alloc(base_addr=0, num_free_tiles=(2.0,)), "a whole number for a number"),
    "a fraction of banks": (lambda: PSUM.mod_alloc(base_bank=0.5), "a whole number for the base"),
    "a fractional address": (lambda: SBUF.alloc(lambda *_: (0, 8.0)), "a whole number for the allocation function's"),
    "no address": (lambda: SBUF.alloc(lambda *_: (0, None)), "a whole number for the allocation function's"),
    "an address in words": (lambda: SBUF.alloc(lambda *_: "ab"), "from the allocation function"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("blocks", [(), (2,)])
def test_an_address_that_is_none_is_refused_at_the_authors_line(name: str, blocks: tuple[int, ...]) -> None:
    place, message = WRONG[name]

    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((8, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray((*blocks, nl.par_dim(8), 4), dtype=a.dtype, buffer=place())
        tile = held[0] if blocks else held
        tile[...] = nl.load(a)
        nl.store(out, tile)
        return out

    with pytest.raises(KernelError, match=message) as caught:
        kernel(np.ones((8, 4), np.float32))
    assert __file__ in str(caught.value)


def test_numpys_integers_are_addresses() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray((8, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        place = SBUF.mod_alloc(base_addr=np.int64(64), num_free_tiles=(np.int32(2),))
        held = nl.ndarray((2, nl.par_dim(8), 4), dtype=a.dtype, buffer=place)
        held[1] = nl.load(a)
        nl.store(out, held[1])
        return out

    np.testing.assert_array_equal(kernel(np.ones((8, 4), np.float32)), np.ones((8, 4), np.float32))
