"""Speed, starts, checkpoints and memory of two runs side by side, and which of them may be put over each other.

Seconds and memory of an emulation are never put over those of a machine, and a cold start never over a warm one.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from twintrack.pilot.compare.read import LoadedRun
from twintrack.pilot.compare.records import EMULATED, FigureRow, StartPair
from twintrack.pilot.summary_figures import Ledger
from twintrack.pilot.summary_parts import StartSummary
from twintrack.pilot.summary_programs import recompile_churn
from twintrack.pilot.summary_records import RunSummary
from twintrack.quantity import Quantity

__all__ = ["WORDS", "figures", "ratio", "starts"]

OF_EMULATION = "the emulation's own, not that of the machine it stands for"
_Pick = Callable[[LoadedRun], Quantity]
_State = Literal["cold", "warm", "as it was"]


def figures(first: LoadedRun, second: LoadedRun) -> tuple[FigureRow, ...]:
    """Every figure of both runs but losses, starts and costs."""
    return tuple(
        _figure(
            name,
            pick(first),
            pick(second),
            machine=kind == "machine",
            counted=kind == "count",
            pair=(first, second),
        )
        for name, kind, pick in _ROWS
    )


def _figure(
    name: str,
    first: Quantity,
    second: Quantity,
    *,
    machine: bool,
    counted: bool,
    pair: tuple[LoadedRun, LoadedRun],
) -> FigureRow:
    if machine:
        first, second = _marked(first, pair[0]), _marked(second, pair[1])
    if counted:
        return FigureRow(name, first, second, None)
    reason = _one_emulated(*pair) if machine else ""
    return FigureRow(name, first, second, ratio(name, first, second, reason))


def _marked(figure: Quantity, one: LoadedRun) -> Quantity:
    """The figure, with the word that it is an emulation's where it is."""
    if one.run.track not in EMULATED or not figure.known:
        return figure
    return figure.under("; ".join(filter(None, (figure.conditions, OF_EMULATION))))


def _one_emulated(first: LoadedRun, second: LoadedRun) -> str:
    emulated = [one.label for one in (first, second) if one.run.track in EMULATED]
    return f"{emulated[0]} is an emulation, whose figure is not the machine's" if len(emulated) == 1 else ""


def ratio(name: str, first: Quantity, second: Quantity, reason: str = "") -> Quantity:
    """Second over first; unknown where there is a reason against it, or a figure is unknown or 0."""
    if reason:
        return Quantity.unknown("", reason)
    if first.value == 0:
        return Quantity.unknown("", f"{name} is 0 in the first run")
    value = second.value / first.value if first.value is not None and second.value is not None else 0.0
    return Quantity.derived(value, "", f"{name}, second run over first", [first, second])


def _step_seconds(one: LoadedRun) -> Quantity:
    curve, firsts = one.run.step_seconds, {leg.first_step for leg in one.run.legs}
    kept = [value for step, value in zip(curve.steps, curve.values, strict=True) if step not in firsts]
    return Ledger(one.run.source).median(
        kept, "s", "StepDone.seconds, the first step of each process left out,"
    )


def _saved(run: RunSummary, name: str, unit: str) -> Quantity:
    values = [getattr(one, name) for one in run.checkpoints if one.outcome == "saved"]
    known = [value.require() for value in values if value.known]
    return Ledger(run.source).median(known, unit, f"CheckpointSaved.{name}")


def _stall(one: LoadedRun) -> Quantity:
    known = [float(c.stall.require()) for c in one.run.checkpoints if c.stall.known]
    if not known:
        return Quantity.unknown("s", f"no CheckpointSnapshot in {one.run.source}")
    return Ledger(one.run.source).derived(
        statistics.median(known), "s", f"median of CheckpointSnapshot.stall_seconds over {len(known)}"
    )


_ROWS: tuple[tuple[str, Literal["machine", "count", "size"], _Pick], ...] = (
    ("tokens per second, median step", "machine", lambda one: one.run.tokens_per_second),
    ("time of a step, median", "machine", _step_seconds),
    ("peak memory", "machine", lambda one: one.run.peak_memory),
    ("checkpoint size, median", "size", lambda one: _saved(one.run, "bytes", "byte")),
    ("checkpoint stall, median", "machine", _stall),
    ("time until a checkpoint is complete, median", "machine", lambda one: _saved(one.run, "seconds", "s")),
    ("step while saving over other steps, both runs of the track", "count", lambda one: one.track.slowdown),
    ("restarts", "count", lambda one: one.run.restarts),
    ("steps done again", "count", lambda one: one.run.repeated_steps),
    ("read again on resuming", "count", lambda one: one.run.bytes_reread),
    ("recompiles after the first step, both runs of the track", "count", lambda one: one.track.recompiles),
    ("share of steps that recompiled", "count", lambda one: recompile_churn(one.run)),
)


def starts(first: LoadedRun, second: LoadedRun) -> tuple[StartPair, ...]:
    """The way to the first step: cold starts of the tracks, warm ones, and the runs' own first starts as they were."""
    pairs: list[tuple[_State, StartSummary | None, StartSummary | None]] = [
        ("cold", first.track.cold, second.track.cold),
        ("warm", first.track.warm, second.track.warm),
        ("as it was", _own(first), _own(second)),
    ]
    return tuple(
        _pair(state, _start(a, first), _start(b, second), first, second) for state, a, b in pairs if a or b
    )


def _own(one: LoadedRun) -> StartSummary | None:
    return one.run.starts[0] if one.run.starts else None


def _start(start: StartSummary | None, one: LoadedRun) -> StartSummary | None:
    return None if start is None else replace(start, total=_marked(start.total, one))


def _pair(
    state: _State, a: StartSummary | None, b: StartSummary | None, first: LoadedRun, second: LoadedRun
) -> StartPair:
    if a is None or b is None:
        lacking = first.label if a is None else second.label
        return StartPair(state, a, b, Quantity.unknown("", f"no {state} start of {lacking} is on record"))
    reason = _unlike(state, a, b, first.label, second.label) or _one_emulated(first, second)
    return StartPair(
        state, a, b, ratio(f"time before the first step, {state}", a.total, b.total, reason), reason
    )


def _unlike(state: _State, a: StartSummary, b: StartSummary, first: str, second: str) -> str:
    """Why two starts are not put over each other, as far as the compile cache goes; empty if they may be."""
    if a.programs == b.programs or (state != "as it was" and "none" in (a.programs, b.programs)):
        made_up = [label for start, label in ((a, first), (b, second)) if start.note]
        return (
            f"the cold start of {made_up[0]} is put together from what capturing took when its cache entries were made"
            if made_up
            else ""
        )
    return f"{first} started {WORDS[a.programs]}, {second} {WORDS[b.programs]}: the two are not comparable"


WORDS = {
    "cold": "cold",
    "warm": "warm",
    "mixed": "with a part of its programs in the cache",
    "none": "without anything to compile",
    "untold": "in a way that its log does not tell",
}
