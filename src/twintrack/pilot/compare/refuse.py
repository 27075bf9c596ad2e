"""Whether two runs may be compared: the same job but for what training does not depend on, same data, same weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from twintrack.errors import CompareError
from twintrack.job.digest import comparable_parts, differing_parts, part_values
from twintrack.pilot.compare.data_difference import data_difference
from twintrack.pilot.compare.read import LoadedRun
from twintrack.pilot.summary_failures_data import rows_per_step

__all__ = ["DECISIVE", "Sameness", "require_comparable"]

DECISIVE = ("adapters", "data", "model", "training")
"""Parts of a job that decide what training computes: seed, precision, batch, optimizer, schedule, steps and stop
criteria are its part ``training``. The parallel plan may differ, as long as a step has equally many rows."""
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Sameness:
    """What two runs that may be compared share."""

    data: bool | None
    """``None``: one of them does not say."""
    weights: bool | None
    differing_parts: tuple[str, ...]
    """Parts of the jobs that differ and that training does not depend on."""


def require_comparable(first: LoadedRun, second: LoadedRun) -> Sameness:
    """What they share.

    Raises:
        CompareError: naming the part of the job that differs with its fields and both values, the weights, or the data
            with the sample where that is known.
    """
    parts = differing_parts(comparable_parts(first.job), comparable_parts(second.job))
    _require_same_job(first, second, parts)
    every = first.job.evaluation.every_steps, second.job.evaluation.every_steps
    if first.job.stop.evaluation_loss_below is not None and every[0] != every[1]:
        found = f"evaluation.every_steps {every[0]} and {every[1]}, where an evaluation may end the training"
        raise _refusal(first, second, "the same stop criteria", found)
    sizes = rows_per_step(first.job), rows_per_step(second.job)
    if sizes[0] != sizes[1]:
        raise _refusal(
            first,
            second,
            "steps of equally many rows",
            f"{sizes[0]} and {sizes[1]} (parallel.data {first.job.parallel.data} and {second.job.parallel.data})",
        )
    return Sameness(_same_data(first, second), _same_weights(first, second), parts)


def _require_same_job(first: LoadedRun, second: LoadedRun, parts: tuple[str, ...]) -> None:
    decisive = [part for part in parts if part in DECISIVE]
    if not decisive:
        return
    ours, theirs = part_values(first.job), part_values(second.job)
    fields = [text for part in decisive for text in _fields(ours[part], theirs[part])]
    named = "part" if len(decisive) == 1 else "parts"
    raise _refusal(
        first,
        second,
        "runs of the same job",
        f"{named} {', '.join(decisive)} of the job differ: {'; '.join(fields)}",
    )


def _fields(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    keys = sorted(one.keys() | other.keys())
    absent = object()
    return [
        f"{key} {_value(one, key)} and {_value(other, key)}"
        for key in keys
        if one.get(key, absent) != other.get(key, absent)
    ]


def _value(values: dict[str, Any], key: str) -> str:
    if key not in values:
        return "(not set)"
    text = json.dumps(values[key], ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _same_weights(first: LoadedRun, second: LoadedRun) -> bool | None:
    models = first.run.model, second.run.model
    if models[0] is None or models[1] is None:
        return None
    if models[0].weights_digest != models[1].weights_digest:
        digests = f"digests {models[0].weights_digest[:12]}… and {models[1].weights_digest[:12]}…"
        raise _refusal(first, second, "the same base weights", f"{models[0].source}: {digests}")
    return True


def _same_data(first: LoadedRun, second: LoadedRun) -> bool | None:
    data = first.run.data, second.run.data
    if data[0] is None or data[1] is None:
        return None
    if data[0].digest != data[1].digest:
        raise _refusal(
            first, second, "the same data in the same split and order", data_difference(first, second)
        )
    return True


def _refusal(first: LoadedRun, second: LoadedRun, required: str, found: str) -> CompareError:
    return CompareError(
        required,
        found=found,
        where=f"{first.name} and {second.name}",
        remedy="compare runs of one job on the same data, or run one of them again",
    )
