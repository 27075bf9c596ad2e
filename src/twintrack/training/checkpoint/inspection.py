"""Looking at checkpoints without loading them: what is there, and why it counts or does not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from twintrack.errors import CheckpointError, UserError
from twintrack.storage import FileSystem, digest_file, inside, storage_errors
from twintrack.training.checkpoint.manifest import (
    MANIFEST,
    Manifest,
    folder_name,
    parse_manifest,
    step_of,
)

__all__ = ["Inspection", "Status", "find_folders", "inspect", "scan", "strangers"]


class Status(StrEnum):
    """What a folder of a step is worth."""

    VERIFIED = "verified"
    """Complete, and every digest agrees."""
    COMPLETE = "complete"
    """Manifest in order, every file there with its size; digests not compared."""
    FOREIGN = "foreign"
    """Complete, but of another job."""
    DAMAGED = "damaged"
    """Has a manifest, but that or a file is altered, truncated or missing."""
    DEBRIS = "debris"
    """Has no manifest: a writer died before the end, or a removal did."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found in the folder of a step."""

    step: int
    path: Path
    status: Status
    manifest: Manifest | None
    """Where it could be read."""
    problem: UserError | None
    """Why it does not count; none for ``verified`` and ``complete``."""

    def require(self) -> Manifest:
        """The manifest of a checkpoint that counts.

        Raises:
            CheckpointError, StorageError: the problem, if it does not count.
        """
        if self.manifest is None or self.problem is not None:
            raise self.problem or _no_manifest(self.path)
        return self.manifest


def inspect(
    fs: FileSystem, folder: Path, step: int, *, job_digest: str | None = None, digests: bool = False
) -> Inspection:
    """Look at the checkpoint of a step; never raises for what is wrong with it, but says it.

    Args:
        fs: where it stands.
        folder: the folder that holds the folders of the steps.
        step: which.
        job_digest: job that it must be of; ``None`` for any.
        digests: read every file and compare digests, rather than sizes only.
    """
    path = folder / folder_name(step)
    manifest = None
    try:
        if not fs.exists(path / MANIFEST):
            return Inspection(step, path, Status.DEBRIS, None, _no_manifest(path))
        with storage_errors(path / MANIFEST, "read the manifest"):
            data = fs.read_bytes(path / MANIFEST)
        manifest = parse_manifest(data, path / MANIFEST)
        if job_digest is not None and manifest.job_digest != job_digest:
            return Inspection(step, path, Status.FOREIGN, manifest, _foreign(path, manifest, job_digest))
        _compare(fs, path, manifest, digests=digests)
    except UserError as problem:
        return Inspection(step, path, Status.DAMAGED, manifest, problem)
    return Inspection(step, path, Status.VERIFIED if digests else Status.COMPLETE, manifest, None)


def _compare(fs: FileSystem, path: Path, manifest: Manifest, *, digests: bool) -> None:
    for name, record in manifest.files.items():
        file = inside(path, name)
        if not fs.exists(file):
            raise _damaged(path / name, f"the file of {record.bytes:,} bytes", "no such file")
        with storage_errors(file, "read the file"):
            size = fs.size(file)
        if size != record.bytes:
            raise _damaged(path / name, f"{record.bytes:,} bytes", f"{size:,}")
    for name, record in manifest.files.items() if digests else ():
        check_digest(path / name, record.sha256, digest_file(inside(path, name)))


def check_digest(path: Path, required: str, found: str) -> None:
    """Compare the digest of a file with that of the manifest.

    Raises:
        CheckpointError: if they differ.
    """
    if required != found:
        raise _damaged(path, f"SHA-256 {required[:16]}…", f"{found[:16]}…")


def scan(fs: FileSystem, folder: Path, *, job_digest: str | None = None) -> list[Inspection]:
    """All folders of steps in ``folder``, by step, digests not compared; empty where there is no such folder.

    Raises:
        StorageError: if the folder cannot be read.
    """
    with storage_errors(folder, "list the checkpoints"):
        steps = [step for name in fs.list(folder) if (step := step_of(name)) is not None]
    return [inspect(fs, folder, step, job_digest=job_digest) for step in sorted(steps)]


def strangers(fs: FileSystem, path: Path, manifest: Manifest) -> list[str]:
    """Names in the folder of a complete checkpoint that are not part of it: leftovers of a rewrite."""
    with storage_errors(path, "list the checkpoint"):
        return [name for name in fs.list(path) if name != MANIFEST and name not in manifest.files]


def find_folders(root: Path) -> list[Path]:
    """Folders at or below ``root`` that hold folders of steps, sorted; links are not followed.

    Raises:
        StorageError: if ``root`` or a folder below cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise error

    found = []
    with storage_errors(root, "look for checkpoints"):
        for folder, names, _ in os.walk(root, onerror=refuse):
            if any(step_of(name) is not None for name in names):
                found.append(Path(folder))
            names[:] = [name for name in names if step_of(name) is None]
    return sorted(found)


def _no_manifest(path: Path) -> CheckpointError:
    return CheckpointError(
        f"a {MANIFEST}, written last",
        found="none: debris of a write or removal that did not end, unless one is at work",
        where=str(path),
        remedy="resume from another checkpoint; the next run of this job removes it",
    )


def _foreign(path: Path, manifest: Manifest, job_digest: str) -> CheckpointError:
    return CheckpointError(
        f"a checkpoint of job {job_digest[:16]}",
        found=f"one of job {manifest.job_digest[:16]}",
        where=str(path),
        remedy="choose another run folder, or the job file that this one was made with",
    )


def _damaged(path: Path, required: str, found: str) -> CheckpointError:
    return CheckpointError(
        required, found=found, where=str(path), remedy="resume from another checkpoint; this one is not used"
    )
