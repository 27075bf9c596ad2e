"""``twintrack kernel profile``: how long a kernel takes, what bounds it, and what would help."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twintrack.clock import Clock, SystemClock

if TYPE_CHECKING:
    from rich.console import Console

    from twintrack.neuroncore.timing.profile import Profile
    from twintrack.nki.kernel import Kernel, Options

__all__ = ["profile_lines", "report_progress", "run_profile", "show"]

_PATIENCE_SECONDS = 2.0
_SECONDS_BETWEEN_LINES = 10.0


def run_profile(
    kernel: Kernel,
    arguments: dict[str, Any],
    options: Options,
    *,
    drop_reloads: bool,
    what_if: bool,
    extrapolate: bool = True,
) -> Profile:
    """Profile a kernel with progress on the standard error stream."""
    from rich.console import Console

    from twintrack.nki.profiling import profile

    with report_progress(Console(stderr=True)) as tell:
        return profile(
            kernel,
            settings=arguments,
            options=options,
            drop_reloads=drop_reloads,
            what_if=what_if,
            extrapolate=extrapolate,
            progress=tell,
        )


@contextmanager
def report_progress(
    console: Console, clock: Clock | None = None
) -> Iterator[Callable[[str, int, int], None]]:
    """A function that is told how far a profile is; it says nothing before two seconds have passed.

    On a terminal one line is rewritten, elsewhere a line follows every ten seconds. Time left follows from the pace of
    the stage, where its size is known.
    """
    line = _Line(console, clock or SystemClock())
    try:
        yield line.tell
    finally:
        line.clear()


class _Line:
    def __init__(self, console: Console, clock: Clock) -> None:
        self._console, self._clock = console, clock
        self._begun = self._stage_begun = clock.monotonic()
        self._stage = ""
        self._said = -_SECONDS_BETWEEN_LINES
        self._status: Any = None

    def tell(self, stage: str, done: int, of: int) -> None:
        now = self._clock.monotonic()
        if stage != self._stage:
            self._stage, self._stage_begun = stage, now
        if now - self._begun < _PATIENCE_SECONDS:
            return
        text = f"{stage}{_amount(done, of)}, {now - self._begun:.0f} s"
        if of and done:
            text += f", about {(now - self._stage_begun) / done * (of - done):.0f} s left"
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status(text)
                self._status.start()
            self._status.update(text)
        elif now - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = now
            self._console.print(text, highlight=False, soft_wrap=True)

    def clear(self) -> None:
        if self._status is not None:
            self._status.stop()


def _amount(done: int, of: int) -> str:
    if of:
        return f": {done} of {of} timings"
    return f": {done:,} instructions" if done else ""


def show(profile: Profile, out: Path | None, *, as_json: bool) -> None:
    """Print a profile and write its files."""
    from twintrack.neuroncore.timing.export import profile_values, write_profile
    from twintrack.storage import LocalFileSystem

    paths = () if out is None else write_profile(profile, out, LocalFileSystem())
    if as_json:
        click.echo(json.dumps(profile_values(profile), indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for part in profile_lines(profile):
        console.print(part)
    for path in paths:
        console.print(f"{path}", markup=False, soft_wrap=True)


def profile_lines(profile: Profile) -> list[Any]:
    """What the terminal shows, as parts for a ``rich`` console."""
    from dataclasses import replace

    from rich.text import Text

    from twintrack.neuroncore.timing.binding import LIMIT_NAMES
    from twintrack.neuroncore.timing.profile import counted
    from twintrack.neuroncore.timing.views import (
        error_text,
        help_table,
        memory_table,
        queue_table,
        summary_table,
        unpublished_text,
        use_table,
        wait_table,
    )
    from twintrack.report.terminal import kinds_line, plain_text, terminal_table

    head = Text(
        f"{plain_text(profile.kernel)}: {profile.where}, {counted(profile.instructions, 'instruction')}",
        style="bold",
    )
    bound = Text("bound by ").append(LIMIT_NAMES[profile.binding.resource], style="bold")
    bound.append(f": {plain_text(profile.binding.why)}")
    summary = summary_table(profile)
    tables = [use_table(profile), memory_table(profile)]
    tables += [one for one in (wait_table(profile, 5), queue_table(profile, 3)) if one.rows]
    if profile.what_if:
        tables.append(help_table(profile))
    told = [Text(plain_text(note)) for note in profile.notes]  # how the figures were made, before them
    parts: list[Any] = [head, terminal_table(summary), bound, *told, ""]
    for table in tables:
        note = Text(plain_text(table.note), style="dim")  # below a narrow table it would be as narrow
        parts += [terminal_table(replace(table, note="")), note, ""]
    notes = [error_text(profile), unpublished_text(profile)]
    parts += [Text(plain_text(note), style="dim") for note in notes if note]
    parts.append(kinds_line(summary))
    return parts
