"""Write a file and digest it in one pass: the digest is of the bytes as they went to the file system."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from twintrack.storage.filesystem import WritableFile

__all__ = ["DigestingFile", "FileDigest"]

_PIECE = 4 << 20
"""Bytes written and digested at a time: large enough to hide the cost of a hand-over between two threads,
small enough for the digest to end soon after the last write."""
_AHEAD = 8
"""Pieces that the digest may lag behind the writes; bounds what is kept alive for it."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """What was written to a file."""

    bytes: int
    sha256: str
    """SHA-256 in hexadecimal, as ``sha256sum`` prints it."""


class DigestingFile:
    """A file open for writing whose SHA-256 is computed by a thread of its own while it is written.

    Neither a write nor a digest of a large buffer holds the interpreter lock, so on two cores the slower
    of them sets the pace. Buffers are not copied: they must keep their bytes until ``finish`` returns.

    Args:
        file: an open file, which this one owns from now on.
    """

    def __init__(self, file: WritableFile) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._digester = ThreadPoolExecutor(1, thread_name_prefix="digest")
        self._pending: deque[Future[None]] = deque()
        self._bytes = 0

    def write(self, data: bytes | memoryview) -> None:
        """Write all of ``data``.

        Raises:
            OSError: as the file system does.
        """
        for piece in _pieces(memoryview(data).cast("B")):
            self._pending.append(self._digester.submit(self._hash.update, piece))
            self._file.write(piece)
            self._bytes += len(piece)
            while len(self._pending) > _AHEAD:
                self._pending.popleft().result()

    def finish(self) -> FileDigest:
        """Force what was written to the disk, close, and say what it was.

        Raises:
            OSError: as the file system does.
        """
        self._file.sync()
        while self._pending:
            self._pending.popleft().result()
        self.close()
        return FileDigest(self._bytes, self._hash.hexdigest())

    def close(self) -> None:
        """Close without a digest; a second call does nothing."""
        self._digester.shutdown(cancel_futures=True)
        self._pending.clear()
        self._file.close()


def _pieces(view: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(view), _PIECE):
        yield view[start : start + _PIECE]
