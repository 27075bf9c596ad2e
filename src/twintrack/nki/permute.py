"""``nki.collectives``: permutations between ranks, and who is who in a ring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.context import current_core
from twintrack.nki.earlier import also_took
from twintrack.nki.exchange import Channels, ReplicaGroup, Tensors, exchange, group_of, tensors_of
from twintrack.nki.isa.issue import author_error, issue, op_name
from twintrack.nki.isa.registers import VirtualRegister
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
]


def collective_permute(
    srcs: Tensors,
    dsts: Tensors,
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The source's tensor to the target, for each pair; nothing on a rank that is in no pair.

    Args:
        srcs: one tensor in HBM.
        dsts: one tensor in HBM, of the type and shape of ``src``; written on targets only.
        source_target_pairs: ranks; each at most once as source and once as target.
        priority: of the DMA, 0 to 3, from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: as ``all_reduce``.
    """
    pairs = tuple((int(source), int(target)) for source, target in source_target_pairs)
    ranks = tuple(sorted({rank for pair in pairs for rank in pair}))
    if current_core().rank not in ranks:
        return
    attributes = {"source_target_pairs": pairs, "ranks": ranks, "priority": priority}
    exchange("collective_permute", srcs, dsts, attributes, name)


def _one_per_channel(opcode: str, operand: str, channels: object) -> tuple[NkiTensor, ...]:
    if not isinstance(channels, list | tuple):
        raise author_error(
            f"a list per channel for {operand} of nki.collectives.{opcode}",
            type(channels).__name__,
            "pass a list of lists of one tensor",
        )
    found = [tensors_of(opcode, operand, one) for one in channels]
    for one in found:
        if len(one) != 1:
            raise author_error(
                f"one tensor per channel in {operand} of nki.collectives.{opcode}",
                f"{len(one)}",
                "pass a list of lists of one tensor",
            )
    return tuple(one[0] for one in found)


def collective_permute_implicit(
    srcs_by_channel: Channels,
    dsts_by_channel: Channels,
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = [0],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Each rank's sources to its successor in the ring, which is the order of the group's list (our choice).

    Args:
        srcs_by_channel: per channel a list of one tensor, HBM or SBUF.
        dsts_by_channel: likewise, of the same types and shapes.
        replica_group: who takes part.
        channel_ids: 0, 1, ...: up to 4 channels where the list holds all ranks of a node, else 2.
        priority: of the DMA, 0 to 3, from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: as ``all_reduce``.
    """
    opcode = "collective_permute_implicit"
    attributes = {
        **group_of(opcode, replica_group),
        "channel_ids": tuple(channel_ids),
        "priority": priority,
    }
    outs = _one_per_channel(opcode, "dsts_by_channel", dsts_by_channel)
    ins = _one_per_channel(opcode, "srcs_by_channel", srcs_by_channel)
    issue(opcode, Engine.DMA, outs, ins, attributes, name)


def collective_permute_implicit_reduce(
    srcs0_by_channel: Channels,
    srcs1_by_channel: Channels,
    dsts_by_channel: Channels,
    replica_group: ReplicaGroup,
    op: Any,
    channel_ids: Sequence[int] = [0],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """``op(srcs0, srcs1)`` of each rank to its successor in the ring; see ``collective_permute_implicit``.

    Args:
        srcs0_by_channel: left operands: per channel a list of one tensor, HBM or SBUF.
        srcs1_by_channel: right operands, likewise.
        dsts_by_channel: likewise, of the same types and shapes.
        replica_group: who takes part.
        op: ``nl.add``, ``nl.minimum`` or ``nl.maximum``; computed in float32 (integers exactly), rounded once.
        channel_ids: 0, 1, ...: up to 4 channels where the list holds all ranks of a node, else 2.
        priority: of the DMA, 0 to 3, from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: as ``all_reduce``.
    """
    opcode = "collective_permute_implicit_reduce"
    attributes = {
        **group_of(opcode, replica_group),
        "op": op_name(op),
        "channel_ids": tuple(channel_ids),
        "priority": priority,
    }
    outs = _one_per_channel(opcode, "dsts_by_channel", dsts_by_channel)
    left = _one_per_channel(opcode, "srcs0_by_channel", srcs0_by_channel)
    right = _one_per_channel(opcode, "srcs1_by_channel", srcs1_by_channel)
    if len(left) != len(right):
        raise author_error(
            "as many channels in srcs0_by_channel as in srcs1_by_channel",
            f"{len(left)} and {len(right)}",
            "pass a source of each per channel",
        )
    issue(opcode, Engine.DMA, outs, (*left, *right), attributes, name)


def _of_channels(rank_in: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """``num_channels`` (2.28) is how many there are; a rank's place in the ring is the same on each."""
    channels = given.pop("num_channels")
    channel = args[2] if len(args) > 2 else given.get("channel_id", 0)
    if not channel < channels:
        raise author_error(
            f"channel_id below num_channels ({channels})", f"{channel}", "count channels from 0"
        )
    return rank_in(*args, **given)


@also_took(_of_channels, "num_channels")
def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int | VirtualRegister,
    replica_group: ReplicaGroup,
    channel_id: int = 0,
    name: str | None = None,
) -> VirtualRegister:
    """Whose data a rank holds in this step around the ring: its own in step 0, then its predecessors'.

    Args:
        iteration_id: the step, from 0.
        replica_group: the ring, in the order of its list on every channel.
        channel_id: 0 to 3.
        name: for messages and profiles.

    Returns:
        A register with the rank.

    Raises:
        KernelError: if this rank is in no list of the group, or the step is negative.
    """
    opcode = "collective_permute_implicit_current_processing_rank_id"
    made = VirtualRegister()
    registers = (made, iteration_id) if isinstance(iteration_id, VirtualRegister) else (made,)
    attributes = {
        **group_of(opcode, replica_group),
        "iteration_id": None if len(registers) > 1 else iteration_id,
        "channel_id": channel_id,
        "value": None,
    }
    issue(opcode, Engine.SYNC, (), (), attributes, name, registers)
    return made


def rank_id(name: str | None = None) -> VirtualRegister:
    """The running rank, as a register: all ranks run one program, which cannot branch on it in Python.

    Args:
        name: for messages and profiles.
    """
    made = VirtualRegister()
    issue("rank_id", Engine.SYNC, (), (), {"value": None}, name, (made,))
    return made
