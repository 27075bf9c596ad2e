"""Sharded checkpoints on disk: ``tp-XX-pp-YY.safetensors`` and, written last, ``shards.json``.

``shards.json`` holds ``format``, ``layout``, ``values`` (anything JSON that belongs to the checkpoint) and ``files``:
the SHA-256 of each. Without it, what lies there is debris.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from torch import Tensor

from twintrack.errors import CheckpointError
from twintrack.pilot.convert.layouts.layout import Layout, Shard
from twintrack.pilot.convert.layouts.shards import Shards
from twintrack.storage import (
    FileSystem,
    digest_bytes,
    inside,
    storage_errors,
    write_bytes_atomic,
    write_json_atomic,
)
from twintrack.training.checkpoint.format import safetensors_chunks

__all__ = ["SHARDS", "ShardedCheckpoint", "read_shards", "write_shards"]

SHARDS = "shards.json"


@dataclass(frozen=True, slots=True, eq=False)
class ShardedCheckpoint:
    """What was read."""

    layout: Layout
    shards: Shards
    values: dict[str, Any]


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1]
    layout: Layout
    values: dict[str, Any]
    files: dict[str, str]


def write_shards(
    fs: FileSystem,
    folder: Path,
    layout: Layout,
    shards: Mapping[Shard, Mapping[str, Tensor]],
    values: Mapping[str, Any] | None = None,
) -> tuple[Path, ...]:
    """Write all shards, the content of one in memory at a time, then ``shards.json`` with a digest per file.

    Args:
        fs: file system to write with.
        folder: created where it does not exist; an old ``shards.json`` in it is removed first.
        layout: that the shards were cut by.
        shards: as ``split`` gave them.
        values: anything JSON that belongs to the checkpoint, such as its step.

    Returns:
        The files in the order in which they were written.

    Raises:
        StorageError: if the file system refuses.
        ValueError: if the shards are not those of the layout, or ``values`` holds what JSON has not.
    """
    if shards.keys() != set(layout.shards):
        raise ValueError(f"the {len(layout.shards)} shards of the layout are required, found {len(shards)}")
    with storage_errors(folder, "write shards"):
        fs.make_folder(folder)
        fs.remove(folder / SHARDS)
    digests: dict[str, str] = {}
    for shard in layout.shards:
        held = shards[shard]
        order = sorted(held, key=lambda name: (-held[name].element_size(), name))
        data = b"".join(safetensors_chunks(held, tuple(order)))
        digests[shard.file] = digest_bytes(data)
        write_bytes_atomic(fs, folder / shard.file, data)
    document = {
        "format": 1,
        "layout": layout.model_dump(mode="json"),
        "values": dict(values or {}),
        "files": digests,
    }
    write_json_atomic(fs, folder / SHARDS, document)
    return tuple(folder / name for name in (*digests, SHARDS))


def read_shards(fs: FileSystem, folder: Path) -> ShardedCheckpoint:
    """Read what ``write_shards`` wrote; every file's digest is compared before its tensors are made.

    Raises:
        CheckpointError: if ``shards.json`` is missing or malformed, or a file is missing, altered or spare.
        StorageError: if the file system refuses.
    """
    document = _document(fs, folder)
    names = {shard.file: shard for shard in document.layout.shards}
    with storage_errors(folder, "list the shards"):
        there = {name for name in fs.list(folder) if name.endswith(".safetensors")}
    for required, found in ((names.keys(), document.files.keys()), (names.keys(), there)):
        if wrong := sorted(required ^ found):
            raise _unusable(
                f"the {len(names)} shards of the layout",
                f"{'no ' if wrong[0] in names else 'also '}{wrong[0]}",
                folder,
            )
    shards: Shards = {}
    for name, shard in names.items():
        shards[shard] = _tensors(fs, folder, name, document.files[name])
    return ShardedCheckpoint(document.layout, shards, document.values)


def _document(fs: FileSystem, folder: Path) -> _Document:
    path = folder / SHARDS
    with storage_errors(path, "read the layout"):
        if not fs.exists(path):
            raise _unusable(f"{SHARDS}, which is written last", "none", folder)
        data = fs.read_bytes(path)
    try:
        json.loads(data)  # its errors tell the place
        return _Document.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _unusable("a layout of this version", f"{place}: {first['msg']}", path) from error
    except (ValueError, RecursionError) as error:
        raise _unusable("JSON", str(error), path) from error


def _tensors(fs: FileSystem, folder: Path, name: str, digest: str) -> dict[str, Tensor]:
    path = inside(folder, name)
    with storage_errors(path, "read a shard"):
        data = fs.read_bytes(path)
    if (found := digest_bytes(data)) != digest:
        raise _unusable(f"the content that {SHARDS} tells, SHA-256 {digest[:12]}", found[:12], path)
    try:
        return dict(safetensors.torch.load(data))
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise _unusable("a safetensors file", str(error), path) from error


def _unusable(required: str, found: str, path: Path) -> CheckpointError:
    return CheckpointError(
        required, found=found[:200], where=str(path), remedy="copy the checkpoint again, or write it anew"
    )
