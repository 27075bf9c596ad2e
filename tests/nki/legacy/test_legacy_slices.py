"""Slices of tiles of the older dialect are tiles: assigned, stored, computed with, sliced again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from twintrack.nki import legacy as nki
from twintrack.nki.legacy import language as nl
from twintrack.nki.legacy.tile import Tile

_A = np.random.default_rng(0).random((64, 96), np.float32)
_KEYS = [
    pytest.param(np.s_[0:32, :], id="rows"),
    pytest.param(np.s_[:, 8:24], id="columns"),
    pytest.param(np.s_[0:32, 8:24], id="both"),
    pytest.param(np.s_[32:64, -16:], id="from-the-end"),
    pytest.param(np.s_[0:32], id="fewer"),
    pytest.param(np.s_[..., 0:7], id="ellipsis"),
    pytest.param(np.s_[:, 1:20:3], id="step"),
    pytest.param(np.s_[:, :], id="whole"),
]


def _run(body: Callable[[Any], Any]) -> Any:
    @nki.jit
    def kernel(x: Any) -> Any:
        return body(nl.load(x))

    return kernel(_A)


@pytest.mark.parametrize("key", _KEYS)
def test_a_slice_is_assigned_to_a_slice(key: Any) -> None:
    def body(t: Any) -> Any:
        u = nl.zeros((nl.par_dim(64), 96), dtype=t.dtype)
        u[key] = t[key]
        return u

    expected = np.zeros_like(_A)
    expected[key] = _A[key]
    assert np.array_equal(_run(body), expected)


@pytest.mark.parametrize("key", _KEYS)
def test_a_slice_is_stored_to_a_slice(key: Any) -> None:
    def body(t: Any) -> Any:
        out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros(t.shape, dtype=t.dtype))
        nl.store(out[key], t[key])
        return out

    expected = np.zeros_like(_A)
    expected[key] = _A[key]
    assert np.array_equal(_run(body), expected)


@pytest.mark.parametrize("key", _KEYS)
def test_slices_are_computed_with_and_changed_in_place(key: Any) -> None:
    def body(t: Any) -> Any:
        t[key] = (t[key] + t[key]) * 3 - t[key]
        t[key] += 1
        return t

    expected = _A.copy()
    expected[key] = 5 * _A[key] + 1
    assert np.allclose(_run(body), expected, rtol=1e-6)


def test_every_view_of_a_tile_is_a_tile_with_all_its_own_state() -> None:
    """However a view was made: what it has is there at once, and is its own."""

    def body(t: Any) -> Any:
        views = [
            t[0:32, :], t[:, 0:4], t[0:32, 5], t[0], t[...], t[:, nl.ds(1, 3)], t[0:32, :][:, 1:3],
            t.slice(1, 0, 8, 2), t.select(1, 3), t.reshape((64, 2, 48)), t.expand_dims(1), t.view(nl.int32),
            t.ap([[96, 64], [2, 48]]), t.permute((0, 1)), t[:, 0:1].broadcast(1, 5), t.flatten_dims(1, 1),
        ]  # fmt: skip
        for view in views:
            assert type(view) is Tile
            assert (view._late, view._limits) == (None, ())
            assert all(
                hasattr(view, slot) for kind in Tile.__mro__ for slot in getattr(kind, "__slots__", ())
            )
        return t

    assert np.array_equal(_run(body), _A)
