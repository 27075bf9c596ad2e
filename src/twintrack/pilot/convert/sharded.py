"""What ``shards.json`` says beside the layout: job, step, and what of a run's checkpoint is no trained tensor."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from twintrack.errors import CheckpointError
from twintrack.job.records import Job

__all__ = ["ShardedValues", "decode_values", "encode_values"]


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    step: int
    job: Job
    base: str
    values: dict[str, Any]
    rng: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class ShardedValues:
    """Everything of a sharded checkpoint that no parallel plan cuts."""

    step: int
    job: Job
    base: str
    """Folder of the job file."""
    values: Mapping[str, Any]
    """Of the training state."""
    rng: Mapping[str, Tensor]
    """Random generators, uint8, by ``rng/NAME``."""


def encode_values(said: ShardedValues) -> dict[str, Any]:
    """As JSON; generators as base64."""
    return {
        "step": said.step,
        "job": said.job.model_dump(mode="json"),
        "base": said.base,
        "values": dict(said.values),
        "rng": {n: base64.b64encode(t.numpy().tobytes()).decode() for n, t in sorted(said.rng.items())},
    }


def decode_values(values: Mapping[str, Any], folder: Path) -> ShardedValues:
    """The inverse of ``encode_values``.

    Raises:
        CheckpointError: if it is not that.
    """
    try:
        document = _Document.model_validate_json(json.dumps(values))
        rng = {name: _bytes(text) for name, text in document.rng.items()}
    except (ValidationError, binascii.Error, ValueError) as error:
        text = str(error.errors(include_url=False)[0]) if isinstance(error, ValidationError) else str(error)
        raise CheckpointError(
            "job, step and values of a sharded checkpoint",
            found=text[:200],
            where=str(folder / "shards.json"),
            remedy="make it again with 'twintrack convert', from the run",
        ) from error
    return ShardedValues(document.step, document.job, document.base, document.values, rng)


def _bytes(text: str) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text, validate=True)), dtype=torch.uint8)
