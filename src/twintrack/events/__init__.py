"""What happened in a run, as typed JSON lines.

One line is one event: ``time`` in seconds since 1970 (UTC), ``leg`` the process that wrote it (a run that was killed
and resumed has several), ``kind`` and the fields of that kind. Seconds are durations on a monotonic clock. Money is
never in an event. A run can be reported again from its events alone.
"""

from twintrack.events.log import EventLog, event_error, read_events, validate_event, written_by
from twintrack.events.records import (
    Answer,
    AnyEvent,
    CheckpointFailed,
    CheckpointPassedOver,
    CheckpointRemoved,
    CheckpointSaved,
    CheckpointSnapshot,
    CompileDone,
    Coverage,
    DataPrepared,
    Defect,
    EvaluationDone,
    Event,
    Imported,
    LegEnded,
    LegStarted,
    MemoryPeak,
    ModelLoaded,
    Phase,
    ProgramCost,
    Resumed,
    RunDone,
    StepDone,
    StopMade,
)

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
    "EventLog",
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
    "event_error",
    "read_events",
    "validate_event",
    "written_by",
]
