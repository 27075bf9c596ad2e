"""What ``decide`` and ``dossier`` share: words of the command line to evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime

    from twintrack.clock import Clock
    from twintrack.pilot.decide.evidence import Evidence

__all__ = ["day_of", "gather_evidence"]


def day_of(word: str | None, clock: Clock) -> datetime.date:
    """The day that a word names, or today in UTC.

    Raises:
        click.UsageError: if it is no date.
    """
    import datetime

    import click

    if word is None:
        return datetime.datetime.fromtimestamp(clock.now(), datetime.UTC).date()
    try:
        return datetime.date.fromisoformat(word)
    except ValueError as error:
        raise click.UsageError(f"--on takes a day such as 2026-11-30, not {word!r}") from error


def gather_evidence(job: Path, words: Sequence[str], prices: Sequence[Path], on: str | None) -> Evidence:
    """Read job, runs, prices and catalogue.

    Raises:
        TwintrackError: whatever is wrong with one of them, in one line.
    """
    from twintrack.clock import SystemClock
    from twintrack.hardware.catalogue import load_catalogue
    from twintrack.job.load import load_job
    from twintrack.pilot.decide.gather import gather
    from twintrack.pilot.runs import find_runs
    from twintrack.storage import LocalFileSystem

    day = day_of(on, SystemClock())
    fs = LocalFileSystem()
    loaded = load_job(job)
    folders = [run.root for word in words for run in find_runs(word, fs)]
    return gather(
        loaded.job,
        loaded.base,
        str(job),
        folders,
        fs,
        load_catalogue(),
        prices=prices,
        on=day,
        machine_times={},
    )
