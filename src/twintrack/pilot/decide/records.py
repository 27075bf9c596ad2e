"""The decision as frozen records: verdict, matrix, signs, sensitivity; every figure is a quantity with its source."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from twintrack.quantity import Quantity

__all__ = [
    "Basis",
    "Criterion",
    "DatedFact",
    "Figure",
    "Flip",
    "Outcome",
    "Reason",
    "Sign",
    "Verdict",
]


class Outcome(StrEnum):
    """Whether the job belongs on Trainium."""

    ACCEPTED = "accepted"
    """It does, by every rule."""
    REFUSED = "refused"
    """It does not: a stop sign stands, or it costs more."""
    UNDECIDED = "undecided"
    """What would decide it is not known."""


Basis = Literal["measured", "answered", "unknown"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A named figure behind a statement."""

    name: str
    value: Quantity


@dataclass(frozen=True, slots=True)
class Reason:
    """One rule of the verdict, whether it holds, and the figures that it was judged by."""

    rule: str
    """Short name, such as ``cost``."""
    holds: bool | None
    """``None``: not known."""
    text: str
    """One sentence."""
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Criterion:
    """One row of the matrix."""

    name: str
    score: int | None
    """1 speaks for staying on GPU, 5 for Trainium; ``None``: neither measured nor answered."""
    basis: Basis
    text: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Sign:
    """A stop sign or a go sign."""

    kind: Literal["stop", "go"]
    name: str
    rule: str
    """What must hold: that a go sign stands, and of a stop sign the opposite."""
    stands: bool | None
    """``None``: not known."""
    text: str
    """What was looked at, and what it showed."""
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Flip:
    """How far one input must move, all others as they are, to change the verdict."""

    name: str
    now: Quantity
    at: Quantity
    """Value at which the verdict changes; unknown with the reason where no value of this input changes it."""
    becomes: Outcome | None
    text: str


@dataclass(frozen=True, slots=True)
class DatedFact:
    """Support status of a part of the software stack, as it was published."""

    side: Literal["trainium", "gpu"]
    what: str
    status: str
    since: str
    until: str
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one job, on one day."""

    job: str
    job_digest: str
    on: str
    outcome: Outcome
    sentence: str
    """The verdict and its first reason in one sentence."""
    reasons: tuple[Reason, ...]
    would_change: tuple[str, ...]
    """What would change the verdict, the nearest first."""
    criteria: tuple[Criterion, ...]
    signs: tuple[Sign, ...]
    sensitivity: tuple[Flip, ...]
    software: tuple[DatedFact, ...]
    runs: tuple[str, ...]
    """The runs that it rests on, as ``FOLDER:TRACK/KIND``."""
