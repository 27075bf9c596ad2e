"""The few things we ask of a file system, so that a full disk can be tested by passing one in."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from twintrack.errors import StorageError

__all__ = ["FileSystem", "LocalFileSystem", "WritableFile", "storage_errors"]

_REASONS = {
    errno.ENOSPC: ("space left on the disk", "free some space, or choose another folder"),
    errno.EDQUOT: ("space left in the quota", "free some space, or choose another folder"),
    errno.EROFS: ("a writable disk", "choose a folder on a writable disk"),
    errno.EACCES: ("permission", "change the permissions, or choose another folder"),
    errno.EPERM: ("permission", "change the permissions, or choose another folder"),
    errno.ENOENT: ("an existing path", "check the path"),
    errno.ENOTDIR: ("a folder", "check the path"),
    errno.EISDIR: ("a file", "check the path"),
    errno.EIO: ("a working disk", "check the disk; nothing that was complete is lost"),
}


@contextlib.contextmanager
def storage_errors(path: Path, action: str) -> Iterator[None]:
    """Turn an ``OSError`` inside the block into a ``StorageError`` that says what could not be done."""
    try:
        yield
    except OSError as error:
        required, remedy = _REASONS.get(error.errno or 0, ("a working file system", "see the message"))
        raise StorageError(
            f"{required} to {action}", found=error.strerror or str(error), where=str(path), remedy=remedy
        ) from error


class WritableFile(Protocol):
    """A file open for writing."""

    def write(self, data: bytes | memoryview) -> int:
        """Write all of ``data``; returns the number of bytes.

        Raises:
            OSError: as the file system does.
        """
        ...

    def sync(self) -> None:
        """Return when the bytes are on the disk."""
        ...

    def close(self) -> None:
        """Close; a second call does nothing."""
        ...


class FileSystem(Protocol):
    """What rooms above storage may do to files; every method raises ``OSError`` as Python's own calls do."""

    def create(self, path: Path, *, append: bool = False) -> WritableFile:
        """Open for writing, emptied unless ``append``."""
        ...

    def read_bytes(self, path: Path) -> bytes:
        """The whole content."""
        ...

    def exists(self, path: Path) -> bool:
        """Whether the path names a file or folder."""
        ...

    def size(self, path: Path) -> int:
        """Size of a file in bytes."""
        ...

    def list(self, path: Path) -> list[str]:
        """Sorted names in a folder; empty where it does not exist."""
        ...

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents."""
        ...

    def replace(self, source: Path, target: Path) -> None:
        """Rename over what may be there, in one step."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file or a whole folder; nothing happens where there is none."""
        ...

    def modified(self, path: Path) -> float:
        """When a file was last modified, in seconds since 1970-01-01 UTC."""
        ...

    def set_modified(self, path: Path, seconds: float) -> None:
        """Say that a file was last modified then; its content is not touched."""
        ...

    def sync_folder(self, path: Path) -> None:
        """Return when the names in a folder are on the disk."""
        ...


class _LocalFile:
    def __init__(self, path: Path, flags: int) -> None:
        self._fd = os.open(path, flags, 0o644)

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += os.write(self._fd, view[done:])
        return done

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class LocalFileSystem:
    """The disk of this machine."""

    def create(self, path: Path, *, append: bool = False) -> WritableFile:
        """Open for writing, emptied unless ``append``."""
        mode = os.O_APPEND if append else os.O_TRUNC
        return _LocalFile(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | mode)

    def read_bytes(self, path: Path) -> bytes:
        """The whole content."""
        return path.read_bytes()

    def exists(self, path: Path) -> bool:
        """Whether the path names a file or folder."""
        return path.exists()

    def size(self, path: Path) -> int:
        """Size of a file in bytes."""
        return path.stat().st_size

    def list(self, path: Path) -> list[str]:
        """Sorted names in a folder; empty where it does not exist."""
        return sorted(os.listdir(path)) if path.is_dir() else []

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents."""
        path.mkdir(parents=True, exist_ok=True)

    def replace(self, source: Path, target: Path) -> None:
        """Rename over what may be there, in one step."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file or a whole folder; nothing happens where there is none."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def modified(self, path: Path) -> float:
        """When a file was last modified, in seconds since 1970-01-01 UTC."""
        return path.stat().st_mtime

    def set_modified(self, path: Path, seconds: float) -> None:
        """Say that a file was last modified then; its content is not touched."""
        os.utime(path, (seconds, seconds))

    def sync_folder(self, path: Path) -> None:
        """Return when the names in a folder are on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
