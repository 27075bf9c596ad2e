"""Frozen records as plain JSON values, for the files that machines read."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from pydantic import BaseModel

from twintrack.quantity import Quantity

__all__ = ["plain_values"]


def plain_values(value: Any) -> Any:
    """Records become objects and tuples lists; fields of a quantity that say nothing are left out.

    A number that is not finite, which a damaged record may hold, becomes ``null``: JSON has no other word for it.
    """
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Quantity):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        kept = ("value", "unit", "kind")
        return {
            name: plain_values(one) for name, one in fields.items() if name in kept or one not in (None, "")
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_values(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain_values(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain_values(one) for name, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
