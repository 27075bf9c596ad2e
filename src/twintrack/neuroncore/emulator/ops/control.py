"""How the two cores of LNC2 meet, and ``device_print``. These run without values too, as cores must meet then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator import access, valueless
from twintrack.neuroncore.emulator.ops import registers
from twintrack.neuroncore.emulator.ops.meeting import require_alike
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core
    from twintrack.neuroncore.emulator.machine import Arrival, Machine

__all__ = ["HANDLERS"]


def _pair(core: Core, ins: Instruction) -> tuple[Machine, tuple[int, ...]]:
    """The machine, and the lanes of this rank's two cores."""
    machine = core.machine
    if machine is None or machine.lnc < 2:
        raise broken(
            ins, "two cores (LNC2)", "a launch on one core", "launch the kernel on two cores, kernel[2]"
        )
    first = core.rank * machine.programs
    return machine, (first, first + 1)


def _core_barrier(core: Core, ins: Instruction) -> None:
    machine, members = _pair(core, ins)

    def complete(arrivals: dict[int, Arrival]) -> None:
        require_alike(machine, arrivals, tensors=("data",))

    machine.meet(core, ins, ("core_barrier", core.rank), members, complete)


def _sendrecv(core: Core, ins: Instruction) -> None:
    machine, members = _pair(core, ins)

    def complete(arrivals: dict[int, Arrival]) -> None:
        _require_partners(machine, arrivals)
        held = {}
        for lane, (other, theirs) in arrivals.items():
            source = theirs.ins[0]
            assert source is not None  # noqa: S101
            if other.values:
                held[lane] = other.read(theirs, source).copy()
            else:
                valueless.touch(other, theirs)
        for other, theirs in arrivals.values():
            dst = theirs.outs[0]
            assert dst is not None  # noqa: S101
            if other.values:
                sender = members[theirs.attributes["recv_from_rank"]]
                access.write_raw(other, theirs, dst, held[sender])

    key = ("sendrecv", core.rank, ins.attributes["pipe_id"])
    machine.meet(core, ins, key, members, complete, soft=True)


def _require_partners(machine: Machine, arrivals: dict[int, Arrival]) -> None:
    """Each core receives from the one that sends to it, alike in type, shape and way."""
    require_alike(machine, arrivals, apart=("send_to_rank", "recv_from_rank"), shapes=True)
    pairs = list(arrivals.values())
    for core, ins in pairs:
        target, theirs = pairs[ins.attributes["send_to_rank"]]
        if theirs.attributes["recv_from_rank"] != core.program:
            raise KernelError(
                f"core {target.program} to receive from core {core.program}, which sends to it at {ins.line},",
                found=f"recv_from_rank={theirs.attributes['recv_from_rank']} at {theirs.line}",
                where=theirs.line,
                remedy="name the same two cores on both sides",
            )


def _device_print(core: Core, ins: Instruction) -> None:
    (tensor,) = ins.ins
    assert tensor is not None  # noqa: S101
    prefix = ins.attributes["print_prefix"]
    if core.values:
        print(prefix, core.read(ins, tensor), flush=True)
    else:
        valueless.touch(core, ins)
        print(prefix, f"{tensor.dtype} {list(tensor.shape)}, without values", flush=True)


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        **registers.HANDLERS,
        "core_barrier": _core_barrier,
        "sendrecv": _sendrecv,
        "device_print": _device_print,
    }
)
"""By opcode."""
