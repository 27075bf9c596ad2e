"""The manifest: what a checkpoint consists of. A checkpoint exists when its manifest does.

The text of a manifest has one form only, and carries a digest of itself: a manifest with any byte changed is
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from twintrack.errors import CheckpointError
from twintrack.storage import digest_json

__all__ = [
    "FORMAT",
    "MANIFEST",
    "FileRecord",
    "Manifest",
    "attempt_of",
    "folder_name",
    "parse_manifest",
    "render_manifest",
    "state_file",
    "step_of",
    "tensor_file",
]

FORMAT = 1
"""Version of the layout on disk."""
MANIFEST = "manifest.json"

_FOLDER = re.compile(r"step-(\d{8}\d?)")
_FILE = re.compile(r"(?:[a-z][a-z0-9_]*-\d{5}(?:\.(\d+))?\.safetensors|state(?:\.(\d+))?\.json)")
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class FileRecord(_Record):
    """One file of a checkpoint."""

    bytes: _Count
    sha256: _Sha256


class Manifest(_Record):
    """What a checkpoint consists of."""

    step: _Count
    job_digest: str
    """Of the job whose state this is."""
    attempt: _Count
    """How often this step had been written to the folder before. It is part of the names of the files, so
    that a step that is written again never touches the files of a checkpoint that still counts."""
    created: str
    """UTC, ISO 8601."""
    version: str
    """Of twintrack."""
    files: dict[str, FileRecord]
    """By name in the folder."""

    @property
    def bytes(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(record.bytes for record in self.files.values())


def folder_name(step: int) -> str:
    """Name of the folder of a step."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """Step of a folder, from its name; ``None`` where it is not the name of one."""
    match = _FOLDER.fullmatch(name)
    return int(match[1]) if match and folder_name(int(match[1])) == name else None


def tensor_file(group: str, number: int, attempt: int) -> str:
    """Name of a file of tensors."""
    return f"{group}-{number:05d}{f'.{attempt}' if attempt else ''}.safetensors"


def state_file(attempt: int) -> str:
    """Name of the file of values."""
    return f"state{f'.{attempt}' if attempt else ''}.json"


def attempt_of(name: str) -> int | None:
    """Attempt that a file belongs to, from its name; ``None`` where it is not the name of one."""
    match = _FILE.fullmatch(name)
    return int(match[1] or match[2] or 0) if match else None


def render_manifest(manifest: Manifest) -> bytes:
    """The text of a manifest."""
    return _render(manifest.model_dump(mode="json") | {"format": FORMAT})


def _render(body: Mapping[str, Any]) -> bytes:
    whole = dict(body) | {"digest": digest_json(body)}
    return (json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def parse_manifest(data: bytes, path: Path) -> Manifest:
    """Read a manifest; ``path``, where it stands, serves messages and says which step it must be of.

    Raises:
        CheckpointError: if it is truncated, altered, of an unknown format or of another step.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _altered(path, "text that is not JSON") from error
    if not isinstance(body, dict) or "format" not in body:
        raise _altered(path, "no format version")
    if body["format"] != FORMAT:
        raise CheckpointError(
            f"a manifest of format {FORMAT}",
            found=f"format {body['format']!r}",
            where=str(path),
            remedy="read it with the version of twintrack that wrote it",
        )
    body.pop("digest", None)
    try:
        whole = _render(body)
    except (ValueError, RecursionError) as error:
        raise _altered(path, "a value that JSON has not") from error
    if whole != data:
        raise _altered(path, "text that does not agree with the digest in it")
    del body["format"]
    try:
        manifest = Manifest.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _altered(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    _check(manifest, path)
    return manifest


def _check(manifest: Manifest, path: Path) -> None:
    if folder_name(manifest.step) != path.parent.name:
        raise _altered(path, f"step {manifest.step} in the folder {path.parent.name}")
    strange = [name for name in manifest.files if attempt_of(name) != manifest.attempt]
    if strange:
        raise _altered(path, f"the name {strange[0]!r}, which no file of a checkpoint has")
    if state_file(manifest.attempt) not in manifest.files:
        raise _altered(path, f"no {state_file(manifest.attempt)}")


def _altered(path: Path, found: str) -> CheckpointError:
    return CheckpointError(
        "the manifest as it was written",
        found=found,
        where=str(path),
        remedy="resume from another checkpoint; this one is not used",
    )
