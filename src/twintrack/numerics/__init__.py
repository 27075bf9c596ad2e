"""Number formats and rounding as pure functions, once for NumPy and once for torch, equal bit for bit.

``formats`` and ``rounding_numpy`` need no torch; ``rounding`` does and is therefore not imported here.
"""

from twintrack.numerics.formats import (
    BF16,
    FORMATS,
    FP8_E3M4,
    FP8_E4M3,
    FP8_E4M3FN,
    FP8_E5M2,
    FP16,
    FP32,
    TF32,
    Format,
)
from twintrack.numerics.random_bits import random_words

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
    "random_words",
]
