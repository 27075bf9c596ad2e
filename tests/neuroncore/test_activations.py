"""Activation functions are within their stated bounds of float64 references from the standard library."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twintrack.neuroncore.emulator.activations import ERROR_ULPS, activate, in_valid_range, valid_range
from twintrack.neuroncore.isa.operators import ACTIVATIONS

SLOPE = 0.25


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x)


def log1p_exp(x):
    return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))


def cdf(x):
    return math.erfc(-x / math.sqrt(2)) / 2


def swish_dx(x):
    return sigmoid(x) + x * sigmoid(x) * sigmoid(-x)


# each by its definition, in float64
REFERENCE = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": sigmoid,
    "relu": lambda x: max(x, 0.0),
    "prelu": lambda x: x if x >= 0 else SLOPE * x,
    "gelu": lambda x: x * cdf(x),
    "gelu_dx": lambda x: cdf(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "gelu_apprx_tanh": lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: swish_dx(1.702 * x),
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": swish_dx,
    "tanh": math.tanh,
    "softplus": log1p_exp,
    "mish": lambda x: x * math.tanh(log1p_exp(x)),
    "erf": math.erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "arctan": math.atan,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sign": lambda x: math.copysign(x != 0, x),
    "abs": abs,
}
LIMITS = {  # at minus and plus infinity
    "copy": (-math.inf, math.inf),
    "square": (math.inf, math.inf),
    "sigmoid": (0, 1),
    "relu": (0, math.inf),
    "prelu": (-math.inf, math.inf),
    "gelu": (0, math.inf),
    "gelu_dx": (0, 1),
    "gelu_apprx_tanh": (0, math.inf),
    "gelu_apprx_sigmoid": (0, math.inf),
    "gelu_apprx_sigmoid_dx": (0, 1),
    "silu": (0, math.inf),
    "silu_dx": (0, 1),
    "tanh": (-1, 1),
    "softplus": (0, math.inf),
    "mish": (0, math.inf),
    "erf": (-1, 1),
    "erf_dx": (0, 0),
    "exp": (0, math.inf),
    "sign": (-1, 1),
    "abs": (math.inf, math.inf),
}


def inputs(name):
    """Over the valid range: dense where functions bend, every binade, far out."""
    rng = np.random.default_rng(5)
    low, high = valid_range(name)
    if name == "reciprocal" or low > 0:
        x = np.exp2(
            np.concatenate([rng.uniform(math.log2(low), math.log2(high), 4000), rng.uniform(-1, 1, 3000)])
        )
        return (x * (rng.choice([-1, 1], x.size) if name == "reciprocal" else 1)).astype(np.float32)
    if math.isfinite(low):
        return rng.uniform(low, high, 8000).astype(np.float32)
    small = np.exp2(rng.uniform(-126, 4, 1500)) * rng.choice([-1, 1], 1500)
    parts = [
        rng.uniform(-15, 15, 6000),
        rng.uniform(-1, 1, 2000),
        rng.uniform(-110, 88, 2000),
        small,
        [0.0, -0.0],
    ]
    return np.concatenate(parts).astype(np.float32)


def test_every_documented_function_is_computed_and_has_a_bound():
    assert set(ACTIVATIONS) == set(REFERENCE) == set(ERROR_ULPS)
    with pytest.raises(KeyError):
        activate("nothing", np.zeros(1, np.float32))


@pytest.mark.parametrize("name", REFERENCE)
def test_a_function_is_within_its_bound(name):
    x = inputs(name)
    got = activate(name, x, parameter=SLOPE)
    assert got.dtype == np.float32
    assert got.shape == x.shape
    want = np.array([REFERENCE[name](one) for one in x.tolist()])
    with np.errstate(under="ignore"):
        unit = np.maximum(np.spacing(np.abs(want).astype(np.float32)), np.float32(2.0**-143)).astype(
            np.float64
        )
    error = np.abs(got - want)
    if name.endswith("_dx"):
        error[error < 1e-9] = 0  # near their zeros
    # the references themselves err by some units of float64
    assert (error / unit).max() <= ERROR_ULPS[name] + 1e-6


@pytest.mark.parametrize("name", REFERENCE)
def test_nan_gives_nan_and_infinities_the_limits(name):
    x = np.float32([-np.inf, np.inf, np.nan])
    got = activate(name, x, parameter=SLOPE)
    assert np.isnan(got[2])
    if name in LIMITS:
        np.testing.assert_array_equal(got[:2], np.float32(LIMITS[name]))


@pytest.mark.parametrize("name", REFERENCE)
def test_shape_and_strides_do_not_matter(name):
    x = np.random.default_rng(6).uniform(0.1, 1.5, (6, 20, 200)).astype(np.float32)
    whole = activate(name, x)
    np.testing.assert_array_equal(activate(name, x[::2, :, ::3]), whole[::2, :, ::3])
    np.testing.assert_array_equal(activate(name, x.T), whole.T)
    assert activate(name, x[:0]).shape == (0, 20, 200)


def test_no_function_changes_its_input():
    for name in REFERENCE:
        x = np.linspace(-3, 3, 50, dtype=np.float32)
        activate(name, x)
        np.testing.assert_array_equal(x, np.linspace(-3, 3, 50, dtype=np.float32))


def test_the_sine_beyond_pi_is_the_documented_cubic():
    """``nki.isa.activation(op=nl.sin)`` at 9.0 returns about 27.65, by the documentation."""
    got = activate("sin", np.float32([9.0, -9.0, np.inf, -np.inf, 3.5]))
    np.testing.assert_allclose(got[:2], [27.65, -27.65], atol=0.01)
    np.testing.assert_array_equal(got[2:4], [np.inf, -np.inf])
    assert abs(got[4] - math.sin(3.5)) < 1e-3  # near pi the cubic is still the sine
    pi = np.float32(np.pi)
    around = activate(
        "sin", np.array([np.nextafter(pi, np.float32(0)), pi, np.nextafter(pi, np.float32(4))], np.float32)
    )
    assert (np.diff(around) < 0).all()


def test_prelu_takes_a_slope_for_each_partition():
    x = np.float32([[-1, 2], [-1, 2]])
    got = activate("prelu", x, parameter=np.float32([[0.5], [3]]))
    np.testing.assert_array_equal(got, [[-0.5, 2], [-3, 2]])
    np.testing.assert_array_equal(activate("prelu", x), [[0, 2], [0, 2]])


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("sin", [3.1415927, -3.1415927, 0], [3.1415930, -4, np.nan, np.inf]),
        ("arctan", [1.5707964, -1], [1.5708, -2]),
        ("log", [2.0**-64, 2.0**64, 1], [2.0**-65, 2.0**65, 0, -1]),
        ("sqrt", [2.0**-116, 2.0**118], [0, 2.0**119, -1]),
        ("rsqrt", [2.0**-87, 2.0**97], [0, 2.0**98]),
        ("reciprocal", [2.0**-42, -(2.0**42)], [0, 2.0**43, -(2.0**-43)]),
        ("exp", [np.inf, -np.inf, np.nan, 1e30], []),
    ],
)
def test_the_valid_range_is_the_documented_one(name, inside, outside):
    assert in_valid_range(name, np.float32(inside)).all()
    assert not in_valid_range(name, np.float32(outside)).any()


def test_outside_its_range_a_function_is_ieee_arithmetic():
    x = np.float32([0.0, -1.0])
    for name, want in (("log", [-np.inf, np.nan]), ("sqrt", [0, np.nan]), ("rsqrt", [np.inf, np.nan])):
        np.testing.assert_array_equal(activate(name, x), np.float32(want))
    np.testing.assert_array_equal(activate("reciprocal", np.float32([0.0, -0.0])), [np.inf, -np.inf])
