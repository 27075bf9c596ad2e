"""File systems that fail on purpose: a full disk, a read-only disk, a process killed while it writes.

They wrap any other file system. Tests pass them to whatever writes; the pilot's drills kill a worker inside a
checkpoint with ``KillingFileSystem``. All count under a lock, so threads may share them.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from twintrack.storage.filesystem import FileSystem, WritableFile

__all__ = ["FullFileSystem", "KillingFileSystem", "ReadOnlyFileSystem", "kill_this_process"]


def kill_this_process() -> None:
    """End this process as ``kill -9`` does: nothing is flushed and no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)


class _Guarded:
    """A file system whose changes pass a guard; reads go straight to ``inner``."""

    def __init__(self, inner: FileSystem) -> None:
        self.inner = inner

    def _before_change(self) -> None:
        """Called before a change that takes no space: may raise, or not return."""

    def _before_write(self, size: int) -> int:
        """Called before ``size`` bytes are written; returns how many of them get through."""
        return size

    def _after_short_write(self) -> None:
        """Called once the bytes that got through were written, where those were fewer than asked for."""

    def create(self, path: Path, *, append: bool = False) -> WritableFile:
        """Open for writing, emptied unless ``append``."""
        self._before_change()
        return _GuardedFile(self, self.inner.create(path, append=append))

    def read_bytes(self, path: Path) -> bytes:
        """The whole content."""
        return self.inner.read_bytes(path)

    def exists(self, path: Path) -> bool:
        """Whether the path names a file or folder."""
        return self.inner.exists(path)

    def size(self, path: Path) -> int:
        """Size of a file in bytes."""
        return self.inner.size(path)

    def list(self, path: Path) -> list[str]:
        """Sorted names in a folder; empty where it does not exist."""
        return self.inner.list(path)

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents."""
        if not self.inner.exists(path):
            self._before_change()
        self.inner.make_folder(path)

    def replace(self, source: Path, target: Path) -> None:
        """Rename over what may be there, in one step."""
        self._before_change()
        self.inner.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file or a whole folder; nothing happens where there is none."""
        self._before_change()
        self.inner.remove(path)

    def modified(self, path: Path) -> float:
        """When a file was last modified, in seconds since 1970-01-01 UTC."""
        return self.inner.modified(path)

    def set_modified(self, path: Path, seconds: float) -> None:
        """Say that a file was last modified then; its content is not touched."""
        self._before_change()
        self.inner.set_modified(path, seconds)

    def sync_folder(self, path: Path) -> None:
        """Return when the names in a folder are on the disk."""
        self._before_change()
        self.inner.sync_folder(path)


class _GuardedFile:
    def __init__(self, owner: _Guarded, file: WritableFile) -> None:
        self._owner = owner
        self._file = file

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        allowed = self._owner._before_write(len(view))
        done = self._file.write(view[:allowed])
        if allowed < len(view):
            self._owner._after_short_write()
        return done

    def sync(self) -> None:
        self._owner._before_change()
        self._file.sync()

    def close(self) -> None:
        self._file.close()


class FullFileSystem(_Guarded):
    """A disk with room for ``free_bytes`` more: the write that does not fit is cut short: ``ENOSPC``.

    Removing files gives nothing back; set ``free_bytes`` to model a disk on which room was made.
    """

    def __init__(self, inner: FileSystem, *, free_bytes: int) -> None:
        super().__init__(inner)
        self.free_bytes = free_bytes
        self._lock = threading.Lock()

    def _before_write(self, size: int) -> int:
        with self._lock:
            allowed = min(size, self.free_bytes)
            self.free_bytes -= allowed
            return allowed

    def _after_short_write(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class ReadOnlyFileSystem(_Guarded):
    """A disk mounted read-only: every change raises ``EROFS``."""

    def _before_change(self) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


class KillingFileSystem(_Guarded):
    """Kills its own process after so many bytes, or before a change, once it is armed.

    The last write before the kill is cut where the count ends, as a kill in the middle of a large write does.

    Args:
        inner: where changes go until then.
        kill: what ends the process; it must not return.
    """

    def __init__(self, inner: FileSystem, *, kill: Callable[[], None] = kill_this_process) -> None:
        super().__init__(inner)
        self._kill = kill
        self._bytes_left: int | None = None
        self._changes_left: int | None = None
        self._lock = threading.Lock()

    def arm(self, *, after_bytes: int | None = None, after_changes: int | None = None) -> None:
        """Kill once this many more bytes were written, or this many more changes were made.

        Changes are: a file opened, synced or given another time, a folder made or synced, a rename, a
        removal. With both arguments the first to come counts, with neither it is disarmed.

        Raises:
            ValueError: if a count is negative.
        """
        if min(after_bytes or 0, after_changes or 0) < 0:
            raise ValueError("a count of bytes or changes cannot be negative")
        with self._lock:
            self._bytes_left = after_bytes
            self._changes_left = after_changes

    def _before_change(self) -> None:
        with self._lock:
            if self._changes_left is None:
                return
            if self._changes_left == 0:
                self._kill()
            self._changes_left -= 1

    def _before_write(self, size: int) -> int:
        with self._lock:
            if self._bytes_left is None:
                return size
            allowed = min(size, self._bytes_left)
            self._bytes_left -= allowed
            return allowed

    def _after_short_write(self) -> None:
        self._kill()
