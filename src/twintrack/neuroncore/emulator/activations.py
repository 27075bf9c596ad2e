"""Activation functions of the Scalar Engine: float32 in, float32 out, with a stated error bound.

The engine approximates them by piecewise polynomials that are not published; here is the function itself, within
``ERROR_ULPS`` units in the last place of float32 of the exact value (results below ``2**-120`` within that many units
of ``2**-143``, and near the zeros of a derivative within ``1e-9``). Hot functions use NumPy's float32 loops, the
others are computed in float64 and rounded.

Inputs outside the valid range (``valid_range``) "generate invalid output" on the device. For ``sin`` the outcome is
documented: no range reduction, a cubic beyond ``[-pi, pi]``, about 27.65 at 9, which the Taylor cubic at ``pi`` gives.
The others give here what IEEE arithmetic gives; ``--check all`` refuses what is not ``in_valid_range``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator.quiet import silent
from twintrack.neuroncore.isa.operators import ACTIVATIONS

__all__ = ["ERROR_ULPS", "activate", "in_valid_range", "valid_range"]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

ERROR_ULPS: Mapping[str, float] = MappingProxyType(
    dict.fromkeys(ACTIVATIONS, 1.0)
    | {"copy": 0.0, "relu": 0.0, "abs": 0.0, "sign": 0.0}
    | {"exp": 3.0, "log": 4.0, "tanh": 4.0, "sin": 2.0, "sigmoid": 5.0, "silu": 6.0, "rsqrt": 1.5}
)
"""By function: largest distance from the exact value, in units in the last place of float32."""

_BLOCK = 8192  # elements computed in float64 at a time, so that intermediates stay in the cache
_ONE = np.float32(1)
_PI = np.float32(np.pi)
_FAR = 40.0  # beyond it (in float64) a Gaussian factor is zero and a logistic one is one or below any float32
_LOGISTIC = 1.702  # of the sigmoid approximation (Hendrycks and Gimpel, arXiv:1606.08415, section 2)
_TANH_CUBIC = 0.044715  # of the tanh approximation (same place)


def activate(
    name: str, x: Float32, *, parameter: float | npt.NDArray[Any] = 0.0, out: Float32 | None = None
) -> Float32:
    """The function of every element.

    Args:
        name: of an activation function.
        x: float32 of any shape.
        parameter: slope of ``prelu`` below zero, one or one for each partition; others take no notice.

        out: where results may be computed into; it may be ``x``.

    Returns:
        float32 of the same shape: ``out``, ``x`` itself (for ``copy``) or a new array. NaN gives NaN; infinities give
        the limits.

    Raises:
        KeyError: if there is no such function.
    """
    with silent():
        if out is not None and name in _UFUNCS:
            return _UFUNCS[name](x, out=out)  # type: ignore[no-any-return]
        if name in _SINGLE:
            return _SINGLE[name](x)
        if name == "prelu":
            return np.where(x >= 0, x, x * np.asarray(parameter, dtype=np.float32))
        return _in_double(_DOUBLE[name], x)


def valid_range(name: str) -> tuple[float, float]:
    """Smallest and largest valid input, of the magnitude for ``reciprocal``; infinite where all are valid.

    Raises:
        KeyError: if there is no such function.
    """
    found = ACTIVATIONS[name]
    return found.low, found.high


def in_valid_range(name: str, x: Float32) -> npt.NDArray[np.bool_]:
    """Which elements are valid inputs; NaN and infinities are where every number is.

    The limits are compared in float32, so that the float32 next to pi is within the range of ``sin``.

    Raises:
        KeyError: if there is no such function.
    """
    found = ACTIVATIONS[name]
    if not found.limited:
        return np.ones(x.shape, dtype=np.bool_)
    value = np.abs(x) if found.of_magnitude else x
    within: npt.NDArray[np.bool_] = (value >= np.float32(found.low)) & (value <= np.float32(found.high))
    return within


def _in_double(function: Callable[[Float64], Float64], x: Float32) -> Float32:
    flat = np.ascontiguousarray(x).reshape(-1)
    result = np.empty(flat.shape, dtype=np.float32)
    for start in range(0, flat.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        result[part] = function(flat[part].astype(np.float64))
    return result.reshape(x.shape)


def _sigmoid(x: Float32) -> Float32:
    """``1 / (1 + exp(-x))``, from ``exp(-|x|)`` so that nothing overflows and small results keep their digits.

    The numerator is ``exp(-|x|)`` for negative ``x`` and 1 else: the larger of it and the truth of ``x >= 0``.
    """
    small = np.exp(-np.abs(x))
    over = np.greater_equal(x, 0).astype(np.float32)
    np.maximum(over, small, out=over)
    small += _ONE
    over /= small
    return over


def _silu(x: Float32) -> Float32:
    """``x * sigmoid(x)``; minus infinity gives the limit, minus zero."""
    product: Float32 = np.maximum(x, np.float32(-200)) * _sigmoid(x)
    return product


def _sin(x: Float32) -> Float32:
    """The sine within ``[-pi, pi]``; beyond, the cubic ``d**3 / 6 - d`` of the distance ``d`` from ``pi``, odd."""
    result = np.sin(x)
    outside = np.abs(x) > _PI
    if outside.any():
        far = x[outside].astype(np.float64)
        beyond = np.abs(far) - np.pi
        result[outside] = np.sign(far) * (beyond * (beyond * beyond / 6.0 - 1.0))
    return result


def _polynomial(coefficients: tuple[float, ...], x: Float64) -> Float64:
    """Horner's rule, the constant first."""
    result = np.full_like(x, coefficients[-1])
    for one in coefficients[-2::-1]:
        result *= x
        result += one
    return result


