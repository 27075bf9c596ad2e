"""Rules of registers, of what the two cores of LNC2 do together, and of ``device_print``.

Sources: docstrings of ``nki.isa.register_load``, ``register_store``, ``sendrecv``, ``core_barrier`` and
``nki.language.device_print`` (AWS Neuron 2.32); the types of registers: its NKI language guide, dynamic control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import SBUF, broken, region_in, type_in
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["HBM", "HBM_SBUF", "RULES"]

HBM = frozenset({MemoryRegion.private_hbm, MemoryRegion.shared_hbm})
HBM_SBUF = HBM | SBUF
_REGISTER_TYPES = frozenset({"uint8", "uint16", "uint32", "int8", "int16", "int32", "float32"})
_GPSIMD_DMA_ELEMENTS = 256
"""Per partition: 1,024 bytes of 32-bit types, 512 of 16-bit, 256 of 8-bit types."""


def _nothing(ins: Instruction, generation: Generation) -> None:
    """Registers only: what they hold is judged where they are used."""


def _in_memory(ins: Instruction, view: View | None) -> None:
    assert view is not None  # noqa: S101 - the operand is required
    region_in(ins, view, HBM_SBUF, "HBM or SBUF")
    type_in(ins, view, _REGISTER_TYPES, "an integer up to 32 bits or float32")
    if view.free_size * view.shape[0] != 1:
        raise broken(ins, "a tensor of one element", f"shape {list(view.shape)}", "slice one element", view)


def _register_load(ins: Instruction, generation: Generation) -> None:
    del generation
    _in_memory(ins, ins.ins[0])


def _register_store(ins: Instruction, generation: Generation) -> None:
    del generation
    _in_memory(ins, ins.outs[0])


def _since_v3(ins: Instruction, generation: Generation) -> None:
    if generation.number < 3:
        raise broken(ins, "NeuronCore-v3 or newer", generation.chip, "choose a newer chip")


def _core_barrier(ins: Instruction, generation: Generation) -> None:
    _since_v3(ins, generation)
    (data,) = ins.ins
    assert data is not None  # noqa: S101
    region_in(ins, data, frozenset({MemoryRegion.shared_hbm}), "shared HBM")
    if ins.attributes["cores"] != (0, 1):
        raise broken(ins, "cores=(0, 1)", f"{ins.attributes['cores']}", "name the two cores of LNC2")


def _sendrecv(ins: Instruction, generation: Generation) -> None:
    _since_v3(ins, generation)
    (dst,), (src,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert src is not None  # noqa: S101
    for view in (dst, src):
        region_in(ins, view, SBUF, "SBUF")
    if dst.dtype is not src.dtype:
        raise broken(ins, f"dst of the type of src ({src.dtype})", dst.dtype, "allocate it so", dst)
    if dst.shape != src.shape:
        raise broken(
            ins, f"dst of the shape of src ({list(src.shape)})", f"{list(dst.shape)}", "allocate it so", dst
        )
    for name in ("send_to_rank", "recv_from_rank"):
        if ins.attributes[name] not in (0, 1):
            raise broken(ins, f"{name} 0 or 1", f"{ins.attributes[name]}", "name a core of LNC2")
    if ins.attributes["dma_engine"] == "gpsimd_dma" and src.free_size > _GPSIMD_DMA_ELEMENTS:
        most = _GPSIMD_DMA_ELEMENTS * src.dtype.bytes
        raise broken(
            ins,
            f"at most {most} bytes of {src.dtype} per partition with dma_engine.gpsimd_dma",
            f"{src.free_size * src.dtype.bytes}",
            "send less at once, or use dma_engine.dma",
            src,
        )


def _device_print(ins: Instruction, generation: Generation) -> None:
    del generation
    (tensor,) = ins.ins
    assert tensor is not None  # noqa: S101
    region_in(ins, tensor, HBM_SBUF, "HBM or SBUF")


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {
        "register_move": _nothing,
        "register_alu": _nothing,
        "register_load": _register_load,
        "register_store": _register_store,
        "core_barrier": _core_barrier,
        "sendrecv": _sendrecv,
        "device_print": _device_print,
    }
)
"""By opcode."""
