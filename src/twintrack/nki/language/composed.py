"""``nki.language``: functions of each element that no single instruction computes: whole numbers and angles.

The result lies in SBUF, of the operand's type where none is named; everything is computed in float32.
"""

from __future__ import annotations

import math
from typing import Any

from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import isa
from twintrack.nki.language.elementwise import operator
from twintrack.nki.language.tiles import on_chip, result_dtype, sbuf_copy, tile
from twintrack.nki.tensor import NkiTensor

__all__ = ["ceil", "cos", "floor", "sin", "tan", "trunc"]

_FLOAT32 = DTYPES["float32"]
_INT32 = DTYPES["int32"]
_WHOLE = 2.0**23
"""Floats from here on are whole numbers."""
_TURN = (6.28125, 253 * 2.0**-17, 2 * math.pi - 6.28125 - 253 * 2.0**-17)
"""2 pi in three parts (Cody and Waite, Software Manual for the Elementary Functions, 1980): the products of the first
two, of 8 bits each, with a whole number below ``2**16`` are exact in float32."""
_PI = 3.1415925
"""The largest float32 (three decimals short of its digits) that is not beyond pi: the end of the valid input of sin."""


# whole numbers: x less (or plus) a remainder by 1, which is exact; beyond 2**23 the remainder is 0


def floor(x: Any, dtype: Any = None) -> NkiTensor:
    """The largest whole number not above ``x``. Infinities stay."""
    return _whole("floor", x, dtype, "mod", 1.0, "subtract")


def ceil(x: Any, dtype: Any = None) -> NkiTensor:
    """The smallest whole number not below ``x``. Infinities stay."""
    return _whole("ceil", x, dtype, "mod", -1.0, "add")


def trunc(x: Any, dtype: Any = None) -> NkiTensor:
    """``x`` without its fraction. Infinities stay."""
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
    """Sine, within ``1e-6`` for ``x`` up to ``2**18`` in magnitude.

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
