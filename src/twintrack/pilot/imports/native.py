"""Our own events, of a run made elsewhere with twintrack: checked one by one and copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from twintrack.errors import EventError
from twintrack.events import (
    AnyEvent,
    Defect,
    Imported,
    LegStarted,
    StepDone,
    event_error,
    validate_event,
    written_by,
)
from twintrack.pilot.imports.defects import holes, imported, refuse_far_steps, wrong_number
from twintrack.pilot.imports.records import Log, Target
from twintrack.pilot.imports.text import LogFile, json_value, lines_of, number, shown

__all__ = ["looks_like_events", "read_native"]

_SAME_MOMENT_SECONDS = 1.0
"""Two threads of a process may have stamped events in one order and written them in the other, as 0.1.0 did."""


def looks_like_events(first: Any) -> bool:
    """Whether a JSON value may be an event."""
    return isinstance(first, dict) and {"kind", "leg", "time"} <= first.keys()


def read_native(file: LogFile, target: Target) -> list[AnyEvent]:
    """The events of a file, behind the event of their import; what cannot be read is a defect of it.

    Half a last line, which a kill leaves, is no event and no defect.

    Raises:
        EventError: if an event is one of a newer version, of another job or track, or if there is none.
    """
    defects: list[Defect] = []
    events: list[tuple[int, AnyEvent]] = []
    count, version = 0, None
    torn = file.data.count(b"\n") + 1 if not file.data.endswith(b"\n") else 0
    for line in lines_of(file.data, defects):
        count = line.number
        event = _event(line.number, line.text, file, version, defects, torn == line.number)
        if event is None:
            continue
        version = written_by(event) or version
        events.append((line.number, _ours(event, line.number, file, target)))
    if not any(isinstance(event, LegStarted) for _, event in events):
        raise EventError(
            "events of a run, which begin with leg_started",
            found=f"{len(events)} events"
            + (f"; line {defects[0].line}: {defects[0].text}" if defects else ""),
            where=file.name,
            remedy="name the events.jsonl of a run",
        )
    defects += _out_of_order(events)
    backwards = any(one.what == "time_backwards" for one in defects)
    kept = [event.model_copy(update={"time": None}) if backwards else event for _, event in events]
    log = Log(format="events", lines=count, rows=())
    return [imported(log, file, defects), *kept]


def _event(
    line: int, text: str, file: LogFile, version: str | None, defects: list[Defect], torn: bool
) -> AnyEvent | None:
    try:
        value = json_value(text)
        if wrong := next(_wrong_numbers(value), None):
            defects.append(Defect(line=line, step=_step(value), what=wrong[0], text=wrong[1]))
            return None
        return validate_event(value)
    except ValidationError as error:
        newer = event_error(error, f"{file.name}:{line}", version)
        if any(one["type"] in ("extra_forbidden", "union_tag_invalid") for one in error.errors()):
            raise newer from None
        told = newer.found
    except ValueError as error:
        told = f"it is not JSON: {error}"
    if not torn:
        defects.append(Defect(line=line, step=None, what="unreadable", text=told))
    return None


def _step(value: Any) -> int | None:
    step = value.get("step") if isinstance(value, dict) else None
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def _wrong_numbers(value: Any) -> Iterator[tuple[Any, str]]:
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:  # a loop: what is read from outside may be deeper than Python calls
        name, inner = waiting.pop()
        if isinstance(inner, dict):
            waiting += [(str(key), one) for key, one in inner.items()]
        elif isinstance(inner, list):
            waiting += [(name, one) for one in inner]
        elif isinstance(inner, int | float) and not isinstance(inner, bool):
            read = number(inner)
            if read is not None and (wrong := wrong_number(read)) is not None:
                yield wrong[0], f"{shown(name)} is {wrong[1]}"


def _ours(event: AnyEvent, line: int, file: LogFile, target: Target) -> AnyEvent:
    """The event, if it is of the track and job that it is imported as; the instance is added where it began."""
    refuse_far_steps(getattr(event, "step", 0), line, file, target)
    if not isinstance(event, LegStarted):
        return event
    known = event.environment.get("instance", target.instance)
    for what, asked, found in (
        ("track", target.track, event.track),
        ("job, by its digest,", target.job_digest, event.job_digest),
        ("instance", target.instance or known, known),
    ):
        if asked != found:
            raise EventError(
                f"events of the {what} {asked}",
                found=shown(str(found)),
                where=f"{file.name}:{line}",
                remedy="import them as what they are",
            )
    extra = {} if target.instance is None else {"instance": target.instance}
    return event.model_copy(update={"environment": {**event.environment, **extra}})


def _out_of_order(events: list[tuple[int, AnyEvent]]) -> Iterator[Defect]:
    """Times that go backwards, steps that one process did twice, steps that none did."""
    last_time: float | None = None
    last: dict[int, int] = {}
    steps: dict[int, int] = {}
    covered: dict[int, int] = {}
    for line, event in events:
        step = event.step if isinstance(event, StepDone) else None
        if event.time is not None and not isinstance(event, Imported):
            if last_time is not None and event.time < last_time - _SAME_MOMENT_SECONDS:
                text = f"its time is {last_time - event.time:g} s before that of a line before"
                yield Defect(line=line, step=step, what="time_backwards", text=text)
            last_time = event.time if last_time is None else max(last_time, event.time)
        if isinstance(event, StepDone):
            before = last.get(event.leg, 0)
            if event.step <= before:
                text = f"step {event.step} stands after step {before} of the same process"
                yield Defect(line=line, step=step, what="duplicate", text=text)
            last[event.leg] = event.step
            steps[event.step], covered[event.step] = line, event.averaged_steps
    yield from holes(steps, covered, max(steps, default=0), 0)
