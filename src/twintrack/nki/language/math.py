"""``nki.language``: functions of each element of a tile, mostly activation functions of the Scalar Engine.

The result lies in SBUF, of the operand's type where none is named; everything is computed in float32 and rounded once
to it. Those that the tables of activation functions list are also what the ``op`` argument of an instruction takes. The
valid input ranges of those tables hold here too, but for ``sin``, ``cos`` and ``tan``, which reduce their argument by
further instructions (``reduced_angle``).
"""

from __future__ import annotations

import math
from typing import Any

from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import isa
from twintrack.nki.language.operators import operator
from twintrack.nki.language.tiles import on_chip, result_dtype, sbuf_copy, tile
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "abs",
    "arctan",
    "ceil",
    "copy",
    "cos",
    "erf",
    "erf_dx",
    "exp",
    "floor",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "gelu_dx",
    "log",
    "mish",
    "negative",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]

_FLOAT32 = DTYPES["float32"]
_INT32 = DTYPES["int32"]
_WHOLE = 2.0**23
"""Floats from here on are whole numbers."""
_TURN = (6.28125, 253 * 2.0**-17, 2 * math.pi - 6.28125 - 253 * 2.0**-17)
"""2 pi in three parts (Cody and Waite, Software Manual for the Elementary Functions, 1980): the products of the first
two, of 8 bits each, with a whole number below ``2**16`` are exact in float32."""
_PI = 3.1415925
"""The largest float32 (three decimals short of its digits) that is not beyond pi: the end of the valid input of sin."""


def _activation(op: str, x: Any, dtype: Any) -> NkiTensor:
    data = on_chip(op, "x", x)
    dst = tile(data.shape, result_dtype(dtype, data.dtype))
    isa.activation(dst, op, data)
    return dst


@operator("exp")
def exp(x: Any, dtype: Any = None) -> NkiTensor:
    """``e`` to the power of ``x``.

    Args:
        x: a tile in SBUF or PSUM.
        dtype: of the result; that of ``x`` where ``None``.

    Raises:
        KernelError: for an operand that is no tile, or lies in HBM.
    """
    return _activation("exp", x, dtype)


@operator("log")
def log(x: Any, dtype: Any = None) -> NkiTensor:
    """Natural logarithm, valid for ``2**-64`` to ``2**64``; see ``exp``."""
    return _activation("log", x, dtype)


@operator("sqrt")
def sqrt(x: Any, dtype: Any = None) -> NkiTensor:
    """Square root, valid for ``2**-116`` to ``2**118``; see ``exp``."""
    return _activation("sqrt", x, dtype)


@operator("rsqrt")
def rsqrt(x: Any, dtype: Any = None) -> NkiTensor:
    """``1 / sqrt(x)``, valid for ``2**-87`` to ``2**97``; see ``exp``."""
    return _activation("rsqrt", x, dtype)


@operator("tanh")
def tanh(x: Any, dtype: Any = None) -> NkiTensor:
    """Hyperbolic tangent; see ``exp``."""
    return _activation("tanh", x, dtype)


@operator("sigmoid")
def sigmoid(x: Any, dtype: Any = None) -> NkiTensor:
    """``1 / (1 + exp(-x))``; see ``exp``."""
    return _activation("sigmoid", x, dtype)


@operator("relu")
def relu(x: Any, dtype: Any = None) -> NkiTensor:
    """``x`` where it is positive, else 0; see ``exp``."""
    return _activation("relu", x, dtype)


@operator("gelu")
def gelu(x: Any, dtype: Any = None) -> NkiTensor:
    """``x`` times the normal distribution function of ``x``; see ``exp``."""
    return _activation("gelu", x, dtype)


@operator("gelu_apprx_sigmoid")
def gelu_apprx_sigmoid(x: Any, dtype: Any = None) -> NkiTensor:
    """``gelu``, approximated by ``x * sigmoid(1.702 x)``; see ``exp``."""
    return _activation("gelu_apprx_sigmoid", x, dtype)


