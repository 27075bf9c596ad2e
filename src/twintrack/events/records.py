"""The kinds of events, as frozen records."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Answer",
    "AnyEvent",
    "CheckpointFailed",
    "CheckpointPassedOver",
    "CheckpointRemoved",
    "CheckpointSaved",
    "CheckpointSnapshot",
    "CompileDone",
    "Coverage",
    "DataPrepared",
    "Defect",
    "EvaluationDone",
    "Event",
    "Imported",
    "LegEnded",
    "LegStarted",
    "MemoryPeak",
    "ModelLoaded",
    "Phase",
    "ProgramCost",
    "Resumed",
    "RunDone",
    "StepDone",
    "StopMade",
]


class Event(BaseModel):
    """Base of all events."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    time: float | None = None
    """Seconds since 1970-01-01 UTC, stamped by the log; ``None``: an imported log does not say when it was."""
    leg: int = 0
    """Which process of the run, counted from 0, stamped by the log."""


class LegStarted(Event):
    """A process began to work on the run."""

    kind: Literal["leg_started"] = "leg_started"
    track: str
    job_digest: str
    environment: dict[str, str]
    """Versions and machine facts that a reader needs to judge the figures."""


class DataPrepared(Event):
    """Samples were read, split, tokenised and packed."""

    kind: Literal["data_prepared"] = "data_prepared"
    digest: str
    """Of data, split and order."""
    train_samples: int
    evaluation_samples: int
    train_rows: int
    evaluation_rows: int
    truncated: int
    split: int
    tokens: int
    loss_tokens: int


class ModelLoaded(Event):
    """Weights are in memory and adapters in place."""

    kind: Literal["model_loaded"] = "model_loaded"
    source: str
    weights_digest: str
    """Of the base weights."""
    note: str
    """What a reader must know of the weights, such as that they were dequantised."""
    parameters: int
    trainable_parameters: int
    adapted_modules: int


class Phase(Event):
    """Time spent in one part of the way to the first step."""

    kind: Literal["phase"] = "phase"
    name: Literal["import", "data", "model", "resume", "capture", "compile", "first_step"]
    seconds: float


class CompileDone(Event):
    """A program is ready: captured now (cold) or loaded from the cache (warm)."""

    kind: Literal["compile_done"] = "compile_done"
    program: str
    key: str
    warm: bool
    during: Literal["warmup", "first_use", "later"]
    """``warmup``: before the end of the first step; ``first_use``: the first program of a function that is first
    needed later, such as evaluation; ``later``: another program of a function that had one: a recompile."""
    reason: str
    """Why it was not in the cache, or where it was found."""
    capture_seconds: float
    """Cold: spent now. Warm: what the capture took when the entry was made."""
    load_seconds: float
    """Spent now: reading from the cache or writing to it, verification and preparation."""
    operators: int


class ProgramCost(Event):
    """What one program asks of the machine, once per execution."""

    kind: Literal["program_cost"] = "program_cost"
    program: str
    flops: int
    matmul_flops: int
    operator_bytes: int
    """Sum over operators of the bytes they read and write."""
    boundary_bytes: int
    """Bytes of the program's own inputs and outputs."""
    bound_seconds: float
    """Program bound; a limit, never a prediction."""
    unfused_seconds: float
    """Unfused estimate; never a prediction."""
    conditions: str
    by_operator: dict[str, int]
    """FLOPs by operator."""
    counts: dict[str, int]
    """Executed operators by name."""


class Coverage(Event):
    """Share of the work that ran under the track's number rules."""

    kind: Literal["coverage"] = "coverage"
    program: str
    flops: int
    flops_under_rules: int
    operators: int
    operators_under_rules: int
    host_operators: dict[str, int]
    """Operators that ran on the host, with their model line, and how often."""


class StepDone(Event):
    """One optimizer step; ``None`` is what an imported log does not say, never zero."""

    kind: Literal["step_done"] = "step_done"
    step: int
    loss: float
    """Mean over the loss tokens of the step, before the update."""
    learning_rate: float | None = None
    gradient_norm: float | None = None
    tokens: int | None = None
    """Tokens in real samples, padding left out."""
    loss_tokens: int | None = None
    seconds: float | None = None
    sample_ids: list[str] = []
    """Empty where an imported log does not say which samples it were."""
    saving: bool = False
    """Whether a checkpoint was being written in the background meanwhile."""
    averaged_steps: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Of how many steps, this one the last, ``loss`` and ``seconds`` are the mean: trainers log some at a time."""


class EvaluationDone(Event):
    """Loss on the held-out samples."""

    kind: Literal["evaluation_done"] = "evaluation_done"
    step: int
    loss: float
    slices: dict[str, float] = {}
    slice_tokens: dict[str, int] = {}
    seconds: float | None = None
    """``None``: an imported log does not say."""

    @property
    def worst_slice(self) -> str:
        """Name of the slice with the highest loss."""
        return max(self.slices, key=lambda name: self.slices[name])


class Answer(Event):
    """A greedy answer to one of the job's prompts."""

    kind: Literal["answer"] = "answer"
    step: int
    prompt: str
    text: str


