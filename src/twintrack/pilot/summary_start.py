"""Time before the first step, in parts, cold and warm.

A part is what a leg's ``Phase`` events of that name add up to. Where a leg compiled but wrote no such phase,
capture and compile are what its ``CompileDone`` events before the first step add up to. A start is *cold* if
all its programs were captured, *warm* if all came from the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from twintrack.events import AnyEvent, CompileDone, Phase, Resumed, StepDone
from twintrack.pilot.summary_figures import Ledger, of_kind, told_elsewhere
from twintrack.pilot.summary_legs import by_leg
from twintrack.pilot.summary_parts import RunName, StartPart, StartSummary
from twintrack.pilot.summary_records import RunSummary
from twintrack.quantity import Quantity

__all__ = ["PARTS", "cold_and_warm", "starts"]

PARTS = ("import", "data", "model", "resume", "capture", "compile", "first_step")
_ALWAYS = ("import", "data", "model", "first_step")
_AT_CREATION = "capture measured when the cache entries were made, not in this start"


def starts(events: Sequence[AnyEvent], run: RunName, ledger: Ledger) -> tuple[StartSummary, ...]:
    """Each process that reached its first step."""
    found = []
    silent = told_elsewhere(events)
    for leg, own in by_leg(events).items():
        phases = of_kind(own, Phase)
        if of_kind(own, StepDone) or any(phase.name == "first_step" for phase in phases):
            found.append(_start(own, run, leg, ledger, silent))
    return tuple(found)


def _start(events: list[AnyEvent], run: RunName, leg: int, ledger: Ledger, silent: bool) -> StartSummary:
    programs = [event for event in of_kind(events, CompileDone) if event.during == "warmup"]
    warm = sum(program.warm for program in programs)
    parts = tuple(
        StartPart(name, seconds)
        for name in PARTS
        if (seconds := _part(name, events, programs, leg, ledger)) is not None
    )
    return StartSummary(
        run=run,
        leg=leg,
        programs="untold" if silent and not programs else _state(len(programs), warm),
        resumed=any(event.step > 0 for event in of_kind(events, Resumed)),
        parts=parts,
        total=_total(parts, "sum of the parts"),
        captured=ledger.maybe(
            None if silent else len(programs) - warm, "", "CompileDone, not warm, before the first step"
        ),
        loaded=ledger.maybe(None if silent else warm, "", "CompileDone, warm, before the first step"),
    )


def _state(programs: int, warm: int) -> Literal["cold", "warm", "mixed", "none"]:
    if not programs:
        return "none"
    return "warm" if warm == programs else "mixed" if warm else "cold"


def _part(
    name: str, events: list[AnyEvent], programs: list[CompileDone], leg: int, ledger: Ledger
) -> Quantity | None:
    """Seconds of a part; ``None`` where this start has no such part."""
    spent = [phase.seconds for phase in of_kind(events, Phase) if phase.name == name]
    if spent:
        return ledger.measured(sum(spent), "s", f"Phase {name} of leg {leg}")
    if name == "capture" and programs:
        cold = [program.capture_seconds for program in programs if not program.warm]
        return ledger.derived(sum(cold), "s", f"sum of CompileDone.capture_seconds captured in leg {leg}")
    if name == "compile" and programs:
        loads = [program.load_seconds for program in programs]
        return ledger.derived(sum(loads), "s", f"sum of CompileDone.load_seconds of leg {leg}")
    resumed = of_kind(events, Resumed)
    if name == "resume" and resumed:
        return ledger.measured(resumed[-1].seconds, "s", f"Resumed of leg {leg}")
    return ledger.unknown("s", f"Phase {name} of leg {leg}") if name in _ALWAYS else None


def _total(parts: Sequence[StartPart], formula: str, conditions: str = "") -> Quantity:
    value = sum(part.seconds.value or 0.0 for part in parts)
    return Quantity.derived(value, "s", formula, [part.seconds for part in parts], conditions=conditions)


def cold_and_warm(
    runs: Sequence[tuple[RunSummary, Sequence[AnyEvent]]],
) -> tuple[StartSummary | None, StartSummary | None]:
    """The first start from step 0, as cold as it was or can be shown, and the first start that captured
    nothing.

    Where every program came from the cache, the cold start is the same start with the capture time that the
    entries remember; writing the entries is then not known and left out. A track that compiles nothing has
    two plain starts. A start of which a log from elsewhere does not say which it was is neither.
    """
    told = [
        (start, run, events) for run, events in runs for start in run.starts if start.programs != "untold"
    ]
    fresh = [one for one in told if not one[0].resumed]
    every = [start for start, _, _ in told]
    if not fresh:
        return None, next((start for start in every if start.programs == "warm"), None)
    first, run, events = fresh[0]
    cold = first if first.programs in ("cold", "none") else _as_cold(first, events, Ledger(run.source))
    if first.programs == "none":
        others = [start for start, _, _ in fresh[1:]]
        return cold, others[0] if others else None
    warm = [start for start, _, _ in fresh if start.programs == "warm"]
    return cold, next(iter(warm or [start for start in every if start.programs == "warm"]), None)


def _as_cold(start: StartSummary, events: Sequence[AnyEvent], ledger: Ledger) -> StartSummary:
    """A start from the cache, with what capturing took when the entries were made."""
    made = [e for e in of_kind(events, CompileDone) if e.leg == start.leg and e.during == "warmup"]
    capture = ledger.derived(
        sum(event.capture_seconds for event in made),
        "s",
        f"sum of CompileDone.capture_seconds of leg {start.leg}",
        _AT_CREATION,
    )
    kept = [part for part in start.parts if part.name not in ("capture", "compile")]
    parts = sorted([*kept, StartPart("capture", capture)], key=lambda part: PARTS.index(part.name))
    formula = "sum of the parts; writing the cache entries is not in it"
    return replace(
        start,
        programs="cold",
        parts=tuple(parts),
        total=_total(parts, formula, _AT_CREATION),
        captured=start.captured.under(_AT_CREATION),
        loaded=start.loaded.under(_AT_CREATION),
        note=_AT_CREATION,
    )
