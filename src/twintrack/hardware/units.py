"""The units that the catalogue uses, and their base units.

Decimal and binary units are never mixed: ``GB/s`` is 10**9 byte/s, ``GiB`` 2**30 byte, ``Gbps`` 10**9 bit/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType

from twintrack.quantity import Quantity

__all__ = ["BASE_UNITS", "in_base_unit"]

BASE_UNITS: Mapping[str, tuple[Decimal, str]] = MappingProxyType(
    {
        "TFLOPS": (Decimal(10**12), "FLOP/s"),
        "PFLOPS": (Decimal(10**15), "FLOP/s"),
        "KiB": (Decimal(2**10), "byte"),
        "MiB": (Decimal(2**20), "byte"),
        "GiB": (Decimal(2**30), "byte"),
        "GB/s": (Decimal(10**9), "byte/s"),
        "TB/s": (Decimal(10**12), "byte/s"),
        "Gbps": (Decimal(10**9) / 8, "byte/s"),
        "GHz": (Decimal(10**9), "Hz"),
        "us": (Decimal("0.000001"), "s"),
        "W": (Decimal(1), "W"),
        "USD/h": (Decimal(1), "USD/h"),
    }
)
"""Unit, its size in the base unit, the base unit. Every other unit counts things and is its own base."""


def in_base_unit(quantity: Quantity) -> Quantity:
    """The same figure in FLOP/s, byte, byte/s, Hz or s; kind, source, date and conditions stay.

    The product is taken in decimal, so 2.9 TB/s is exactly 2,900,000,000,000 byte/s. Whole numbers come back
    as ``int``.
    """
    size, base = BASE_UNITS.get(quantity.unit, (Decimal(1), quantity.unit))
    if quantity.value is None:
        return replace(quantity, unit=base)
    product = Decimal(str(quantity.value)) * size
    whole = product == product.to_integral_value()
    return replace(quantity, value=int(product) if whole else float(product), unit=base)