class CheckpointSnapshot(Event):
    """A checkpoint was started; training was held up for ``stall_seconds``."""

    kind: Literal["checkpoint_snapshot"] = "checkpoint_snapshot"
    step: int
    stall_seconds: float
    asynchronous: bool


class CheckpointSaved(Event):
    """A checkpoint is complete on disk."""

    kind: Literal["checkpoint_saved"] = "checkpoint_saved"
    step: int
    bytes: int
    seconds: float
    """From the snapshot to the manifest on disk."""


class CheckpointFailed(Event):
    """A checkpoint could not be written; the run goes on."""

    kind: Literal["checkpoint_failed"] = "checkpoint_failed"
    step: int
    error: str


class CheckpointPassedOver(Event):
    """A checkpoint was found damaged or incomplete on resuming; an older one, or the start, is used instead."""

    kind: Literal["checkpoint_passed_over"] = "checkpoint_passed_over"
    step: int
    reason: str


class CheckpointRemoved(Event):
    """Retention removed a checkpoint, or debris that a dead process left."""

    kind: Literal["checkpoint_removed"] = "checkpoint_removed"
    step: int
    reason: str


class StopMade(Event):
    """A stop of the job is about to happen, or a signal asked for one."""

    kind: Literal["stop_made"] = "stop_made"
    step: int
    stop: Literal["polite", "kill", "kill-in-write", "signal"]


class Resumed(Event):
    """A leg continues from a checkpoint, or from the start where there was none."""

    kind: Literal["resumed"] = "resumed"
    step: int
    bytes_read: int
    seconds: float
    repeated_steps: int
    """Steps that an earlier leg had done and that must be done again."""


class MemoryPeak(Event):
    """Peak memory of this process."""

    kind: Literal["memory_peak"] = "memory_peak"
    bytes: int
    source: str


class LegEnded(Event):
    """A process ended in order."""

    kind: Literal["leg_ended"] = "leg_ended"
    reason: Literal["done", "polite", "signal", "error"]
    step: int
    message: str = ""
    error: str = ""
    """Class of the error in ``twintrack.errors``."""


class RunDone(Event):
    """The run met its stop criterion."""

    kind: Literal["run_done"] = "run_done"
    step: int
    reason: Literal["steps", "evaluation_loss"]
    state_digest: str | None = None
    """Of the trained weights, master weights, moments and step; ``None``: an imported log does not say."""


class Defect(BaseModel):
    """Something wrong in a log that was imported."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    line: int
    """Line of the log, from 1; entry of its history, where the log is one JSON document; 0: no line is to blame."""
    step: int | None
    what: Literal["hole", "time_backwards", "not_finite", "duplicate", "unreadable", "unknown_field"]
    """``hole``: steps that the log lacks; ``duplicate``: a step that it has again; ``unknown_field``: something that
    it says and that has no place here (told once for each name)."""
    text: str

    @property
    def spoils(self) -> bool:
        """Whether the run is told wrongly or in part because of it; a field without a place here takes nothing away."""
        return self.what != "unknown_field"


class Imported(Event):
    """What follows was made elsewhere and read from a log; it stands before the events that the log gave."""

    kind: Literal["imported"] = "imported"
    file: str
    """Name of the log, without its folder."""
    sha256: str
    """Of the whole log."""
    format: str
    """Which kind of log, such as ``trainer`` or ``mlperf``."""
    lines: int
    """Lines of the log, or entries of its history."""
    seconds: float | None = None
    """How long training took as a whole, where the log says."""
    defects: list[Defect]


AnyEvent = Annotated[
    LegStarted
    | DataPrepared
    | ModelLoaded
    | Phase
    | CompileDone
    | ProgramCost
    | Coverage
    | StepDone
    | EvaluationDone
    | Answer
    | CheckpointSnapshot
    | CheckpointSaved
    | CheckpointFailed
    | CheckpointPassedOver
    | CheckpointRemoved
    | StopMade
    | Resumed
    | MemoryPeak
    | LegEnded
    | RunDone
    | Imported,
    Field(discriminator="kind"),
]
