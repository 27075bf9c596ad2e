"""A run folder, from its events alone, as one record and as ``summary.json``.

Nothing is measured here and nothing is read but ``pilot.json``, ``job.json`` and the events files, so that a
run can be reported again at any time, elsewhere, with the same figures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from twintrack.events import AnyEvent, read_events
from twintrack.pilot.manifest import read_job_file, read_pilot_file
from twintrack.pilot.summary_checks import compare_runs, compare_tracks
from twintrack.pilot.summary_failures import failures
from twintrack.pilot.summary_figures import Ledger, told_elsewhere
from twintrack.pilot.summary_parts import CompileSummary, RunName
from twintrack.pilot.summary_programs import compile_reasons
from twintrack.pilot.summary_records import RunSummary, SlotSummary, Summary, TrackSummary
from twintrack.pilot.summary_run import slowdown, stall, summarise_run
from twintrack.pilot.summary_start import cold_and_warm
from twintrack.quantity import Quantity
from twintrack.report.values import plain_values
from twintrack.storage import FileSystem, inside, write_json_atomic

__all__ = ["read_summary", "read_track", "summary_json", "write_summary"]


def read_summary(folder: Path, fs: FileSystem) -> Summary:
    """Read a run folder, finished or not.

    Raises:
        RunFolderError: if it is not a run folder, or one of another version.
        EventError: if an events file holds a whole line that is not an event.
        StorageError: if a file cannot be read.
    """
    pilot, job = read_pilot_file(folder, fs), read_job_file(folder, fs)
    names = list(dict.fromkeys(slot.track for slot in pilot.slots if slot.track is not None))
    tracks = tuple(read_track(folder, fs, name) for name in names)
    references = [track.reference for track in tracks if track.reference is not None]
    comparisons = tuple(compare_tracks(a, b, job.tolerances.loss) for a, b in combinations(references, 2))
    return Summary(
        job=job,
        job_digest=pilot.job_digest,
        version=pilot.version,
        slots=tuple(SlotSummary(slot.use, slot.track, slot.reason) for slot in pilot.slots),
        tracks=tracks,
        comparisons=comparisons,
        to_the_bit=_all([track.resume.to_the_bit for track in tracks]),
        failures=failures(job, pilot.job_digest, tracks, comparisons),
    )


def _all(answers: Sequence[bool | None]) -> bool | None:
    if False in answers:
        return False
    return True if answers and None not in answers else None


def read_track(folder: Path, fs: FileSystem, track: str) -> TrackSummary:
    """Both runs of one track of a run folder, as far as they have events.

    Raises:
        EventError: if an events file holds a whole line that is not an event.
        StorageError: if a file cannot be read, or the track's name leads out of the folder.
    """
    found: list[tuple[RunSummary, list[AnyEvent]]] = []
    names: tuple[RunName, ...] = ("reference", "interrupted")
    for name in names:
        path = f"tracks/{track}/{name}/events.jsonl"
        full = inside(folder, path)
        events = list(read_events(full)) if fs.exists(full) else []
        if events:
            found.append((summarise_run(track, name, path, events), events))
    runs = [run for run, _ in found]
    by_name = {run.run: run for run in runs}
    cold, warm = cold_and_warm(found)
    ledger = Ledger(" and ".join(run.source for run in runs) or f"tracks/{track}")
    compiled = [one for run in runs for one in run.compiles]
    return TrackSummary(
        track=track,
        reference=by_name.get("reference"),
        interrupted=by_name.get("interrupted"),
        resume=compare_runs(by_name.get("reference"), by_name.get("interrupted")),
        cold=cold,
        warm=warm,
        compile_reasons=compile_reasons(compiled, ledger),
        recompiles=_recompiles(found, compiled, ledger),
        stall=stall(runs),
        slowdown=slowdown(runs, [events for _, events in found]),
    )


def _recompiles(
    found: Sequence[tuple[RunSummary, Sequence[AnyEvent]]], compiled: Sequence[CompileSummary], ledger: Ledger
) -> Quantity:
    if not found or any(told_elsewhere(events) for _, events in found):
        return ledger.unknown("", "CompileDone" if found else "event")
    later = sum(one.during == "later" for one in compiled)
    return ledger.derived(later, "", "number of later CompileDone")


def summary_json(summary: Summary) -> dict[str, Any]:
    """The summary as plain JSON values; fields of a quantity that say nothing are left out."""
    fields = plain_values(summary)
    return {"format": 1, "passed": summary.passed, **fields}


def write_summary(folder: Path, fs: FileSystem) -> Summary:
    """Read the run folder and write its ``summary.json``; equal events give equal bytes.

    Raises:
        RunFolderError, EventError, StorageError: as ``read_summary``; StorageError also if it cannot be
        written.
    """
    summary = read_summary(folder, fs)
    write_json_atomic(fs, folder / "summary.json", summary_json(summary))
    return summary