_ERFC = (
    0.1880678265528814,
    0.1879395101084477,
    0.17909717931333027,
    0.14618953150222438,
    0.17647922130738933,
    -0.06820067080300349,
    0.42648632888601734,
    -0.5756782229234325,
    0.6804954594438525,
    -0.49879842632854743,
    0.1855716505780065,
    -0.027649387674657952,
)
"""Of ``erfc(z) exp(z**2) / t`` in ``t = 3 / (3 + z)``, interpolated at the Chebyshev nodes of ``0 <= z <= 10.2``.

The form is that of Press et al., "Numerical Recipes", section "Incomplete gamma function", and the coefficients are
our own: relative error below 1e-10, which a test holds against ``math.erfc``.
"""


def _erfc_of_magnitude(z: Float64) -> Float64:
    """``erfc(|z|)``, relative error below 1e-10 as far as float32 reaches."""
    magnitude = np.abs(z)
    t = 3.0 / (3.0 + magnitude)
    result = _polynomial(_ERFC, t)
    result *= t
    magnitude *= magnitude
    np.negative(magnitude, out=magnitude)
    result *= np.exp(magnitude, out=magnitude)
    return result


def _erf(x: Float64) -> Float64:
    """``1 - erfc``, and three terms of the series below 0.03, where the difference would lose digits."""
    result = np.copysign(1.0 - _erfc_of_magnitude(x), x)
    small = np.abs(x) < 0.03
    if small.any():
        near = x[small]
        square = near * near
        result[small] = near * (2.0 / math.sqrt(math.pi)) * (1.0 - square / 3.0 + square * square / 10.0)
    return result


def _erf_dx(x: Float64) -> Float64:
    return np.exp(-x * x) * (2.0 / math.sqrt(math.pi))


def _normal_cdf(x: Float64) -> Float64:
    """Of the standard normal distribution: half of ``erfc(-x / sqrt(2))``."""
    half = _erfc_of_magnitude(x * math.sqrt(0.5))
    half *= 0.5
    # half for negative x, else 1 - half
    return np.abs(np.greater_equal(x, 0).astype(np.float64) - half)


def _near(x: Float64) -> Float64:
    """Cut off where a factor is zero anyway, so that infinity times zero does not arise; NaN stays."""
    return np.clip(x, -_FAR, _FAR)


def _gelu(x: Float64) -> Float64:
    return np.maximum(x, -_FAR) * _normal_cdf(x)


def _gelu_dx(x: Float64) -> Float64:
    near = _near(x)
    return _normal_cdf(x) + near * np.exp(-0.5 * near * near) / math.sqrt(2.0 * math.pi)


