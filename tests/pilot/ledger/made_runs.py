"""Run folders written event by event at stated seconds, so that a test can compute a ledger by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twintrack.events import (
    AnyEvent,
    CheckpointSaved,
    CheckpointSnapshot,
    CompileDone,
    DataPrepared,
    EvaluationDone,
    Event,
    LegEnded,
    LegStarted,
    ModelLoaded,
    Phase,
    Resumed,
    RunDone,
    StepDone,
    StopMade,
)
from twintrack.job.digest import job_digest
from twintrack.job.records import Job

START = 1_790_000_000.0
_DATA = DataPrepared(
    digest="x",
    train_samples=9,
    evaluation_samples=3,
    train_rows=9,
    evaluation_rows=3,
    truncated=0,
    split=0,
    tokens=600,
    loss_tokens=600,
)
_MODEL = ModelLoaded(
    source="m",
    weights_digest="w",
    note="",
    parameters=3_000_000_000,
    trainable_parameters=1,
    adapted_modules=1,
)


def made_job(
    *,
    costs: Mapping[str, Any] | None = None,
    tracks: Sequence[Mapping[str, Any]] = ({"use": ("cpu",), "instance": "box.large"},),
    **fields: Any,
) -> Job:
    """A job of six steps that saves every third."""
    base: dict[str, Any] = {
        "name": "made",
        "model": {"source": "model"},
        "data": {"files": ("data.jsonl",), "sequence_length": 64},
        "lora": {"targets": ("q_proj",)},
        "stop": {"steps": 6},
        "checkpoint": {"every_steps": 3},
        "costs": {"region": "us-east-2", **(costs or {})},
        "tracks": tuple(tracks),
    }
    return Job.model_validate(base | fields)


def step(number: int, seconds: float, *, tokens: int = 100, **fields: Any) -> StepDone:
    return StepDone(step=number, loss=1.0, tokens=tokens, loss_tokens=tokens, seconds=seconds, **fields)


def evaluation(number: int, seconds: float) -> EvaluationDone:
    return EvaluationDone(step=number, loss=1.0, seconds=seconds)


def compiled(key: str, seconds: float, *, warm: bool = False) -> CompileDone:
    return CompileDone(
        program="gradients",
        key=key,
        warm=warm,
        during="warmup",
        reason="",
        capture_seconds=0.0 if warm else seconds,
        load_seconds=seconds if warm else 0.0,
        operators=1,
    )


def started(track: str = "cpu", **environment: str) -> LegStarted:
    return LegStarted(track=track, job_digest="d", environment=environment)


def snapshot(number: int, stall: float) -> CheckpointSnapshot:
    return CheckpointSnapshot(step=number, stall_seconds=stall, asynchronous=True)


def saved(number: int, size: int) -> CheckpointSaved:
    return CheckpointSaved(step=number, bytes=size, seconds=1.0)


def done(number: int = 6) -> RunDone:
    return RunDone(step=number, reason="steps", state_digest="s")


def at(leg: int, *timed: tuple[float, Event]) -> list[AnyEvent]:
    """Events of a process at seconds from the start."""
    return [event.model_copy(update={"time": START + time, "leg": leg}) for time, event in timed]  # type: ignore[misc]


def calm(track: str = "cpu", **environment: str) -> list[AnyEvent]:
    """A run of six steps that is never stopped; 100 s in all.

    import 10, data 5, model 15, set-up 2, compilation 8, training 6 × 6, evaluation 12, saving 2 × 1, other work 10.
    """
    return at(
        0,
        (10.0, started(track, **environment)),
        (10.0, Phase(name="import", seconds=10.0)),
        (15.0, Phase(name="data", seconds=5.0)),
        (15.0, _DATA),
        (30.0, _MODEL),
        (30.0, Phase(name="model", seconds=15.0)),
        (40.0, compiled("a", 8.0)),
        (46.0, step(1, 14.0)),
        (58.0, evaluation(0, 12.0)),
        (64.0, step(2, 6.0)),
        (70.0, step(3, 6.0)),
        (71.0, snapshot(3, 1.0)),
        (71.0, saved(3, 500_000_000)),
        (77.0, step(4, 6.0)),
        (83.0, step(5, 6.0)),
        (89.0, step(6, 6.0)),
        (90.0, snapshot(6, 1.0)),
        (90.0, saved(6, 500_000_000)),
        (100.0, done()),
        (100.0, LegEnded(reason="done", step=6)),
    )  # fmt: skip


def stopped(track: str = "cpu", **environment: str) -> list[AnyEvent]:
    """The same run, killed after step 5: 168 s, of which 59 are due to the kill.

    The first process: import 10, data 5, model 15, set-up 2, compilation 8, training 5 × 6, evaluation 12, saving 1,
    other work 1. Then a gap of 4; restart 24 (imports 20, the program that the first process had 2, set-up 2), reading
    3, repeated work 2 × 14; then training 6, saving 1 and other work 18.
    """
    first = [event for event in calm(track, **environment) if (event.time or 0.0) <= START + 83.0]
    last = at(
        1,
        (108.0, started(track, **environment)),
        (108.0, Phase(name="import", seconds=20.0)),
        (112.0, Resumed(step=3, bytes_read=10, seconds=3.0, repeated_steps=2)),
        (115.0, compiled("a", 2.0, warm=True)),
        (129.0, step(4, 16.0)),
        (143.0, step(5, 14.0)),
        (149.0, step(6, 6.0)),
        (150.0, snapshot(6, 1.0)),
        (150.0, saved(6, 500_000_000)),
        (168.0, done()),
        (168.0, LegEnded(reason="done", step=6)),
    )
    return [*first, *at(0, (84.0, StopMade(step=5, stop="kill"))), *last]


def write_run(
    folder: Path,
    job: Job,
    runs: Mapping[str, Iterable[AnyEvent]],
    *,
    filled: Sequence[str | None] | None = None,
) -> Path:
    """Write a run folder.

    Args:
        folder: that is made.
        job: of it.
        runs: events by ``TRACK/KIND``.
        filled: track in each place of the job; by default the first that it names.
    """
    tracks = filled if filled is not None else [slot.use[0] for slot in job.tracks]
    slots = [
        {"use": list(s.use), "track": t, "reason": "made"} for s, t in zip(job.tracks, tracks, strict=True)
    ]
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps(job.model_dump(mode="json")))
    (folder / "inputs.json").write_text(json.dumps({"base": str(folder)}))
    (folder / "pilot.json").write_text(
        json.dumps({"format": 1, "job_digest": job_digest(job), "version": "0.1.0", "slots": slots})
    )
    for name, events in runs.items():
        place = folder / "tracks" / name
        place.mkdir(parents=True)
        lines = [json.dumps(event.model_dump(mode="json")) for event in events]
        (place / "events.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def price_text(
    what: str = "machine", value: float = 36.0, unit: str = "USD/h", observed: str = "2026-10-02", **keys: str
) -> str:
    """One ``[[price]]`` table; a price of 36 an hour is a cent a second."""
    named = {"name": "box.large"} if what == "machine" else {}
    texts = {"what": what, "unit": unit, "source": "an offer", **named, **keys}
    lines = [f'{key} = "{text}"' for key, text in texts.items()]
    return "\n".join(["[[price]]", *lines, f"value = {value}", f"observed = {observed}", ""])
