"""Rules of collectives between ranks, as far as one rank's arguments show them.

Sources: docstrings of ``nki.collectives`` (AWS Neuron 2.32). Ours, where they are silent: sources and destinations
have one element type; tensors with per-rank counts are dense, as they are treated as flat buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import SBUF, broken, region_in
from twintrack.neuroncore.isa.legality.control import HBM, HBM_SBUF
from twintrack.neuroncore.memory.buffer import contiguous_strides
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["RULES"]

_REDUCTIONS = ("add", "minimum", "maximum")
_Pair = tuple[View, View]


def _priority(ins: Instruction, generation: Generation) -> None:
    priority = ins.attributes["priority"]
    if priority is None:
        return
    if generation.number < 4:
        raise broken(
            ins, "no priority before NeuronCore-v4", f"{priority} on {generation.chip}", "leave it out"
        )
    if priority not in (0, 1, 2, 3):
        raise broken(ins, "a priority from 0 to 3", f"{priority}", "give one of them")


def _operator(ins: Instruction) -> None:
    if ins.attributes["op"] not in _REDUCTIONS:
        raise broken(
            ins, "nl.add, nl.minimum or nl.maximum as op", ins.attributes["op"], "reduce with one of them"
        )


def _group(ins: Instruction) -> None:
    seen: set[int] = set()
    for ranks in ins.attributes["replica_group"]:
        for rank in ranks:
            if rank in seen:
                raise broken(ins, "sub-groups without a common rank", f"rank {rank} twice", "name it once")
            seen.add(rank)


def _dim(ins: Instruction, *allowed: int) -> int:
    dim: int = ins.attributes["collective_dim"]
    if dim not in allowed:
        named = " or ".join(str(one) for one in allowed)
        raise broken(ins, f"collective_dim {named} for these tensors", f"{dim}", "lay the tensors out so")
    return dim


def _pairs(ins: Instruction, *, sbuf: bool = True, coalesced: bool = True) -> list[_Pair]:
    """Sources with their destinations, after the rules of regions, numbers and types."""
    views = [view for view in (*ins.ins, *ins.outs) if view is not None]
    allowed, named = (HBM_SBUF, "HBM or SBUF") if sbuf else (HBM, "HBM")
    if len(ins.ins) != len(ins.outs) or not ins.ins:
        raise broken(
            ins, "as many dsts as srcs, at least one", f"{len(ins.outs)} and {len(ins.ins)}", "pair them"
        )
    for view in views:
        region_in(ins, view, allowed, named)
    on_chip = {view.storage.buffer.on_chip for view in views}
    if len(on_chip) > 1:
        raise broken(ins, "all tensors in HBM, or all in SBUF", "some in each", "copy them to one memory")
    many = len(ins.ins) > 1
    if many and (True in on_chip or not coalesced):
        where = "in SBUF" if coalesced else "here"
        raise broken(ins, f"one tensor {where}", f"{len(ins.ins)}", "call it once per tensor")
    for view in views:
        if view.storage.buffer.on_chip and len(view.shape) != 2:
            raise broken(ins, "2-D tensors in SBUF", f"shape {list(view.shape)}", "reshape it", view)
    found = list(zip(ins.ins, ins.outs, strict=True))
    for src, dst in found:
        _same_type(ins, src, dst)
    return found  # type: ignore[return-value]


def _same_type(ins: Instruction, src: View | None, dst: View | None) -> None:
    assert src is not None  # noqa: S101 - the lists of a collective hold tensors
    assert dst is not None  # noqa: S101
    if src.dtype is not dst.dtype:
        raise broken(
            ins, f"a destination of the source's type ({src.dtype})", dst.dtype, "allocate it so", dst
        )


def _shape(ins: Instruction, dst: View, wanted: tuple[int, ...], source: View) -> None:
    if dst.shape != wanted:
        raise broken(
            ins,
            f"a destination of shape {list(wanted)} for a source of {list(source.shape)} and "
            f"{_size(ins)} ranks",
            f"{list(dst.shape)}",
            "allocate it so",
            dst,
        )


def _size(ins: Instruction) -> int:
    return len(ins.attributes["ranks"])


def _divides(ins: Instruction, view: View, size: int) -> None:
    if size % _size(ins):
        raise broken(
            ins, f"a multiple of the {_size(ins)} ranks in dimension 0", f"{size}", "pad the tensor", view
        )


def _all_reduce(ins: Instruction, generation: Generation) -> None:
    _priority(ins, generation)
    _group(ins)
    _operator(ins)
    for src, dst in _pairs(ins):
        _shape(ins, dst, src.shape, src)


def _all_gather(ins: Instruction, generation: Generation) -> None:
    _priority(ins, generation)
    _group(ins)
    pairs = _pairs(ins)
    dim = _dim(ins, *((0, 1) if pairs[0][0].storage.buffer.on_chip else (0,)))
    for src, dst in pairs:
        wanted = list(src.shape)
        wanted[dim] *= _size(ins)
        _shape(ins, dst, tuple(wanted), src)


def _reduce_scatter(ins: Instruction, generation: Generation) -> None:
    _priority(ins, generation)
    _group(ins)
    _operator(ins)
    pairs = _pairs(ins)
    _dim(ins, 0)
    for src, dst in pairs:
        _divides(ins, src, src.shape[0])
        _shape(ins, dst, (src.shape[0] // _size(ins), *src.shape[1:]), src)


def _all_to_all(ins: Instruction, generation: Generation) -> None:
    _priority(ins, generation)
    _group(ins)
    pairs = _pairs(ins, sbuf=False)
    _dim(ins, 0)
    for src, dst in pairs:
        _divides(ins, src, src.shape[0])
        _shape(ins, dst, src.shape, src)


def _collective_permute(ins: Instruction, generation: Generation) -> None:
    _priority(ins, generation)
    pairs = ins.attributes["source_target_pairs"]
    for at, named in ((0, "source"), (1, "target")):
        ranks = [pair[at] for pair in pairs]
        twice = next((rank for rank in ranks if ranks.count(rank) > 1), None)
        if twice is not None:
            raise broken(ins, f"each rank as {named} at most once", f"rank {twice} twice", "name it once")
    for src, dst in _pairs(ins, sbuf=False, coalesced=False):
        if src.shape != dst.shape:
            raise broken(
                ins,
                f"dst of the shape of src ({list(src.shape)})",
                f"{list(dst.shape)}",
                "allocate it so",
                dst,
            )


def _channels(ins: Instruction, sources: tuple[View | None, ...]) -> None:
    ids = ins.attributes["channel_ids"]
    if ids != tuple(range(len(ids))) or not ids:
        raise broken(ins, "channel_ids 0, 1, 2, ...", f"{list(ids)}", "number the channels from 0")
    if not len(ids) == len(sources) == len(ins.outs):
        raise broken(
            ins,
            f"one source and one destination for each of {len(ids)} channels",
            f"{len(sources)} and {len(ins.outs)}",
            "give a list of one tensor per channel",
        )
    for src, dst in zip(sources, ins.outs, strict=True):
        assert src is not None  # noqa: S101
        assert dst is not None  # noqa: S101
        for view in (src, dst):
            region_in(ins, view, HBM_SBUF, "HBM or SBUF")
        if src.storage.buffer.on_chip is not dst.storage.buffer.on_chip:
            raise broken(ins, "all tensors in HBM, or all in SBUF", "some in each", "copy them to one memory")
        _same_type(ins, src, dst)
        if src.shape != dst.shape:
            raise broken(
                ins,
                f"dst of the shape of src ({list(src.shape)})",
                f"{list(dst.shape)}",
                "allocate it so",
                dst,
            )


def _implicit(ins: Instruction, generation: Generation) -> None:
    _priority(ins, generation)
    _group(ins)
    _channels(ins, ins.ins)


def _implicit_reduce(ins: Instruction, generation: Generation) -> None:
    _priority(ins, generation)
    _group(ins)
    _operator(ins)
    half = len(ins.ins) // 2
    _channels(ins, ins.ins[:half])
    _channels(ins, ins.ins[half:])


def _rank_of_data(ins: Instruction, generation: Generation) -> None:
    del generation
    _group(ins)
    if ins.attributes["channel_id"] not in range(4):
        raise broken(ins, "a channel_id from 0 to 3", f"{ins.attributes['channel_id']}", "name a channel")


def _rank_id(ins: Instruction, generation: Generation) -> None:
    """It takes no arguments."""


def _metadata(ins: Instruction) -> None:
    *_, metadata = ins.ins
    assert metadata is not None  # noqa: S101 - a required operand
    region_in(ins, metadata, HBM | SBUF, "HBM or SBUF")
    if metadata.dtype != "uint32":
        raise broken(ins, "metadata_tensor of type uint32", metadata.dtype, "convert it", metadata)
    rows = 4 if ins.attributes["has_rdispls"] else 3
    wanted: tuple[int, ...] = (rows, _size(ins))
    if metadata.storage.buffer.on_chip:
        wanted = (1, *wanted)
    if metadata.shape != wanted:
        raise broken(
            ins,
            f"metadata_tensor of shape {list(wanted)}",
            f"{list(metadata.shape)}",
            "lay it out so",
            metadata,
        )
    _dense(ins, metadata)


def _dense(ins: Instruction, view: View) -> None:
    dense = contiguous_strides(view.shape)
    if any(count > 1 and a != b for count, a, b in zip(view.shape, view.strides, dense, strict=True)):
        raise broken(ins, "a dense tensor", f"strides {list(view.strides)}", "copy it to a tensor", view)


def _by_counts(ins: Instruction, generation: Generation) -> None:
    _priority(ins, generation)
    _group(ins)
    if len(ins.outs) != 2 or len(ins.ins) != 2:
        count = f"{len(ins.ins) - 1} and {len(ins.outs) - 1}"
        raise broken(ins, "one tensor in srcs and one in dsts", count, "call it once per tensor")
    src, dst = ins.ins[0], ins.outs[0]
    _same_type(ins, src, dst)
    for view in (src, dst):
        assert view is not None  # noqa: S101
        region_in(ins, view, HBM, "HBM")
        _dense(ins, view)
    assert dst is not None  # noqa: S101
    size = dst.shape[0] * dst.free_size
    if not ins.attributes["has_rdispls"] and size % _size(ins):
        raise broken(ins, f"a multiple of {_size(ins)} elements in dst", f"{size}", "make equal slots", dst)
    _metadata(ins)


def _all_gather_v(ins: Instruction, generation: Generation) -> None:
    if ins.attributes["has_rdispls"]:
        raise broken(ins, "has_rdispls=False", "True, which is not supported,", "use equal slots")
    if _size(ins) != 4:
        raise broken(ins, "4 ranks in each rank list", f"{_size(ins)}", "name the 4 ranks of a chip")
    _by_counts(ins, generation)


def _all_to_all_v(ins: Instruction, generation: Generation) -> None:
    if ins.attributes["has_rdispls"] and generation.number < 4:
        raise broken(ins, "has_rdispls=False before trn3", f"True on {generation.chip}", "use equal slots")
    _by_counts(ins, generation)


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {
        "all_reduce": _all_reduce,
        "all_gather": _all_gather,
        "all_gather_v": _all_gather_v,
        "reduce_scatter": _reduce_scatter,
        "all_to_all": _all_to_all,
        "all_to_all_v": _all_to_all_v,
        "collective_permute": _collective_permute,
        "collective_permute_implicit": _implicit,
        "collective_permute_implicit_reduce": _implicit_reduce,
        "collective_permute_implicit_current_processing_rank_id": _rank_of_data,
        "rank_id": _rank_id,
    }
)
"""By opcode."""
