"""One process of one run: from the job to training, or from a checkpoint on.

Started by the protocol as ``python -m twintrack.pilot.worker RUN TRACK KIND``; a hard stop needs a process to kill.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import peft
import torch
import transformers

import twintrack
from twintrack.clock import Clock, SystemClock
from twintrack.errors import RunFolderError, TwintrackError
from twintrack.events import (
    AnyEvent,
    CompileDone,
    DataPrepared,
    Event,
    EventLog,
    LegEnded,
    LegStarted,
    ModelLoaded,
    Phase,
    Resumed,
    RunDone,
    StepDone,
    StopMade,
    read_events,
)
from twintrack.job.digest import job_digest, training_digest
from twintrack.job.records import Job, TrackSlot
from twintrack.pilot.drills import Drills, pending_stop
from twintrack.pilot.folders import RunKind, TrackRun
from twintrack.pilot.manifest import read_manifest
from twintrack.storage import FileLock, FileSystem, LocalFileSystem, digest_bytes
from twintrack.storage.faults import KillingFileSystem
from twintrack.tracks import TRACKS, Services, Settings, Track
from twintrack.training.adapter import Adapted, adapt
from twintrack.training.checkpoint import Checkpointer
from twintrack.training.data import PreparedData, prepare
from twintrack.training.export import export
from twintrack.training.loop import Outcome, train
from twintrack.training.model import LoadedModel, check_fits, load_model
from twintrack.training.session import Progress, Session, open_session, state_digest

__all__ = ["World", "main", "run_leg"]


@dataclass(frozen=True, slots=True)
class World:
    """What a worker uses of the world around it; tests pass their own."""

    clock: Clock
    fs: FileSystem
    cache_root: Path
    started: float
    """When the process began, seconds since 1970."""
    orphaned: Callable[[], bool]
    tracks: Mapping[str, Track] = field(default_factory=lambda: TRACKS)


class _Emitter:
    """Writes events, and adds up what compilation took."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.compile_seconds = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, CompileDone):
            self.compile_seconds += event.load_seconds + (0.0 if event.warm else event.capture_seconds)
        self._log.write(event)


def run_leg(run: TrackRun, world: World) -> Outcome:
    """Work on a run until it is done or stopped.

    Raises:
        RunFolderError: if another process works on it, or the folder is no run.
        TwintrackError: whatever went wrong; it is an event too.
    """
    manifest = read_manifest(run.root, world.fs)
    slot = manifest.slot_of(run.track)
    lock = FileLock(run.lock)
    if not lock.acquire(wait=False):
        raise RunFolderError(
            "a run that no other process works on",
            found=f"process {lock.owner()} at work",
            where=str(run.folder),
            remedy="wait for it, or stop it",
        )
    try:
        before = list(read_events(run.events)) if world.fs.exists(run.events) else []
        leg = sum(isinstance(event, LegStarted) for event in before)
        log = EventLog(world.fs, run.events, world.clock, leg=leg)
        try:
            return _Leg(run, world, manifest.job, Path(manifest.base), slot, before, _Emitter(log)).run()
        finally:
            log.close()
    finally:
        lock.release()


