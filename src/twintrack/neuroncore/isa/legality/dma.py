"""Rules of DMA instructions.

Sources: docstrings of ``nki.isa.dma_copy``, ``dma_transpose`` and ``dma_compute``; ``nki-dge.rst`` for who generates
descriptors (AWS Neuron 2.32); the Trainium2 architecture guide for the widths that a DMA transposes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken, name_of, operands_of, region_in
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import PARTITIONS, Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["RULES", "TRANSPOSED"]

_DMA = frozenset({MemoryRegion.sbuf, MemoryRegion.private_hbm, MemoryRegion.shared_hbm})
_SBUF = frozenset({MemoryRegion.sbuf})
_MOST_SOURCES = 16
_PRIORITIES = (0, 1, 2, 3)

TRANSPOSED: Mapping[int, tuple[int, ...]] = MappingProxyType({2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)})
"""The permutation of ``dma_transpose`` by dimensions of its source."""


def _dma_copy(ins: Instruction, generation: Generation) -> None:
    dst, src = operands_of(ins)
    for view in (dst, src):
        _reachable(ins, view)
    _same_size(ins, dst, src)
    if "packed" in (dst.dtype.kind, src.dtype.kind) and dst.dtype is not src.dtype:
        raise broken(ins, f"packed elements moved as {src.dtype}", dst.dtype, "move them as they are", dst)
    _priority(ins, generation)
    _descriptors(ins, generation, dst, src)
    trigger, mode = ins.attributes["trigger"], ins.attributes["dge_mode"]
    if trigger != "unknown" and mode != "hwdge":
        raise broken(ins, "dge_mode.hwdge where an engine is named", f"dge_mode.{mode}", "leave engine unset")
    if trigger not in ("unknown", "sync", "scalar"):
        raise broken(
            ins, "engine.sync or engine.scalar for dge_mode.hwdge", f"engine.{trigger}", "choose one of them"
        )
    for view in (dst, src):
        _one_index_per_row(ins, view)


def _reachable(ins: Instruction, view: View) -> None:
    region_in(ins, view, _DMA, "SBUF or HBM")
    if view.storage.buffer.on_chip and view.shape[0] > PARTITIONS:
        raise broken(ins, f"at most {PARTITIONS} partitions", f"{view.shape[0]}", "split the transfer", view)


def _same_size(ins: Instruction, dst: View, src: View) -> None:
    if math.prod(dst.shape) != math.prod(src.shape):
        raise broken(
            ins,
            f"as many elements in {name_of(ins, src)} as in dst ({math.prod(dst.shape)})",
            f"{math.prod(src.shape)}",
            "slice or allocate them alike",
            src,
        )


def _priority(ins: Instruction, generation: Generation) -> None:
    priority = ins.attributes["priority"]
    if priority is None:
        return
    if generation.number < 4:
        raise broken(ins, "NeuronCore-v4 or newer for priority", generation.chip, "leave priority unset")
    if priority not in _PRIORITIES:
        raise broken(ins, "a priority from 0 to 3", f"{priority}", "choose one of them")


def _descriptors(ins: Instruction, generation: Generation, *views: View) -> None:
    """Who generates descriptors must be there, and able to."""
    mode = ins.attributes.get("dge_mode", "unknown")
    if mode == "hwdge" and generation.number < 3:
        raise broken(ins, "NeuronCore-v3 or newer for dge_mode.hwdge", generation.chip, "use dge_mode.swdge")
    for view in views:
        if view.dynamic is None:
            continue
        if mode == "none":
            raise broken(
                ins,
                "a static address with dge_mode.none",
                "a dynamic one",
                "use dge_mode.unknown or dge_mode.swdge",
                view,
            )
        if view.dynamic.kind != "vector":
            continue
        if mode == "hwdge":
            raise broken(
                ins,
                "dge_mode.swdge or dge_mode.unknown for a vector of indices",
                "dge_mode.hwdge",
                "leave dge_mode unset",
                view,
            )
        if generation.number < 3:
            raise broken(
                ins,
                "NeuronCore-v3 or newer for a vector of indices",
                generation.chip,
                "copy row by row with scalar_offset",
                view,
            )


def _one_index_per_row(ins: Instruction, view: View) -> None:
    """A vector of indices has shape ``(rows, 1)``."""
    if view.dynamic is None or view.dynamic.kind != "vector":
        return
    index: View = view.dynamic.index
    if index.free_size != 1 or index.shape[0] < view.shape[0]:
        raise broken(
            ins,
            f"an index of shape ({view.shape[0]}, 1) for {name_of(ins, view)}",
            f"{list(index.shape)}",
            "give each row one index",
            index,
        )


def _dma_transpose(ins: Instruction, generation: Generation) -> None:
    dst, src = operands_of(ins)
    region_in(ins, dst, _SBUF, "SBUF")
    region_in(ins, src, _DMA, "SBUF or HBM")
    if dst.dtype is not src.dtype:
        raise broken(ins, f"dst of the same type as src ({src.dtype})", dst.dtype, "allocate it so", dst)
    if dst.dynamic is not None:
        raise broken(ins, "a static address of dst", "a dynamic one", "transpose to a tile first", dst)
    _permutation(ins, dst, src)
    _priority(ins, generation)
    if ins.attributes["oob_mode"] == "skip" and src.dynamic is None:
        raise broken(ins, "an indirect src for oob_mode.skip", "a static one", "leave oob_mode unset", src)
    if src.dynamic is not None and src.dynamic.kind == "vector":
        _indirect_transpose(ins, generation, src)
        return
    mode = ins.attributes["dge_mode"]
    if mode not in ("unknown", "hwdge"):
        raise broken(
            ins, "dge_mode.hwdge or dge_mode.unknown for a direct transpose", f"dge_mode.{mode}", "unset it"
        )
    _descriptors(ins, generation, src)
    if src.dtype.bytes not in (2, 4):
        raise broken(
            ins, "src of 2 or 4 bytes an element", f"{src.dtype}", "transpose with nisa.nc_transpose", src
        )
    if mode == "hwdge":
        _hardware_transpose(ins, src)


def _permutation(ins: Instruction, dst: View, src: View) -> None:
    axes = TRANSPOSED.get(len(src.shape))
    if axes is None:
        raise broken(ins, "src of 2, 3 or 4 dimensions", f"{len(src.shape)}", "reshape it", src)
    given = ins.attributes["axes"]
    if given is not None and given != axes:
        raise broken(ins, f"axes {axes} for {len(src.shape)} dimensions", f"{given}", "leave axes unset", src)
    shape = tuple(src.shape[axis] for axis in axes)
    if (dst.shape[0], dst.free_size) != (shape[0], math.prod(shape[1:])):
        raise broken(
            ins,
            f"dst of shape {list(shape)}, as src transposed has,",
            f"{list(dst.shape)}",
            "allocate it so",
            dst,
        )


def _hardware_transpose(ins: Instruction, src: View) -> None:
    rows, columns = src.shape[0], src.shape[-1]
    if len(src.shape) == 2:
        if rows != 16:
            raise broken(ins, "16 rows in src with dge_mode.hwdge", f"{rows}", "leave dge_mode unset", src)
    elif rows not in (1, 2, 4, 8, 16) or rows * src.shape[-2] % 16:
        raise broken(
            ins,
            "1, 2, 4, 8 or 16 rows in src, a multiple of 16 with its last dimension but one, with dge_mode.hwdge",
            f"{rows} and {src.shape[-2]}",
            "leave dge_mode unset",
            src,
        )
    _columns_and_width(ins, src, columns, "with dge_mode.hwdge")


def _columns_and_width(ins: Instruction, src: View, columns: int, when: str) -> None:
    if columns > PARTITIONS:
        raise broken(
            ins,
            f"at most {PARTITIONS} elements in src's last dimension {when}",
            f"{columns}",
            "split it",
            src,
        )
    if src.dtype.bytes != 2:
        raise broken(ins, f"src of 2 bytes an element {when}", f"{src.dtype}", "convert it first", src)


def _indirect_transpose(ins: Instruction, generation: Generation, src: View) -> None:
    when = "in an indirect transpose"
    _descriptors(ins, generation, src)
    if len(src.shape) == 4 and src.shape[1] != 1 and src.shape[2] != 1:
        raise broken(
            ins,
            f"size 1 in one of src's middle dimensions {when}",
            f"{src.shape[1]} and {src.shape[2]}",
            "transpose slices",
            src,
        )
    _columns_and_width(ins, src, src.shape[-1], when)
    if src.shape[0] % 16:
        raise broken(ins, f"a multiple of 16 rows in src {when}", f"{src.shape[0]}", "pad the indices", src)
    assert src.dynamic is not None  # noqa: S101 - only indirect views come here
    index: View = src.dynamic.index
    if len(index.shape) != 2:
        raise broken(ins, f"an index of 2 dimensions {when}", f"{list(index.shape)}", "reshape it", index)
    rows, columns = index.shape
    if rows * columns < src.shape[0]:
        raise broken(
            ins, f"at least {src.shape[0]} indices {when}", f"{rows * columns}", "load as many", index
        )
    if not 16 <= rows <= PARTITIONS or rows % 16:
        raise broken(
            ins, f"16 to 128 partitions, a multiple of 16, in the index {when}", f"{rows}", "pad it", index
        )
    if columns > 1 and rows != PARTITIONS:
        raise broken(
            ins, f"{PARTITIONS} partitions in an index of several columns {when}", f"{rows}", "pad it", index
        )
    if index.dtype != "uint32":
        raise broken(ins, f"an index of type uint32 {when}", index.dtype, "convert it", index)


def _dma_compute(ins: Instruction, generation: Generation) -> None:
    (dst,), sources = ins.outs, tuple(view for view in ins.ins if view is not None)
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    if not 1 <= len(sources) <= _MOST_SOURCES:
        raise broken(ins, f"1 to {_MOST_SOURCES} tensors in srcs", f"{len(sources)}", "add in several steps")
    for view in (dst, *sources):
        _reachable(ins, view)
        if view.dtype.kind in ("packed", "scale"):
            raise broken(ins, f"numbers in {name_of(ins, view)}", view.dtype, "use a float or integer", view)
        if view.dynamic is not None and view.dynamic.kind != "vector":
            raise broken(
                ins, "static addresses, or a vector of indices", "a scalar one", "copy it first", view
            )
    for src in sources:
        _same_size(ins, dst, src)
    if ins.attributes["reduce_op"] != "add":
        raise broken(ins, "reduce_op=nl.add", ins.attributes["reduce_op"], "use a compute engine")
    scales = ins.attributes["scales"]
    if scales is not None and (len(scales) != len(sources) or any(one != 1.0 for one in scales)):
        raise broken(
            ins, f"scales of {len(sources)} times 1.0, or None", f"{list(scales)}", "scale with tensor_scalar"
        )
    if any(view.dynamic is not None for view in (dst, *sources)):
        _read_modify_write(ins, generation, dst, sources)


def _read_modify_write(
    ins: Instruction, generation: Generation, dst: View, sources: tuple[View, ...]
) -> None:
    _descriptors(ins, generation, dst, *sources)
    for view in (dst, *sources):
        _one_index_per_row(ins, view)
    if len(sources) != 2:
        raise broken(ins, "2 tensors in srcs with a vector of indices", f"{len(sources)}", "add in steps")
    if not ins.attributes["unique_indices"]:
        raise broken(ins, "unique_indices=True with a vector of indices", "False", "make indices unique")
    same = ins.attributes["same_as_dst"]
    if same is None:
        raise broken(
            ins,
            "one of srcs to be the same tensor as dst, with the same index,",
            "neither",
            "pass dst among srcs: a DMA reads, adds and writes in place",
        )
    other = sources[1 - same]
    if dst.dynamic is not None and other.storage.buffer.region is not MemoryRegion.sbuf:
        raise broken(
            ins, "the other tensor in SBUF for a scatter", other.storage.buffer.region.value, "load it", other
        )
    if dst.dynamic is None and dst.storage.buffer.region is not MemoryRegion.sbuf:
        raise broken(ins, "dst in SBUF for a gather", dst.storage.buffer.region.value, "use a tile", dst)


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {"dma_copy": _dma_copy, "dma_transpose": _dma_transpose, "dma_compute": _dma_compute}
)
"""By opcode."""
