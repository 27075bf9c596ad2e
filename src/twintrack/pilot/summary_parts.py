"""The parts of one run's summary, as frozen records whose figures are quantities.

A record holds a figure only if an event holds it, or names the formula that makes it from events; a figure
whose event is missing is unknown with the reason, never zero. Curves have one kind and one source for all
their points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twintrack.events import Defect
from twintrack.quantity import Provenance, Quantity

__all__ = [
    "AnswerText",
    "Check",
    "CheckpointSummary",
    "CompileReason",
    "CompileSummary",
    "CoverageSummary",
    "Curve",
    "DataSummary",
    "EvaluationSummary",
    "ImportSummary",
    "LegSummary",
    "ModelSummary",
    "OperatorCost",
    "ProgramCoverage",
    "ProgramSummary",
    "RunEnd",
    "RunName",
    "SliceLoss",
    "StartPart",
    "StartSummary",
    "StopSummary",
]

RunName = Literal["reference", "interrupted"]


@dataclass(frozen=True, slots=True)
class Curve:
    """One value per step, all of one kind and from one source."""

    unit: str
    kind: Provenance
    source: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    over: tuple[int, ...] = ()
    """Of how many steps, the point's own the last, each value is the mean; empty: of its own step alone."""

    @property
    def means(self) -> tuple[int, ...]:
        """``over``, with a 1 for each point where every value is of its own step alone."""
        return self.over or (1,) * len(self.steps)

    @property
    def covered(self) -> frozenset[int]:
        """Every step that a value tells of, alone or within a mean."""
        spans = zip(self.steps, self.means, strict=True)
        return frozenset(step - back for step, count in spans for back in range(count))

    def at(self, index: int) -> Quantity:
        """One point as a figure of its own; unknown where the curve has none there."""
        try:
            step, value, count = self.steps[index], self.values[index], self.means[index]
        except IndexError:
            return Quantity.unknown(self.unit, f"no such point in {self.source}")
        rests_on = Provenance.MEASURED if self.kind is Provenance.DERIVED else None
        where = f"step {step}" if count == 1 else f"mean of {count} steps up to step {step}"
        return Quantity(value, self.unit, self.kind, self.source, rests_on=rests_on, conditions=where)


@dataclass(frozen=True, slots=True)
class Check:
    """Whether two accounts of the same thing are equal to the bit."""

    name: str
    identical: bool | None
    """``None``: there was nothing, or not everything, to compare, and what there was did not differ."""
    compared: Quantity
    """How many entries stood in both."""
    detail: str = ""
    """The first difference, or what was missing."""
    step: int | None = None
    """Step of the first difference, where steps were compared in their order."""


@dataclass(frozen=True, slots=True)
class LegSummary:
    """One process of a run; times in seconds since the first process began."""

    number: int
    started: Quantity
    first_step_done: Quantity
    ended: Quantity
    """When it wrote its last event."""
    first_step: int | None
    last_step: int | None
    how: Literal["done", "polite", "signal", "error", "killed", "lost", "untold"]
    """``killed``: by a stop of the job; ``lost``: no event says why it ended; ``untold``: a log from elsewhere does
    not say whether it ended."""
    message: str
    error: str
    """Class of the error that ended it; empty for other ends, and where an older version wrote the events."""
    resumed_from: int | None
    bytes_read: Quantity
    resume_seconds: Quantity
    repeated_steps: Quantity


@dataclass(frozen=True, slots=True)
class StopSummary:
    """A stop that was made."""

    kind: Literal["polite", "kill", "kill-in-write", "signal"]
    leg: int
    step: int
    at: Quantity


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """One attempt to write a checkpoint."""

    leg: int
    step: int
    started: Quantity
    stall: Quantity
    bytes: Quantity
    seconds: Quantity
    """From the snapshot to the manifest on disk."""
    asynchronous: bool | None
    outcome: Literal["saved", "failed", "unfinished"]
    detail: str
    removed: str
    """Why it was removed later, or found unusable; empty if it was neither."""


