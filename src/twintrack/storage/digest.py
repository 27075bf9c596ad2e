"""SHA-256 digests of bytes, files and JSON values."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from twintrack.storage.filesystem import storage_errors

__all__ = ["canonical_json", "digest_bytes", "digest_file", "digest_json"]


def digest_bytes(data: bytes | memoryview) -> str:
    """SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """SHA-256 of a file, read in pieces.

    Raises:
        StorageError: if it cannot be read.
    """
    with storage_errors(path, "read the file"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spare spaces: equal values give equal text.

    Raises:
        ValueError: if the value holds NaN or an infinity.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def digest_json(value: Any) -> str:
    """SHA-256 of the canonical JSON of a value."""
    return digest_bytes(canonical_json(value).encode())
