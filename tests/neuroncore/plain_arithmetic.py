"""Arithmetic as the documentation states it, on plain Python numbers: what tests of instructions compare with.

One operation on float32 numbers, done in float64 and rounded to float32, is correctly rounded for sums, differences,
products and quotients, as float64 has more than twice the digits (Figueroa, "When is double rounding innocuous?").
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
from single_core import NUMBERS


def f32(x):
    """The nearest float32, as a Python float."""
    with np.errstate(all="ignore"):
        return float(np.float32(x))


def _maximum(a, b):
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def _minimum(a, b):
    return math.nan if math.isnan(a) or math.isnan(b) else min(a, b)


def _reciprocal(a):
    return 1 / a if a else math.copysign(math.inf, a)


BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": _maximum,
    "minimum": _minimum,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_xor": lambda a, b: bool(a) != bool(b),
}
UNARY = {
    "abs": abs,
    "square": lambda a: a * a,
    "relu": lambda a: _maximum(a, 0.0),
    "reciprocal": _reciprocal,
    "logical_not": lambda a: not a,
}
BITS = {
    "bitwise_and": lambda a, b, width: a & b,
    "bitwise_or": lambda a, b, width: a | b,
    "bitwise_xor": lambda a, b, width: a ^ b,
    "left_shift": lambda a, b, width: a << b if b < width else 0,
    "right_shift": lambda a, b, width: a >> b if b < width else 0,
}


def two(op, a, b):
    """``a <op> b`` rounded to float32."""
    return f32(BINARY[op](a, b))


def one(op, a):
    """``<op> a`` rounded to float32."""
    return f32(UNARY[op](a))


def each(function, *arrays):
    """The function of every element, as float64; arrays are broadcast."""
    spread = np.broadcast_arrays(*(np.asarray(array, np.float64) for array in arrays))
    result = np.empty(spread[0].shape)
    for at in np.ndindex(*result.shape):
        result[at] = function(*(float(array[at]) for array in spread))
    return result


def fold(op, values):
    """The numbers of a row combined in order, rounded at every step."""
    return reduce(lambda a, b: two(op, a, b), values)


def stored(values, name):
    """Float32 numbers as elements of a type: to nearest even, once; integers saturate and hold 0 for NaN."""
    kind = NUMBERS[name]
    single = np.asarray(values, np.float64).astype(np.float32)
    if name in ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"):
        with np.errstate(all="ignore"):
            return single.astype(kind)
    limits = np.iinfo(kind)
    whole = [0 if math.isnan(x) else x for x in single.astype(np.float64).reshape(-1)]
    clipped = [round(min(max(x, limits.min), limits.max)) for x in whole]
    return np.array(clipped, dtype=np.int64).astype(kind).reshape(single.shape)


def pattern(value, width):
    """An integer's bits as a number from 0."""
    return int(value) & ((1 << width) - 1)
