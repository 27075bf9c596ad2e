"""Write a file so that a reader sees all of it or none of it, whenever the writer dies."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from twintrack.storage.filesystem import FileSystem, storage_errors

__all__ = ["write_bytes_atomic", "write_json_atomic"]


def write_bytes_atomic(fs: FileSystem, path: Path, data: bytes | memoryview) -> None:
    """Write beside the target, force it to disk, rename over the target.

    The temporary name carries the process id, so that two writers never share one; a file left by a dead
    writer ends in ``.partial`` and is debris.

    Raises:
        StorageError: if the file system refuses; the target is then what it was before.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with storage_errors(path, "write the file"):
        file = fs.create(partial)
        try:
            file.write(data)
            file.sync()
            file.close()
            fs.replace(partial, path)
        except BaseException:
            file.close()
            with contextlib.suppress(OSError):  # the first error is told; what stays is debris by its name
                fs.remove(partial)
            raise
        fs.sync_folder(path.parent)


def write_json_atomic(fs: FileSystem, path: Path, value: Any) -> None:
    """Write ``value`` as readable JSON, atomically.

    Raises:
        StorageError: if the file system refuses.
        ValueError: if the value holds NaN or an infinity, which JSON has not.
    """
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    write_bytes_atomic(fs, path, (text + "\n").encode())
