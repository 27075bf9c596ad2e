"""Seconds for which a machine is needed, per line of the ledger, and where they come from.

Four sources: measured on the machine that is priced (the events of the run), given by whoever simulates the job on it,
published for a like job and scaled to it, or none. The seconds of an emulation are no source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from twintrack.events import AnyEvent, CompileDone, Imported, LegStarted, Phase, StepDone
from twintrack.pilot.ledger.records import Input
from twintrack.pilot.ledger.time import Activity, Partition, partition
from twintrack.pilot.summary_figures import Ledger, of_kind, told_elsewhere
from twintrack.quantity import Quantity, total

__all__ = [
    "TIMED_LINES",
    "LineTime",
    "MachineTime",
    "TimedLine",
    "given_time",
    "measured_time",
    "run_seconds",
    "scaled_time",
    "unknown_time",
]

TimedLine = Literal["reserved resource", "compilation", "data transfer and loading", "resume"]
TIMED_LINES: tuple[TimedLine, ...] = (
    "reserved resource",
    "compilation",
    "data transfer and loading",
    "resume",
)
_ACTIVITIES: Mapping[TimedLine, tuple[Activity, ...]] = {
    "reserved resource": (Activity.TRAINING, Activity.EVALUATION, Activity.SAVING, Activity.OTHER),
    "compilation": (Activity.COMPILATION,),
    "data transfer and loading": (Activity.IMPORT, Activity.DATA, Activity.MODEL, Activity.SET_UP),
    "resume": (
        Activity.READING,
        Activity.RESTART,
        Activity.REPEATED,
        Activity.STOPPING,
        Activity.GAP,
    ),
}
_FROM_REFERENCE: tuple[TimedLine, ...] = ("reserved resource", "data transfer and loading")


@dataclass(frozen=True, slots=True)
class LineTime:
    """Machine time of one line.

    Args:
        seconds: that the line is the sum of; at least one.
        without_faults: the same had nothing been stopped.
        note: what a reader must know of it.
        recorded: whether anything tells of it; a line of which nothing does is left out of the total.
    """

    seconds: tuple[Input, ...]
    without_faults: tuple[Input, ...]
    note: str = ""
    recorded: bool = True


@dataclass(frozen=True, slots=True)
class MachineTime:
    """Machine time of a run.

    Args:
        time: all of it, in seconds.
        lines: the same, divided.
        remarks: what a reader must know.
    """

    time: Quantity
    lines: Mapping[TimedLine, LineTime]
    remarks: tuple[str, ...] = ()


def measured_time(
    events: Sequence[AnyEvent],
    path: str,
    *,
    every: int,
    reference: tuple[Sequence[AnyEvent], str] | None = None,
) -> MachineTime:
    """Time that the events tell of, measured on the machine that is priced.

    Args:
        events: of the run.
        path: of the events file, which becomes the source.
        every: the job's ``checkpoint.every_steps``.
        reference: events and path of the same job's run that was never stopped; what the run would have taken without
            stops is its time for training and loading. Compilation is the run's own, since the two may have found
            different caches. Without one, what stops cost is left out.
    """
    parts, figures = partition(events, every=every), Ledger.of(path, events)
    elsewhere = told_elsewhere(events)
    if elsewhere and (parts.problem or _told_as_a_whole(events)):
        return _told_time(events, figures, parts.problem)
    if parts.problem:
        return unknown_time(f"{path}: {parts.problem}")
    calm = None if reference is None else partition(reference[0], every=every)
    calm = None if calm is None or calm.problem else calm
    calm_figures = figures if reference is None else Ledger.of(reference[1], reference[0])
    lines: dict[TimedLine, LineTime] = {}
    for line in TIMED_LINES:
        own = _inputs(line, parts, figures)
        if line == "resume":
            lines[line] = LineTime(
                own, (Input("stops", figures.derived(0.0, "s", "leaving out what stops cost")),)
            )
        elif calm is not None and line in _FROM_REFERENCE:
            lines[line] = LineTime(
                own, _inputs(line, calm, calm_figures), f"without faults: as in {calm_figures.path}"
            )
        else:
            lines[line] = LineTime(own, own)
    if elsewhere:
        lines |= _silent(events, figures, lines)
    used = (parts.total - parts.nanoseconds.get(Activity.RELEASED, 0)) / 1e9
    time = figures.derived(used, "s", "wall time from the first process to the last event, pauses left out")
    return MachineTime(time, lines, tuple(_pauses(parts)))


def run_seconds(events: Sequence[AnyEvent], path: str, *, every: int) -> Quantity:
    """Machine time of a whole run, whatever became of it; unknown with the reason."""
    return measured_time(events, path, every=every).time


def _inputs(line: TimedLine, parts: Partition, figures: Ledger) -> tuple[Input, ...]:
    """Seconds of the activities of a line that occur, or of its first."""
    found = [one for one in _ACTIVITIES[line] if one in parts.nanoseconds] or [_ACTIVITIES[line][0]]
    return tuple(
        Input(one.value, figures.derived(parts.seconds(one), "s", f"wall time of {one.value}"))
        for one in found
    )


def _pauses(parts: Partition) -> Iterable[str]:
    if Activity.RELEASED in parts.nanoseconds:
        yield (
            f"{parts.seconds(Activity.RELEASED):,.0f} s between a stop by the user and the next process are not"
            " counted: the machine could be given back"
        )


def _silent(
    events: Sequence[AnyEvent], figures: Ledger, lines: Mapping[TimedLine, LineTime]
) -> dict[TimedLine, LineTime]:
    """Lines of which a log from elsewhere says nothing."""
    phases = {phase.name for phase in of_kind(events, Phase)}
    found: dict[TimedLine, LineTime] = {}
    if not phases & {"import", "data", "model"}:
        found["data transfer and loading"] = _unrecorded("loading", figures, "start-up")
    if not phases & {"capture", "compile"} and not of_kind(events, CompileDone):
        found["compilation"] = _unrecorded("compilation", figures, "compilation")
    return {line: one for line, one in found.items() if not any(i.value.value for i in lines[line].seconds)}


def _unrecorded(name: str, figures: Ledger, what: str) -> LineTime:
    one = (
        Input(name, Quantity.unknown("s", f"{figures.path}: the log from elsewhere does not tell of {what}")),
    )
    return LineTime(one, one, "not recorded, not in the total", recorded=False)


def _told_as_a_whole(events: Sequence[AnyEvent]) -> Quantity | None:
    """How long the log says that training took, where it is one log of one process."""
    told = of_kind(events, Imported)
    if len(told) != 1 or told[0].seconds is None or len(of_kind(events, LegStarted)) > 1:
        return None
    return Quantity.measured(told[0].seconds, "s", f"{told[0].file}: training as a whole")


def _told_time(events: Sequence[AnyEvent], figures: Ledger, problem: str) -> MachineTime:
    """Time of a log that says when nothing was, from how long it says things took."""
    whole = _told_as_a_whole(events) or _sum_of_steps(events, figures)
    if whole is None:
        return unknown_time(f"{figures.path}: {problem}, and the log does not say how long all steps took")
    training = (Input("training", whole),)
    zero = (Input("stops", figures.derived(0.0, "s", "one process, never stopped")),)
    legs = len(of_kind(events, LegStarted))
    stops = (
        LineTime(zero, zero)
        if legs <= 1
        else _unrecorded("resume", figures, "the time between its processes")
    )
    lines: dict[TimedLine, LineTime] = {
        "reserved resource": LineTime(training, training),
        "compilation": _unrecorded("compilation", figures, "compilation"),
        "data transfer and loading": _unrecorded("loading", figures, "start-up"),
        "resume": stops,
    }
    return MachineTime(whole, lines)


def _sum_of_steps(events: Sequence[AnyEvent], figures: Ledger) -> Quantity | None:
    steps = of_kind(events, StepDone)
    covered = {step for one in steps for step in range(one.step - one.averaged_steps + 1, one.step + 1)}
    if not steps or any(one.seconds is None for one in steps) or covered != set(range(1, max(covered) + 1)):
        return None
    seconds = sum((one.seconds or 0.0) * one.averaged_steps for one in steps)
    return figures.derived(seconds, "s", "sum of StepDone.seconds")


def unknown_time(reason: str) -> MachineTime:
    """No machine time, and why."""

    def line(name: str) -> LineTime:
        one = (Input(name, Quantity.unknown("s", reason)),)
        return LineTime(one, one)

    return MachineTime(
        Quantity.unknown("s", reason), {name: line(_ACTIVITIES[name][0].value) for name in TIMED_LINES}
    )


def given_time(whole: Quantity) -> MachineTime:
    """Time of the whole run, from its first process to its end and without stops, as somebody simulated it.

    Args:
        whole: in seconds.
    """

    def inside(name: str) -> LineTime:
        zero = Quantity.derived(0.0, "s", "inside the time of the whole run", [whole])
        return LineTime((Input(name, zero),), (Input(name, zero),), "inside 'reserved resource'")

    run = (Input("whole run", whole),)
    lines: dict[TimedLine, LineTime] = {
        "reserved resource": LineTime(run, run, "the whole run: compilation and loading are inside"),
        "compilation": inside("compilation"),
        "data transfer and loading": inside("loading"),
        "resume": _never_stopped(whole),
    }
    return MachineTime(
        whole, lines, ("what a stop costs on this machine is not known: the time is of a run without",)
    )


def scaled_time(training: Quantity, evaluation: Quantity | None, remark: str) -> MachineTime:
    """Time for training, published for a like job and scaled to this one.

    Args:
        training: in seconds.
        evaluation: in seconds; ``None`` where the published speed has it inside.
        remark: how it was scaled.
    """

    def outside(name: str) -> LineTime:
        reason = "a published speed covers training, not what comes before the first step"
        one = (Input(name, Quantity.unknown("s", reason)),)
        return LineTime(one, one, "not in the published speed, not in the total", recorded=False)

    inputs = (Input("training", training), *([] if evaluation is None else [Input("evaluation", evaluation)]))
    lines: dict[TimedLine, LineTime] = {
        "reserved resource": LineTime(inputs, inputs, remark),
        "compilation": outside("compilation"),
        "data transfer and loading": outside("loading"),
        "resume": _never_stopped(training),
    }
    time = total("training + evaluation", "s", [one.value for one in inputs])
    return MachineTime(time, lines, (remark,))


def _never_stopped(time: Quantity) -> LineTime:
    zero = (Input("stops", Quantity.derived(0.0, "s", "the time is of a run that is never stopped", [time])),)
    return LineTime(zero, zero)
