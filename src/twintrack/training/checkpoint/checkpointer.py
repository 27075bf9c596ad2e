"""Saves, loads and retires the checkpoints of a run, in the background where the job asks for that."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from twintrack.clock import Clock
from twintrack.errors import CheckpointError, RunFolderError, TwintrackError, UserError
from twintrack.events import (
    CheckpointFailed,
    CheckpointPassedOver,
    CheckpointRemoved,
    CheckpointSaved,
    CheckpointSnapshot,
    Event,
)
from twintrack.job.records import CheckpointPolicy
from twintrack.storage import FileLock, FileSystem, storage_errors
from twintrack.training.checkpoint.format import SHARD_BYTES
from twintrack.training.checkpoint.inspection import Status, inspect, scan
from twintrack.training.checkpoint.reader import LoadedCheckpoint, read_checkpoint
from twintrack.training.checkpoint.retention import remove_debris, retire
from twintrack.training.checkpoint.state import Snapshot, TrainingState
from twintrack.training.checkpoint.writer import write_checkpoint

__all__ = ["Checkpointer"]

_LOCK = ".lock"


class Checkpointer:
    """The checkpoints of one run.

    All saves happen in one background thread. A save that fails does not end the run: it is an event, what it
    had written is removed, and ``finish`` raises if the last save failed. A save that was asked for with
    ``wait=True`` raises at once. Leaving a ``with`` block calls ``finish``, or ``close`` where an error is on
    its way.

    One process writes to a folder at a time: a lock that dies with its process is taken at the first
    ``clean`` or ``save``. A new leg calls ``clean``, then ``resume`` (or ``latest`` and ``load``).

    Args:
        fs: where checkpoints go.
        folder: holds a folder per step; made when it is first needed.
        clock: for durations and for the time in the manifest.
        policy: of the job.
        job_digest: checkpoints of another job are refused.
        emit: takes events; called from the background thread too.
        shard_bytes: tensor data in one file, at most.
    """

    def __init__(
        self,
        fs: FileSystem,
        folder: Path,
        clock: Clock,
        policy: CheckpointPolicy,
        job_digest: str,
        emit: Callable[[Event], None],
        *,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        self.folder = folder
        self._fs = fs
        self._clock = clock
        self._policy = policy
        self._job_digest = job_digest
        self._emit = emit
        self._shard_bytes = shard_bytes
        self._lock = FileLock(folder / _LOCK)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpointer")
        self._running: Future[None] | None = None
        self._failure: TwintrackError | None = None
        self._verified: set[int] = set()

    @property
    def saving(self) -> bool:
        """Whether a checkpoint is being written in the background."""
        return self._running is not None and not self._running.done()

    def save(self, state: TrainingState, *, wait: bool = False) -> None:
        """Save a state; returns once a snapshot is taken, or once it is on disk if the policy is synchronous.

        If the previous save still runs, this one waits for it first: that is part of its stall, and at most
        two states are alive. The stall ends, and its event is written, when training may go on.

        Args:
            state: whose tensors nobody changes in place any more.
            wait: return once it is on disk, and raise if it did not get there.

        Raises:
            StorageError, CheckpointError, RunFolderError: with ``wait``, if this save failed.
            ValueError: if the values of the state hold something that JSON has not.
        """
        called = self._clock.monotonic()
        self.wait()
        snapshot = Snapshot.of(state)
        taken = self._clock.monotonic()
        if self._policy.asynchronous and not wait:
            self._emit(CheckpointSnapshot(step=state.step, stall_seconds=taken - called, asynchronous=True))
            self._running = self._thread.submit(self._save, snapshot, taken)
            return
        self._running = self._thread.submit(self._save, snapshot, taken)
        self.wait()
        stall = self._clock.monotonic() - called
        self._emit(CheckpointSnapshot(step=state.step, stall_seconds=stall, asynchronous=False))
        if wait and self._failure is not None:
            raise self._failure

    def _save(self, snapshot: Snapshot, taken: float) -> None:
        """In the background thread: write, tell, retire. Only failures to tell leave it as exceptions."""
        self._failure = None
        try:
            self._hold()
            manifest = write_checkpoint(
                self._fs,
                self.folder,
                snapshot,
                job_digest=self._job_digest,
                now=self._clock.now(),
                shard_bytes=self._shard_bytes,
            )
            self._verified.add(snapshot.step)
            seconds = self._clock.monotonic() - taken
            self._emit(CheckpointSaved(step=snapshot.step, bytes=manifest.bytes, seconds=seconds))
            for step, reason in retire(
                self._fs,
                self.folder,
                keep=self._policy.keep,
                verified=self._verified,
                job_digest=self._job_digest,
            ):
                self._emit(CheckpointRemoved(step=step, reason=reason))
        except UserError as error:
            self._failure = error
            self._emit(CheckpointFailed(step=snapshot.step, error=str(error)))

    def wait(self) -> None:
        """Return when no save runs; whether it succeeded is told by its event and by ``finish``.

        Raises:
            StorageError: if the outcome of a save could not be recorded as an event.
        """
        if self._running is not None:
            try:
                self._running.result()
            finally:
                if self._running.done():  # a signal may end the wait before it ends the save
                    self._running = None

    def finish(self) -> None:
        """Wait for the running save, let go of the folder, and raise if the last save failed.

        Raises:
            StorageError, CheckpointError, RunFolderError: what the last save failed with.
        """
        self.close()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Wait for the running save and let go of the folder; a second call does nothing."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
            self._lock.release()

    def latest(self) -> int | None:
        """The newest step whose checkpoint is verified by all its digests; ``None`` where there is none.

        Newer ones that do not count are passed over, each with a ``CheckpointPassedOver`` event that says why.

        Raises:
            CheckpointError: if it meets a checkpoint of another job.
            StorageError: if the folder cannot be read.
        """
        self.wait()
        for entry in reversed(scan(self._fs, self.folder, job_digest=self._job_digest)):
            checked = entry
            if entry.status is Status.COMPLETE:
                checked = inspect(
                    self._fs, self.folder, entry.step, job_digest=self._job_digest, digests=True
                )
            if checked.problem is None:
                self._verified.add(entry.step)
                return entry.step
            self._pass_over(entry.step, checked.problem, foreign=checked.status is Status.FOREIGN)
        return None

    def resume(self) -> LoadedCheckpoint | None:
        """Load the newest checkpoint that is verified: ``latest`` and ``load`` with one read of the disk.

        Raises:
            CheckpointError: if it meets a checkpoint of another job.
            StorageError: if the folder cannot be read.
        """
        self.wait()
        for entry in reversed(scan(self._fs, self.folder, job_digest=self._job_digest)):
            if entry.status is Status.COMPLETE:
                try:
                    return self.load(entry.step)
                except UserError as error:
                    self._pass_over(entry.step, error, foreign=False)
            elif entry.problem is not None:
                self._pass_over(entry.step, entry.problem, foreign=entry.status is Status.FOREIGN)
        return None

    def load(self, step: int) -> LoadedCheckpoint:
        """Verify and load the checkpoint of a step.

        Raises:
            CheckpointError: if there is none, or it does not count; it says why.
            StorageError: if the file system refuses.
        """
        self.wait()
        entries = scan(self._fs, self.folder)
        if step not in [entry.step for entry in entries]:
            raise CheckpointError(
                f"a checkpoint of step {step}",
                found=", ".join(str(entry.step) for entry in entries) or "no checkpoint",
                where=str(self.folder),
                remedy="choose one of these, or start from the beginning",
            )
        loaded = read_checkpoint(self._fs, self.folder, step, job_digest=self._job_digest)
        self._verified.add(step)
        return loaded

    def clean(self) -> None:
        """Remove the debris of dead writers, each with a ``CheckpointRemoved`` event.

        Raises:
            RunFolderError: if another process writes here.
            StorageError: if the file system refuses.
        """
        self.wait()
        self._hold()
        for step, reason in remove_debris(self._fs, self.folder):
            self._emit(CheckpointRemoved(step=step, reason=reason))

    def _hold(self) -> None:
        if self._lock.held:
            return
        if not self._fs.exists(self.folder):
            with storage_errors(self.folder, "make the folder"):
                self._fs.make_folder(self.folder)
                self._fs.sync_folder(self.folder.parent)
        if not self._lock.acquire(wait=False):
            owner = self._lock.owner()
            raise RunFolderError(
                "checkpoints that no other process writes",
                found="a writer" if owner is None else f"process {owner} at work",
                where=str(self.folder),
                remedy="wait for it, or stop it",
            )

    def _pass_over(self, step: int, problem: UserError, *, foreign: bool) -> None:
        if foreign:
            raise problem
        self._verified.discard(step)
        self._emit(CheckpointPassedOver(step=step, reason=str(problem)))

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.close()
