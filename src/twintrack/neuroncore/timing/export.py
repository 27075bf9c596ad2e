"""A profile as files: ``profile.json`` for machines, ``trace.json`` for Perfetto, ``profile.html`` for people."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from twintrack.errors import StorageError
from twintrack.neuroncore.timing.chrome_trace import chrome_trace
from twintrack.neuroncore.timing.page import page_of
from twintrack.neuroncore.timing.profile import Profile
from twintrack.report.html import render_page
from twintrack.report.values import plain_values
from twintrack.storage import FileSystem, write_bytes_atomic
from twintrack.storage.filesystem import storage_errors

__all__ = ["FILES", "profile_values", "write_profile"]

FILES = ("profile.html", "trace.json", "profile.json")
_NOT_VALUES = frozenset({"timelines", "starts"})


def profile_values(profile: Profile) -> dict[str, Any]:
    """All figures of a profile as plain JSON values; ``time`` is the quantity with its error."""
    fields = {
        one.name: plain_values(getattr(profile, one.name))
        for one in dataclasses.fields(profile)
        if one.name not in _NOT_VALUES
    }
    return {"format": "twintrack kernel profile 1", "time": plain_values(profile.time), **fields} | {
        "hbm_bytes": profile.hbm_bytes,
        "instructions": profile.instructions,
        "intensity": profile.intensity,
    }


def write_profile(profile: Profile, folder: Path, fs: FileSystem) -> tuple[Path, ...]:
    """Write ``FILES`` into a folder, which is made where there is none; their paths.

    Raises:
        StorageError: if the folder is a file, or one cannot be written.
    """
    texts = (
        render_page(page_of(profile)),
        json.dumps(chrome_trace(profile), separators=(",", ":")),
        json.dumps(profile_values(profile), indent=2),
    )
    try:
        with storage_errors(folder, "make the folder"):
            fs.make_folder(folder)
    except StorageError as error:
        if not isinstance(error.__cause__, FileExistsError | NotADirectoryError):
            raise
        raise StorageError(
            "a folder to write the profile into",
            found="a file of that name, or of a folder above",
            where=str(folder),
            remedy="name another folder, or remove the file",
        ) from error
    paths = tuple(folder / name for name in FILES)
    for path, text in zip(paths, texts, strict=True):
        write_bytes_atomic(fs, path, text.encode() + b"\n")
    return paths
