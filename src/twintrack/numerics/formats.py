"""The binary floating-point formats of NeuronCores, as records.

A format has one sign bit, ``exponent_bits`` and ``mantissa_bits``. A normal number is ``(1 + m /
2**mantissa_bits) * 2**(e - bias)``; exponent field 0 holds zeros and subnormals, as in IEEE 754. Which
formats a NeuronCore-v3 knows is published in the NKI data type table (``nki.api.shared.rst`` of the AWS
Neuron documentation, 2.32): fp32, tf32, bf16, fp16, and the 8-bit e3m4, e4m3 and e5m2 of cFP8. Its e4m3 is
*not* the OCP format of the same name: the vendor's quantisation kernels clip at 240
(``design-rmsnorm-quant.rst``), the largest number of an e4m3 that keeps the top exponent for infinity and
NaN; OCP e4m3 ("fn") has no infinity and reaches 448.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = [
    "BF16",
    "FORMATS",
    "FP8_E3M4",
    "FP8_E4M3",
    "FP8_E4M3FN",
    "FP8_E5M2",
    "FP16",
    "FP32",
    "TF32",
    "Format",
]


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format with subnormals; all of them are subsets of float32.

    Args:
        name: as this package writes it.
        exponent_bits: width of the exponent field.
        mantissa_bits: stored bits of the significand, the implicit one left out.
        bias: of the exponent field.
        has_infinity: whether the top exponent is kept for infinity and NaN, as in IEEE 754. Where it is not,
            only the pattern of all ones (of either sign) is NaN, and the others are ordinary numbers.
        has_nan: whether there is a NaN at all.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_infinity: bool = True
    has_nan: bool = True

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number; subnormals share its spacing."""
        return 1 - self.bias

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest finite number."""
        return (1 << self.exponent_bits) - (2 if self.has_infinity else 1) - self.bias

    @property
    def max_finite(self) -> float:
        """Largest finite number."""
        last = (1 << self.mantissa_bits) - (1 if self.has_infinity or not self.has_nan else 2)
        return math.ldexp((1 << self.mantissa_bits) + last, self.max_exponent - self.mantissa_bits)

    @property
    def min_normal(self) -> float:
        """Smallest positive normal number."""
        return math.ldexp(1.0, self.min_exponent)

    @property
    def min_subnormal(self) -> float:
        """Smallest positive number."""
        return math.ldexp(1.0, self.min_exponent - self.mantissa_bits)

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next number."""
        return math.ldexp(1.0, -self.mantissa_bits)

    @property
    def discarded_bits(self) -> int:
        """Low bits of a float32 significand that a normal number of this format does not have."""
        return FP32_MANTISSA_BITS - self.mantissa_bits


FP32_MANTISSA_BITS = 23

FP32 = Format("fp32", exponent_bits=8, mantissa_bits=23, bias=127)
TF32 = Format("tf32", exponent_bits=8, mantissa_bits=10, bias=127)
BF16 = Format("bf16", exponent_bits=8, mantissa_bits=7, bias=127)
FP16 = Format("fp16", exponent_bits=5, mantissa_bits=10, bias=15)
FP8_E5M2 = Format("fp8_e5m2", exponent_bits=5, mantissa_bits=2, bias=15)
FP8_E4M3 = Format("fp8_e4m3", exponent_bits=4, mantissa_bits=3, bias=7)
"""The legacy, IEEE-like one of NeuronCore-v2 and v3: largest number 240."""
FP8_E4M3FN = Format("fp8_e4m3fn", exponent_bits=4, mantissa_bits=3, bias=7, has_infinity=False)
"""The OCP one (NeuronCore-v4 and GPUs): largest number 448, no infinity."""
FP8_E3M4 = Format("fp8_e3m4", exponent_bits=3, mantissa_bits=4, bias=3)

FORMATS: Mapping[str, Format] = MappingProxyType(
    {f.name: f for f in (FP32, TF32, BF16, FP16, FP8_E5M2, FP8_E4M3, FP8_E4M3FN, FP8_E3M4)}
)
