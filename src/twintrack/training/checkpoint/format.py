"""The safetensors format, written as a stream without a copy of any tensor.

A file is: the length of the header as 8 bytes, little-endian; the header, JSON that gives each tensor's type,
shape and place, padded with spaces to a multiple of 8; the raw little-endian data without gaps
(https://github.com/huggingface/safetensors, "Format"). Within a file, tensors with wider elements come first,
then names in order, so each is aligned to its element size and the same tensors always give the same bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

__all__ = ["DTYPES", "SHARD_BYTES", "PlannedFile", "plan_files", "safetensors_chunks"]

DTYPES: Mapping[torch.dtype, str] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Types that a state may hold, and what safetensors calls them."""

SHARD_BYTES = 256 << 20
"""Largest amount of tensor data in one file, unless a single tensor is larger: while one file is forced to disk,
others are digested and written."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of a checkpoint: the tensors of one group, or a part of them."""

    group: str
    number: int
    """From 1, within the group."""
    tensors: tuple[str, ...]
    """Names in the order of their data."""


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def plan_files(tensors: Mapping[str, torch.Tensor], shard_bytes: int = SHARD_BYTES) -> list[PlannedFile]:
    """Divide tensors into files, by group and then by size; a pure function of names, types and shapes."""
    files: list[PlannedFile] = []
    for group in sorted({name.partition("/")[0] for name in tensors}):
        members = [name for name in tensors if name.partition("/")[0] == group]
        members.sort(key=lambda name: (-tensors[name].element_size(), name))
        shards: list[list[str]] = [[]]
        filled = 0
        for name in members:
            if shards[-1] and filled + _bytes(tensors[name]) > shard_bytes:
                shards.append([])
                filled = 0
            shards[-1].append(name)
            filled += _bytes(tensors[name])
        files += [PlannedFile(group, number, tuple(names)) for number, names in enumerate(shards, 1)]
    return files


def safetensors_chunks(tensors: Mapping[str, torch.Tensor], order: tuple[str, ...]) -> Iterator[memoryview]:
    """The content of one file, piece by piece: the header, then each tensor's data.

    Tensors on the host that are contiguous are not copied; of the others one at a time is, while it is
    written.

    Raises:
        RuntimeError: on a big-endian host, whose memory is not the format's.
    """
    if sys.byteorder != "little":
        raise RuntimeError("checkpoints are written on little-endian hosts only")
    yield memoryview(_header(tensors, order))
    for name in order:
        yield _data(tensors[name])


def _header(tensors: Mapping[str, torch.Tensor], order: tuple[str, ...]) -> bytes:
    entries: dict[str, dict[str, object]] = {}
    start = 0
    for name in order:
        tensor = tensors[name]
        end = start + _bytes(tensor)
        entries[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _data(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor; a view of its memory where that is possible."""
    host = tensor.detach().to("cpu").contiguous()
    # strides of dimensions of size 0 or 1 are arbitrary even where a tensor is contiguous
    return host.as_strided((host.numel(),), (1,)).view(torch.uint8).numpy().data