def _logistic(x: Float64) -> Float64:
    """The sigmoid in float64, where ``exp`` overflows far beyond what float32 results can show."""
    return 1.0 / (1.0 + np.exp(-x))


def _gelu_apprx_tanh(x: Float64) -> Float64:
    """``x (1 + tanh(u)) / 2`` is ``x`` times the sigmoid of ``2 u``, without the cancellation for negative ``x``."""
    near = np.maximum(x, -_FAR)
    return near * _logistic(math.sqrt(8.0 / math.pi) * near * (1.0 + _TANH_CUBIC * near * near))


def _gelu_apprx_sigmoid(x: Float64) -> Float64:
    return np.maximum(x, -10.0 * _FAR) * _logistic(_LOGISTIC * x)


def _gelu_apprx_sigmoid_dx(x: Float64) -> Float64:
    return _swish_dx(_LOGISTIC * x)


def _swish_dx(x: Float64) -> Float64:
    """Derivative of ``x sigmoid(x)``: ``s (1 + x (1 - s))``; also that of ``x sigmoid(a x)``, at ``a x``."""
    near = np.clip(x, -10.0 * _FAR, 10.0 * _FAR)
    small = _logistic(-near)
    return _logistic(near) * (1.0 + near * small)


def _softplus(x: Float64) -> Float64:
    """``log(1 + exp(x))``: the positive part plus ``log1p(e)``, ``e = exp(-|x|)``.

    ``log1p(e)`` is twice the inverse hyperbolic tangent of ``e / (2 + e)``, at most 1/3: eleven terms of its series
    leave 1e-12.
    """
    small = np.exp(-np.abs(x))
    ratio = small / (2.0 + small)
    series = _polynomial(tuple(2.0 / (2 * k + 1) for k in range(11)), ratio * ratio)
    return np.maximum(x, 0.0) + ratio * series


def _mish(x: Float64) -> Float64:
    """``x tanh(softplus(x))``; with ``e = exp(x)`` the second factor is ``(e**2 + 2 e) / (e**2 + 2 e + 2)``."""
    e = np.exp(np.minimum(x, _FAR))
    square = e * (e + 2.0)
    return np.maximum(x, -10.0 * _FAR) * (square / (square + 2.0))


def _copy(x: Float32) -> Float32:
    return x


def _square(x: Float32) -> Float32:
    result: Float32 = x * x
    return result


def _relu(x: Float32) -> Float32:
    return np.maximum(x, np.float32(0))


def _rsqrt(x: Float32) -> Float32:
    root = np.sqrt(x)
    return np.divide(_ONE, root, out=root)


def _reciprocal(x: Float32) -> Float32:
    result: Float32 = _ONE / x
    return result


_UFUNCS: Mapping[str, np.ufunc] = MappingProxyType(
    {"abs": np.absolute, "sign": np.sign, "exp": np.exp, "log": np.log, "tanh": np.tanh, "sqrt": np.sqrt}
)
"""Those that are one loop of NumPy's, which can write where it is told."""
_SINGLE: Mapping[str, Callable[[Float32], Float32]] = MappingProxyType(
    {
        "copy": _copy,
        "square": _square,
        "relu": _relu,
        "abs": np.abs,
        "sign": np.sign,
        "exp": np.exp,
        "log": np.log,
        "tanh": np.tanh,
        "sqrt": np.sqrt,
        "sin": _sin,
        "sigmoid": _sigmoid,
        "silu": _silu,
        "rsqrt": _rsqrt,
        "reciprocal": _reciprocal,
    }
)
_DOUBLE: Mapping[str, Callable[[Float64], Float64]] = MappingProxyType(
    {
        "gelu": _gelu,
        "gelu_dx": _gelu_dx,
        "gelu_apprx_tanh": _gelu_apprx_tanh,
        "gelu_apprx_sigmoid": _gelu_apprx_sigmoid,
        "gelu_apprx_sigmoid_dx": _gelu_apprx_sigmoid_dx,
        "silu_dx": _swish_dx,
        "softplus": _softplus,
        "mish": _mish,
        "erf": _erf,
        "erf_dx": _erf_dx,
        "arctan": np.arctan,
    }
)
