"""``nki.language``: elementwise operators. Each is also what the ``op`` argument of an instruction takes.

Two tiles go to ``nisa.tensor_tensor``; a tile with a number, or with a float32 tile of one element per partition, to
``nisa.tensor_scalar``. Both compute in float32 and round once, to the result's type; ``tensor_tensor`` of 32-bit
integers is exact on GpSimd. The result lies in SBUF. Its type, where none is named: the tile's; of two tiles the
promoted type (``tiles.promoted``), for bitwise operators the wider one. Free dimensions of size 1 are repeated by
views. Partitions are not: no instruction but a matrix multiplication or a DMA reaches across them
(``nl.broadcast_to``).
"""

from __future__ import annotations

from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.nki.language.elementwise import Operator, binary, operator, truth
from twintrack.nki.language.tiles import on_chip, sbuf_copy
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "abs_max",
    "abs_min",
    "add",
    "average",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bypass",
    "divide",
    "equal",
    "fmod",
    "greater",
    "greater_equal",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "prelu",
    "right_shift",
    "subtract",
]

average = Operator("average")
"""Mean, as an operator of reductions."""
prelu = Operator("prelu")
"""ReLU with the slope ``relu_param`` below zero, as an activation function."""
bypass = Operator("bypass")
"""Nothing: what comes in goes out."""


# arithmetic


@operator("add")
def add(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x + y``.

    Args:
        x: a tile in SBUF or PSUM, or a number.
        y: likewise; one of the two must be a tile.
        dtype: of the result; see the module.

    Raises:
        KernelError: for operands in HBM, shapes that do not fit, or two tiles in PSUM.
    """
    return binary("add", x, y, dtype)


@operator("subtract")
def subtract(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x - y``; see ``add``."""
    return binary("subtract", x, y, dtype)


@operator("multiply")
def multiply(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x * y``; see ``add``."""
    return binary("multiply", x, y, dtype)


@operator("divide")
def divide(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x / y``; see ``add``."""
    return binary("divide", x, y, dtype)


@operator("maximum")
def maximum(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The larger of ``x`` and ``y``, NaN where either is; see ``add``."""
    return binary("maximum", x, y, dtype)


@operator("minimum")
def minimum(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The smaller of ``x`` and ``y``, NaN where either is; see ``add``."""
    return binary("minimum", x, y, dtype)


@operator("abs_max")
def abs_max(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` where it is larger than ``y`` in magnitude, else ``y``; NeuronCore-v4; see ``add``."""
    return binary("abs_max", x, y, dtype)


@operator("abs_min")
def abs_min(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` where it is smaller than ``y`` in magnitude, else ``y``; NeuronCore-v4; see ``add``."""
    return binary("abs_min", x, y, dtype)


@operator("power")
def power(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` to the power of ``y``; see ``add``.

    Of two tiles it runs on GpSimd, which cannot reach PSUM: a tile there is copied to SBUF first.
    """
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        x, y = _reachable(x), _reachable(y)
    return binary("power", x, y, dtype)


def _reachable(x: NkiTensor) -> NkiTensor:
    return sbuf_copy(x) if x.buffer is MemoryRegion.psum else x


@operator("fmod")
def fmod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Remainder of ``x / y`` with the sign of ``x``, as ``numpy.fmod``; see ``add``."""
    return binary("fmod", x, y, dtype)


@operator("mod")
def mod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Remainder of ``x / y`` with the sign of ``y``, as Python's ``%``; see ``add``."""
    return binary("mod", x, y, dtype)


# comparisons and logic: 1 where it holds, else 0


@operator("equal")
def equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x == y``, else 0; see ``add``. The result is true (``bool``) where all its elements are."""
    return truth("equal", x, y, dtype)


@operator("not_equal")
def not_equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x != y``, else 0; see ``equal``."""
    return truth("not_equal", x, y, dtype)


@operator("less")
def less(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x < y``, else 0; see ``equal``."""
    return truth("less", x, y, dtype)


@operator("less_equal")
def less_equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x <= y``, else 0; see ``equal``."""
    return truth("less_equal", x, y, dtype)


@operator("greater")
def greater(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x > y``, else 0; see ``equal``."""
    return truth("greater", x, y, dtype)


@operator("greater_equal")
def greater_equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x >= y``, else 0; see ``equal``."""
    return truth("greater_equal", x, y, dtype)


@operator("logical_and")
def logical_and(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where neither is 0, else 0; see ``equal``."""
    return truth("logical_and", x, y, dtype)


@operator("logical_or")
def logical_or(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where one is not 0, else 0; see ``equal``."""
    return truth("logical_or", x, y, dtype)


@operator("logical_xor")
def logical_xor(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """1 where exactly one is not 0, else 0; see ``equal``."""
    return truth("logical_xor", x, y, dtype)


@operator("logical_not")
def logical_not(x: Any, dtype: Any = None) -> NkiTensor:
    """1 where ``x`` is 0, else 0, as an exclusive or with 1; see ``equal``."""
    return truth("logical_xor", on_chip("logical_not", "x", x), 1, dtype)


# bits


@operator("bitwise_and")
def bitwise_and(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x & y`` of integers; see ``add``."""
    return binary("bitwise_and", x, y, dtype)


@operator("bitwise_or")
def bitwise_or(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x | y`` of integers; see ``add``."""
    return binary("bitwise_or", x, y, dtype)


@operator("bitwise_xor")
def bitwise_xor(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x ^ y`` of integers; see ``add``."""
    return binary("bitwise_xor", x, y, dtype)


@operator("invert")
def invert(x: Any, dtype: Any = None) -> NkiTensor:
    """``~x`` of integers, as an exclusive or with all ones; see ``add``."""
    return binary("bitwise_xor", on_chip("invert", "x", x), -1, dtype)


@operator("left_shift")
def left_shift(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x << y`` of integers, zeros coming in; see ``add``."""
    return binary("left_shift", x, y, dtype)


@operator("right_shift")
def right_shift(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x >> y`` of integers, zeros coming in (a logical shift); see ``add``."""
    return binary("right_shift", x, y, dtype)