@operator("gelu_apprx_tanh")
def gelu_apprx_tanh(x: Any, dtype: Any = None) -> NkiTensor:
    """``gelu``, approximated by a hyperbolic tangent of a cubic; see ``exp``."""
    return _activation("gelu_apprx_tanh", x, dtype)


@operator("gelu_dx")
def gelu_dx(x: Any, dtype: Any = None) -> NkiTensor:
    """Derivative of ``gelu``; see ``exp``."""
    return _activation("gelu_dx", x, dtype)


@operator("gelu_apprx_sigmoid_dx")
def gelu_apprx_sigmoid_dx(x: Any, dtype: Any = None) -> NkiTensor:
    """Derivative of ``gelu_apprx_sigmoid``; see ``exp``."""
    return _activation("gelu_apprx_sigmoid_dx", x, dtype)


@operator("silu")
def silu(x: Any, dtype: Any = None) -> NkiTensor:
    """``x * sigmoid(x)``; see ``exp``."""
    return _activation("silu", x, dtype)


@operator("silu_dx")
def silu_dx(x: Any, dtype: Any = None) -> NkiTensor:
    """Derivative of ``silu``; see ``exp``."""
    return _activation("silu_dx", x, dtype)


@operator("softplus")
def softplus(x: Any, dtype: Any = None) -> NkiTensor:
    """``log(1 + exp(x))``; see ``exp``."""
    return _activation("softplus", x, dtype)


@operator("mish")
def mish(x: Any, dtype: Any = None) -> NkiTensor:
    """``x * tanh(softplus(x))``; see ``exp``."""
    return _activation("mish", x, dtype)


@operator("erf")
def erf(x: Any, dtype: Any = None) -> NkiTensor:
    """Error function; see ``exp``."""
    return _activation("erf", x, dtype)


@operator("erf_dx")
def erf_dx(x: Any, dtype: Any = None) -> NkiTensor:
    """Derivative of ``erf``; see ``exp``."""
    return _activation("erf_dx", x, dtype)


@operator("arctan")
def arctan(x: Any, dtype: Any = None) -> NkiTensor:
    """Inverse tangent, valid for ``-pi/2`` to ``pi/2``; see ``exp``."""
    return _activation("arctan", x, dtype)


@operator("sign")
def sign(x: Any, dtype: Any = None) -> NkiTensor:
    """-1, 0 or 1; see ``exp``."""
    return _activation("sign", x, dtype)


@operator("abs")
def abs(x: Any, dtype: Any = None) -> NkiTensor:
    """Absolute value; see ``exp``."""
    return _activation("abs", x, dtype)


@operator("square")
def square(x: Any, dtype: Any = None) -> NkiTensor:
    """``x * x``; see ``exp``."""
    return _activation("square", x, dtype)


@operator("reciprocal")
def reciprocal(x: Any, dtype: Any = None) -> NkiTensor:
    """``1 / x`` on the Vector Engine, which takes every ``x``; see ``exp``."""
    data = on_chip("reciprocal", "x", x)
    dst = tile(data.shape, result_dtype(dtype, data.dtype))
    isa.reciprocal(dst, data)
    return dst


@operator("copy")
def copy(x: Any, dtype: Any = None) -> NkiTensor:
    """The same elements in a new tile in SBUF; bits where the types agree, else through float32."""
    data = on_chip("copy", "x", x)
    return sbuf_copy(data, result_dtype(dtype, data.dtype))


def negative(x: Any, dtype: Any = None) -> NkiTensor:
    """``-x``, as a product with -1; see ``exp``."""
    data = on_chip("negative", "x", x)
    dst = tile(data.shape, result_dtype(dtype, data.dtype))
    isa.tensor_scalar(dst, data, "multiply", -1.0)
    return dst


# whole numbers: x less (or plus) a remainder by 1, which is exact; beyond 2**23 the remainder is 0


def floor(x: Any, dtype: Any = None) -> NkiTensor:
    """The largest whole number not above ``x``; see ``exp``. Infinities stay."""
    return _whole("floor", x, dtype, "mod", 1.0, "subtract")


