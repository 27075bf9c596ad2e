"""A lock between processes that a dead owner cannot hold: the kernel lets go of it when the process ends."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType

from twintrack.storage.filesystem import storage_errors

__all__ = ["FileLock"]


class FileLock:
    """An exclusive ``flock`` on a file; the file stays, only the lock comes and goes.

    The owner's process id is written into the file, for messages only: ownership itself is the kernel's.
    ``flock`` holds between processes of one machine, and on network file systems that pass it on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self, *, wait: bool = True) -> bool:
        """Take the lock; with ``wait=False`` return ``False`` at once where another process has it.

        Raises:
            StorageError: if the lock file cannot be opened or written.
            RuntimeError: if this object holds it already.
        """
        if self._fd is not None:
            raise RuntimeError(f"{self.path} is locked by this object already")
        with storage_errors(self.path, "take the lock"):
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                os.ftruncate(fd, 0)
                os.pwrite(fd, json.dumps({"pid": os.getpid()}).encode(), 0)
            except BlockingIOError:
                os.close(fd)
                return False
            except BaseException:
                os.close(fd)
                raise
        self._fd = fd
        return True

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    @property
    def current(self) -> bool:
        """Whether it is held, and the path still names the locked file.

        Whoever removes lock files must hold them to do so, and whoever takes a lock that may be removed must
        look here once it has it: a lock on a file without a name keeps nobody out.
        """
        if self._fd is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self.path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let go; nothing happens where it is not held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def owner(self) -> int | None:
        """Process id that last took the lock, if it can be read."""
        try:
            return int(json.loads(self.path.read_text())["pid"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
