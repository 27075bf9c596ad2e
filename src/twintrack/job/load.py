"""Read a job file: TOML into records, the origin of every value, one clear line for every mistake."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from twintrack.errors import JobError, nearest
from twintrack.job.digest import job_digest
from twintrack.job.keys import KeyPath, dotted
from twintrack.job.locate import key_lines
from twintrack.job.messages import job_error, place, validation_error
from twintrack.job.records import Job
from twintrack.job.rules import BrokenRule
from twintrack.storage import FileSystem, LocalFileSystem

__all__ = ["LoadedJob", "Origin", "effective_values", "load_job"]

_LARGEST_BYTES = 1 << 20
_DEEPEST = 16
"""Levels of tables and lists; a job has four, and what reads them may recurse."""
_TOML_PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an effective value comes from: a line of the job file, or the default."""

    path: Path | None = None
    line: int | None = None

    @property
    def is_default(self) -> bool:
        """Whether the file does not give the value."""
        return self.path is None

    def __str__(self) -> str:
        """``file:line`` or ``default``."""
        return "default" if self.path is None else place(self.path, self.line)


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job and the file it came from."""

    job: Job
    path: Path
    """The file, as the user named it."""
    base: Path
    """Folder of the file; names of files in the job are relative to it."""
    origins: Mapping[str, Origin]
    """Origin of each effective value, by key such as ``tracks[0].use``, in the order of the records."""
    digest: str
    """Of the effective job (``twintrack.job.digest.job_digest``)."""


def load_job(path: Path, *, fs: FileSystem | None = None) -> LoadedJob:
    """Read and check a job file.

    Args:
        path: the TOML file.
        fs: where to read it; this machine's disk unless given.

    Raises:
        JobError: if it cannot be read, is no TOML, or declares no valid job; one line names the file, the
            line and key where known, what was required, what was found and what to do.
    """
    text = _read(path, fs or LocalFileSystem())
    content = _parse(path, text)
    _refuse_depth(path, content)
    lines = key_lines(text)
    try:
        job = Job.model_validate(_frozen(path, content, (), lines))
    except ValidationError as error:
        raise validation_error(path, error, lines) from None
    origins = {dotted(key): _origin(path, key, lines) for key, _ in effective_values(job)}
    return LoadedJob(job, path, path.parent, MappingProxyType(origins), job_digest(job))


def effective_values(job: Job) -> list[tuple[KeyPath, Any]]:
    """Every value of a job with its key, in the order of the records.

    A list of plain values is one value; tables, and lists that hold tables, are taken apart. An optional
    table that is not there is one value, ``None``; so is an empty list of tables, ``()``.
    """
    return _values((), job)


def _values(key: KeyPath, value: Any) -> list[tuple[KeyPath, Any]]:
    if isinstance(value, BaseModel):
        parts: list[tuple[KeyPath, Any]] = [((*key, name), inner) for name, inner in value]
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        parts = [((*key, index), inner) for index, inner in enumerate(value)]
    else:
        return [(key, value)]
    return [entry for part, inner in parts for entry in _values(part, inner)]


def _origin(path: Path, key: KeyPath, lines: Mapping[KeyPath, int]) -> Origin:
    return Origin(path, lines[key]) if key in lines else Origin()


def _read(path: Path, fs: FileSystem) -> str:
    """The text of the file, refused before it is read where it is too large or has nothing in it."""
    where = place(path, None)
    try:
        size = fs.size(path)
        data = fs.read_bytes(path) if 0 < size <= _LARGEST_BYTES else b""
    except FileNotFoundError:
        raise JobError("a job file", found="no such file", where=where, remedy=_near(path, fs)) from None
    except IsADirectoryError:
        raise JobError("a job file", found="a folder", where=where, remedy="name a file inside it") from None
    except (OSError, ValueError) as error:
        found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise JobError("a readable job file", found=found, where=where, remedy="check the path") from error
    if max(size, len(data)) > _LARGEST_BYTES:
        raise JobError(
            f"a job file of at most {_LARGEST_BYTES:,} bytes",
            found=f"{max(size, len(data)):,}",
            where=where,
            remedy="name the job file; data are in files of their own",
        )
    text = _decode(path, data)
    if not text.strip():
        raise JobError(
            "a job in TOML",
            found="nothing in the file",
            where=where,
            remedy="`twintrack init` writes a job to start from",
        )
    return text


def _near(path: Path, fs: FileSystem) -> str:
    try:
        names = fs.list(path.parent)
    except OSError:
        names = []
    hint = nearest(path.name, names)
    return hint or "check the path; `twintrack init` writes a job to start from"


def _decode(path: Path, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise JobError(
            "text in UTF-8",
            found=f"the byte 0x{data[error.start]:02x}",
            where=place(path, line),
            remedy="save the file as UTF-8",
        ) from None
    if text.startswith("\ufeff"):
        raise JobError(
            "text in UTF-8",
            found="a byte order mark",
            where=place(path, 1),
            remedy="save the file as UTF-8 without one",
        )
    return text


def _parse(path: Path, text: str) -> dict[str, Any]:
    remedy = "mend the syntax, see https://toml.io/en/v1.0.0"
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _TOML_PLACE.search(str(error))
        told = str(error)[: at.start()] if at else str(error)
        line = int(at["line"]) if at and at["line"] else len(text.splitlines())
        found = told[:1].lower() + told[1:]
        raise JobError("TOML", found=found, where=place(path, line), remedy=remedy) from None
    except ValueError as error:  # a number of thousands of digits
        told = str(error).partition(";")[0]
        raise JobError("TOML", found=told, where=place(path, None), remedy=remedy) from None
    except RecursionError:
        raise _too_deep(path) from None


def _too_deep(path: Path) -> JobError:
    return JobError(
        f"tables and lists nested at most {_DEEPEST} deep",
        found="more",
        where=place(path, None),
        remedy="`twintrack init` shows the shape of a job",
    )


def _refuse_depth(path: Path, content: dict[str, Any]) -> None:
    level: list[Any] = [content]
    for _ in range(_DEEPEST):
        inner = [item.values() if isinstance(item, dict) else item for item in level]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return
    raise _too_deep(path)


def _frozen(path: Path, value: Any, key: KeyPath, lines: Mapping[KeyPath, int]) -> Any:
    """The same content with tuples for lists, as strict records want it; TOML's integers have 64 bits."""
    if isinstance(value, dict):
        return {name: _frozen(path, inner, (*key, name), lines) for name, inner in value.items()}
    if isinstance(value, list):
        return tuple(_frozen(path, inner, (*key, index), lines) for index, inner in enumerate(value))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        broken = BrokenRule(key, "a whole number of 64 bits", "a larger one", "give a smaller number")
        raise job_error(path, broken, lines)
    return value
