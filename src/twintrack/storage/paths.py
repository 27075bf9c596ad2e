"""Paths that stay inside their root."""

from __future__ import annotations

from pathlib import Path

from twintrack.errors import StorageError

__all__ = ["inside"]


def inside(root: Path, name: str) -> Path:
    """``root / name``, once it is certain that the result, links followed, lies under ``root``.

    Raises:
        StorageError: if ``name`` is absolute or leads out of ``root``.
    """
    base = root.resolve()
    path = (base / name).resolve()
    if Path(name).is_absolute() or not path.is_relative_to(base):
        raise StorageError(
            f"a path inside {root}",
            found=repr(name),
            where=str(root),
            remedy="use a relative path without '..'",
        )
    return path