@dataclass(frozen=True, slots=True)
class StartPart:
    """One part of the way to the first step."""

    name: str
    seconds: Quantity


@dataclass(frozen=True, slots=True)
class StartSummary:
    """The way of one process to its first step; parts that do not exist there are absent."""

    run: RunName
    leg: int
    programs: Literal["cold", "warm", "mixed", "none", "untold"]
    """Whether its programs were captured, loaded from the cache, both, or there were none to compile; ``untold``: a
    log from elsewhere does not say."""
    resumed: bool
    parts: tuple[StartPart, ...]
    total: Quantity
    captured: Quantity
    loaded: Quantity
    note: str = ""

    def part(self, name: str) -> Quantity | None:
        """Seconds of one part; ``None`` where the start has no such part."""
        return next((part.seconds for part in self.parts if part.name == name), None)


@dataclass(frozen=True, slots=True)
class CompileSummary:
    """One program made ready."""

    run: RunName
    leg: int
    program: str
    key: str
    warm: bool
    during: Literal["warmup", "first_use", "later"]
    reason: str
    capture_seconds: Quantity
    load_seconds: Quantity
    operators: Quantity
    step: int | None = None
    """The first step that its process told of after it; ``None`` where none came."""


@dataclass(frozen=True, slots=True)
class CompileReason:
    """Compilations that had one reason."""

    during: Literal["warmup", "first_use", "later"]
    warm: bool
    reason: str
    programs: tuple[str, ...]
    count: Quantity
    seconds: Quantity
    """Spent now: capture where it was cold, and loading or writing."""


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """FLOPs and executions of one operator in a program."""

    operator: str
    flops: Quantity
    count: Quantity


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """What one execution of a program asks of the machine."""

    program: str
    flops: Quantity
    matmul_flops: Quantity
    operator_bytes: Quantity
    boundary_bytes: Quantity
    bound: Quantity
    """Program bound: a limit, never a prediction."""
    unfused: Quantity
    """Unfused estimate: never a prediction."""
    operators: tuple[OperatorCost, ...]
    """Most FLOPs first."""


@dataclass(frozen=True, slots=True)
class ProgramCoverage:
    """Share of one program that ran under the track's number rules."""

    program: str
    flops_share: Quantity
    operators_share: Quantity


@dataclass(frozen=True, slots=True)
class CoverageSummary:
    """Share of all programs' work that ran under the track's number rules, one execution of each."""

    flops_share: Quantity
    operators_share: Quantity
    complete: bool
    """Whether no FLOP and no operator was left out."""
    programs: tuple[ProgramCoverage, ...]
    host_operators: tuple[tuple[str, Quantity], ...]


@dataclass(frozen=True, slots=True)
class SliceLoss:
    """Loss on one slice of the evaluation samples."""

    name: str
    loss: Quantity
    tokens: Quantity


@dataclass(frozen=True, slots=True)
class EvaluationSummary:
    """One evaluation; slices with the highest loss first."""

    step: int
    loss: Quantity
    seconds: Quantity
    slices: tuple[SliceLoss, ...]


@dataclass(frozen=True, slots=True)
class AnswerText:
    """A greedy answer."""

    step: int
    prompt: str
    text: str


@dataclass(frozen=True, slots=True)
class DataSummary:
    """What was trained and evaluated on."""

    digest: str
    train_samples: Quantity
    evaluation_samples: Quantity
    train_rows: Quantity
    evaluation_rows: Quantity
    truncated: Quantity
    split: Quantity
    tokens: Quantity
    loss_tokens: Quantity


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What was trained."""

    source: str
    weights_digest: str
    note: str
    parameters: Quantity
    trainable_parameters: Quantity
    adapted_modules: Quantity


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The run met its stop criterion."""

    step: int
    reason: Literal["steps", "evaluation_loss"]
    state_digest: str | None
    """``None``: an imported log does not say."""


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """A log that the run, or what came before it, was read from."""

    file: str
    sha256: str
    format: str
    lines: Quantity
    training_seconds: Quantity
    """How long training took as a whole, where the log says."""
    defects: tuple[Defect, ...]
