"""What happened in a run, as typed JSON lines.

One line is one event: ``time`` in seconds since 1970 (UTC), ``leg`` the process that wrote it (a run that was killed
and resumed has several), ``kind`` and the fields of that kind. Seconds are durations on a monotonic clock. Money is
never in an event. A run can be reported again from its events alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from twintrack.clock import Clock
from twintrack.errors import EventError
from twintrack.storage import FileSystem, WritableFile, storage_errors, write_bytes_atomic

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
    "EvaluationDone",
    "Event",
    "EventLog",
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
    "read_events",
]


class Event(BaseModel):
    """Base of all events."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    time: float = 0.0
    """Seconds since 1970-01-01 UTC, stamped by the log."""
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
    """One optimizer step."""

    kind: Literal["step_done"] = "step_done"
    step: int
    loss: float
    """Mean over the loss tokens of the step, before the update."""
    learning_rate: float
    gradient_norm: float
    tokens: int
    """Tokens in real samples, padding left out."""
    loss_tokens: int
    seconds: float
    sample_ids: list[str]
    saving: bool
    """Whether a checkpoint was being written in the background meanwhile."""


class EvaluationDone(Event):
    """Loss on the held-out samples."""

    kind: Literal["evaluation_done"] = "evaluation_done"
    step: int
    loss: float
    slices: dict[str, float]
    slice_tokens: dict[str, int]
    seconds: float

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


class RunDone(Event):
    """The run met its stop criterion."""

    kind: Literal["run_done"] = "run_done"
    step: int
    reason: Literal["steps", "evaluation_loss"]
    state_digest: str
    """Of the trained weights, master weights, moments and step."""


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
    | RunDone,
    Field(discriminator="kind"),
]
_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


class EventLog:
    """Appends events to a file; a line is on the file before ``write`` returns, so a kill loses none.

    Not safe for two processes at once (the run folder's lock sees to that); safe for threads of one process,
    because a line is one ``write`` in append mode.
    """

    def __init__(self, fs: FileSystem, path: Path, clock: Clock, *, leg: int = 0) -> None:
        self.path = path
        self._fs = fs
        self._clock = clock
        self._leg = leg
        with storage_errors(path, "write events"):
            if fs.exists(path):
                self._cut_torn_line()
            self._file: WritableFile = fs.create(path, append=True)

    def _cut_torn_line(self) -> None:
        """A process killed while writing leaves half a line; it was never an event."""
        data = self._fs.read_bytes(self.path)
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            write_bytes_atomic(self._fs, self.path, data[:whole])

    def write(self, event: Event) -> None:
        """Stamp the event with time and leg, and append it.

        Raises:
            StorageError: if the file system refuses.
            ValueError: if a number is NaN or infinite.
        """
        record = event.model_dump(mode="json") | {"time": self._clock.now(), "leg": self._leg}
        line = json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n"
        with storage_errors(self.path, "write an event"):
            self._file.write(line.encode())

    def close(self) -> None:
        """Force what was written to disk and close."""
        with storage_errors(self.path, "write events"):
            self._file.sync()
            self._file.close()


def read_events(path: Path) -> Iterator[AnyEvent]:
    """Read events in the order they were written; half a last line is not an event and is left out.

    Raises:
        EventError: naming the line, if it is not JSON, of an unknown kind, or lacks a field.
        StorageError: if the file cannot be read.
    """
    with storage_errors(path, "read events"):
        data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            yield _ADAPTER.validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise EventError(
                "an event of this version",
                found=f"{first['msg']} {place}".strip(),
                where=f"{path}:{number}",
                remedy="put the file back as it was written, or use the version of twintrack that wrote it",
            ) from error
