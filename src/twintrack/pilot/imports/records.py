"""What a log gives before it is judged: rows, and what could not be read of it.

A reader of one format fills a ``Log``; ``build`` makes events of it and looks for holes, times that go backwards and
numbers that are none, in the same way for every format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from twintrack.events import Defect
from twintrack.pilot.folders import RunKind

__all__ = ["EVALUATION", "MOST_STEPS", "TRAINING", "Log", "Row", "Target"]

TRAINING = (
    "loss",
    "learning_rate",
    "gradient_norm",
    "seconds",
    "tokens",
    "loss_tokens",
    "peak_memory_bytes",
)
"""Figures of a training step: what ``StepDone`` has, and the peak memory so far (bytes)."""
EVALUATION = ("evaluation_loss", "evaluation_seconds")
"""Figures of an evaluation."""
MOST_STEPS = 100_000_000
"""The largest step that a job can ask for; a larger number is not a step."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one line, or one entry of a log's history, says of a step."""

    line: int
    """From 1."""
    step: int
    """As the log counts."""
    figures: Mapping[str, float]
    """By the names of ``TRAINING`` and ``EVALUATION``; may be NaN or infinite, as logs write them."""
    time: float | None = None
    """Seconds since 1970-01-01 UTC, or since any other moment that is the same for all rows."""
    sample_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """What a log says."""

    format: str
    lines: int
    rows: tuple[Row, ...]
    defects: tuple[Defect, ...] = ()
    averaged: bool = False
    """Whether a row's loss and seconds are means over the steps since the row before."""
    interval: int | None = None
    """Every how many steps the trainer meant to log, where the log says."""
    end: int | None = None
    """The step at which the log says that training ended, as the log counts."""
    seconds: float | None = None
    """How long training took as a whole, where the log says."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """The run that a log is to become."""

    job_digest: str
    steps: int
    """That the job asks for."""
    track: str
    kind: RunKind
    instance: str | None = None
    """Name of the machine that it ran on, as in the catalogue."""
    first_step: Literal[0, 1] = 1
    """How the log counts the first step."""
