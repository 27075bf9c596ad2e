"""``nki.collectives``: exchanges between ranks.

A rank is one core, or the two of LNC2 together, which both call a collective. Ranks run in one process
(``twintrack.nki.ranks.run_ranks``); a kernel launched as usual is rank 0 of one. All ranks of a group must reach the
same call with the same arguments: unequal ones are an error, and a rank that never comes is a deadlock that is named.
"""

from __future__ import annotations

from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.exchange import ReplicaGroup, Tensors, exchange, group_of, tensors_of
from twintrack.nki.isa.issue import issue, op_name, tensor_of
from twintrack.nki.permute import (
    collective_permute,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
    rank_id,
)
from twintrack.nki.tensor import NKIObject, NkiTensor

__all__ = [
    "NKIObject",
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]


def all_reduce(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Each destination is the reduction of all ranks' sources.

    The ranks are taken in the order of the group's list, from the left, in float32 (integers exactly), and the result
    is rounded once; the order is our choice, as none is documented.

    Args:
        srcs: all in HBM, or one 2-D tensor in SBUF.
        dsts: of the types and shapes of ``srcs``, in the same memory.
        replica_group: who takes part.
        op: ``nl.add``, ``nl.minimum`` or ``nl.maximum``.
        priority: of the DMA, 0 to 3, from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: for arguments that break a rule or differ between ranks, or if a rank never comes.
    """
    attributes = {**group_of("all_reduce", replica_group), "op": op_name(op), "priority": priority}
    exchange("all_reduce", srcs, dsts, attributes, name)


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Each destination is the concatenation of all ranks' sources, in the order of the group's list.

    Args:
        srcs: all in HBM, or one 2-D tensor in SBUF.
        dsts: as many times larger in ``collective_dim`` as the list has ranks.
        replica_group: who takes part.
        collective_dim: 0; in SBUF 0 or 1.
        priority: of the DMA, 0 to 3, from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: as ``all_reduce``.
    """
    attributes = {
        **group_of("all_gather", replica_group),
        "collective_dim": collective_dim,
        "priority": priority,
    }
    exchange("all_gather", srcs, dsts, attributes, name)


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The reduction of all ranks' sources (see ``all_reduce``), of which each rank gets its part.

    Args:
        srcs: all in HBM, or one 2-D tensor in SBUF; dimension 0 is a multiple of the list's ranks.
        dsts: as many times smaller in dimension 0.
        replica_group: who takes part; a rank's place in its list is the number of its part.
        collective_dim: 0.
        op: ``nl.add``, ``nl.minimum`` or ``nl.maximum``.
        priority: of the DMA, 0 to 3, from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: as ``all_reduce``.
    """
    attributes = {
        **group_of("reduce_scatter", replica_group),
        "collective_dim": collective_dim,
        "op": op_name(op),
        "priority": priority,
    }
    exchange("reduce_scatter", srcs, dsts, attributes, name)


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Part ``r`` of each rank's source goes to rank ``r``, which puts the parts together in the order of the list.

    Args:
        srcs: HBM; dimension 0 is a multiple of the list's ranks.
        dsts: of the types and shapes of ``srcs``.
        replica_group: who takes part.
        collective_dim: 0.
        priority: of the DMA, 0 to 3, from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: as ``all_reduce``.
    """
    attributes = {
        **group_of("all_to_all", replica_group),
        "collective_dim": collective_dim,
        "priority": priority,
    }
    exchange("all_to_all", srcs, dsts, attributes, name)


def _by_counts(
    opcode: str,
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool,
    has_rdispls: bool,
    priority: int | None,
    name: str | None,
) -> None:
    attributes = {
        **group_of(opcode, replica_group),
        "recv_counts_known": bool(recv_counts_known),
        "has_rdispls": bool(has_rdispls),
        "priority": priority,
    }
    metadata = tensor_of(opcode, "metadata_tensor", metadata_tensor)
    outs = (*tensors_of(opcode, "dsts", dsts), None if recv_counts_known else metadata)
    issue(opcode, Engine.DMA, outs, (*tensors_of(opcode, "srcs", srcs), metadata), attributes, name)


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """A chunk of each rank, of its own length, to all; flat, into one of equal slots per sender. LNC2 only.

    Args:
        srcs: one dense tensor in HBM.
        dsts: one dense tensor in HBM of the same type; its elements are a multiple of 4.
        replica_group: lists of the 4 ranks of a chip.
        metadata_tensor: uint32, ``(3, 4)`` in HBM or ``(1, 3, 4)`` in SBUF. Row 0: elements to send, row 1: the first
            of them (in both the first column counts); row 2 gets the elements that came from each rank.
        recv_counts_known: leave row 2 alone.
        has_rdispls: ``True`` is not supported.
        priority: of the DMA, 0 to 3, from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: as ``all_reduce``; also for a chunk outside ``src`` or larger than a slot.
    """
    _by_counts(
        "all_gather_v",
        srcs,
        dsts,
        replica_group,
        metadata_tensor,
        recv_counts_known,
        has_rdispls,
        priority,
        name,
    )


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """A chunk of its own, of its own length, from each rank to each; flat.

    On trn3: LNC2, lists of sequential ranks that make up two or more whole devices (4 ranks each). Before: lists of
    ranks with the same index in different nodes.

    Args:
        srcs: one dense tensor in HBM.
        dsts: one dense tensor in HBM of the same type.
        replica_group: who takes part.
        metadata_tensor: uint32, ``(rows, ranks)`` in HBM or ``(1, rows, ranks)`` in SBUF, a column per place in the
            list. Row 0: elements to send there, row 1: the first of them; row 2 gets the elements that came from
            there; row 3, with ``has_rdispls``: where they are put, else in one of equal slots.
        recv_counts_known: leave row 2 alone.
        has_rdispls: 4 rows instead of 3; on trn3 only.
        priority: of the DMA, 0 to 3, from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: as ``all_reduce``; also for a chunk outside ``src`` or ``dst``.
    """
    _by_counts(
        "all_to_all_v",
        srcs,
        dsts,
        replica_group,
        metadata_tensor,
        recv_counts_known,
        has_rdispls,
        priority,
        name,
    )
