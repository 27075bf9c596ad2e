"""What a DMA costs: descriptors, bytes, engines.

A transfer is cut into rows: stretches contiguous on both sides, at most a descriptor long. Each of the 16 engines
serves 8 of the 128 partitions; a transfer that touches fewer partitions uses fewer engines. An engine takes
``rows * dma_row + bytes / dma_rate`` for its share. Sources: sdk:nki/get-started/about/nki-dma-overview.rst,
sdk:nki/deep-dives/nki-dma-bandwidth-guide.rst.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.buffer import Buffer
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.timing.parameters import Parameters

__all__ = ["Transfer", "spill_transfer", "transfer_of"]

_PARTITIONS_PER_ENGINE = 8
_DESCRIPTOR_BYTES = 65536
"""Longest stretch of one descriptor (driver:v3/address_map.h)."""


class Transfer(NamedTuple):
    """One DMA.

    Attributes:
        bytes: that are moved, counted once.
        hbm_bytes: of them, read from or written to HBM.
        engines: DMA engines that take part.
        engine_ns: each of them is busy so long.
        rows: descriptors.
        writes_hbm: whether it stores.
    """

    bytes: int
    hbm_bytes: int
    engines: int
    engine_ns: float
    rows: int
    writes_hbm: bool


def transfer_of(ins: Instruction, p: Parameters) -> Transfer:
    """What a DMA instruction moves; sources of ``dma_compute`` and tensors of collectives are added up."""
    outs = [view for view in ins.outs if view is not None]
    ins_ = [view for view in ins.ins if view is not None]
    sides = [(outs[0], source) for source in ins_] if outs else []
    rows = total = hbm = 0
    for out, source in sides:
        size = max(_bytes(out), _bytes(source))
        run = min(_run(out), _run(source), _DESCRIPTOR_BYTES)
        rows += max(1, math.ceil(size / max(1, run)))
        total += size
        hbm += sum(_bytes(view) for view in (out, source) if not view.storage.buffer.on_chip)
    engines = _engines(outs + ins_, rows, int(p.dma_engines))
    share = 1.0
    if ins.opcode == "dma_transpose":
        share = p.dma_transpose_share if any(not v.storage.buffer.on_chip for v in ins_) else 0.5
    elif ins.opcode == "dma_compute":
        share = p.dma_compute_share
    stores = bool(outs) and not outs[0].storage.buffer.on_chip
    return Transfer(total, hbm, engines, _engine_ns(rows, total, engines, p, share), rows, stores)


def spill_transfer(buffer: Buffer, p: Parameters) -> Transfer:
    """One way of a spilled tile, between SBUF and dense HBM."""
    rows = buffer.shape[0] * math.ceil(buffer.partition_bytes / _DESCRIPTOR_BYTES)
    engines = max(1, min(int(p.dma_engines), math.ceil(buffer.shape[0] / _PARTITIONS_PER_ENGINE)))
    busy = _engine_ns(rows, buffer.bytes, engines, p)
    return Transfer(buffer.bytes, buffer.bytes, engines, busy, rows, True)


def _engine_ns(rows: int, size: int, engines: int, p: Parameters, share: float = 1.0) -> float:
    """How long each engine is busy with its part of so many rows and bytes, at a share of the rate."""
    return math.ceil(rows / engines) * p.dma_row + size / engines / (p.dma_rate * share)


def _bytes(view: View) -> int:
    return math.prod(view.shape) * view.dtype.bytes


def _run(view: View) -> int:
    """Contiguous bytes of a view's rows; on chip never beyond a partition."""
    run = view.dtype.bytes
    first = 1 if view.storage.buffer.on_chip else 0
    step = 1
    for count, stride in reversed(list(zip(view.shape, view.strides, strict=True))[first:]):
        if count == 1:
            continue
        if stride != step:
            break
        run *= count
        step *= count
    return run


def _engines(views: list[View], rows: int, most: int) -> int:
    """Engines that take part: by partitions where one side is on chip, else by rows."""
    counts = [view.shape[0] for view in views if view.storage.buffer.on_chip]
    groups = math.ceil(max(counts) / _PARTITIONS_PER_ENGINE) if counts else rows
    return max(1, min(most, groups, rows))
