"""The protocol: on every track a run that is never stopped, and one that is stopped and killed as the job says.

Both have the same seed, so they must end in the same bits; the summary says whether they did. Every leg is a process of
its own. Whatever ends the pilot, ``resume`` goes on where it was.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twintrack.clock import Clock
from twintrack.errors import COMPILE_ERRORS, Interrupted, RunFailed, RunFolderError, TwintrackError, UserError
from twintrack.events import (
    AnyEvent,
    Imported,
    LegEnded,
    LegStarted,
    RunDone,
    StepDone,
    StopMade,
    read_events,
)
from twintrack.job.load import LoadedJob
from twintrack.job.records import Job
from twintrack.pilot.folders import RunKind, TrackRun
from twintrack.pilot.manifest import read_manifest, write_manifest
from twintrack.pilot.watch import Display, EventTail, Stage
from twintrack.storage import FileLock, FileSystem, storage_errors
from twintrack.tracks import TRACKS, Settings, choose

__all__ = ["Pilot", "begin", "discard_unused", "free_folder"]

_POLL_SECONDS = 0.2
_KILLED = -signal.SIGKILL
_NOTES = {
    "leg_started": "importing",
    "phase": "",
    "model_loaded": "preparing data",
    "data_prepared": "first step",
    "compile_done": "programs ready",
    "evaluation_done": "evaluating",
}


def free_folder(parent: Path, name: str) -> Path:
    """The first of ``parent/name-1``, ``-2``, ... that does not exist."""
    number = 1
    while (parent / f"{name}-{number}").exists():
        number += 1
    return parent / f"{name}-{number}"


def begin(loaded: LoadedJob, folder: Path, fs: FileSystem) -> None:
    """Choose tracks, check that each can do what the job asks of it, and make the run folder.

    Raises:
        RunFolderError: if the folder exists and is not empty.
        TrackError: if a place of the job cannot be filled, or its track cannot do what the job asks.
        CatalogueError: if the job names an instance that the catalogue does not have.
        StorageError: if the folder cannot be made.
    """
    if fs.exists(folder) and fs.list(folder):
        raise RunFolderError(
            "a new or empty run folder",
            found=_what_is_there(loaded.job, folder, fs),
            where=str(folder),
            remedy="choose another folder, or go on with 'twintrack pilot --resume'",
        )
    choices = choose(loaded.job)
    for choice in choices:
        if choice.track is not None:
            TRACKS[choice.track].check(Settings.of(loaded.job, choice.slot))
    write_manifest(folder, loaded.job, loaded.base, choices, fs)


def discard_unused(folder: Path, fs: FileSystem) -> bool:
    """Remove a run folder in which no step was done, so that a refused job leaves nothing behind.

    A graph that the track could not compile is a finding, on which a decision rests, and is kept.

    Returns:
        Whether it was removed.

    Raises:
        StorageError: if the file system refuses.
    """
    manifest = read_manifest(folder, fs)
    kinds: tuple[RunKind, ...] = ("reference", "interrupted")
    runs = [TrackRun(folder, track, kind) for track in manifest.tracks for kind in kinds]
    if any(_last_step(run) or _not_compiled(run) for run in runs):
        return False
    with storage_errors(folder, "remove the unused run folder"):
        fs.remove(folder)
    return True


def _what_is_there(job: Job, folder: Path, fs: FileSystem) -> str:
    try:
        other = read_manifest(folder, fs).job
    except TwintrackError:
        return "a folder with other files"
    return "a run of the same job" if other == job else f"a run of another job, '{other.name}'"


@dataclass(frozen=True, slots=True)
class _Leg:
    """How a process ended."""

    code: int
    message: str


class Pilot:
    """Runs what a run folder says, from wherever it is.

    Args:
        folder: made by ``begin``.
        cache_root: of compiled programs and converted weights.
        display: shows progress.
        fs: file system.
        clock: for when a process began.
        start: starts a worker process; tests pass their own.
    """

    def __init__(
        self,
        folder: Path,
        cache_root: Path,
        display: Display,
        fs: FileSystem,
        clock: Clock,
        start: Callable[[list[str]], subprocess.Popen[str]] | None = None,
    ) -> None:
        self.folder = folder
        self._cache_root = cache_root
        self._display = display
        self._fs = fs
        self._clock = clock
        self._start = start or _start_process
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ask for an orderly end; the worker saves first. For signal handlers."""
        self._stop.set()

    def interrupted(self, found: str) -> Interrupted:
        """The error that ends a stopped pilot, with the command that goes on."""
        return Interrupted(
            "a run to its end",
            found=found,
            where=str(self.folder),
            remedy=f"go on with: twintrack pilot --resume {self.folder}",
        )

    def run(self) -> None:
        """Bring every run of every track to its end.

        Raises:
            RunFolderError: if the folder is none, or another process works on it.
            Interrupted: if ``stop`` was called; everything done is kept.
            RunFailed: if a worker failed, with its message.
            UserError: if a worker met something that the user can mend.
        """
        manifest = read_manifest(self.folder, self._fs)
        lock = FileLock(self.folder / "lock")
        if not lock.acquire(wait=False):
            raise RunFolderError(
                "a run that no other process works on",
                found=f"process {lock.owner()} at work",
                where=str(self.folder),
                remedy="wait for it, or stop it",
            )
        try:
            kinds: tuple[RunKind, ...] = (
                ("reference", "interrupted") if manifest.job.stops else ("reference",)
            )
            for track in manifest.tracks:
                if _imported(self.folder, track):
                    self._display.say(f"{track}: imported from elsewhere, left as it is")
                    continue
                for kind in kinds:
                    self._to_its_end(TrackRun(self.folder, track, kind), manifest.job)
        finally:
            lock.release()

    def _to_its_end(self, run: TrackRun, job: Job) -> None:
        with storage_errors(run.folder, "make the run folder"):
            self._fs.make_folder(run.folder)
        stage = self._display.stage(f"{run.track} · {run.kind}", job.stop.steps)
        while not _done(run):
            before = _last_step(run)
            leg = self._leg(run, stage)
            if self._stop.is_set():
                raise self.interrupted("a request to stop")
            self._judge(run, leg, before)
        stage.finish("done")

    def _judge(self, run: TrackRun, leg: _Leg, before: int) -> None:
        """Whether the process ended as it should: done, or by a stop of the job; anything else is an error."""
        events = list(read_events(run.events)) if run.events.exists() else []
        last = events[-1] if events else None
        if leg.code == _KILLED and _after_hard_stop(events):
            self._display.say(f"{run.track}: killed on purpose at step {_last_step(run)}, going on")
            return
        if leg.code == 0 and isinstance(last, LegEnded) and last.reason in ("done", "polite"):
            if last.reason == "polite":
                self._display.say(f"{run.track}: stopped politely at step {last.step}, going on")
            return
        where = f"{run.track} {run.kind} after step {max(before, _last_step(run))}"
        text = leg.message or f"exit code {leg.code} and no message"
        if leg.code == UserError.exit_code:
            raise _Passed(text)
        raise RunFailed(
            "a process that ends in order",
            found=text,
            where=where,
            remedy=f"mend the cause, then: twintrack pilot --resume {self.folder}",
        )

    def _leg(self, run: TrackRun, stage: Stage) -> _Leg:
        tail = EventTail(run.events)
        arguments = [str(self.folder), run.track, run.kind, "--cache", str(self._cache_root)]
        arguments += ["--parent", str(os.getpid()), "--started", repr(self._clock.now())]
        process = self._start(arguments)
        reader = _ErrorReader(process)
        asked = False
        stage.update(_last_step(run), "starting")
        try:
            while process.poll() is None:
                self._stop.wait(_POLL_SECONDS) if not asked else _wait(process)
                for event in tail.new():
                    _show(stage, event)
                if self._stop.is_set() and not asked:
                    process.send_signal(signal.SIGTERM)
                    stage.update(_last_step(run), "saving")
                    asked = True
        except BaseException:
            process.kill()
            process.wait()
            raise
        for event in tail.new():
            _show(stage, event)
        return _Leg(process.returncode, reader.message())


