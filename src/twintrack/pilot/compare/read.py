"""The two runs of a comparison, read from their run folders."""

from __future__ import annotations

from dataclasses import dataclass

from twintrack.errors import CompareError
from twintrack.events import StepDone, read_events
from twintrack.job.records import Job
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.manifest import read_job_file, read_pilot_file
from twintrack.pilot.summary import read_track
from twintrack.pilot.summary_failures import track_failures
from twintrack.pilot.summary_records import Failure, RunSummary, TrackSummary
from twintrack.pilot.summary_run import last_steps
from twintrack.storage import FileSystem

__all__ = ["LoadedRun", "read_pair"]


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """One run, its track and its job, as its folder says."""

    place: TrackRun
    label: str
    job: Job
    job_digest: str
    run: RunSummary
    track: TrackSummary
    steps: tuple[StepDone, ...]
    """Each step as the last process that did it tells of it."""
    failures: tuple[Failure, ...]
    """Of this run, and of its track where that is about this run."""

    @property
    def name(self) -> str:
        """The run as the command line names it."""
        return _name(self.place)


def read_pair(first: TrackRun, second: TrackRun, fs: FileSystem) -> tuple[LoadedRun, LoadedRun]:
    """Read both runs.

    Raises:
        CompareError: if they are the same run, or one has no events.
        RunFolderError: if a folder is no run folder, or one of another version.
        EventError: if an events file holds a whole line that is not an event.
        StorageError: if a file cannot be read.
    """
    if first.folder.resolve() == second.folder.resolve():
        raise CompareError(
            "two runs",
            found=f"{_name(first)} twice",
            where="compare",
            remedy="name two different runs, such as FOLDER:cpu and FOLDER:trn2",
        )
    labels = _labels(first, second)
    return _read(first, labels[0], fs), _read(second, labels[1], fs)


def _labels(first: TrackRun, second: TrackRun) -> tuple[str, str]:
    """Names as short as they can be while they differ."""
    shorter = (
        (first.track, second.track),
        (f"{first.track}/{first.kind}", f"{second.track}/{second.kind}"),
        (f"{first.root.name}:{first.track}", f"{second.root.name}:{second.track}"),
    )
    return next((pair for pair in shorter if pair[0] != pair[1]), (_name(first), _name(second)))


def _name(run: TrackRun) -> str:
    return f"{run.root}:{run.track}/{run.kind}"


def _read(place: TrackRun, label: str, fs: FileSystem) -> LoadedRun:
    pilot, job = read_pilot_file(place.root, fs), read_job_file(place.root, fs)
    track = read_track(place.root, fs, place.track)
    run = track.reference if place.kind == "reference" else track.interrupted
    if run is None:
        raise CompareError(
            "a run with events",
            found="none",
            where=_name(place),
            remedy="run the pilot first, or name another run",
        )
    own = f"{place.track} · {place.kind}"
    kept = (own,) if place.kind == "reference" else (own, place.track)
    found = track_failures(job, pilot.job_digest, track)
    return LoadedRun(
        place=place,
        label=label,
        job=job,
        job_digest=pilot.job_digest,
        run=run,
        track=track,
        steps=tuple(last_steps(list(read_events(place.events)))),
        failures=tuple(failure for failure in found if failure.where in kept),
    )
