"""A run folder that an imported run is put into: made, or an existing one of the same job that gets a run more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import twintrack
from twintrack.errors import RunFolderError, TrackError
from twintrack.events import AnyEvent, Imported
from twintrack.hardware import load_catalogue
from twintrack.job.digest import comparable_parts, differing_parts, job_digest
from twintrack.job.load import LoadedJob
from twintrack.job.records import Job, TrackName
from twintrack.pilot.folders import RunKind, TrackRun
from twintrack.pilot.imports.formats import read_run
from twintrack.pilot.imports.records import Target
from twintrack.pilot.imports.text import read_log
from twintrack.pilot.manifest import PilotFile, SlotChoice, read_job_file, read_manifest, read_pilot_file
from twintrack.storage import FileLock, FileSystem, storage_errors, write_bytes_atomic, write_json_atomic

__all__ = ["ImportRequest", "ImportedRun", "import_run"]


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What is to be imported as what."""

    file: Path
    folder: Path
    """The run folder."""
    track: TrackName
    job: LoadedJob | None = None
    """``None``: the job of the run folder."""
    kind: RunKind = "reference"
    format: str = "auto"
    instance: str | None = None
    """Name of the machine in the catalogue."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column of a field, where the log names it otherwise."""
    first_step: Literal[0, 1] = 1
    """How the log counts the first step."""


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """What an import made."""

    run: TrackRun
    imported: Imported
    events: int
    """Events that the log gave, the import's own left out."""


def import_run(request: ImportRequest, fs: FileSystem) -> ImportedRun:
    """Read a log and put it into a run folder; ``pilot.json`` is written last, and nothing is ever overwritten.

    Raises:
        EventError: if the log cannot be read as a run.
        RunFolderError: if the run is there already, the folder belongs to another job or is in use, or holds files
            that are no run.
        TrackError: if the job names no such track.
        CatalogueError: if there is no such instance.
        StorageError: if the file system refuses; a new folder is then removed again.
    """
    run = TrackRun(request.folder, request.track, request.kind)
    pilot = read_pilot_file(request.folder, fs) if fs.exists(request.folder / "pilot.json") else None
    job = _job(request, pilot, fs)
    _check(request, run, job, pilot, fs)
    instance = None if request.instance is None else load_catalogue().instance(request.instance).name
    target = Target(
        job_digest(job), job.stop.steps, request.track, request.kind, instance, request.first_step
    )
    file = read_log(request.file, fs)
    events = read_run(file, request.format, request.columns, target)
    told = next(event for event in events if isinstance(event, Imported))
    if pilot is None:
        _make(run, request.job, job, events, told, fs)
    else:
        _add(run, events, told, fs)
    return ImportedRun(run, told, len(events) - 1)


def _job(request: ImportRequest, pilot: PilotFile | None, fs: FileSystem) -> Job:
    if pilot is None:
        if request.job is None:
            raise RunFolderError(
                "a job, for a new run folder",
                found="none",
                where=str(request.folder),
                remedy="say which job it was with --job FILE",
            )
        return request.job.job
    own = read_job_file(request.folder, fs)
    if request.job is not None and request.job.digest != pilot.job_digest:
        parts = differing_parts(comparable_parts(request.job.job), comparable_parts(own))
        raise RunFolderError(
            f"the job of the run folder, {own.name}",
            found=f"another: {', '.join(parts) or 'its version'} differ",
            where=str(request.job.path),
            remedy="import it as another run folder; 'twintrack decide' takes several",
        )
    return read_manifest(request.folder, fs).job


def _check(request: ImportRequest, run: TrackRun, job: Job, pilot: PilotFile | None, fs: FileSystem) -> None:
    if pilot is None and fs.exists(request.folder) and fs.list(request.folder):
        raise RunFolderError(
            "a run folder, or a new or empty folder",
            found="a folder with other files",
            where=str(request.folder),
            remedy="choose another name for --as",
        )
    named = list(dict.fromkeys(track for slot in job.tracks for track in slot.use))
    if request.track not in named:
        raise TrackError(
            f"a track that the job names: {', '.join(named)}",
            found=request.track,
            where=job.name,
            remedy=f'name it in a place of the job before the pilot is run: use = ["{request.track}", ...]',
        )
    _refuse_existing(run, fs)


def _refuse_existing(run: TrackRun, fs: FileSystem) -> None:
    if fs.exists(run.events):
        raise RunFolderError(
            "a run that is not there yet",
            found=f"{run.track} {run.kind} with events",
            where=str(run.events),
            remedy="import it as another run folder",
        )


def _make(
    run: TrackRun,
    loaded: LoadedJob | None,
    job: Job,
    events: Sequence[AnyEvent],
    told: Imported,
    fs: FileSystem,
) -> None:
    """A new folder; one that could not be made whole is removed."""
    base = Path() if loaded is None else loaded.base
    folder = run.root
    was_there = fs.exists(folder)
    slots = _with_track(
        [SlotChoice(use=s.use, track=None, reason="not imported") for s in job.tracks], run, told
    )
    pilot = PilotFile(format=1, job_digest=job_digest(job), version=twintrack.__version__, slots=slots)
    try:
        _write_events(run, events, fs)
        write_json_atomic(fs, folder / "job.json", job.model_dump(mode="json"))
        write_json_atomic(fs, folder / "inputs.json", {"base": str(base.resolve())})
        write_json_atomic(fs, folder / "pilot.json", pilot.model_dump(mode="json"))
    except BaseException:
        with storage_errors(folder, "remove what was begun"):
            for name in fs.list(folder) if was_there else [""]:
                fs.remove(folder / name)
        raise


def _add(run: TrackRun, events: Sequence[AnyEvent], told: Imported, fs: FileSystem) -> None:
    lock = FileLock(run.root / "lock")
    if not lock.acquire(wait=False):
        raise RunFolderError(
            "a run folder that no process works on",
            found=f"process {lock.owner()} at work",
            where=str(run.root),
            remedy="wait for it, or stop it",
        )
    try:
        _refuse_existing(run, fs)  # another import may have come first
        pilot = read_pilot_file(run.root, fs)
        with_run = pilot.model_copy(update={"slots": _with_track(pilot.slots, run, told)})
        _write_events(run, events, fs)
        write_json_atomic(fs, run.root / "pilot.json", with_run.model_dump(mode="json"))
    finally:
        lock.release()


def _with_track(slots: Sequence[SlotChoice], run: TrackRun, told: Imported) -> tuple[SlotChoice, ...]:
    """The track in the first place of the job that is free for it, else in a place more, beside what ran there."""
    if any(slot.track == run.track for slot in slots):
        return tuple(slots)
    reason = f"imported from {told.file}"
    track = next(name for slot in slots for name in slot.use if name == run.track)
    for index, slot in enumerate(slots):
        if track in slot.use and slot.track is None:
            filled = SlotChoice(use=slot.use, track=track, reason=reason)
            return (*slots[:index], filled, *slots[index + 1 :])
    use = next(slot.use for slot in slots if track in slot.use)
    return (*slots, SlotChoice(use=use, track=track, reason=f"{reason}, beside what ran here"))


def _write_events(run: TrackRun, events: Sequence[AnyEvent], fs: FileSystem) -> None:
    lines = (
        json.dumps(event.model_dump(mode="json"), allow_nan=False, ensure_ascii=False) for event in events
    )
    with storage_errors(run.folder, "make the run folder"):
        fs.make_folder(run.folder)
    write_bytes_atomic(fs, run.events, ("\n".join(lines) + "\n").encode())
