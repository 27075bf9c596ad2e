"""What collectives between ranks do: where they meet, and what each of their ranks gets.

Our choices, where the documentation is silent. A reduction takes the ranks in the order of the replica group's list,
two at a time from the left, in float32 (integers exactly, modulo their width), and is rounded once. The ring of the
implicit permutations is that list. Under LNC2 both cores of every rank come to a collective; core *n* exchanges with
the cores *n* of the other ranks, and where both cores name the same tensors the exchange takes place once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator import access, alu, valueless
from twintrack.neuroncore.emulator.ops import collective_counts
from twintrack.neuroncore.emulator.ops.meeting import require_alike
from twintrack.neuroncore.emulator.ops.registers import held, put
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core
    from twintrack.neuroncore.emulator.machine import Arrival, Machine

__all__ = ["HANDLERS"]

Array = npt.NDArray[Any]
_Exchange = Callable[[list["Arrival"]], None]


# meeting


def _meet(exchange: _Exchange, *, shapes: bool = True) -> Callable[[Core, Instruction], None]:
    """The handler of a collective over the rank list in the attribute ``ranks``."""

    def handler(core: Core, ins: Instruction) -> None:
        machine = core.machine
        ranks: tuple[int, ...] = ins.attributes["ranks"]
        _known_ranks(ins, 1 if machine is None else machine.ranks)
        if machine is not None and "channel_ids" in ins.attributes:
            _channels(machine, ins)
        if machine is None or machine.ranks * machine.lnc == 1:  # programs one after the other are each alone
            exchange([_arrival(core, ins)])
            return
        count = machine.programs
        lanes = {rank: range(rank * count, (rank + 1) * count) for rank in sorted(ranks)}
        members = tuple(lane for one in lanes.values() for lane in one)

        def complete(arrivals: dict[int, Arrival]) -> None:
            # a rank's place in its list decides nothing about equality
            require_alike(machine, arrivals, shapes=shapes)
            done: list[list[Arrival]] = []
            for program in range(count):
                column = [arrivals[lanes[rank][program]] for rank in ranks]
                if not any(_same(column, other) for other in done):
                    exchange(column)
                    done.append(column)

        machine.meet(core, ins, ("collective", *sorted(ranks)), members, complete)

    return handler


def _arrival(core: Core, ins: Instruction) -> Arrival:
    from twintrack.neuroncore.emulator.machine import Arrival

    return Arrival(core, ins)


def _known_ranks(ins: Instruction, count: int) -> None:
    named = [rank for ranks in ins.attributes.get("replica_group", ()) for rank in ranks]
    named += [rank for pair in ins.attributes.get("source_target_pairs", ()) for rank in pair]
    unknown = [rank for rank in named if not 0 <= rank < count]
    if unknown:
        raise broken(
            ins,
            f"ranks from 0 below {count}, the ranks of this run,",
            f"rank {unknown[0]}",
            "run as many ranks with twintrack.nki.ranks.run_ranks",
        )


def _channels(machine: Machine, ins: Instruction) -> None:
    """At most 4 channels where the group holds all devices of a node, else 2."""
    ranks = set(ins.attributes["ranks"])
    node = machine.ranks_per_node
    whole = any(ranks.issuperset(range(first, first + node)) for first in range(0, max(ranks) + 1, node))
    most = 4 if whole else 2
    if len(ins.attributes["channel_ids"]) > most:
        raise broken(
            ins,
            f"at most {most} channels for this replica group",
            f"{len(ins.attributes['channel_ids'])}",
            "use fewer channels",
        )


def _same(column: list[Arrival], other: list[Arrival]) -> bool:
    """Whether two cores of each rank name the same tensors."""
    return all(_places(a.ins) == _places(b.ins) for a, b in zip(column, other, strict=True))


def _places(ins: Instruction) -> list[tuple[Any, ...] | None]:
    return [
        None if view is None else (id(view.storage), view.offset, view.shape, view.strides)
        for view in (*ins.outs, *ins.ins)
    ]


# exchanges


def _view(views: tuple[View | None, ...], at: int) -> View:
    view = views[at]
    assert view is not None  # noqa: S101 - the lists of a collective hold tensors
    return view


def _number(one: Arrival, at: int) -> Array:
    """A source as what it is computed in."""
    view = _view(one.ins.ins, at)
    return one.core.read32(one.ins, view) if view.dtype.is_float else one.core.read(one.ins, view)


def _exact(one: Arrival, at: int) -> Array:
    return one.core.read(one.ins, _view(one.ins.ins, at))


def _touched(column: list[Arrival]) -> bool:
    """Without values: note what is read and written; whether that is all."""
    if column[0].core.values:
        return False
    for core, ins in column:
        valueless.touch(core, ins)
    return True


def _reduced(column: list[Arrival], at: int) -> Array:
    total = _number(column[0], at).copy()
    for one in column[1:]:
        total = alu.binary(one.ins.attributes["op"], total, _number(one, at))
    return total


def _write(one: Arrival, at: int, values: Array) -> None:
    one.core.write(one.ins, _view(one.ins.outs, at), values)


def _write_exact(one: Arrival, at: int, values: Array) -> None:
    access.write_raw(one.core, one.ins, _view(one.ins.outs, at), values)


def _all_reduce(column: list[Arrival]) -> None:
    if _touched(column):
        return
    totals = [_reduced(column, at) for at in range(len(column[0].ins.ins))]
    for at, total in enumerate(totals):
        for one in column:
            _write(one, at, total)


def _all_gather(column: list[Arrival]) -> None:
    if _touched(column):
        return
    dim = column[0].ins.attributes["collective_dim"]
    count = len(column[0].ins.ins)
    whole = [np.concatenate([_exact(one, at) for one in column], axis=dim) for at in range(count)]
    for at, gathered in enumerate(whole):
        for one in column:
            _write_exact(one, at, gathered)


def _reduce_scatter(column: list[Arrival]) -> None:
    if _touched(column):
        return
    totals = [_reduced(column, at) for at in range(len(column[0].ins.ins))]
    for at, total in enumerate(totals):
        for one, part in zip(column, np.split(total, len(column)), strict=True):
            _write(one, at, part)


def _all_to_all(column: list[Arrival]) -> None:
    if _touched(column):
        return
    count = len(column[0].ins.ins)
    parts = [[np.split(_exact(one, at), len(column)) for one in column] for at in range(count)]
    moved = [
        [np.concatenate([sent[to] for sent in parts[at]]) for to in range(len(column))] for at in range(count)
    ]
    for at, received in enumerate(moved):
        for one, values in zip(column, received, strict=True):
            _write_exact(one, at, values)


def _collective_permute(column: list[Arrival]) -> None:
    at = {rank: place for place, rank in enumerate(column[0].ins.attributes["ranks"])}
    pairs = column[0].ins.attributes["source_target_pairs"]
    if not column[0].core.values:
        for source, _ in pairs:
            core, ins = column[at[source]]
            access.require_written(ins, _view(ins.ins, 0))
        for _, target in pairs:
            core, ins = column[at[target]]
            core.wrote(_view(ins.outs, 0))
        return
    sent = {target: _exact(column[at[source]], 0).copy() for source, target in pairs}
    for target, values in sent.items():
        _write_exact(column[at[target]], 0, values)


def _implicit(column: list[Arrival]) -> None:
    """Each rank's data go to its successor in the ring, on every channel."""
    if _touched(column):
        return
    channels = range(len(column[0].ins.outs))
    sent = [[_exact(one, at).copy() for at in channels] for one in column]
    for place, one in enumerate(column):
        for at in channels:
            _write_exact(one, at, sent[place - 1][at])


