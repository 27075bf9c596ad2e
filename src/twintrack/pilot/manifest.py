"""What a run folder is: ``pilot.json`` and ``job.json`` for everybody, ``inputs.json`` for whoever goes on with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

import twintrack
from twintrack.errors import RunFolderError
from twintrack.job.digest import job_digest
from twintrack.job.records import Job, TrackName, TrackSlot
from twintrack.storage import FileSystem, storage_errors, write_json_atomic

if TYPE_CHECKING:
    from twintrack.tracks import Choice

__all__ = [
    "Manifest",
    "PilotFile",
    "SlotChoice",
    "base_of",
    "read_job_file",
    "read_manifest",
    "read_pilot_file",
    "write_manifest",
]

M = TypeVar("M", bound=BaseModel)


class SlotChoice(BaseModel):
    """One place in the comparison, as ``pilot.json`` has it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    use: tuple[TrackName, ...]
    track: TrackName | None
    """Which track fills the place; ``null`` where the machine has none of them."""
    reason: str
    """Why this one, or why none."""


class PilotFile(BaseModel):
    """``pilot.json``: what the run folder is."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    format: Literal[1]
    job_digest: str
    version: str
    """Of twintrack, when the run began."""
    slots: tuple[SlotChoice, ...]


class _Inputs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A run folder's job, and which tracks run it."""

    job: Job
    base: str
    """Folder of the job file; the job's relative paths start there."""
    slots: tuple[SlotChoice, ...]

    @property
    def tracks(self) -> tuple[str, ...]:
        """Tracks that run, in the job's order."""
        return tuple(slot.track for slot in self.slots if slot.track is not None)

    def slot_of(self, track: str) -> TrackSlot:
        """The job's settings for a track that runs.

        Raises:
            RunFolderError: if it does not run here.
        """
        for choice, slot in zip(
            self.slots, self.job.tracks, strict=False
        ):  # imported tracks may stand behind
            if choice.track == track:
                return slot
        raise RunFolderError(
            f"one of the tracks {', '.join(self.tracks)}",
            found=track,
            where="run folder",
            remedy="choose one of them",
        )


def write_manifest(folder: Path, job: Job, base: Path, choices: tuple[Choice, ...], fs: FileSystem) -> None:
    """Make a folder a run folder; ``pilot.json`` is written last, so that one with it is whole.

    Raises:
        StorageError: if the file system refuses.
    """
    with storage_errors(folder, "make the run folder"):
        fs.make_folder(folder)
    write_json_atomic(fs, folder / "job.json", job.model_dump(mode="json"))
    write_json_atomic(fs, folder / "inputs.json", {"base": str(base.resolve())})
    pilot = PilotFile(
        format=1,
        job_digest=job_digest(job),
        version=twintrack.__version__,
        slots=tuple(SlotChoice.model_validate(_slot(choice)) for choice in choices),
    )
    write_json_atomic(fs, folder / "pilot.json", pilot.model_dump(mode="json"))


def _slot(choice: Choice) -> dict[str, object]:
    return {"use": choice.slot.use, "track": choice.track, "reason": choice.reason}


def read_manifest(folder: Path, fs: FileSystem) -> Manifest:
    """Read a run folder.

    Raises:
        RunFolderError: if it is none, was altered, or was made by another version.
        StorageError: if a file cannot be read.
    """
    pilot, job = read_pilot_file(folder, fs), read_job_file(folder, fs)
    if job_digest(job) != pilot.job_digest:
        raise RunFolderError(
            "the job that the run began with",
            found="another one",
            where=str(folder / "job.json"),
            remedy="put the file back, or start a new run",
        )
    return Manifest(job, _read(folder / "inputs.json", _Inputs, fs).base, pilot.slots)


def base_of(folder: Path, fs: FileSystem) -> Path:
    """Folder of the job file; the run folder itself where that is not kept, as for a run that came from elsewhere.

    Raises:
        RunFolderError: if ``inputs.json`` is not one.
        StorageError: if it cannot be read.
    """
    path = folder / "inputs.json"
    return Path(_read(path, _Inputs, fs).base) if fs.exists(path) else folder


def read_pilot_file(folder: Path, fs: FileSystem) -> PilotFile:
    """Read ``pilot.json``.

    Raises:
        RunFolderError: if the folder is no run folder, or one of another version.
        StorageError: if the file cannot be read.
    """
    if not fs.exists(folder / "pilot.json"):
        raise RunFolderError(
            "a run folder, with pilot.json",
            found="a folder without it" if fs.exists(folder) else "no such folder",
            where=str(folder),
            remedy="give the folder that 'twintrack pilot' made",
        )
    return _read(folder / "pilot.json", PilotFile, fs)


def read_job_file(folder: Path, fs: FileSystem) -> Job:
    """Read ``job.json``, the effective job.

    Raises:
        RunFolderError: if it is no job of this version.
        StorageError: if the file cannot be read.
    """
    return _read(folder / "job.json", Job, fs)


def _read(path: Path, model: type[M], fs: FileSystem) -> M:
    with storage_errors(path, "read the run folder"):
        data = fs.read_bytes(path)
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise RunFolderError(
            f"a {path.name} of this version",
            found=_mistake(error) + _made_by(path.parent, fs),
            where=str(path),
            remedy="use the version of twintrack that made the run, or start a new one",
        ) from error


def _mistake(error: ValidationError) -> str:
    """What is wrong with a file; all keys that this version does not know, else the first mistake."""
    details = error.errors(include_url=False)
    unknown = [_place(one["loc"]) for one in details if one["type"] == "extra_forbidden"]
    return (
        f"unknown keys {', '.join(unknown)}"
        if unknown
        else f"{details[0]['msg']} {_place(details[0]['loc'])}".strip()
    )


def _place(key: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in key)


def _made_by(folder: Path, fs: FileSystem) -> str:
    """Which version made a run folder, where that was another one and can be read."""
    try:
        version = json.loads(fs.read_bytes(folder / "pilot.json"))["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""  # this only adds to an error that is told anyway
    known = isinstance(version, str) and version != twintrack.__version__
    return f" (made by twintrack {version[:40]}, this is {twintrack.__version__})" if known else ""
