"""Reductions and normalisations of ``nki.language`` against NumPy float64."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from nki_language_cases import on_tiles, rounded

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import language as nl

REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean, "prod": np.prod}


@st.composite
def _cases(draw):
    shape = draw(st.sampled_from([(4, 6), (1, 1), (128, 3), (3, 2, 5), (2, 3, 2, 4), (2, 2, 1, 3, 2)]))
    count = draw(st.integers(1, len(shape) - 1))
    axes = tuple(range(len(shape) - count, len(shape)))
    if draw(st.booleans()):
        axes = tuple(axis - len(shape) for axis in axes)
    seed = draw(st.integers(0, 2**32 - 1))
    dtype = draw(st.sampled_from(["float32", "bfloat16", "float16", "int32"]))
    values = np.random.default_rng(seed).integers(-4, 5, shape) / (1 if dtype == "int32" else 4)
    return values.astype(DTYPES[dtype].stored), axes, draw(st.booleans()), dtype


def _tile_shape(shape):
    return shape if len(shape) > 1 else (*shape, 1)


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=25, deadline=None)
@given(case=_cases())
def test_reductions_agree_with_numpy(name, case):
    x, axes, keepdims, dtype = case
    axis = axes[0] if len(axes) == 1 else list(axes)
    found = on_tiles(lambda t: getattr(nl, name)(t, axis=axis, keepdims=keepdims), x)
    exact = REDUCTIONS[name](x.astype(np.float64), axis=axes, keepdims=keepdims)

    assert found.dtype == x.dtype
    assert found.shape == _tile_shape(exact.shape)
    np.testing.assert_array_equal(
        found.astype(np.float64).reshape(exact.shape), rounded(exact, dtype).astype(np.float64)
    ) if name != "mean" else np.testing.assert_allclose(
        found.astype(np.float64).reshape(exact.shape),
        rounded(exact, dtype).astype(np.float64),
        rtol={"float32": 1e-6, "bfloat16": 2.0**-7, "float16": 2.0**-10, "int32": 0}[dtype],
        atol=1e-7 if dtype != "int32" else 1,
    )


@settings(max_examples=25, deadline=None)
@given(case=_cases())
def test_variance_keeps_its_axes_and_agrees_with_numpy(case):
    x, axes, keepdims, _ = case
    found = on_tiles(lambda t: nl.var(t, axis=axes, dtype=nl.float32, keepdims=keepdims), x)

    np.testing.assert_allclose(
        found, np.var(x.astype(np.float64), axis=axes, keepdims=True), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("shape", [(4, 1), (4, 5), (2, 3, 4)])
def test_all_gives_one_or_zero_whatever_the_values(shape):
    x = np.random.default_rng(0).integers(0, 4, shape).astype(np.float32) * 2.5
    x[0] = 5.0
    axes = tuple(range(1, len(shape)))
    found = on_tiles(lambda t: nl.all(t, axis=axes), x)

    np.testing.assert_array_equal(found[:, 0], np.all(x, axis=axes).astype(np.float32))


def test_a_sum_of_narrow_numbers_is_rounded_once():
    x = np.ones((2, 1000), DTYPES["bfloat16"].stored)

    np.testing.assert_array_equal(on_tiles(lambda t: nl.sum(t, axis=1), x).astype(np.float64), [[1000.0]] * 2)


def test_reductions_read_psum():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(
        on_tiles(lambda t: nl.max(t, axis=1, keepdims=True), x, region="psum"), [[3], [7], [11]]
    )


@settings(max_examples=25, deadline=None)
@given(case=_cases())
def test_softmax_agrees_with_float64(case):
    x, axes, _, dtype = case
    if dtype == "int32":
        x = x.astype(np.float32)
    found = on_tiles(lambda t: nl.softmax(t, axis=axes), x)
    wide = x.astype(np.float64)
    raised = np.exp(wide - wide.max(axis=axes, keepdims=True))
    expected = raised / raised.sum(axis=axes, keepdims=True)

    assert found.dtype == x.dtype
    tolerance = {"bfloat16": 2.0**-7, "float16": 2.0**-9}.get(dtype, 2e-6)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=1e-7)


def test_softmax_of_large_numbers_does_not_overflow():
    x = np.array([[1e30, 1e30, -1e30]], np.float32)
    np.testing.assert_allclose(on_tiles(nl.softmax, x), [[0.5, 0.5, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("weights", [(4, 32), (4, 1)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rms_norm_agrees_with_float64(weights, dtype):
    draw = np.random.default_rng(3)
    x = draw.standard_normal((4, 32)).astype(DTYPES[dtype].stored)
    w = draw.standard_normal(weights).astype(DTYPES[dtype].stored)
    found = on_tiles(lambda t, v: nl.rms_norm(t, v, axis=1, n=32, epsilon=1e-3), x, w)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).sum(1, keepdims=True) / 32 + 1e-3) * w.astype(np.float64)

    assert found.dtype == x.dtype
    np.testing.assert_allclose(
        found.astype(np.float64), expected, rtol=1e-5 if dtype == "float32" else 2.0**-7
    )


# limits


@pytest.mark.parametrize("name", [*REDUCTIONS, "var", "all", "softmax"])
@pytest.mark.parametrize("axis", [0, (0, 1), -2])
def test_the_partition_axis_is_refused_with_a_way_out(name, axis):
    with pytest.raises(KernelError, match="free axes") as caught:
        on_tiles(lambda t: getattr(nl, name)(t, axis=axis), np.ones((4, 4), np.float32))
    assert "transpose" in str(caught.value)


@pytest.mark.parametrize("axis", [1, (1, 3), 4])
def test_axes_must_be_the_last_ones(axis):
    with pytest.raises(KernelError, match="last axes"):
        on_tiles(lambda t: nl.sum(t, axis=axis), np.ones((2, 3, 4, 5), np.float32))


def test_rms_norm_weights_of_one_partition_are_refused():
    with pytest.raises(KernelError, match=r"nl.broadcast_to"):
        on_tiles(
            lambda t, v: nl.rms_norm(t, v, axis=1, n=8),
            np.ones((4, 8), np.float32),
            np.ones((1, 8), np.float32),
        )
