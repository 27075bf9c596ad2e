"""Operators and activation functions that instructions take: names, kinds, where they run, valid inputs.

Sources: the tables "Supported Math Operators" and "Supported Activation Functions" of the AWS Neuron
documentation (``nki.api.shared.rst``): 2.32 for names, kinds, legal reductions and valid ranges, 2.26 for the
engines and ``logical_not``, which 2.32 lists no longer; identities of accumulators: ``nki.isa``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

__all__ = ["ACTIVATIONS", "OPERATORS", "Activation", "Operator", "operator_name"]

Category = Literal["bitvec", "arithmetic"]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the arithmetic units.

    Args:
        name: as ``nki.language`` spells it.
        category: ``bitvec`` takes integers as bit patterns, ``arithmetic`` computes in float32.
        operands: one or two.
        reduces: whether ``nki.isa.tensor_reduce`` takes it.
        engines: where it runs, by the table of 2.26; empty where no table says.
        identity: what an accumulator is reset to, where there is such a value.
        first_generation: the first NeuronCore version that has it.
        listed: whether the operator table has it; the others are used by ``nki.language`` and single instructions.
    """

    name: str
    category: Category
    operands: Literal[1, 2] = 2
    reduces: bool = False
    engines: tuple[str, ...] = ("vector",)
    identity: float | None = None
    first_generation: int = 2
    listed: bool = True


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of the Scalar Engine.

    Args:
        name: as ``nki.language`` spells it.
        low: smallest valid input.
        high: largest valid input.
        of_magnitude: whether the limits are those of the absolute value (``reciprocal``).
        parameter: whether it takes ``relu_param``.
    """

    name: str
    low: float = -math.inf
    high: float = math.inf
    of_magnitude: bool = False
    parameter: bool = False

    @property
    def limited(self) -> bool:
        """Whether any number is outside the valid range."""
        return (self.low, self.high) != (-math.inf, math.inf)


def _bitvec() -> tuple[Operator, ...]:
    return (
        Operator("invert", "bitvec", operands=1),
        Operator("bitwise_and", "bitvec", reduces=True),
        Operator("bitwise_or", "bitvec", reduces=True, identity=0),
        Operator("bitwise_xor", "bitvec", reduces=True, identity=0),
        Operator("left_shift", "bitvec"),
        Operator("right_shift", "bitvec"),
    )


def _arithmetic() -> tuple[Operator, ...]:
    everywhere = ("vector", "gpsimd", "scalar")
    compared = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")
    logical = {"logical_and": 1.0, "logical_or": 0.0, "logical_xor": 0.0}
    return (
        Operator("add", "arithmetic", reduces=True, engines=everywhere, identity=0.0),
        Operator("subtract", "arithmetic", reduces=True, identity=0.0),
        Operator("multiply", "arithmetic", reduces=True, engines=everywhere, identity=1.0),
        Operator("maximum", "arithmetic", reduces=True, identity=-math.inf),
        Operator("minimum", "arithmetic", reduces=True, identity=math.inf),
        *(Operator(name, "arithmetic") for name in compared),
        *(Operator(name, "arithmetic", reduces=True, identity=one) for name, one in logical.items()),
        Operator("logical_not", "arithmetic", operands=1),
        Operator("power", "arithmetic", engines=("gpsimd",)),
        Operator("abs_max", "arithmetic", identity=0.0, first_generation=4),
        Operator("abs_min", "arithmetic", identity=math.inf, first_generation=4),
        Operator("abs", "arithmetic", operands=1, engines=("vector", "scalar")),
        Operator("square", "arithmetic", operands=1, engines=()),
        Operator("relu", "arithmetic", operands=1, engines=()),
        Operator("rsqrt", "arithmetic", operands=1, engines=("gpsimd", "scalar")),
        Operator("reciprocal", "arithmetic", operands=1, engines=("vector", "scalar")),
        Operator("divide", "arithmetic", engines=(), listed=False),
        Operator("mod", "arithmetic", engines=(), listed=False),
        Operator("fmod", "arithmetic", engines=(), listed=False),
        Operator("bypass", "arithmetic", operands=1, engines=(), listed=False),
        Operator("average", "arithmetic", engines=(), identity=0.0, listed=False),
    )


OPERATORS: Mapping[str, Operator] = MappingProxyType({one.name: one for one in _bitvec() + _arithmetic()})
"""Every operator by its name."""

_UNLIMITED = (
    "copy",
    "square",
    "sigmoid",
    "relu",
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
    "sign",
    "abs",
)
_LIMITED = (
    Activation("log", 2.0**-64, 2.0**64),
    Activation("sin", -math.pi, math.pi),
    Activation("arctan", -math.pi / 2, math.pi / 2),
    Activation("sqrt", 2.0**-116, 2.0**118),
    Activation("rsqrt", 2.0**-87, 2.0**97),
    Activation("reciprocal", 2.0**-42, 2.0**42, of_magnitude=True),
)
ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {one.name: one for one in (*map(Activation, _UNLIMITED), Activation("prelu", parameter=True), *_LIMITED)}
)
"""Every activation function by its name, with its valid inputs."""

_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "absolute": "abs",
        "amax": "maximum",
        "amin": "minimum",
        "bitwise_invert": "invert",
        "bitwise_not": "invert",
        "identity": "copy",
        "max": "maximum",
        "mean": "average",
        "min": "minimum",
        "mult": "multiply",
        "remainder": "mod",
        "sum": "add",
    }
)
"""Other names of the same operators, in the documentation or in NumPy."""


def operator_name(op: object) -> str:
    """The name of the operator or activation function that an argument means.

    Args:
        op: a name, an object with the attribute ``nki_op``, or (the dialect until 2.26) a NumPy function such as
            ``np.add`` or ``np.max``.

    Raises:
        KeyError: if there is no such operator; its argument is what was given.
    """
    name: object = op if isinstance(op, str) else getattr(op, "nki_op", None)
    if name is None and (isinstance(op, np.ufunc) or getattr(op, "__module__", None) == "numpy"):
        name = getattr(op, "__name__", None)
    if isinstance(name, str):
        name = _ALIASES.get(name, name)
        if name in OPERATORS or name in ACTIVATIONS:
            return name
    raise KeyError(op)