class _Leg:
    def __init__(
        self,
        run: TrackRun,
        world: World,
        job: Job,
        base: Path,
        slot: TrackSlot,
        before: list[AnyEvent],
        emit: _Emitter,
    ) -> None:
        self.place, self.world, self.job, self.base = run, world, job, base
        self.settings = Settings.of(job, slot)
        self.before, self.emit = before, emit
        self.disk = KillingFileSystem(world.fs)

    def run(self) -> Outcome:
        """All phases, each an event; an error is the last event."""
        try:
            return self._run()
        except TwintrackError as error:
            self.emit(LegEnded(reason="error", step=0, message=str(error), error=type(error).__name__))
            raise

    def _run(self) -> Outcome:
        world, job = self.world, self.job
        track: Track = world.tracks[self.place.track]
        services = Services(self.emit, world.clock, world.fs, world.cache_root)
        opened = track.open(self.settings, services)
        self.emit(
            LegStarted(
                track=self.place.track,
                job_digest=job_digest(job),
                environment={**_environment(), **opened.facts(), "number rules": opened.rules.description},
            )
        )
        self.emit(Phase(name="import", seconds=max(0.0, world.clock.now() - world.started)))
        with self._phase("model"):
            loaded, adapted = self._model(opened.rules.attention)
        with self._phase("data"):
            data = self._data(loaded)
        session = open_session(job, opened, data, loaded, adapted)
        with Checkpointer(
            self.disk, self.place.checkpoints, world.clock, job.checkpoint, training_digest(job), self.emit
        ) as checkpointer:
            progress = self._resume(session, checkpointer)
            drills = self._drills(session, progress, checkpointer)
            with _signals(drills):
                outcome = train(
                    session,
                    progress,
                    checkpointer=checkpointer,
                    emit=self.emit,
                    compiled=lambda: self.emit.compile_seconds,
                    clock=world.clock,
                    hooks=drills,
                )
        last = outcome.progress
        if outcome.reason == "stopped":
            self._say_stopped(last.step, drills.asked_by_drill)
        else:  # the run is done once what it made is there
            self._export(session, last)
            self.emit(RunDone(step=last.step, reason=outcome.reason, state_digest=state_digest(last)))
            self.emit(LegEnded(reason="done", step=last.step))
        return outcome

    def _export(self, session: Session, last: Progress) -> None:
        export(
            session.adapted.model,
            self.place.final,
            self.world.fs,
            source=self.job.model.source,
            weights=last.optimizer["master"],
            tokenizer=session.loaded.tokenizer,
        )

    def _say_stopped(self, step: int, drill: bool) -> None:
        if not drill:
            self.emit(StopMade(step=step, stop="signal"))
        self.emit(LegEnded(reason="polite" if drill else "signal", step=step))

    @contextmanager
    def _phase(self, name: Any) -> Iterator[None]:
        begin = self.world.clock.monotonic()
        yield
        self.emit(Phase(name=name, seconds=self.world.clock.monotonic() - begin))

    def _model(self, attention: str) -> tuple[LoadedModel, Adapted]:
        """Weights that are trained as a whole start from float32, adapters sit on weights in the compute type."""
        job, compute = self.job, self.settings.dtype
        loaded = load_model(
            job.model,
            self.base,
            dtype=torch.float32 if job.lora is None else compute,
            attention=attention,
            cache_root=self.world.cache_root,
            fs=self.world.fs,
        )
        check_fits(job, loaded.model.config)
        adapted = adapt(loaded.model, job.lora, seed=job.seed, dtype=compute)
        self.emit(
            ModelLoaded(
                source=loaded.source,
                weights_digest=loaded.weights_digest,
                note=loaded.note,
                parameters=sum(p.numel() for p in adapted.model.parameters()),
                trainable_parameters=adapted.trainable_parameters,
                adapted_modules=len(adapted.adapted_modules),
            )
        )
        return loaded, adapted

    def _data(self, loaded: LoadedModel) -> PreparedData:
        data = prepare(self.job.data, self.base, loaded.tokenizer, seed=self.job.seed, pad_id=loaded.pad_id)
        counts = data.counts
        self.emit(
            DataPrepared(
                digest=data.digest,
                train_samples=counts.train_samples,
                evaluation_samples=counts.evaluation_samples,
                train_rows=len(data.train),
                evaluation_rows=len(data.evaluation),
                truncated=counts.truncated,
                split=counts.split,
                tokens=counts.tokens,
                loss_tokens=counts.loss_tokens,
            )
        )
        return data

    def _resume(self, session: Session, checkpointer: Checkpointer) -> Progress:
        """Continue from the newest verified checkpoint; the start is one too, where there is none."""
        begin = self.world.clock.monotonic()
        checkpointer.clean()
        loaded = checkpointer.resume()
        progress = session.fresh() if loaded is None else session.restore(loaded.state)
        if any(isinstance(event, LegStarted) for event in self.before):
            reached = max((event.step for event in self.before if isinstance(event, StepDone)), default=0)
            self.emit(
                Resumed(
                    step=progress.step,
                    bytes_read=0 if loaded is None else loaded.bytes_read,
                    seconds=self.world.clock.monotonic() - begin,
                    repeated_steps=max(0, reached - progress.step),
                )
            )
        return progress

    def _drills(self, session: Session, progress: Progress, checkpointer: Checkpointer) -> Drills:
        stop = pending_stop(self.job, self.before) if self.place.kind == "interrupted" else None
        half = session.snapshot(progress).bytes // 2
        return Drills(
            stop,
            self.emit,
            self.disk,
            write_bytes=half,
            settle=checkpointer.wait,
            orphaned=self.world.orphaned,
        )


@contextmanager
def _signals(drills: Drills) -> Iterator[None]:
    """SIGTERM and SIGINT ask the loop to save and end; what was there before comes back."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: drills.request()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _environment() -> dict[str, str]:
    """Versions, and who ran it: a digest of user and machine tells two people apart without naming them."""
    who = f"{os.getuid()}@{platform.node()}"
    return {
        "twintrack": twintrack.__version__,
        "operator": digest_bytes(who.encode())[:8],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "peft": peft.__version__,
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


def main(arguments: list[str] | None = None) -> int:
    """Run one leg; errors made on purpose are one line on standard error and an exit code."""
    parser = argparse.ArgumentParser(prog="twintrack-worker")
    parser.add_argument("run", type=Path)
    parser.add_argument("track")
    parser.add_argument("kind", choices=("reference", "interrupted"))
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--started", type=float, required=True)
    options = parser.parse_args(arguments)
    kind: RunKind = options.kind
    world = World(
        SystemClock(),
        LocalFileSystem(),
        options.cache,
        options.started,
        lambda: os.getppid() != options.parent,
    )
    try:
        run_leg(TrackRun(options.run, options.track, kind), world)
    except TwintrackError as error:
        print(f"{error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
