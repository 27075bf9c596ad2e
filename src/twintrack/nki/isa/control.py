"""``nki.isa``: registers, and what the two cores of LNC2 do together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.earlier import also_took, renamed
from twintrack.nki.isa.constants import dma_engine as _dma_engine
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.issue import NkiInstruction, author_error, choose, issue
from twintrack.nki.isa.registers import VirtualRegister, whole_number
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "core_barrier",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "sendrecv",
]


def register_alloc(x: int | NkiTensor | None = None) -> VirtualRegister:
    """A new register.

    Args:
        x: its first value, a 32-bit integer, or a tensor of one element to load (documented until 2.28); ``None``
            leaves it unwritten.

    Raises:
        KernelError: if it is no such value.
    """
    made = VirtualRegister()
    if isinstance(x, NkiTensor):
        register_load(made, x)
    elif x is not None:
        register_move(made, x)
    return made


def _immediate(move: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """``imm`` (2.27 and 2.28) is ``src``."""
    return move(*args, **renamed(move, args, given, "imm", "src"))


@also_took(_immediate, "imm")
def register_move(dst: VirtualRegister, src: int | VirtualRegister) -> NkiInstruction:
    """``dst = src``.

    Args:
        dst: not the index of a ``nl.dynamic_range``.
        src: a 32-bit integer known when the kernel is traced, or a register that was written.

    Raises:
        KernelError: if ``dst`` is frozen, or ``src`` is neither.
    """
    _writable("register_move", dst)
    attributes: dict[str, int | None] = {"dst": dst.number, "src": None, "value": None}
    if isinstance(src, VirtualRegister):
        attributes["src"] = src.number
        return issue("register_move", Engine.SYNC, (), (), attributes, registers=(dst, src))
    attributes["value"] = whole_number(src, "src of nki.isa.register_move")
    return issue("register_move", Engine.SYNC, (), (), attributes, registers=(dst,))


def register_load(dst: VirtualRegister, src: NkiTensor) -> NkiInstruction:
    """``dst = src``, one element of memory.

    Args:
        dst: not the index of a ``nl.dynamic_range``.
        src: HBM or SBUF, one element of an integer type up to 32 bits or float32.

    Raises:
        KernelError: if ``dst`` is frozen, or ``src`` breaks a rule.
    """
    _writable("register_load", dst)
    attributes = {"dst": dst.number, "value": None}
    return issue("register_load", Engine.SYNC, (), (src,), attributes, registers=(dst,))


def register_store(dst: NkiTensor, src: VirtualRegister) -> NkiInstruction:
    """``dst = src``, one element of memory; the low bits of an integer.

    Args:
        dst: HBM or SBUF, one element of an integer type up to 32 bits, or float32 where that was loaded.
        src: a register that was written.

    Raises:
        KernelError: if ``src`` is none, or ``dst`` breaks a rule.
    """
    _register("register_store", src)
    attributes = {"src": src.number, "value": None}
    return issue("register_store", Engine.SYNC, (dst,), (), attributes, registers=(src,))


def _register(opcode: str, value: object) -> None:
    if not isinstance(value, VirtualRegister):
        raise author_error(
            f"a register for nki.isa.{opcode}", type(value).__name__, "make one with nisa.register_alloc"
        )


def _writable(opcode: str, dst: object) -> None:
    _register(opcode, dst)
    if isinstance(dst, VirtualRegister) and dst.frozen:
        raise author_error(
            f"a register that may be written for nki.isa.{opcode}",
            f"register {dst.number}, the index of a dynamic loop",
            "copy it to a register of your own with nisa.register_move",
        )


def core_barrier(
    data: NkiTensor, cores: Sequence[int], engine: _engine = _engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Both cores of LNC2 wait here for each other; from NeuronCore-v3.

    Args:
        data: shared HBM that both cores use, the same on both.
        cores: ``(0, 1)``.
        engine: whose queue waits, the same on both.
        name: for messages and profiles.

    Raises:
        KernelError: on one core, for other arguments, if the cores' arguments differ, or if one never comes.
    """
    attributes = {"cores": tuple(cores)}
    return issue("core_barrier", choose(engine, Engine.GPSIMD), (), (data,), attributes, name)


def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: _dma_engine = _dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """Send ``src`` to a core of LNC2 and receive ``dst`` from one; from NeuronCore-v3.

    Exchanges of one ``pipe_id`` meet in their order; those of different ones do not wait for each other.

    Args:
        src: SBUF.
        dst: SBUF, of the type and shape of ``src``.
        send_to_rank: core 0 or 1.
        recv_from_rank: core 0 or 1, which must send to this one.
        pipe_id: names the series of exchanges.
        dma_engine: ``gpsimd_dma`` takes at most 256 elements per partition.
        name: for messages and profiles.

    Raises:
        KernelError: on one core, for operands that break a rule, if the cores' arguments do not fit, or if the other
            never comes.
    """
    attributes = {
        "send_to_rank": send_to_rank,
        "recv_from_rank": recv_from_rank,
        "pipe_id": pipe_id,
        "dma_engine": dma_engine.name,
    }
    where = Engine.GPSIMD if dma_engine is _dma_engine.gpsimd_dma else Engine.DMA
    return issue("sendrecv", where, (dst,), (src,), attributes, name)
