"""Reading a checkpoint back: what is loaded is what was verified, from one pass over the disk."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from twintrack.errors import CheckpointError
from twintrack.storage import FileSystem, inside, storage_errors
from twintrack.training.checkpoint.format import DTYPES
from twintrack.training.checkpoint.inspection import check_digest, inspect
from twintrack.training.checkpoint.manifest import MANIFEST, FileRecord, Manifest, folder_name, state_file
from twintrack.training.checkpoint.state import TrainingState, group_of

__all__ = ["LoadedCheckpoint", "TensorRecord", "read_checkpoint", "read_values", "tensor_records"]

_ITEM_BYTES: Mapping[str, int] = {name: dtype.itemsize for dtype, name in DTYPES.items()}
_READERS = 2
"""Files read and digested at once."""


@dataclass(frozen=True, slots=True)
class LoadedCheckpoint:
    """A state that was read back, and what reading it took."""

    state: TrainingState
    bytes_read: int
    """From the disk, manifest included."""


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """What a checkpoint says of one tensor."""

    name: str
    dtype: str
    """As safetensors names it."""
    shape: tuple[int, ...]
    bytes: int
    file: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def group(self) -> str:
        """What stands before the first ``/`` of the name."""
        return group_of(self.name)


def read_checkpoint(
    fs: FileSystem, folder: Path, step: int, *, job_digest: str | None = None
) -> LoadedCheckpoint:
    """Verify the checkpoint of a step and load it; tensors are on the host and own their memory.

    Manifest and sizes are compared before any data are read; each file is then read once, and its tensors are
    made from the very bytes whose digest agreed. Besides the state, up to two files are in memory at a time.

    Raises:
        CheckpointError: if there is none, or it is debris, altered, truncated, of another job, of an unknown
            format, or holds what no state may hold.
        StorageError: if the file system refuses.
    """
    manifest = inspect(fs, folder, step, job_digest=job_digest).require()
    path = folder / folder_name(step)
    values = _values(fs, path, manifest)
    tensors: dict[str, torch.Tensor] = {}
    names = [name for name in manifest.files if name != state_file(manifest.attempt)]
    with ThreadPoolExecutor(_READERS, thread_name_prefix="checkpoint-read") as pool:
        for part in pool.map(lambda name: _tensors(fs, path, name, manifest.files[name]), names):
            twice = tensors.keys() & part.keys()
            if twice:
                raise _unusable(path, f"{min(twice)!r} in two files")
            tensors |= part
    try:
        state = TrainingState(step, dict(sorted(tensors.items())), values)
    except ValueError as error:
        raise _unusable(path, str(error)) from error
    return LoadedCheckpoint(state, manifest.bytes + fs.size(path / MANIFEST))


def read_values(fs: FileSystem, folder: Path, manifest: Manifest) -> dict[str, Any]:
    """The values of a checkpoint, once their digest agrees; no tensor is read.

    Raises:
        CheckpointError: if they were altered.
        StorageError: if the file system refuses.
    """
    return _values(fs, folder / folder_name(manifest.step), manifest)


def tensor_records(folder: Path, manifest: Manifest) -> list[TensorRecord]:
    """Names, types and shapes from the headers of the files, whose digests are not compared.

    Raises:
        CheckpointError: if a header cannot be read.
    """
    path = folder / folder_name(manifest.step)
    records = []
    for file in sorted(manifest.files.keys() - {state_file(manifest.attempt)}):
        try:
            with safetensors.safe_open(inside(path, file), framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118  (safe_open is no mapping)
                    part = opened.get_slice(name)
                    dtype, shape = part.get_dtype(), tuple(part.get_shape())
                    size = math.prod(shape) * _ITEM_BYTES[dtype]
                    records.append(TensorRecord(name, dtype, shape, size, file))
        except (safetensors.SafetensorError, KeyError, OSError) as error:
            raise _unusable(path / file, f"a header that safetensors refuses: {error}") from error
    return sorted(records, key=lambda record: record.name)


def _verified_bytes(fs: FileSystem, path: Path, name: str, record: FileRecord) -> bytes:
    file = inside(path, name)
    with storage_errors(file, "read the checkpoint"):
        data = fs.read_bytes(file)
    check_digest(path / name, record.sha256, hashlib.sha256(data).hexdigest())
    return data


def _tensors(fs: FileSystem, path: Path, name: str, record: FileRecord) -> Mapping[str, torch.Tensor]:
    data = _verified_bytes(fs, path, name, record)
    try:
        return safetensors.torch.load(data)
    except (safetensors.SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise _unusable(path / name, f"data that safetensors refuses: {error}") from error


def _values(fs: FileSystem, path: Path, manifest: Manifest) -> dict[str, Any]:
    name = state_file(manifest.attempt)
    data = _verified_bytes(fs, path, name, manifest.files[name])
    try:
        document = json.loads(data)
        if document["step"] == manifest.step and isinstance(document["values"], dict):
            return dict(document["values"])
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise _unusable(path / name, "something else than step and values") from error
    raise _unusable(path / name, f"something else than step {manifest.step} and its values")


def _unusable(path: Path, found: str) -> CheckpointError:
    return CheckpointError(
        "what a checkpoint of this version holds",
        found=found,
        where=str(path),
        remedy="read it with the version of twintrack that wrote it",
    )
