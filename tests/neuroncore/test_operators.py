"""The tables of operators and activation functions are the documented ones, and every spelling finds its entry."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from twintrack.neuroncore.isa.operators import ACTIVATIONS, OPERATORS, operator_name

BITVEC = ["invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]
ARITHMETIC = [
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "equal",
    "not_equal",
    "greater_equal",
    "greater",
    "less_equal",
    "less",
    "logical_and",
    "logical_or",
    "logical_xor",
    "power",
    "abs_max",
    "abs_min",
    "abs",
    "square",
    "relu",
    "rsqrt",
    "reciprocal",
]
REDUCES = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "logical_and",
    "logical_or",
    "logical_xor",
]
FUNCTIONS = [
    "copy",
    "square",
    "sigmoid",
    "relu",
    "prelu",
    "gelu",
    "gelu_dx",
    "gelu_apprx_tanh",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "silu",
    "silu_dx",
    "tanh",
    "softplus",
    "mish",
    "erf",
    "erf_dx",
    "exp",
    "log",
    "sin",
    "arctan",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sign",
    "abs",
]
RANGES = {
    "log": (2.0**-64, 2.0**64),
    "sin": (-math.pi, math.pi),
    "arctan": (-math.pi / 2, math.pi / 2),
    "sqrt": (2.0**-116, 2.0**118),
    "rsqrt": (2.0**-87, 2.0**97),
    "reciprocal": (2.0**-42, 2.0**42),
}


def test_the_operators_are_those_of_the_documented_table():
    listed = {name: one for name, one in OPERATORS.items() if one.listed}
    assert sorted(listed) == sorted([*BITVEC, *ARITHMETIC, "logical_not"])  # the last one: table of 2.26
    assert sorted(name for name, one in OPERATORS.items() if one.category == "bitvec") == sorted(BITVEC)
    assert sorted(name for name, one in OPERATORS.items() if one.reduces) == sorted(REDUCES)
    assert [name for name, one in OPERATORS.items() if one.first_generation > 2] == ["abs_max", "abs_min"]


def test_the_activation_functions_and_their_ranges_are_those_of_the_documented_table():
    assert sorted(ACTIVATIONS) == sorted(FUNCTIONS)
    assert {name: (one.low, one.high) for name, one in ACTIVATIONS.items() if one.limited} == RANGES
    assert [name for name, one in ACTIVATIONS.items() if one.of_magnitude] == ["reciprocal"]
    assert [name for name, one in ACTIVATIONS.items() if one.parameter] == ["prelu"]


@pytest.mark.parametrize("name", [*BITVEC, *ARITHMETIC, *FUNCTIONS])
def test_an_operator_is_found_by_its_name_and_by_the_mark_of_a_language_function(name):
    assert operator_name(name) == name
    assert operator_name(SimpleNamespace(nki_op=name)) == name


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (np.add, "add"),
        (np.subtract, "subtract"),
        (np.multiply, "multiply"),
        (np.maximum, "maximum"),
        (np.max, "maximum"),
        (np.amax, "maximum"),
        (np.minimum, "minimum"),
        (np.min, "minimum"),
        (np.power, "power"),
        (np.square, "square"),
        (np.exp, "exp"),
        (np.log, "log"),
        (np.sin, "sin"),
        (np.tanh, "tanh"),
        (np.sqrt, "sqrt"),
        (np.abs, "abs"),
        (np.copy, "copy"),
        (np.sign, "sign"),
        (np.arctan, "arctan"),
        (np.reciprocal, "reciprocal"),
        (np.greater_equal, "greater_equal"),
        (np.not_equal, "not_equal"),
        (np.logical_and, "logical_and"),
        (np.bitwise_xor, "bitwise_xor"),
        (np.invert, "invert"),
        (np.left_shift, "left_shift"),
    ],
)
def test_a_numpy_function_means_the_operator_of_the_older_dialect(function, name):
    assert operator_name(function) == name


@pytest.mark.parametrize(
    "what", ["nothing", None, 3, np.hypot, np.zeros, len, SimpleNamespace(nki_op="nothing")]
)
def test_what_is_no_operator_is_refused_with_what_was_given(what):
    with pytest.raises(KeyError) as caught:
        operator_name(what)
    assert caught.value.args == (what,)