def ceil(x: Any, dtype: Any = None) -> NkiTensor:
    """The smallest whole number not below ``x``; see ``exp``. Infinities stay."""
    return _whole("ceil", x, dtype, "mod", -1.0, "add")


def trunc(x: Any, dtype: Any = None) -> NkiTensor:
    """``x`` without its fraction; see ``exp``. Infinities stay."""
    return _whole("trunc", x, dtype, "fmod", 1.0, "subtract")


def _whole(function: str, x: Any, dtype: Any, remainder: str, factor: float, combine: str) -> NkiTensor:
    """``x -+ (factor * clamp(x)) <remainder> 1``: ``ceil(x)`` is ``-floor(-x)``."""
    data = on_chip(function, "x", x)
    kind = result_dtype(dtype, data.dtype)
    if data.dtype.is_integer:
        return sbuf_copy(data, kind)
    part = tile(data.shape, _FLOAT32)
    isa.tensor_scalar(part, data, "maximum", -_WHOLE, op1="minimum", operand1=_WHOLE)
    isa.tensor_scalar(part, part, "multiply", factor, op1=remainder, operand1=1.0)
    dst = tile(data.shape, kind)
    isa.tensor_tensor(dst, data, part, combine)
    return dst


# angles


def _reduced_angle(data: NkiTensor, turns: float) -> NkiTensor:
    """An angle in ``[-pi/2, pi/2]`` with the sine of ``data + 2 pi turns``, as float32.

    The number of turns is rounded to nearest by a write to int32. Up to ``2**18`` in magnitude the result is within
    ``5e-7`` of the exact one; beyond, products with the number of turns are no longer exact, and the result is only
    kept within the valid input of ``sin``.
    """
    count = tile(data.shape, _INT32)
    isa.tensor_scalar(count, data, "multiply", 1 / (2 * math.pi))
    angle = tile(data.shape, _FLOAT32)
    for at, part in enumerate(_TURN):
        isa.scalar_tensor_tensor(angle, count, "multiply", -part, "add", angle if at else data)
    if turns:
        isa.tensor_scalar(angle, angle, "add", 2 * math.pi * turns)
    # sin(x) = sin(pi - x) folds back what ``turns``, or a count rounded the other way near half a turn, moved too far
    for half, nearer in ((math.pi, "minimum"), (-math.pi, "maximum")):
        isa.scalar_tensor_tensor(angle, angle, "subtract", half, nearer, angle, reverse0=True)
    isa.tensor_scalar(angle, angle, "maximum", -_PI, op1="minimum", operand1=_PI)
    return angle


def _sine(function: str, x: Any, dtype: Any, turns: float) -> NkiTensor:
    data = on_chip(function, "x", x)
    dst = tile(data.shape, result_dtype(dtype, data.dtype))
    isa.activation(dst, "sin", _reduced_angle(data, turns))
    return dst


@operator("sin")
def sin(x: Any, dtype: Any = None) -> NkiTensor:
    """Sine, within ``1e-6`` for ``x`` up to ``2**18`` in magnitude; see ``exp``.

    The argument is reduced to ``[-pi, pi]`` by further instructions, which ``nisa.activation`` does not do.
    Beyond ``2**18`` the result is in ``[-1, 1]`` and has no further accuracy; infinities give such a number too.
    """
    return _sine("sin", x, dtype, 0.0)


def cos(x: Any, dtype: Any = None) -> NkiTensor:
    """Cosine, as the sine a quarter turn on; see ``sin``."""
    return _sine("cos", x, dtype, 0.25)


def tan(x: Any, dtype: Any = None) -> NkiTensor:
    """Tangent, the quotient of ``sin`` and ``cos``; its relative error grows towards its poles as theirs does."""
    data = on_chip("tan", "x", x)
    dst = tile(data.shape, result_dtype(dtype, data.dtype))
    isa.tensor_tensor(dst, _sine("tan", data, _FLOAT32, 0.0), _sine("tan", data, _FLOAT32, 0.25), "divide")
    return dst