class _Passed(UserError):
    """A worker's own one-line message, passed on as it is."""

    def __init__(self, text: str) -> None:
        super().__init__("", found="", where="", remedy="")
        self._text = text

    def __str__(self) -> str:
        return self._text


class _ErrorReader:
    """Collects standard error of a process in a thread, so that a full pipe never blocks it; keeps the end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._lines: list[str] = []
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        if self._process.stderr is not None:
            with self._process.stderr as stream:
                for line in stream:
                    self._lines = [*self._lines[-199:], line.rstrip()]

    def message(self) -> str:
        """The last line that says something."""
        self._thread.join()
        return next((line for line in reversed(self._lines) if line.strip()), "")


def _start_process(arguments: list[str]) -> subprocess.Popen[str]:
    """A worker in a session of its own: Ctrl-C reaches the pilot, and the pilot asks the worker to save."""
    return subprocess.Popen(
        [sys.executable, "-m", "twintrack.pilot.worker", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _wait(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return


def _show(stage: Stage, event: dict[str, Any]) -> None:
    kind = event["kind"]
    if kind == "step_done":
        stage.update(event["step"], f"loss {event['loss']:.4f}")
    elif _NOTES.get(kind):
        stage.update(None, _NOTES[kind])


def _done(run: TrackRun) -> bool:
    return run.events.exists() and any(isinstance(event, RunDone) for event in read_events(run.events))


def _imported(folder: Path, track: str) -> bool:
    """Whether a run of a track was made elsewhere: going on with it here would mix two machines in one record."""
    kinds: tuple[RunKind, ...] = ("reference", "interrupted")
    runs = [TrackRun(folder, track, kind) for kind in kinds]
    return any(
        isinstance(event, Imported)
        for run in runs
        if run.events.exists()
        for event in read_events(run.events)
    )


def _last_step(run: TrackRun) -> int:
    if not run.events.exists():
        return 0
    return max((e.step for e in read_events(run.events) if isinstance(e, StepDone)), default=0)


def _not_compiled(run: TrackRun) -> bool:
    """Whether a process ended because its graph could not be compiled."""
    if not run.events.exists():
        return False
    ends = [event.error for event in read_events(run.events) if isinstance(event, LegEnded)]
    return not COMPILE_ERRORS.isdisjoint(ends)


def _after_hard_stop(events: list[AnyEvent]) -> bool:
    """Whether the last process said that it was about to kill itself."""
    start = max((i for i, event in enumerate(events) if isinstance(event, LegStarted)), default=0)
    return any(isinstance(e, StopMade) and e.stop in ("kill", "kill-in-write") for e in events[start:])
