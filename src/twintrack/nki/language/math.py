"""``nki.language``: functions of each element of a tile, mostly activation functions of the Scalar Engine.

The result lies in SBUF, of the operand's type where none is named; everything is computed in float32 and rounded once
to it. Those that the tables of activation functions list are also what the ``op`` argument of an instruction takes. The
valid input ranges of those tables hold here too.
"""

from __future__ import annotations

from typing import Any

from twintrack.nki import isa
from twintrack.nki.language.elementwise import operator
from twintrack.nki.language.tiles import on_chip, result_dtype, sbuf_copy, tile
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "abs",
    "arctan",
    "copy",
    "erf",
    "erf_dx",
    "exp",
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
    "softplus",
    "sqrt",
    "square",
    "tanh",
]


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
