"""Functions of each element of a tile against NumPy and the math module in float64."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from nki_language_cases import on_tiles, rounded

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import language as nl

_erf = np.vectorize(math.erf)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softplus(x):
    return np.logaddexp(0, x)


def _density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _normal(x):
    return (1 + _erf(x / math.sqrt(2))) / 2


def _silu_dx(x):
    return _sigmoid(x) * (1 + x * (1 - _sigmoid(x)))


REFERENCE = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * _normal(x),
    "gelu_dx": lambda x: _normal(x) + x * _density(x),
    "gelu_apprx_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu_apprx_sigmoid": lambda x: x * _sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: _sigmoid(1.702 * x) * (1 + 1.702 * x * (1 - _sigmoid(1.702 * x))),
    "silu": lambda x: x * _sigmoid(x),
    "silu_dx": _silu_dx,
    "softplus": _softplus,
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "erf": _erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "sign": np.sign,
    "abs": np.abs,
    "square": np.square,
    "negative": np.negative,
    "copy": lambda x: x,
    "cos": np.cos,
    "sin": np.sin,
}
POSITIVE = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x}


@pytest.mark.parametrize("name", [*REFERENCE, *POSITIVE, "arctan"])
@pytest.mark.parametrize("region", ["sbuf", "psum"])
def test_functions_agree_with_float64(name, region):
    low, high = (0.01, 50) if name in POSITIVE else (-1.5, 1.5) if name == "arctan" else (-6, 6)
    x = np.linspace(low, high, 4 * 64, dtype=np.float32).reshape(4, 64)
    reference = {**REFERENCE, **POSITIVE, "arctan": np.arctan}[name]
    found = on_tiles(getattr(nl, name), x, region=region)

    assert found.dtype == np.float32
    np.testing.assert_allclose(found, reference(x.astype(np.float64)), rtol=2e-6, atol=5e-7)


@pytest.mark.parametrize("name", ["exp", "silu", "square", "floor", "reciprocal", "negative", "sin", "copy"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_narrow_type_is_rounded_once_and_kept(name, dtype):
    kind = DTYPES[dtype]
    x = np.linspace(0.3, 4, 64, dtype=np.float32).reshape(2, 32).astype(kind.stored)
    reference = {**REFERENCE, **POSITIVE, "floor": np.floor}[name]
    found = on_tiles(getattr(nl, name), x)
    expected = rounded(reference(x.astype(np.float64)), dtype)

    assert found.dtype == kind.stored
    # at most one number off, where the float32 value is within its error of a tie
    near = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    assert (
        near <= float(np.finfo(np.float32).eps) + np.abs(np.spacing(expected.astype(np.float32)))
    ).mean() > 0.95
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=2.0**-7)


def test_dtype_of_the_result_can_be_named():
    x = np.array([[0.0, 1.0]], np.float32)
    assert on_tiles(lambda t: nl.exp(t, dtype=nl.bfloat16), x).dtype == DTYPES["bfloat16"].stored
    assert on_tiles(lambda t: nl.copy(t, dtype=nl.int32), x).dtype == np.int32
    np.testing.assert_array_equal(on_tiles(lambda t: nl.floor(nl.add(t, 0.75), dtype=nl.int8), x), [[0, 1]])


NUMBERS = st.floats(width=32, allow_nan=True, allow_infinity=True)
NEAR_WHOLE = st.integers(-(2**25), 2**25).flatmap(
    lambda n: st.sampled_from([float(n), float(np.nextafter(np.float32(n), np.float32(np.inf))), n + 0.5])
)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
@settings(max_examples=40, deadline=None)
@given(values=st.lists(NUMBERS | NEAR_WHOLE, min_size=8, max_size=8))
def test_whole_numbers_are_exact_for_every_float(name, values):
    x = np.array([values], np.float32)
    found = on_tiles(getattr(nl, name), x)

    np.testing.assert_array_equal(found, getattr(np, name)(x))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_whole_numbers_of_integers_are_themselves(name):
    x = np.array([[-(2**31), 2**31 - 1, 7]], np.int32)
    np.testing.assert_array_equal(on_tiles(getattr(nl, name), x), x)


ANGLES = st.floats(-(2.0**18), 2.0**18, width=32) | st.integers(-80000, 80000).map(
    lambda k: float(np.float32(k * math.pi / 2))
)


@pytest.mark.parametrize("name", ["sin", "cos"])
@settings(max_examples=60, deadline=None)
@given(values=st.lists(ANGLES, min_size=16, max_size=16))
def test_sine_and_cosine_are_within_their_bound_over_the_stated_domain(name, values):
    x = np.array([values], np.float32)
    found = on_tiles(getattr(nl, name), x)

    np.testing.assert_allclose(found, getattr(np, name)(x.astype(np.float64)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_beyond_the_domain_sine_and_cosine_stay_bounded(name):
    x = np.array([[2.0**19, -(2.0**30), 3e38, np.inf, -np.inf]], np.float32)
    assert (np.abs(on_tiles(getattr(nl, name), x)) <= 1).all()
    assert np.isnan(on_tiles(getattr(nl, name), np.array([[np.nan]], np.float32))).all()


def test_tangent_is_the_quotient():
    x = np.linspace(-1.4, 1.4, 101, dtype=np.float32).reshape(1, 101)
    x = np.concatenate([x, x + np.float32(100 * math.pi)])
    np.testing.assert_allclose(on_tiles(nl.tan, x), np.tan(x.astype(np.float64)), rtol=3e-5, atol=2e-6)


def test_a_number_is_refused():
    with pytest.raises(KernelError, match=r"a tile for x of nl.exp"):
        on_tiles(lambda t: nl.exp(1.0), np.ones((1, 1), np.float32))
