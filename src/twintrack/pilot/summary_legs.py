"""Processes of a run, the stops they met and the checkpoints they wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from twintrack.events import (
    AnyEvent,
    CheckpointFailed,
    CheckpointPassedOver,
    CheckpointRemoved,
    CheckpointSaved,
    CheckpointSnapshot,
    LegEnded,
    Phase,
    Resumed,
    RunDone,
    StepDone,
    StopMade,
)
from twintrack.pilot.summary_figures import Ledger, of_kind, told_elsewhere
from twintrack.pilot.summary_parts import CheckpointSummary, LegSummary, StopSummary
from twintrack.quantity import Quantity

__all__ = ["by_leg", "checkpoints", "legs", "run_began", "stops"]


def by_leg(events: Sequence[AnyEvent]) -> dict[int, list[AnyEvent]]:
    """Events of each process, by its number, in the order of the numbers."""
    groups: dict[int, list[AnyEvent]] = {}
    for event in events:
        groups.setdefault(event.leg, []).append(event)
    return dict(sorted(groups.items()))


def legs(events: Sequence[AnyEvent], ledger: Ledger) -> tuple[LegSummary, ...]:
    """What each process did, and how it ended."""
    zero, silent = run_began(events), told_elsewhere(events)
    return tuple(_leg(number, own, zero, ledger, silent) for number, own in by_leg(events).items())


def run_began(events: Sequence[AnyEvent]) -> float | None:
    """When the first process of a run began, in seconds since 1970; ``None`` where an imported log does not say."""
    return _began(next(iter(by_leg(events).values())))


def _began(events: list[AnyEvent]) -> float | None:
    """When a process began: its import phase counts from there and ends when the phase is told."""
    first = next(_times(events), None)
    imported = [
        event.time - event.seconds
        for event in of_kind(events, Phase)
        if event.name == "import" and event.time is not None
    ]
    return None if first is None else min([first, *imported])


def _times(events: Iterable[AnyEvent]) -> Iterator[float]:
    return (event.time for event in events if event.time is not None)


def _since(zero: float | None, time: float | None, event: str, ledger: Ledger) -> Quantity:
    """Seconds since the run began, unknown where one of the two times is."""
    return ledger.maybe(None if zero is None or time is None else time - zero, "s", event)


def _leg(number: int, events: list[AnyEvent], zero: float | None, ledger: Ledger, silent: bool) -> LegSummary:
    steps = [event.step for event in of_kind(events, StepDone)]
    resumed = of_kind(events, Resumed)
    first = next(
        (
            e.time
            for e in events
            if isinstance(e, StepDone) or (isinstance(e, Phase) and e.name == "first_step")
        ),
        None,
    )
    how, message = _ending(events, silent)
    last = resumed[-1] if resumed else None
    return LegSummary(
        number=number,
        started=_since(zero, _began(events), f"import phase or first event of leg {number}", ledger),
        first_step_done=_since(zero, first, f"first step of leg {number}", ledger),
        ended=_since(zero, _last_time(events), f"last event of leg {number}", ledger),
        first_step=steps[0] if steps else None,
        last_step=steps[-1] if steps else None,
        how=how,
        message=message,
        error=next((event.error for event in of_kind(events, LegEnded)), ""),
        resumed_from=last.step if last else None,
        bytes_read=ledger.measured(last.bytes_read, "byte", "Resumed")
        if last
        else ledger.unknown("byte", f"Resumed of leg {number}"),
        resume_seconds=ledger.measured(last.seconds, "s", "Resumed")
        if last
        else ledger.unknown("s", f"Resumed of leg {number}"),
        repeated_steps=ledger.measured(last.repeated_steps, "", "Resumed")
        if last
        else ledger.unknown("", f"Resumed of leg {number}"),
    )


def _last_time(events: Sequence[AnyEvent]) -> float | None:
    return next(_times(reversed(events)), None)


def _ending(
    events: list[AnyEvent], silent: bool
) -> tuple[Literal["done", "polite", "signal", "error", "killed", "lost", "untold"], str]:
    ended = of_kind(events, LegEnded)
    if ended:
        return ended[-1].reason, ended[-1].message
    stop = of_kind(events, StopMade)
    if stop and stop[-1].stop in ("kill", "kill-in-write"):
        return "killed", f"{stop[-1].stop} at step {stop[-1].step}"
    if silent:
        done = bool(of_kind(events, RunDone))
        return ("done", "") if done else ("untold", "the imported log does not say how")
    return "lost", "no event says why"


def stops(events: Sequence[AnyEvent], ledger: Ledger) -> tuple[StopSummary, ...]:
    """Stops that were made, in order."""
    zero = run_began(events) if events else None
    return tuple(
        StopSummary(e.stop, e.leg, e.step, _since(zero, e.time, "StopMade", ledger))
        for e in of_kind(events, StopMade)
    )


def checkpoints(events: Sequence[AnyEvent], ledger: Ledger) -> tuple[CheckpointSummary, ...]:
    """Every attempt to write a checkpoint, in order; one that nothing says was completed is unfinished."""
    found: list[CheckpointSummary] = []
    zero = run_began(events) if events else None
    for event in events:
        match event:
            case CheckpointSnapshot():
                found.append(_attempt(event.leg, event.step, ledger, event, zero))
            case CheckpointSaved():
                index = _open(found, event.leg, event.step, ledger)
                found[index] = replace(
                    found[index],
                    outcome="saved",
                    bytes=ledger.measured(event.bytes, "byte", "CheckpointSaved"),
                    seconds=ledger.measured(event.seconds, "s", "CheckpointSaved"),
                )
            case CheckpointFailed():
                index = _open(found, event.leg, event.step, ledger)
                found[index] = replace(found[index], outcome="failed", detail=event.error)
            case CheckpointRemoved():
                _mark_latest(found, event.step, event.reason)
            case CheckpointPassedOver():
                _mark_latest(found, event.step, f"not used on resuming: {event.reason}")
            case _:
                pass
    return tuple(found)


def _mark_latest(found: list[CheckpointSummary], step: int, reason: str) -> None:
    """Say what became of the newest checkpoint of a step."""
    for index in reversed(range(len(found))):
        if found[index].step == step and not found[index].removed:
            found[index] = replace(found[index], removed=reason)
            return


def _attempt(
    leg: int, step: int, ledger: Ledger, snapshot: CheckpointSnapshot | None, zero: float | None
) -> CheckpointSummary:
    missing = f"CheckpointSnapshot of step {step} in leg {leg}"
    return CheckpointSummary(
        leg=leg,
        step=step,
        started=_since(zero, snapshot.time, "CheckpointSnapshot", ledger)
        if snapshot
        else ledger.unknown("s", missing),
        stall=ledger.measured(snapshot.stall_seconds, "s", "CheckpointSnapshot")
        if snapshot
        else ledger.unknown("s", missing),
        bytes=ledger.unknown("byte", f"CheckpointSaved of step {step} in leg {leg}"),
        seconds=ledger.unknown("s", f"CheckpointSaved of step {step} in leg {leg}"),
        asynchronous=snapshot.asynchronous if snapshot else None,
        outcome="unfinished",
        detail="",
        removed="",
    )


def _open(found: list[CheckpointSummary], leg: int, step: int, ledger: Ledger) -> int:
    """Place of the attempt that an event completes; one whose beginning no event tells is added."""
    for index in reversed(range(len(found))):
        one = found[index]
        if (one.leg, one.step, one.outcome) == (leg, step, "unfinished"):
            return index
    found.append(_attempt(leg, step, ledger, None, None))
    return len(found) - 1
