"""Which checkpoints are kept, and how the others go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from twintrack.storage import FileSystem, storage_errors
from twintrack.training.checkpoint.inspection import Inspection, Status, inspect, scan, strangers
from twintrack.training.checkpoint.manifest import MANIFEST, folder_name

__all__ = ["remove_checkpoint", "remove_debris", "retire"]


def retire(
    fs: FileSystem, folder: Path, *, keep: int, verified: set[int], job_digest: str
) -> Iterator[tuple[int, str]]:
    """Remove what is older than the newest ``keep`` verified checkpoints; yields each step once it is gone.

    A checkpoint counts only if it is verified: its manifest and sizes are in order now, and its step is in
    ``verified`` or all its digests are compared here, after which its step is added. As long as fewer than
    ``keep`` count, nothing goes; so the last verified one never does. Checkpoints of another job are left
    alone.

    Raises:
        StorageError: if the file system refuses.
    """
    entries = scan(fs, folder, job_digest=job_digest)
    kept: list[int] = []
    for entry in reversed(entries):
        if len(kept) < keep and _counts(fs, folder, entry, verified, job_digest):
            kept.append(entry.step)
    if len(kept) < keep:
        return
    for entry in entries:
        if entry.step < min(kept) and entry.status is not Status.FOREIGN:
            remove_checkpoint(fs, folder, entry.step)
            verified.discard(entry.step)
            yield (
                entry.step,
                f"older than the newest {keep}" + (f"; {entry.problem}" if entry.problem else ""),
            )


def _counts(fs: FileSystem, folder: Path, entry: Inspection, verified: set[int], job_digest: str) -> bool:
    if entry.status is not Status.COMPLETE:
        return False
    if entry.step not in verified:
        checked = inspect(fs, folder, entry.step, job_digest=job_digest, digests=True)
        if checked.status is not Status.VERIFIED:
            return False
        verified.add(entry.step)
    return True


def remove_checkpoint(fs: FileSystem, folder: Path, step: int) -> None:
    """Remove the manifest, force that to disk, then remove the rest: a death in between leaves debris only.

    Raises:
        StorageError: if the file system refuses.
    """
    path = folder / folder_name(step)
    with storage_errors(path, "remove the checkpoint"):
        if fs.exists(path / MANIFEST):
            fs.remove(path / MANIFEST)
            fs.sync_folder(path)
        fs.remove(path)


def remove_debris(fs: FileSystem, folder: Path) -> Iterator[tuple[int, str]]:
    """Remove what dead writers left: folders without a manifest, and files beside a complete checkpoint.

    Damaged checkpoints stay, for they have a manifest and may be worth a look. Yields each step, with what
    went.

    Raises:
        StorageError: if the file system refuses.
    """
    for entry in scan(fs, folder):
        if entry.status is Status.DEBRIS:
            remove_checkpoint(fs, folder, entry.step)
            yield entry.step, "debris: it has no manifest"
        elif entry.manifest is not None and entry.status is Status.COMPLETE:
            names = strangers(fs, entry.path, entry.manifest)
            with storage_errors(entry.path, "remove debris"):
                for name in names:
                    fs.remove(entry.path / name)
            if names:
                yield entry.step, f"debris beside the checkpoint: {', '.join(names)}"
