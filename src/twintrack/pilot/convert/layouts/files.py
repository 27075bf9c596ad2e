"""Sharded checkpoints on disk: ``tp-XX-pp-YY.safetensors`` and, written last, ``shards.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from twintrack.pilot.convert.layouts.shards import Layout, Shard, Shards
from twintrack.storage import FileSystem

__all__ = ["SHARDS", "ShardedCheckpoint", "read_shards", "write_shards"]

SHARDS = "shards.json"


class ShardedCheckpoint:
    """What was read: ``layout``, ``shards``, ``values`` (JSON)."""

    layout: Layout
    shards: Shards
    values: dict[str, Any]


def write_shards(
    fs: FileSystem,
    folder: Path,
    layout: Layout,
    shards: Mapping[Shard, Mapping[str, Tensor]],
    values: Mapping[str, Any] | None = None,
) -> tuple[Path, ...]:
    """Write all shards, one in memory at a time, then ``shards.json`` with a digest per file.

    Args:
        values: anything JSON that belongs to the checkpoint, such as its step.

    Raises:
        StorageError: if the file system refuses.
    """
    raise NotImplementedError


def read_shards(fs: FileSystem, folder: Path) -> ShardedCheckpoint:
    """Read what ``write_shards`` wrote; every file's digest is compared before its tensors are made.

    Raises:
        CheckpointError: if ``shards.json`` is missing or malformed, or a file is missing, altered or spare.
        StorageError: if the file system refuses.
    """
    raise NotImplementedError
