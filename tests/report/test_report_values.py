"""Records as JSON values."""

from __future__ import annotations

import json
from dataclasses import dataclass

from twintrack.quantity import Quantity
from twintrack.report.values import plain_values


@dataclass(frozen=True)
class _Record:
    curve: tuple[float, ...]
    figure: Quantity


def test_numbers_that_are_none_become_null_so_that_any_record_is_json():
    record = _Record((1.0, float("nan"), float("inf")), Quantity.unknown("s", "nobody measured it"))

    values = plain_values(record)

    assert json.loads(json.dumps(values, allow_nan=False))["curve"] == [1.0, None, None]
    assert values["figure"] == {"value": None, "unit": "s", "kind": "unknown", "source": "nobody measured it"}
