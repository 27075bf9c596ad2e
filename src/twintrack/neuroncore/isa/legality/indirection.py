"""Which operands may have an address that is known only at run time, and what their indices must be.

Sources: the sections "Tensor indirection" of the docstrings of ``nki.isa``, ``NkiTensor.indirect`` (AWS Neuron 2.32);
``nki-aps.rst`` and ``nki-dge.rst`` for vectors of indices, which only a DMA takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality.common import broken, name_of, operands_of
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["INDIRECT", "Indirect", "addresses", "group_partitions"]

_QUADRANT = 32
_VECTORS = frozenset({"dma_copy", "dma_transpose", "dma_compute"})


class Indirect(NamedTuple):
    """Tensor indirection of one instruction."""

    operands: frozenset[str]
    """Those that may use it."""
    engines: frozenset[Engine]
    """Those that it must run on."""


def _one(operands: str, *engines: Engine) -> Indirect:
    return Indirect(frozenset(operands.split()), frozenset(engines))


INDIRECT: Mapping[str, Indirect] = MappingProxyType(
    {
        "nc_matmul": _one("dst stationary moving", Engine.TENSOR),
        "nc_matmul_mx": _one("dst stationary moving stationary_scale moving_scale", Engine.TENSOR),
        "tensor_copy": _one("dst src", Engine.VECTOR, Engine.SCALAR),
        "tensor_copy_predicated": _one("dst predicate", Engine.VECTOR),
        "tensor_tensor": _one("dst data1", Engine.VECTOR, Engine.GPSIMD),
        "tensor_scalar": _one("dst data", Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD),
        "tensor_reduce": _one("dst data", Engine.VECTOR),
        "tensor_scalar_reduce": _one("dst data", Engine.VECTOR),
        "tensor_scalar_cumulative": _one("dst src", Engine.VECTOR),
        "activation": _one("dst data", Engine.SCALAR),
        "activation_reduce": _one("dst data", Engine.SCALAR),
        "activate2": _one("dst data", Engine.SCALAR),
        "exponential": _one("dst src", Engine.VECTOR),
    }
)
"""By opcode; other instructions take no tensor indirection."""


def addresses(ins: Instruction, generation: Generation) -> None:
    """Only operands that are documented to have dynamic addresses have them, and their indices lie as documented.

    Raises:
        KernelError: if one has not.
    """
    for view in operands_of(ins):
        dynamic = view.dynamic
        if dynamic is None or dynamic.kind == "scalar":
            continue
        if dynamic.kind == "vector":
            if ins.opcode not in _VECTORS:
                raise broken(
                    ins,
                    f"one address for all rows of {name_of(ins, view)}",
                    "a vector of indices",
                    "gather with nisa.dma_copy first",
                    view,
                )
            continue
        _tensor_indirection(ins, generation, view)


def group_partitions(ins: Instruction, view: View) -> int:
    """Partitions that share offsets: 32 on the Tensor Engine, 16 on the others, or all where there are fewer."""
    return min(32 if ins.engine is Engine.TENSOR else 16, view.shape[0])


def _tensor_indirection(ins: Instruction, generation: Generation, view: View) -> None:
    name = name_of(ins, view)
    allowed = INDIRECT.get(ins.opcode)
    if generation.number < 4:
        raise broken(
            ins, "NeuronCore-v4 or newer for tensor indirection", generation.chip, "gather otherwise", view
        )
    if allowed is None or name not in allowed.operands:
        may = "none" if allowed is None else " and ".join(sorted(allowed.operands))
        raise broken(
            ins,
            f"tensor indirection in operands that take it ({may})",
            name,
            "copy it with nisa.tensor_copy first",
            view,
        )
    if ins.engine not in allowed.engines:
        engines = " or ".join(sorted(allowed.engines))
        raise broken(
            ins, f"the {engines} engine for tensor indirection", ins.engine, "leave engine unset", view
        )
    if ins.engine is Engine.SCALAR and name == "dst" and view.storage.buffer.region is MemoryRegion.psum:
        raise broken(
            ins, "a scattered dst in SBUF on the Scalar Engine", "PSUM", "use another engine, or SBUF", view
        )
    _groups(ins, view)
    _base_partitions(ins, view, name)


def _groups(ins: Instruction, view: View) -> None:
    assert view.dynamic is not None  # noqa: S101 - only views with indirection come here
    group = group_partitions(ins, view)
    partitions, count = view.shape
    if partitions % group:
        raise broken(
            ins,
            f"whole groups of {group} partitions on the {ins.engine} engine",
            f"{partitions} partitions",
            "pad them",
            view,
        )
    room = group * int(view.dynamic.index.shape[1])
    if count > room:
        raise broken(
            ins,
            f"at most {room} offsets, as a group of {group} partitions holds in the index,",
            f"{count}",
            "pass num_elem to .indirect, or give the index more columns",
            view,
        )


def _base_partitions(ins: Instruction, view: View, name: str) -> None:
    """Where operands are placed by hand."""
    assert view.dynamic is not None  # noqa: S101 - only views with indirection come here
    index: View = view.dynamic.index
    if _placed(index) and index.start_partition % _QUADRANT:
        raise broken(
            ins,
            f"an index of {name} that starts at partition 0, 32, 64 or 96",
            f"{index.start_partition}",
            "place it so",
            index,
        )
    if name != "dst":
        _together(ins, index, f"the index of {name}", view, name)
        return
    source = ins.ins[_sources(ins)]
    if source is None:
        return
    named = name_of(ins, source)
    if source.storage.buffer.region is MemoryRegion.sbuf:
        _together(ins, index, "the index of dst", source, named)
    elif source.dynamic is not None and source.dynamic.kind == "tensor":
        _together(ins, index, "the index of dst", source.dynamic.index, f"the index of {named}")


def _sources(ins: Instruction) -> int:
    """Position of the operand whose partitions the index of ``dst`` goes with."""
    allowed = INDIRECT[ins.opcode].operands
    names = OPERANDS[ins.opcode].ins
    return next(at for at, one in enumerate(names) if one in allowed)


def _together(ins: Instruction, first: View, first_name: str, second: View, second_name: str) -> None:
    if _placed(first) and _placed(second) and first.start_partition != second.start_partition:
        raise broken(
            ins,
            f"{first_name} at the same start partition as {second_name} ({second.start_partition})",
            f"{first.start_partition}",
            "place them so",
            first,
        )


def _placed(view: View) -> bool:
    return view.storage.buffer.address is not None
