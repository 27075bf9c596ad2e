"""Where the wall time of a run went: every instant from its first process to its last event belongs to one activity.

Events tell how long something took and when it ended. Where such spans overlap, the inner one counts: compilation
inside a step is compilation. What no span covers belongs to what the process was about: starting, repeating, working,
stopping. Times are whole nanoseconds, so that the parts add up to the whole exactly.

A process after the first is there because the one before was stopped. What it spends on its way back is *restart*:
imports, model, data, programs that an earlier process had already; then *repeated work*, what an earlier process had
done. Programs that no earlier process had are compilation, wherever they are made.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from twintrack.events import (
    AnyEvent,
    CheckpointSnapshot,
    CompileDone,
    EvaluationDone,
    LegEnded,
    Phase,
    Resumed,
    RunDone,
    StepDone,
    StopMade,
)

__all__ = ["Activity", "Partition", "partition"]

_SECOND = 1_000_000_000
_SLACK = _SECOND
"""How far one line of a record may lie before another: threads of a process write to it, and clocks are corrected."""


class Activity(StrEnum):
    """What a machine was needed for."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    SAVING = "saving"
    """Training held up by a checkpoint."""
    OTHER = "other work"
    """Between steps, answers, export."""
    COMPILATION = "compilation"
    IMPORT = "import"
    DATA = "data"
    MODEL = "model"
    SET_UP = "set-up"
    """Before the first step, in none of the others."""
    READING = "reading checkpoints"
    RESTART = "restart"
    REPEATED = "repeated work"
    STOPPING = "stopping"
    """From a stop to the end of its process, checkpoints included that the stop alone asked for."""
    GAP = "gap between processes"
    RELEASED = "pause"
    """After the user stopped the run: the machine could be given back."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The wall time of a run.

    Args:
        nanoseconds: by activity; only those that occur.
        problem: why there is none; empty where there is one.
    """

    nanoseconds: Mapping[Activity, int]
    problem: str = ""

    def seconds(self, activity: Activity) -> float:
        """Seconds of an activity."""
        return self.nanoseconds.get(activity, 0) / _SECOND

    @property
    def total(self) -> int:
        """Nanoseconds from the first process to the last event."""
        return sum(self.nanoseconds.values())


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    rank: int
    """The highest of those that cover an instant has it."""
    activity: Activity


_BASE, _STARTING, _WORK, _PHASE_COMPILE, _COMPILE = range(5)


