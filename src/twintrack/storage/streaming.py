"""Write a file and digest it in one pass: the digest is of the bytes as they went to the file system."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from twintrack.storage.filesystem import WritableFile

__all__ = ["DigestingFile", "FileDigest"]

_PIECE = 256 << 10
"""Bytes digested and then written at a time: few enough to be still in the core's cache when they are written."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """What was written to a file."""

    bytes: int
    sha256: str
    """SHA-256 in hexadecimal, as ``sha256sum`` prints it."""


class DigestingFile:
    """A file open for writing whose SHA-256 is computed while it is written.

    Neither a digest nor a write of a piece holds the interpreter lock, so several files written by a thread each
    use as many cores. Buffers are not copied.

    Args:
        file: an open file, which this one owns from now on.
    """

    def __init__(self, file: WritableFile) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._bytes = 0

    def write(self, data: bytes | memoryview) -> None:
        """Write all of ``data``.

        Raises:
            OSError: as the file system does.
        """
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _PIECE):
            piece = view[start : start + _PIECE]
            self._hash.update(piece)
            self._file.write(piece)
            self._bytes += len(piece)

    def finish(self) -> FileDigest:
        """Force what was written to the disk, close, and say what it was.

        Raises:
            OSError: as the file system does.
        """
        self._file.sync()
        self._file.close()
        return FileDigest(self._bytes, self._hash.hexdigest())

    def close(self) -> None:
        """Close without a digest; a second call does nothing."""
        self._file.close()
