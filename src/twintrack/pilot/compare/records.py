"""Two runs of one job side by side, as frozen records; every figure is a quantity with its source.

The first run is the one that is compared with, the second the one that is judged: differences are the second less the
first, ratios the second over the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twintrack.pilot.summary_parts import CompileReason, Curve, EvaluationSummary, StartSummary
from twintrack.pilot.summary_records import Comparison, Failure
from twintrack.quantity import Quantity

__all__ = [
    "EMULATED",
    "AnswerPair",
    "FigureRow",
    "LossTest",
    "LossVerdict",
    "RunComparison",
    "RunSide",
    "SliceComparison",
    "SliceFinding",
    "SliceRow",
    "StartPair",
]

LossVerdict = Literal["equivalent", "different", "not shown"]
EMULATED = frozenset({"trn2"})
"""Tracks whose seconds and memory are those of an emulation, never those of the machine that they stand for."""


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of the two runs."""

    name: str
    """The run, as ``FOLDER:TRACK/KIND``."""
    label: str
    """As short as the other run allows."""
    track: str
    job: str
    job_digest: str
    emulated: bool
    imported: bool
    """Whether it was read from a log that another program wrote."""
    data_digest: str | None
    weights_digest: str | None
    steps_done: Quantity
    loss: Curve
    evaluations: tuple[EvaluationSummary, ...]
    failures: tuple[Failure, ...]
    """What had to hold of this run and did not."""
    to_the_bit: bool | None
    """Whether the track's interrupted run ended in the bits of the one that was never stopped."""
    resume_reason: str
    """Why that is not known, or what differed."""
    optimizer: str
    """What its newest checkpoint holds of the optimizer, in words; empty where there is no checkpoint here."""
    compile_reasons: tuple[CompileReason, ...]
    """Of this run alone."""
    recompile_share: Quantity


@dataclass(frozen=True, slots=True)
class LossTest:
    """Whether the losses of the last half of the steps are the same but for the tolerance."""

    verdict: LossVerdict
    mean: Quantity
    """Mean relative difference over the last half."""
    low: Quantity
    high: Quantity
    """Ends of its 95 % interval."""
    tolerance: Quantity
    pairs: Quantity
    """Steps, or equal groups of steps, that were compared."""
    first_step: int | None
    """Where the last half begins."""
    block_length: int
    resamples: int
    seed: int
    reason: str
    """The verdict in a sentence."""


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One slice of the last evaluation."""

    name: str
    tokens: Quantity
    first: Quantity
    second: Quantity
    difference: Quantity
    """``(b − a) / a``: above 0 the second run is worse, by that share of the first one's loss."""


@dataclass(frozen=True, slots=True)
class SliceFinding:
    """Something that the mean hides."""

    text: str
    breaks: bool
    """Whether it is more than the tolerance, so that the quality does not hold."""


@dataclass(frozen=True, slots=True)
class SliceComparison:
    """The last evaluations of both runs."""

    step: int
    mean: SliceRow
    rows: tuple[SliceRow, ...]
    """The worst slice first, by the higher of its two losses."""
    findings: tuple[SliceFinding, ...]


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """What both runs answered to one prompt after their last step."""

    prompt: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of both runs."""

    name: str
    first: Quantity
    second: Quantity
    ratio: Quantity | None
    """Second over first; unknown with the reason where they cannot be put over each other, ``None`` for counts."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class StartPair:
    """The way to the first step of both runs, in one state of the compile cache."""

    state: Literal["cold", "warm", "as it was"]
    first: StartSummary | None
    second: StartSummary | None
    ratio: Quantity
    """Second over first; unknown with the reason where one is cold and the other warm, or one is an emulation."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs of one job."""

    first: RunSide
    second: RunSide
    tolerance: Quantity
    same_data: bool | None
    """``None``: one of them does not say which data it saw."""
    same_weights: bool | None
    differing_parts: tuple[str, ...]
    """Parts of the jobs that differ and do not decide what training computes."""
    losses: Comparison
    """The largest difference at any step, against the tolerance."""
    test: LossTest
    slices: SliceComparison | None
    answers: tuple[AnswerPair, ...]
    starts: tuple[StartPair, ...]
    figures: tuple[FigureRow, ...]
    """Speed, checkpoints, resume, memory."""
    costs: tuple[FigureRow, ...]
    """Empty where no ledger was given."""
    remarks: tuple[str, ...]
    """What a reader must know of these figures."""
    quality: bool | None
    """Whether the second run is as good as the first: ``None`` where that is not shown."""
    quality_reason: str
    """``quality_reasons`` in one line."""
    quality_reasons: tuple[str, ...]
