"""What the functions of ``nki.collectives`` share: the group of ranks, and lists of tensors as operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.context import current_core
from twintrack.nki.isa.issue import author_error, issue, tensor_of
from twintrack.nki.tensor import NKIObject, NkiTensor

__all__ = ["Channels", "ReplicaGroup", "Tensors", "exchange", "group_of", "tensors_of"]

Tensors = Sequence[NkiTensor]
Channels = Sequence[Sequence[NkiTensor]]


@dataclass(frozen=True)
class ReplicaGroup(NKIObject):
    """Ranks that exchange with each other.

    Args:
        groups: sub-groups without a common rank, each a list of ranks; the order of a list is the order of its
            concatenations, its reductions and its ring.
    """

    groups: Sequence[Sequence[int]]


def group_of(opcode: str, replica_group: object) -> dict[str, Any]:
    """The attributes that tell the group: all sub-groups, and the running rank's own.

    Raises:
        KernelError: if it is no group, or this rank is not in it.
    """
    if not isinstance(replica_group, ReplicaGroup):
        raise author_error(
            f"a ReplicaGroup for nki.collectives.{opcode}",
            type(replica_group).__name__,
            "pass ReplicaGroup([[0, 1, ...], ...])",
        )
    try:
        groups = tuple(tuple(int(rank) for rank in ranks) for ranks in replica_group.groups)
    except TypeError:
        raise author_error(
            "lists of ranks in a ReplicaGroup",
            repr(replica_group.groups),
            "pass ReplicaGroup([[0, 1, ...], ...])",
        ) from None
    mine = current_core().rank
    ranks = next((ranks for ranks in groups if mine in ranks), None)
    if ranks is None:
        raise author_error(
            f"this rank ({mine}) in the replica group",
            repr(groups),
            "name every rank that calls it in a sub-group",
        )
    return {"replica_group": groups, "ranks": ranks}


def tensors_of(opcode: str, operand: str, tensors: object) -> tuple[NkiTensor, ...]:
    """The tensors of a list operand.

    Raises:
        KernelError: if it is no list, or holds something else.
    """
    if not isinstance(tensors, list | tuple):
        raise author_error(
            f"a list of tensors for {operand} of nki.collectives.{opcode}",
            type(tensors).__name__,
            "pass a list",
        )
    return tuple(tensor_of(opcode, operand, one) for one in tensors)


def exchange(opcode: str, srcs: Tensors, dsts: Tensors, attributes: dict[str, Any], name: str | None) -> None:
    """Issue a collective whose operands are lists of tensors."""
    outs, ins = tensors_of(opcode, "dsts", dsts), tensors_of(opcode, "srcs", srcs)
    issue(opcode, Engine.DMA, outs, ins, attributes, name)