def _implicit_reduce(column: list[Arrival]) -> None:
    if _touched(column):
        return
    channels = range(len(column[0].ins.outs))
    sent = [
        [
            alu.binary(one.ins.attributes["op"], _number(one, at), _number(one, at + len(channels)))
            for at in channels
        ]
        for one in column
    ]
    for place, one in enumerate(column):
        for at in channels:
            _write(one, at, sent[place - 1][at])


# who is who


def _rank_id(core: Core, ins: Instruction) -> None:
    put(ins, ins.registers[0], core.rank)


def _rank_of_data(core: Core, ins: Instruction) -> None:
    """In iteration 0 the rank itself, then its predecessors around the ring."""
    dst, *sources = ins.registers
    _known_ranks(ins, 1 if core.machine is None else core.machine.ranks)
    iteration = held(ins, sources[0]) if sources else ins.attributes["iteration_id"]
    if iteration is None:
        put(ins, dst, None)
        return
    if not isinstance(iteration, int) or iteration < 0:
        raise broken(ins, "iteration_id from 0", f"{iteration}", "count the steps of the ring from 0")
    ranks = ins.attributes["ranks"]
    put(ins, dst, ranks[(ranks.index(core.rank) - iteration) % len(ranks)])


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        "all_reduce": _meet(_all_reduce),
        "all_gather": _meet(_all_gather),
        "all_gather_v": _meet(collective_counts.all_gather_v, shapes=False),
        "reduce_scatter": _meet(_reduce_scatter),
        "all_to_all": _meet(_all_to_all),
        "all_to_all_v": _meet(collective_counts.all_to_all_v, shapes=False),
        "collective_permute": _meet(_collective_permute),
        "collective_permute_implicit": _meet(_implicit),
        "collective_permute_implicit_reduce": _meet(_implicit_reduce),
        "collective_permute_implicit_current_processing_rank_id": _rank_of_data,
        "rank_id": _rank_id,
    }
)
"""By opcode."""
