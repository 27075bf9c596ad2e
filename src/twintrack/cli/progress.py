"""Progress of a pilot on the terminal: a bar with time left per stage, or plain lines where there is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from twintrack.clock import Clock, SystemClock
from twintrack.pilot.watch import Display

__all__ = ["open_display"]

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def open_display(console: Console, clock: Clock | None = None) -> Iterator[Display]:
    """A display for this console; bars vanish at the end, lines stay."""
    if not console.is_terminal:
        yield _Lines(console, clock or SystemClock())
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as progress:
        yield _Bars(progress)


class _Bars:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def stage(self, name: str, total: float) -> _Bar:
        return _Bar(self._progress, self._progress.add_task(name, total=total, note=""))

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False)


class _Bar:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def update(self, done: float | None, note: str) -> None:
        if done is None:
            self._progress.update(self._task, note=note)
        else:
            self._progress.update(self._task, completed=done, note=note)

    def finish(self, note: str) -> None:
        total = self._progress.tasks[self._task].total
        self._progress.update(self._task, completed=total, note=note)


class _Lines:
    def __init__(self, console: Console, clock: Clock) -> None:
        self._console, self._clock = console, clock

    def stage(self, name: str, total: float) -> _Line:
        return _Line(self._console, self._clock, name, total)

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


class _Line:
    """Says something at the start, at the end, and every few seconds between; time left from the pace so far."""

    def __init__(self, console: Console, clock: Clock, name: str, total: float) -> None:
        self._console, self._clock, self._name, self._total = console, clock, name, total
        self._said: float | None = None
        self._pace: tuple[float, float] | None = None

    def update(self, done: float | None, note: str) -> None:
        now = self._clock.monotonic()
        if done is not None and self._pace is None:
            self._pace = (now, done)
        if self._said is None or now - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = now
            self._say(f"{note}{self._left(now, done)}")

    def _left(self, now: float, done: float | None) -> str:
        if done is None or self._pace is None or done <= self._pace[1]:
            return "" if done is None else f", {done:.0f} of {self._total:.0f} steps"
        seconds = (now - self._pace[0]) / (done - self._pace[1]) * (self._total - done)
        return f", {done:.0f} of {self._total:.0f} steps, about {seconds:.0f} s left"

    def finish(self, note: str) -> None:
        self._say(note)

    def _say(self, text: str) -> None:
        self._console.print(f"{self._name}: {text}", highlight=False, soft_wrap=True)
