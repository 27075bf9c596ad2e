"""What a pilot's run folder says: runs, tracks and what they say together, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twintrack.job.records import Job
from twintrack.pilot.summary_figures import source_text
from twintrack.pilot.summary_parts import (
    AnswerText,
    Check,
    CheckpointSummary,
    CompileReason,
    CompileSummary,
    CoverageSummary,
    Curve,
    DataSummary,
    EvaluationSummary,
    ImportSummary,
    LegSummary,
    ModelSummary,
    ProgramSummary,
    RunEnd,
    RunName,
    StartSummary,
    StopSummary,
)
from twintrack.quantity import Quantity

__all__ = [
    "Comparison",
    "Failure",
    "FailureKind",
    "ResumeCheck",
    "RunSummary",
    "SlotSummary",
    "Summary",
    "TrackSummary",
]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run of a track. Of a step done twice, the curves hold the last time."""

    track: str
    run: RunName
    events: str
    """Its events file, relative to the run folder."""
    job_digests: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    data: DataSummary | None
    model: ModelSummary | None
    legs: tuple[LegSummary, ...]
    end: RunEnd | None
    loss: Curve
    gradient_norm: Curve
    learning_rate: Curve
    step_seconds: Curve
    sample_ids: tuple[tuple[str, ...], ...]
    """Of each step of the loss curve; empty where a log from elsewhere does not say."""
    repeats: Check
    """Steps that a later leg did again, compared with the first time."""
    starts: tuple[StartSummary, ...]
    compiles: tuple[CompileSummary, ...]
    programs: tuple[ProgramSummary, ...]
    coverage: CoverageSummary | None
    checkpoints: tuple[CheckpointSummary, ...]
    stops: tuple[StopSummary, ...]
    evaluations: tuple[EvaluationSummary, ...]
    answers: tuple[AnswerText, ...]
    peak_memory: Quantity
    tokens_per_second: Quantity
    steps_done: Quantity
    restarts: Quantity
    failures: Quantity
    """Processes that did not end in order."""
    bytes_reread: Quantity
    repeated_steps: Quantity
    imported: tuple[ImportSummary, ...] = ()
    """Logs that it was read from; empty where it was made here."""

    @property
    def told_here(self) -> bool:
        """Whether its events are those of our own loop, here or elsewhere, so that what they do not tell did not
        happen."""
        return all(one.format == "events" for one in self.imported)

    @property
    def source(self) -> str:
        """Its events file, and the log that this came from, as sources of figures name it."""
        return source_text(self.events, [(one.file, one.sha256) for one in self.imported])


@dataclass(frozen=True, slots=True)
class ResumeCheck:
    """The interrupted run against the one that was never stopped."""

    to_the_bit: bool | None
    reason: str
    """Why it is not known, or what differed."""
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class TrackSummary:
    """Both runs of a track and what they say together."""

    track: str
    reference: RunSummary | None
    interrupted: RunSummary | None
    resume: ResumeCheck
    cold: StartSummary | None
    warm: StartSummary | None
    compile_reasons: tuple[CompileReason, ...]
    recompiles: Quantity
    """Programs made ready after the first step of their process."""
    stall: Quantity
    slowdown: Quantity
    """Median step while a checkpoint was being written over the median of the other steps."""

    @property
    def runs(self) -> tuple[RunSummary, ...]:
        """The runs that there are, the reference first."""
        return tuple(run for run in (self.reference, self.interrupted) if run is not None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two tracks on the same job: their reference runs, step by step."""

    first: str
    second: str
    largest: Quantity
    at_step: int | None
    tolerance: Quantity
    within: bool | None
    difference: Curve
    evaluation_difference: Quantity
    """Relative difference of the last evaluation's loss."""
    samples: Check
    """Whether both saw the same samples in every step."""


FailureKind = Literal[
    "absent",
    "inputs",
    "steps",
    "data",
    "adapter",
    "training",
    "schedule",
    "resume",
    "checkpoint",
    "rules",
    "quality",
    "evaluation",
    "stops",
    "log",
]
"""What kind of thing failed; the decision's stop signs are raised by kind.

``absent``: evidence that is missing, which proves nothing either way; ``inputs``: not the same job, data or weights;
``steps``: fewer or other steps than asked; ``data``: samples left out or seen too often; ``adapter``: trained and never
applied; ``training``: nothing learned, or not finite; ``schedule``: a learning rate that the job does not have there;
``resume``: not the run that was never stopped; ``rules``: outside the track's number rules; ``quality``: losses apart;
``evaluation``: evaluations or answers missing; ``log``: an imported log with holes.
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that had to hold and did not."""

    where: str
    what: str
    kind: FailureKind


@dataclass(frozen=True, slots=True)
class SlotSummary:
    """One place in the comparison: which tracks could fill it, which did, and why."""

    use: tuple[str, ...]
    track: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """All that a pilot's run folder says."""

    job: Job
    job_digest: str
    version: str
    slots: tuple[SlotSummary, ...]
    tracks: tuple[TrackSummary, ...]
    comparisons: tuple[Comparison, ...]
    to_the_bit: bool | None
    """Whether every track resumed to the bit; ``None`` where it is not known of one and wrong of none."""
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures
