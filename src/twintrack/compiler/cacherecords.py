"""What a compile cache knows of its content: the record of an entry, and what a look at the folder finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from twintrack.storage import canonical_json, digest_json

__all__ = ["Damaged", "Entry", "Explanation", "Problem", "Pruned", "Record", "Survey"]

_Digest = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]


class Damaged(Exception):
    """An entry is not what was written; the message says how."""


class Record(BaseModel):
    """The content of an entry file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1] = 1
    program: str
    parts: dict[str, str]
    meta: dict[str, Any]
    payload_sha256: _Digest
    payload_bytes: Annotated[int, Field(ge=0)]
    created: FiniteFloat
    record_sha256: str = ""
    """Digest of all the other fields."""

    def sealed(self) -> Record:
        """The same record with its digest.

        Raises:
            ValueError, TypeError: if ``meta`` is not JSON.
        """
        return self.model_copy(update={"record_sha256": self.digest()})

    def to_bytes(self) -> bytes:
        """As it stands in its file."""
        return canonical_json(self.model_dump()).encode() + b"\n"

    def digest(self) -> str:
        """Of all fields but ``record_sha256``."""
        return digest_json(self.model_dump(exclude={"record_sha256"}))


@dataclass(frozen=True, slots=True)
class Entry:
    """One program in the cache."""

    digest: str
    """Of its key."""
    program: str
    parts: Mapping[str, str]
    meta: Mapping[str, Any]
    payload_sha256: str
    payload_bytes: int
    record_bytes: int
    created: float
    """Seconds since 1970-01-01 UTC."""
    last_used: float
    """Seconds since 1970-01-01 UTC."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the cache that is no good entry.

    ``damaged``: an entry that is not what was written. ``debris``: what a killed writer or a lost entry left.
    ``foreign``: a file that the cache did not write; it is never removed.
    """

    kind: Literal["damaged", "debris", "foreign"]
    path: Path
    found: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Survey:
    """All that is in the cache at one moment."""

    entries: tuple[Entry, ...]
    """Least recently used first."""
    problems: tuple[Problem, ...]

    @property
    def bytes(self) -> int:
        """Size of all entries, a shared payload once, and of debris and damage."""
        payloads = {entry.payload_sha256: entry.payload_bytes for entry in self.entries}
        ours = sum(problem.bytes for problem in self.problems if problem.kind != "foreign")
        return sum(payloads.values()) + sum(entry.record_bytes for entry in self.entries) + ours


@dataclass(frozen=True, slots=True)
class Explanation:
    """Entries, oldest first, and why each was needed beside those before it."""

    entries: tuple[Entry, ...]
    reasons: Mapping[str, str]
    """By key digest."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    freed_bytes: int
