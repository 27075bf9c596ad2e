"""Element types of NKI: their names, widths and how they lie in memory.

Names and widths: the NKI data type table (``nki.api.shared.rst`` of the AWS Neuron documentation, 2.32).
``float8_e4m3`` is the type with infinity (largest number 240), ``float8_e4m3fn`` the OCP type without (448).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NoReturn

import ml_dtypes
import numpy as np

from twintrack.numerics.formats import BF16, FP8_E4M3, FP8_E4M3FN, FP8_E5M2, FP16, TF32, Format

__all__ = ["DTYPES", "DType", "Kind", "dtype_of"]

Kind = Literal["float", "int", "uint", "bool", "packed", "scale"]


class DType(str):
    """One element type: its name, and what is known of it.

    A type equals its name (``DTYPES["float32"] == "float32"``) and is passed wherever NumPy takes a dtype by name.
    There is one object per name, in ``DTYPES``; copies and unpickled ones are that object.
    """

    __slots__ = ("bytes", "is_float", "is_integer", "kind", "number_format", "stored")

    kind: Kind
    """``packed`` are four elements in one word, ``scale`` is the exponent that a group of them shares."""
    bytes: int
    """Width of one element."""
    stored: np.dtype[Any]
    """As an element lies in memory; ``tfloat32`` takes the four bytes of a float32, a packed type one word."""
    number_format: Format | None
    """Number format of a float that is narrower than float32."""
    is_float: bool
    """Whether it is a floating-point number."""
    is_integer: bool
    """Whether it is an integer; booleans are stored as bytes and count."""

    def __new__(cls, name: str, kind: Kind, stored: Any, fmt: Format | None = None) -> DType:
        """A new record; for the table below only."""
        self = super().__new__(cls, name)
        kept = np.dtype(stored)
        values = {
            "kind": kind,
            "bytes": kept.itemsize,
            "stored": kept,
            "number_format": fmt,
            "is_float": kind == "float",
            "is_integer": kind in ("int", "uint", "bool"),
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)
        return self

    @property
    def name(self) -> str:
        """The name as a plain string."""
        return str.__str__(self)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"element types do not change: {self}.{attribute}")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"element types do not change: {self}.{attribute}")

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype_of, (self.name,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self

    def __repr__(self) -> str:
        return self.name


_ALL = (
    DType("bool", "bool", np.uint8),
    DType("int8", "int", np.int8),
    DType("int16", "int", np.int16),
    DType("int32", "int", np.int32),
    DType("uint8", "uint", np.uint8),
    DType("uint16", "uint", np.uint16),
    DType("uint32", "uint", np.uint32),
    DType("float16", "float", np.float16, FP16),
    DType("bfloat16", "float", ml_dtypes.bfloat16, BF16),
    DType("tfloat32", "float", np.float32, TF32),
    DType("float32", "float", np.float32),
    DType("float8_e4m3", "float", ml_dtypes.float8_e4m3, FP8_E4M3),
    DType("float8_e4m3fn", "float", ml_dtypes.float8_e4m3fn, FP8_E4M3FN),
    DType("float8_e5m2", "float", ml_dtypes.float8_e5m2, FP8_E5M2),
    DType("float8_e8m0fnu", "scale", np.uint8),
    DType("float8_e4m3fn_x4", "packed", np.uint32),
    DType("float8_e5m2_x4", "packed", np.uint32),
    DType("float4_e2m1fn_x4", "packed", np.uint16),
)
DTYPES: Mapping[str, DType] = MappingProxyType({one.name: one for one in _ALL})
"""Every type by its name."""

_NAMES: Mapping[str, DType] = MappingProxyType(
    {**DTYPES, "bool_": DTYPES["bool"]} | {f"torch.{one.name}": one for one in _ALL}
)
"""By what ``str`` gives of a type here or of a torch dtype (torch itself is not needed to know them)."""

_BY_STORED: Mapping[np.dtype[Any], DType] = MappingProxyType(
    {one.stored: one for one in _ALL if one.kind in ("float", "int", "uint") and one != "tfloat32"}
    | {np.dtype(np.bool_): DTYPES["bool"], np.dtype(ml_dtypes.float8_e8m0fnu): DTYPES["float8_e8m0fnu"]}
)


def dtype_of(value: object) -> DType:
    """The type that is meant by a type, a name, a dtype or scalar type of NumPy or ml_dtypes, or a torch dtype.

    Raises:
        KeyError: if NKI has no such type (64-bit ones among them); its argument is what was given.
    """
    if isinstance(value, DType):
        return value
    try:
        found = _NAMES.get(value if isinstance(value, str) else str(value))
        return found if found is not None else _BY_STORED[np.dtype(value)]  # type: ignore[call-overload]
    except (TypeError, KeyError):
        raise KeyError(value) from None
