"""Writing one checkpoint so that it is whole or does not exist, whenever the writer dies."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from twintrack import __version__
from twintrack.errors import CheckpointError
from twintrack.storage import DigestingFile, FileDigest, FileSystem, storage_errors, write_bytes_atomic
from twintrack.training.checkpoint.format import SHARD_BYTES, plan_files, safetensors_chunks
from twintrack.training.checkpoint.inspection import Status, inspect, strangers
from twintrack.training.checkpoint.manifest import (
    MANIFEST,
    FileRecord,
    Manifest,
    attempt_of,
    folder_name,
    render_manifest,
    state_file,
    tensor_file,
)
from twintrack.training.checkpoint.state import Snapshot

__all__ = ["write_checkpoint"]

_FEWEST_WRITERS = 3
_MOST_WRITERS = 8


def write_checkpoint(
    fs: FileSystem,
    folder: Path,
    snapshot: Snapshot,
    *,
    job_digest: str,
    now: float,
    shard_bytes: int = SHARD_BYTES,
) -> Manifest:
    """Write a snapshot to the folder of its step: data, then names, then the manifest, each forced to disk.

    A checkpoint of the same step that is there already counts until the new manifest takes the place of the
    old one in one rename; the new files have names of their own, and the old ones go afterwards. Debris is
    emptied first.

    Args:
        fs: where to write.
        folder: existing folder of checkpoints, with no other writer.
        snapshot: what to write.
        job_digest: job whose state it is.
        now: seconds since 1970 (UTC), for the manifest.
        shard_bytes: tensor data in one file, at most.

    Raises:
        StorageError: if the file system refuses; what was written of this attempt is removed.
        CheckpointError: if the step's folder holds a checkpoint of another job, a tensor was changed in place
            meanwhile, or what stands on disk afterwards is not what was written.
    """
    path = folder / folder_name(snapshot.step)
    attempt = _prepare(fs, folder, snapshot.step, job_digest)
    try:
        files = _write_files(fs, path, snapshot, attempt, shard_bytes)
        with storage_errors(path, "write the checkpoint"):
            fs.sync_folder(path)
            fs.sync_folder(folder)
        _check_unchanged(snapshot, path)
        manifest = Manifest(
            step=snapshot.step,
            job_digest=job_digest,
            attempt=attempt,
            created=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
            version=__version__,
            files={
                name: FileRecord(bytes=digest.bytes, sha256=digest.sha256) for name, digest in files.items()
            },
        )
        write_bytes_atomic(fs, path / MANIFEST, render_manifest(manifest))
    except BaseException:
        _abandon(fs, folder, snapshot.step, attempt)
        raise
    _confirm(fs, folder, manifest)
    _remove(fs, path, strangers(fs, path, manifest))
    return manifest


def _prepare(fs: FileSystem, folder: Path, step: int, job_digest: str) -> int:
    """Make room for a new attempt and give it its number."""
    path = folder / folder_name(step)
    before = inspect(fs, folder, step, job_digest=job_digest)
    if before.status is Status.FOREIGN and before.problem is not None:
        raise before.problem
    with storage_errors(path, "write the checkpoint"):
        if before.status is Status.DEBRIS:
            fs.remove(path)
        fs.make_folder(path)
        attempts = [attempt for name in fs.list(path) if (attempt := attempt_of(name)) is not None]
    return max(attempts, default=-1) + 1


def _write_files(
    fs: FileSystem, path: Path, snapshot: Snapshot, attempt: int, shard_bytes: int
) -> dict[str, FileDigest]:
    contents: dict[str, Iterable[memoryview]] = {
        tensor_file(plan.group, plan.number, attempt): safetensors_chunks(snapshot.tensors, plan.tensors)
        for plan in plan_files(snapshot.tensors, shard_bytes)
    }
    contents[state_file(attempt)] = (memoryview(snapshot.document),)
    with ThreadPoolExecutor(_writers(), thread_name_prefix="checkpoint") as pool:
        started = {
            name: pool.submit(_write_file, fs, path / name, chunks) for name, chunks in contents.items()
        }
        try:
            return {name: future.result() for name, future in started.items()}
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _writers() -> int:
    """Files written at once: a quarter of the cores, for training goes on meanwhile, within bounds.

    Three even on two cores: one of them usually waits for the disk.
    """
    return min(_MOST_WRITERS, max(_FEWEST_WRITERS, (os.cpu_count() or 1) // 4))


def _write_file(fs: FileSystem, path: Path, chunks: Iterable[memoryview]) -> FileDigest:
    with storage_errors(path, "write the checkpoint"):
        file = DigestingFile(fs.create(path))
        try:
            for chunk in chunks:
                file.write(chunk)
            return file.finish()
        finally:
            file.close()


def _check_unchanged(snapshot: Snapshot, path: Path) -> None:
    changed = snapshot.changed()
    if changed:
        raise CheckpointError(
            "tensors that nobody changes in place while they are written",
            found=f"{len(changed)} changed, the first {changed[0]!r}",
            where=str(path),
            remedy="make new tensors in every step; nothing was kept of this checkpoint",
        )


def _confirm(fs: FileSystem, folder: Path, manifest: Manifest) -> None:
    """Look at what stands on disk: the manifest as written, every file with the size that was digested."""
    after = inspect(fs, folder, manifest.step, job_digest=manifest.job_digest).require()
    if after != manifest:
        raise CheckpointError(
            "the manifest that was written",
            found="another one: a second process writes here",
            where=str(folder / folder_name(manifest.step)),
            remedy="let one process at a time work on a run",
        )


def _abandon(fs: FileSystem, folder: Path, step: int, attempt: int) -> None:
    """Give back the space of an attempt that failed, so that the run can go on.

    Where the file system refuses even that, the rest stays as debris, which is named and removed as such
    later; the error to tell is the first one, which the caller raises.
    """
    path = folder / folder_name(step)
    with contextlib.suppress(OSError):
        before = inspect(fs, folder, step)
        if before.status is Status.DEBRIS:
            fs.remove(path)
        elif before.manifest is None or before.manifest.attempt != attempt:
            for name in fs.list(path):
                if attempt_of(name) == attempt:
                    fs.remove(path / name)


def _remove(fs: FileSystem, path: Path, names: list[str]) -> None:
    with storage_errors(path, "remove files that an earlier attempt left"):
        for name in names:
            fs.remove(path / name)
