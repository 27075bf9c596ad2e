"""What a job is, as digests: the whole, its named parts, and the training itself.

Three identities, from the widest to the narrowest:

- ``job_digest``: the effective job. Equal digests mean that every declared value is equal.
- ``comparable_parts``: one digest per named part, to say *which* part differs between two jobs.
- ``training_digest``: what decides the numbers that training computes. Stops, tolerances, tracks, the
  checkpoint policy, the job's name and what is only evaluated or shown do not change it: a run that was
  stopped, or ran elsewhere, or saved more often is the same training. A checkpoint may be continued by
  every job with the same training digest, on the same track and in the same compute type.

Files that the job names are not read here: their content has its own digest, taken where they are read.
Digests are of effective values, so writing a default out changes nothing; a new key in a later version of
twintrack changes them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from twintrack.job.records import Job
from twintrack.storage import digest_json

__all__ = ["comparable_parts", "differing_parts", "job_digest", "training_digest"]

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
}

_TRAINING_PARTS = ("adapters", "data", "model", "parallel", "training")


def job_digest(job: Job) -> str:
    """SHA-256 of every effective value of the job, in hexadecimal."""
    return digest_json({"format": _FORMAT, "job": job.model_dump(mode="json")})


def comparable_parts(job: Job) -> dict[str, str]:
    """A digest per named part, sorted by name.

    The parts: adapters, checkpoint, data, evaluation, model, name, parallel, stops, tolerances, tracks,
    training. Every field of the job belongs to exactly one.
    """
    return {part: digest_json(values) for part, values in sorted(_parts(job).items())}


def differing_parts(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the parts, as ``comparable_parts`` gives them, that two jobs do not share, sorted."""
    return tuple(sorted(part for part in one.keys() | other.keys() if one.get(part) != other.get(part)))


def training_digest(job: Job) -> str:
    """SHA-256 of what decides the numbers that training computes, in hexadecimal.

    When evaluations happen counts only where ``stop.evaluation_loss_below`` lets one end the training.
    """
    parts = _parts(job)
    values = {part: parts[part] for part in _TRAINING_PARTS}
    if job.stop.evaluation_loss_below is not None:
        values["evaluation"] = {"every_steps": job.evaluation.every_steps}
    return digest_json({"format": _FORMAT, "training": values})


def _parts(job: Job) -> dict[str, dict[str, Any]]:
    parts: dict[str, dict[str, Any]] = {part: {} for part in _PART_OF.values()}
    for name, value in job:
        fields = [(f"{name}.{key}", inner) for key, inner in value] if isinstance(value, BaseModel) else []
        for path, inner in fields or [(name, value)]:
            parts[_PART_OF.get(path, _PART_OF[name])][path] = _plain(inner)
    return parts


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