@dataclass(slots=True)
class _Done:
    """What earlier processes of the run have done."""

    steps: set[int] = field(default_factory=set)
    evaluations: set[int] = field(default_factory=set)
    checkpoints: set[int] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)

    def add(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            match event:
                case StepDone():
                    self.steps.update(range(event.step - event.averaged_steps + 1, event.step + 1))
                case EvaluationDone():
                    self.evaluations.add(event.step)
                case CheckpointSnapshot():
                    self.checkpoints.add(event.step)
                case CompileDone():
                    self.programs.add(event.key)
                case _:
                    pass


def partition(events: Sequence[AnyEvent], *, every: int) -> Partition:
    """Divide the wall time of a run.

    Args:
        events: of the run, in the order they were written.
        every: the job's ``checkpoint.every_steps``; a checkpoint of another step was asked for by a stop.
    """
    groups: dict[int, list[AnyEvent]] = {}
    for event in events:
        if event.time is not None:
            groups.setdefault(event.leg, []).append(event)
    legs = [groups[number] for number in sorted(groups)]
    if problem := _problem(events, legs):
        return Partition({}, problem)
    found: Counter[Activity] = Counter()
    done = _Done()
    before: tuple[int, Activity] | None = None
    for own in legs:
        begin, end = _borders(own)
        if before is not None:
            begin = max(begin, before[0])
            end = max(begin, end)
            found[before[1]] += begin - before[0]
        found.update(_sweep(list(_spans(own, begin, end, done, every, first=before is None)), begin, end))
        done.add(own)
        before = end, _pause(own)
    return Partition({activity: found[activity] for activity in Activity if found[activity]})


def _problem(events: Sequence[AnyEvent], legs: Sequence[Sequence[AnyEvent]]) -> str:
    """Why the times of the events cannot be trusted; empty where they can."""
    untimed = [
        event for event in events if event.time is None and isinstance(event, StepDone | EvaluationDone)
    ]
    if untimed or not legs:
        return f"{len(untimed)} steps and evaluations carry no time" if untimed else "no event carries a time"
    latest = -math.inf
    for own in legs:
        opening = own[0]
        if isinstance(opening, StepDone) and opening.seconds is None:
            return f"nothing says how long step {opening.step} took, with which process {opening.leg} begins"
        for event in own:
            at = event.time or 0.0
            if at < latest - _SLACK / _SECOND:
                return f"times go back by {latest - at:.6g} s in process {event.leg}"
            latest = max(latest, at)
    return ""


def _at(event: AnyEvent) -> int:
    return round((event.time or 0.0) * _SECOND)


def _borders(events: Sequence[AnyEvent]) -> tuple[int, int]:
    """Where a process began (before its imports; an imported log may begin with a step) and its last event."""
    began = [_at(e) - _length(e.seconds) for e in events if isinstance(e, Phase) and e.name == "import"]
    opening = events[0]
    if isinstance(opening, StepDone):
        began.append(_at(opening) - _length((opening.seconds or 0.0) * opening.averaged_steps))
    return min([*map(_at, events), *began]), max(map(_at, events))


def _length(seconds: float | None) -> int:
    return max(0, round((seconds or 0.0) * _SECOND))


def _pause(events: Sequence[AnyEvent]) -> Activity:
    """What follows a process until the next begins: a user who stops a run may give the machine back."""
    asked = any(isinstance(event, LegEnded) and event.reason == "signal" for event in events)
    return Activity.RELEASED if asked else Activity.GAP


def _spans(
    events: Sequence[AnyEvent], begin: int, end: int, done: _Done, every: int, *, first: bool
) -> Iterator[_Span]:
    stop = next((_at(event) for event in events if isinstance(event, StopMade)), end)
    yield from _bases(events, begin, end, stop, done, first=first)
    for event in events:
        match event:
            case Phase() if event.name in ("import", "data", "model", "resume"):
                activity = Activity.READING if event.name == "resume" else Activity(event.name)
                activity = activity if first or event.name == "resume" else Activity.RESTART
                yield _span(event, event.seconds, _STARTING, activity)
            case Phase() if event.name in ("capture", "compile"):
                again = not first and all(
                    e.key in done.programs for e in events if isinstance(e, CompileDone)
                )
                yield _span(
                    event, event.seconds, _PHASE_COMPILE, Activity.RESTART if again else Activity.COMPILATION
                )
            case CompileDone():
                seconds = event.load_seconds + (0.0 if event.warm else event.capture_seconds)
                again = event.key in done.programs
                yield _span(event, seconds, _COMPILE, Activity.RESTART if again else Activity.COMPILATION)
            case StepDone():
                activity = Activity.REPEATED if event.step in done.steps else Activity.TRAINING
                yield _span(event, (event.seconds or 0.0) * event.averaged_steps, _WORK, activity)
            case EvaluationDone():
                again = event.step in done.evaluations
                yield _span(event, event.seconds, _WORK, Activity.REPEATED if again else Activity.EVALUATION)
            case CheckpointSnapshot():
                yield _span(event, event.stall_seconds, _WORK, _saving(event, stop, done, every))
            case Resumed():
                yield _span(event, event.seconds, _STARTING, Activity.READING)
            case _:
                pass


def _span(event: AnyEvent, seconds: float | None, rank: int, activity: Activity) -> _Span:
    return _Span(_at(event) - _length(seconds), _at(event), rank, activity)


def _saving(event: CheckpointSnapshot, stop: int, done: _Done, every: int) -> Activity:
    if event.step in done.checkpoints:
        return Activity.REPEATED
    return Activity.STOPPING if _at(event) > stop and event.step % every else Activity.SAVING


def _bases(
    events: Sequence[AnyEvent], begin: int, end: int, stop: int, done: _Done, *, first: bool
) -> Iterator[_Span]:
    """What a process was about, from its beginning to its end."""
    steps = [event for event in events if isinstance(event, StepDone)]
    repeated = [event for event in steps if event.step in done.steps]
    started = _started(events, steps, end)
    worked = max([started, *map(_at, repeated)])
    yield _Span(begin, started, _BASE, Activity.SET_UP if first else Activity.RESTART)
    yield _Span(started, worked, _BASE, Activity.REPEATED)
    yield _Span(worked, stop, _BASE, Activity.OTHER)
    yield _Span(max(worked, stop), end, _BASE, Activity.STOPPING)


def _started(events: Sequence[AnyEvent], steps: Sequence[StepDone], end: int) -> int:
    """When a process began its first step; one that had none left was ready after what starting consists of."""
    if steps:
        return _at(steps[0]) - _length((steps[0].seconds or 0.0) * steps[0].averaged_steps)
    early = [_at(event) for event in events if isinstance(event, Phase | Resumed | CompileDone)]
    return max(early) if early and any(isinstance(event, RunDone) for event in events) else end


def _sweep(spans: Sequence[_Span], begin: int, end: int) -> Counter[Activity]:
    """Nanoseconds of each activity between two instants; every instant goes to the span of highest rank there."""
    clipped = [
        (max(begin, min(s.start, end)), max(begin, min(s.end, end)), s.rank, s.activity) for s in spans
    ]
    edges = [
        (at, sign, (rank, activity))
        for a, b, rank, activity in clipped
        if a < b
        for at, sign in ((a, 1), (b, -1))
    ]
    edges.sort(key=lambda edge: edge[0])
    found: Counter[Activity] = Counter()
    open_spans: Counter[tuple[int, Activity]] = Counter()
    place = begin
    for at, group in itertools.groupby(edges, key=lambda edge: edge[0]):
        if at > place:
            found[_highest(open_spans)] += at - place
            place = at
        for _, sign, key in group:
            open_spans[key] += sign
            if not open_spans[key]:
                del open_spans[key]
    found[Activity.OTHER] += end - place
    return found


def _highest(open_spans: Counter[tuple[int, Activity]]) -> Activity:
    return max(open_spans)[1] if open_spans else Activity.OTHER
