"""Elementwise operations of ``nki.language`` until 2.26, which are operators too: each takes ``dtype`` and ``mask``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import language as current
from twintrack.nki.language.elementwise import operator
from twintrack.nki.legacy.elementwise import binary, lifted
from twintrack.nki.legacy.regions import kind_of, on_chip
from twintrack.nki.legacy.tile import Tile
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "abs",
    "add",
    "arctan",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "cos",
    "divide",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "floor",
    "fmod",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_tanh",
    "gelu_dx",
    "greater",
    "greater_equal",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mish",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "reciprocal",
    "relu",
    "right_shift",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


def _binary(name: str) -> Callable[..., Tile]:
    @operator(name)
    def operation(x: Any, y: Any, *, dtype: Any = None, mask: Any = None) -> Tile:
        return binary(name, x, y, dtype, mask)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"``x {name} y``, element by element; see ``legacy.elementwise.binary``."
    return operation


def _unary(name: str) -> Callable[..., Tile]:
    function: Callable[..., NkiTensor] = getattr(current, name)

    @operator(getattr(function, "nki_op", name))
    def operation(x: Any, *, dtype: Any = None, mask: Any = None) -> Tile:
        tile = on_chip(f"nl.{name}", "x", x)
        kind = kind_of(dtype, DTYPES["bool"] if name == "logical_not" else tile.dtype)
        return lifted(lambda part: function(part, kind), mask, [tile], tile.shape, dtype=kind)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"``{name}`` of every element; see the current ``nl.{name}``."
    return operation


add = _binary("add")
subtract = _binary("subtract")
multiply = _binary("multiply")
divide = _binary("divide")
maximum = _binary("maximum")
minimum = _binary("minimum")
power = _binary("power")
mod = _binary("mod")
fmod = _binary("fmod")
equal = _binary("equal")
not_equal = _binary("not_equal")
less = _binary("less")
less_equal = _binary("less_equal")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
bitwise_and = _binary("bitwise_and")
bitwise_or = _binary("bitwise_or")
bitwise_xor = _binary("bitwise_xor")
left_shift = _binary("left_shift")
right_shift = _binary("right_shift")

abs = _unary("abs")
arctan = _unary("arctan")
ceil = _unary("ceil")
cos = _unary("cos")
erf = _unary("erf")
erf_dx = _unary("erf_dx")
exp = _unary("exp")
floor = _unary("floor")
gelu = _unary("gelu")
gelu_apprx_sigmoid = _unary("gelu_apprx_sigmoid")
gelu_apprx_tanh = _unary("gelu_apprx_tanh")
gelu_dx = _unary("gelu_dx")
invert = _unary("invert")
log = _unary("log")
logical_not = _unary("logical_not")
mish = _unary("mish")
negative = _unary("negative")
reciprocal = _unary("reciprocal")
relu = _unary("relu")
rsqrt = _unary("rsqrt")
sigmoid = _unary("sigmoid")
sign = _unary("sign")
silu = _unary("silu")
silu_dx = _unary("silu_dx")
sin = _unary("sin")
softplus = _unary("softplus")
sqrt = _unary("sqrt")
square = _unary("square")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")
