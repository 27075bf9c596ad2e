"""What a job is, as digests: the whole, its named parts, and the training itself.

Three identities, from the widest to the narrowest:

- ``job_digest``: the effective job. Equal digests mean that every declared value is equal.
- ``comparable_parts``: one digest per named part, to say *which* part differs between two jobs.
- ``training_digest``: what decides the numbers that training computes. Stops, tolerances, tracks, the
  checkpoint policy, the job's name and what is only evaluated or shown do not change it: a run that was
  stopped, or ran elsewhere, or saved more often is the same training. A checkpoint may be continued by
  every job with the same training digest, on the same track and in the same compute type.

Files that the job names are not read here: their content has its own digest, taken where they are read.
Digests are of effective values, so writing a default out changes nothing. A key that a later version added is left
out while it has its default, so that runs and checkpoints of earlier versions keep their digests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from twintrack.job.records import Costs, Data, Decision, Job, Responsibility
from twintrack.storage import digest_json

__all__ = [
    "comparable_parts",
    "data_values",
    "differing_parts",
    "job_digest",
    "part_values",
    "training_digest",
]

_FORMAT = "twintrack job 1"

_PART_OF = {
    "name": "name",
    "seed": "training",
    "model": "model",
    "data": "data",
    "data.slice_field": "evaluation",  # names groups in reports; no sample is chosen or ordered by it
    "lora": "adapters",
    "precision": "training",
    "batch": "training",
    "optimizer": "training",
    "schedule": "training",
    "stop": "training",  # the schedule stretches over stop.steps, and the criteria decide the last step
    "evaluation": "evaluation",
    "checkpoint": "checkpoint",
    "stops": "stops",
    "tolerances": "tolerances",
    "parallel": "parallel",  # the order in which devices' sums are added decides bits
    "tracks": "tracks",
    "costs": "costs",
    "decision": "decision",
    "responsibility": "decision",
}

_ADDED: Mapping[str, Any] = {
    "data.padding": "full",
    "costs": Costs().model_dump(mode="json"),
    "decision": Decision().model_dump(mode="json"),
    "responsibility": Responsibility().model_dump(mode="json"),
}
"""Keys that came after the first format, and the values at which they are left out."""

_TRAINING_PARTS = ("adapters", "data", "model", "parallel", "training")


def job_digest(job: Job) -> str:
    """SHA-256 of every effective value of the job, in hexadecimal."""
    values = job.model_dump(mode="json") | {"data": data_values(job.data)}
    return digest_json({"format": _FORMAT, "job": _without_added("", values)})


def data_values(data: Data) -> dict[str, Any]:
    """The values of a data record that count in digests."""
    return _without_added("data.", data.model_dump(mode="json"))


def _without_added(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    absent = object()
    return {key: value for key, value in values.items() if _ADDED.get(f"{prefix}{key}", absent) != value}


def comparable_parts(job: Job) -> dict[str, str]:
    """A digest per named part, sorted by name.

    The parts: adapters, checkpoint, costs, data, decision, evaluation, model, name, parallel, stops, tolerances,
    tracks, training. Every field of the job belongs to exactly one.
    """
    return {part: digest_json(values) for part, values in sorted(part_values(job).items())}


def differing_parts(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the parts, as ``comparable_parts`` gives them, that two jobs do not share, sorted."""
    return tuple(sorted(part for part in one.keys() | other.keys() if one.get(part) != other.get(part)))


def training_digest(job: Job) -> str:
    """SHA-256 of what decides the numbers that training computes, in hexadecimal.

    When evaluations happen counts only where ``stop.evaluation_loss_below`` lets one end the training.
    """
    parts = part_values(job)
    values = {part: parts[part] for part in _TRAINING_PARTS}
    if job.stop.evaluation_loss_below is not None:
        values["evaluation"] = {"every_steps": job.evaluation.every_steps}
    return digest_json({"format": _FORMAT, "training": values})


def part_values(job: Job) -> dict[str, dict[str, Any]]:
    """The values behind each digest of ``comparable_parts``, as plain JSON values by the path of their key."""
    parts: dict[str, dict[str, Any]] = {part: {} for part in _PART_OF.values()}
    for name, value in job:
        fields = [(f"{name}.{key}", inner) for key, inner in value] if isinstance(value, BaseModel) else []
        for path, inner in fields or [(name, value)]:
            if path not in _ADDED or _plain(inner) != _ADDED[path]:
                parts[_PART_OF.get(path, _PART_OF[name])][path] = _plain(inner)
    return parts


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
