"""Events of what a log says, and what is wrong with it: holes, steps again, times that go backwards, no numbers.

Nothing is added that the log does not say. A number that is not finite, or that no run can have, is a defect and its
figure unknown; a training step whose loss is not a number has no event, and is told as a defect. Once one time goes
backwards nobody can say which times are right, so that no event of the log carries any.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from twintrack.errors import EventError
from twintrack.events import (
    AnyEvent,
    Defect,
    EvaluationDone,
    LegStarted,
    MemoryPeak,
    RunDone,
    StepDone,
)
from twintrack.pilot.imports.defects import holes, imported, refuse_far_steps, wrong_number
from twintrack.pilot.imports.records import Log, Row, Target
from twintrack.pilot.imports.text import LogFile

__all__ = ["build_events"]

_WHOLE = ("tokens", "loss_tokens", "peak_memory_bytes")
_LARGEST_WHOLE = 1 << 62
_LONGEST_MEAN = 100_000  # the most that StepDone.averaged_steps takes
_SIGNED = ("loss", "evaluation_loss")


def build_events(log: Log, file: LogFile, target: Target) -> list[AnyEvent]:
    """Events in the order of the log, ``Imported`` first.

    Raises:
        EventError: if the log says nothing of any step, or counts steps otherwise than the user said.
    """
    refuse_far_steps(log.end or 0, log.lines, file, target)
    walk = _Walk(log, target)
    for row in log.rows:
        refuse_far_steps(row.step, row.line, file, target)
        walk.take(row)
    if not walk.events:
        raise EventError(
            "a log with a training loss or an evaluation of at least one step",
            found=f"none in {log.lines} lines read as {log.format}" + _first([*log.defects, *walk.defects]),
            where=file.name,
            remedy=_remedy(walk.defects),
        )
    if walk.reached >= target.steps:
        walk.events.append(RunDone(leg=walk.leg, step=walk.reached, reason="steps"))
    if walk.memory:
        walk.events.append(MemoryPeak(leg=walk.leg, bytes=walk.memory, source=f"as told in {file.name}"))
    defects = [*log.defects, *walk.defects, *walk.holes()]
    events = (
        walk.events if not walk.backwards else [one.model_copy(update={"time": None}) for one in walk.events]
    )
    starts = [_start(leg, log, file, target) for leg in range(walk.leg + 1)]
    placed: list[AnyEvent] = []
    begun = 0
    for event in events:
        placed += starts[begun : event.leg + 1]
        begun = max(begun, event.leg + 1)
        placed.append(event)
    return [imported(log, file, defects), *placed]


def _first(defects: Sequence[Defect]) -> str:
    bad = next((one for one in defects if one.spoils), None)
    return "" if bad is None else f"; line {bad.line}: {bad.text}"


def _remedy(defects: Sequence[Defect]) -> str:
    """Losses were found but are not finite, or none were found at all."""
    if any(one.what == "not_finite" and "loss is" in one.text for one in defects):
        return "its losses were read and are not finite: name a log with at least one step whose loss is a number"
    return "name the columns with --columns, or the format with --format"


def _start(leg: int, log: Log, file: LogFile, target: Target) -> LegStarted:
    """What is known of the process: where it was read from; the job is the word of whoever imports it."""
    told = {**log.environment, "imported from": file.name, "job": "as named when the log was imported"}
    if target.instance is not None:
        told["instance"] = target.instance
    return LegStarted(leg=leg, track=target.track, job_digest=target.job_digest, environment=told)


@dataclass(slots=True)
class _Walk:
    """Goes through the rows of a log, keeping what is needed to see that something is wrong."""

    log: Log
    target: Target
    events: list[AnyEvent] = field(default_factory=list)
    defects: list[Defect] = field(default_factory=list)
    leg: int = 0
    memory: int = 0
    reached: int = 0
    backwards: bool = False
    _time: float | None = None
    _last: int = 0
    _line: int = 0
    _usual: int = 1
    _steps: dict[int, int] = field(default_factory=dict)
    _covered: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reached = (self.log.end or 0) + (1 - self.target.first_step if self.log.end is not None else 0)
        self._usual = self.log.interval or _usual_gap(
            [row.step for row in self.log.rows if "loss" in row.figures]
        )

    def take(self, row: Row) -> None:
        trained = any(name in row.figures for name in ("loss", "learning_rate", "gradient_norm"))
        evaluated = "evaluation_loss" in row.figures
        row = self._numbered(row, trained)
        time = self._checked_time(row)
        figures = {name: value for name, value in row.figures.items() if self._sound(row, name, value)}
        if trained:
            self._train(row, figures, time)
        if evaluated and "evaluation_loss" in figures:
            seconds = figures.get("evaluation_seconds")
            loss = figures["evaluation_loss"]
            self.events.append(
                EvaluationDone(time=time, leg=self.leg, step=row.step, loss=loss, seconds=seconds)
            )
        self.memory = max(self.memory, int(figures.get("peak_memory_bytes", 0)))

    def holes(self) -> list[Defect]:
        """Steps that the log lacks up to the last that it speaks of; a log with every n-th step is told of once."""
        every = self._usual
        if self.log.averaged or not _regular(sorted(self._steps), every):
            return holes(self._steps, self._covered, self.reached, self._line)
        between = sum(min(every, after - before) - 1 for before, after in pairwise([0, *sorted(self._steps)]))
        lacking = f"{between} step between is" if between == 1 else f"{between} steps between are"
        text = f"the log has every {_ordinal(every)} step: {lacking} not in it"
        told = Defect(line=min(self._steps.values()), step=1, what="hole", text=text)
        return [told, *holes(self._steps, dict.fromkeys(self._steps, every), self.reached, self._line)]

    def _numbered(self, row: Row, trained: bool) -> Row:
        """The row, its step counted from 1."""
        step = row.step + 1 - self.target.first_step
        if trained and step == 0:
            raise EventError(
                "a first training step 1",
                found="training at step 0",
                where=f"line {row.line} of the log",
                remedy="say --first-step 0, if the log counts from there",
            )
        return replace(row, step=step)

    def _checked_time(self, row: Row) -> float | None:
        if row.time is None:
            return None
        if not math.isfinite(row.time):
            self._tell(row, "not_finite", f"the time is {row.time}")
            return None
        if self._time is not None and row.time < self._time:
            self._tell(
                row,
                "time_backwards",
                f"its time is {self._time - row.time:g} s before that of the line before",
            )
            self.backwards = True
        self._time = row.time
        return row.time

    def _sound(self, row: Row, name: str, value: float) -> bool:
        wrong = wrong_number(value)
        if wrong is None and name not in _SIGNED and value < 0:
            wrong = "unreadable", f"{value:g}, below 0"
        if wrong is None and name in _WHOLE and (value != int(value) or value > _LARGEST_WHOLE):
            wrong = "unreadable", f"{value:g}, not a number of them"
        if wrong is not None:
            self._tell(row, wrong[0], f"{name} is {wrong[1]}")
        return wrong is None

    def _train(self, row: Row, figures: Mapping[str, float], time: float | None) -> None:
        step = row.step
        self._order(row)
        over = self._over(step)
        self._last, self.reached, self._line = step, max(self.reached, step), row.line
        self._steps[step] = row.line
        self._covered[step] = over
        if "loss" not in figures:
            if "loss" not in row.figures:
                self._tell(row, "hole", f"step {step} has no loss")
            return
        if over > _LONGEST_MEAN:
            self._tell(
                row, "unreadable", f"its loss is the mean of {over} steps, at most {_LONGEST_MEAN} are read"
            )
            return
        tokens, loss_tokens = figures.get("tokens"), figures.get("loss_tokens")
        self.events.append(
            StepDone(
                time=time,
                leg=self.leg,
                step=step,
                loss=figures["loss"],
                learning_rate=figures.get("learning_rate"),
                gradient_norm=figures.get("gradient_norm"),
                tokens=None if tokens is None else int(tokens),
                loss_tokens=None if loss_tokens is None else int(loss_tokens),
                seconds=figures.get("seconds"),
                sample_ids=list(row.sample_ids),
                averaged_steps=over,
            )
        )

    def _over(self, step: int) -> int:
        """How many steps a row's loss is the mean of: those since the row before, at most the trainer's interval."""
        if not self.log.averaged:
            return 1
        return max(1, min(self._usual, step - self._last if step > self._last else step))

    def _order(self, row: Row) -> None:
        """A step that is not after the last one: another process of an interrupted run, else a defect."""
        if row.step > self._last:
            return
        if self.target.kind == "interrupted":
            self.leg += 1
        elif row.step in self._steps:
            self._tell(row, "duplicate", f"step {row.step} is in the log again, after step {self._last}")
        else:
            self._tell(row, "time_backwards", f"step {row.step} stands after step {self._last}")

    def _tell(
        self,
        row: Row,
        what: Literal["hole", "time_backwards", "not_finite", "duplicate", "unreadable"],
        text: str,
    ) -> None:
        self.defects.append(Defect(line=row.line, step=row.step, what=what, text=text))


def _usual_gap(steps: Sequence[int]) -> int:
    """The most common distance between training rows, the smallest of those that are equally common; at least 1."""
    gaps = Counter(
        after - before for before, after in zip([0, *steps], steps, strict=False) if after > before
    )
    return min(gaps, key=lambda gap: (-gaps[gap], gap)) if gaps else 1


def _regular(steps: Sequence[int], every: int) -> bool:
    """Whether a log has every n-th step: two such distances at least, and no other but what whole ones make up."""
    gaps = [after - before for before, after in pairwise(steps)]
    return every > 1 and gaps.count(every) >= 2 and all(gap % every == 0 for gap in gaps)


def _ordinal(number: int) -> str:
    """
    >>> [_ordinal(one) for one in (2, 3, 11, 21, 50)]
    ['2nd', '3rd', '11th', '21st', '50th']
    """
    teens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
