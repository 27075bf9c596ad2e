"""One launch of a kernel: arguments to HBM tensors, a core per program, results back to the caller's kind of array."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from twintrack.errors import KernelError
from twintrack.neuroncore.collection import uncollected
from twintrack.neuroncore.emulator.core import Checks, Core
from twintrack.neuroncore.emulator.hazards import Hazards
from twintrack.neuroncore.emulator.machine import Machine
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.capacity import MemoryUse, Spill, memory_use
from twintrack.neuroncore.memory.generation import PSUM_BANK_BYTES, PSUM_BANKS
from twintrack.nki.arguments import arrays_expected
from twintrack.nki.arrays import Argument, Arrays
from twintrack.nki.common_memory import arguments_in, refuse_writes, separate, tensors_in
from twintrack.nki.containers import mapped
from twintrack.nki.context import running
from twintrack.nki.misused import misuse_told
from twintrack.nki.schedule import Edges, Scheduler
from twintrack.nki.tensor import NkiTensor

if TYPE_CHECKING:
    from twintrack.nki.kernel import Options

__all__ = ["Launch", "launch", "launch_ranks"]

_LNC2 = (2,)
_FIRST_LNC2 = 3
"""Logical NeuronCores of two physical ones begin with NeuronCore-v3 (AWS Neuron: Logical NeuronCore configuration)."""
_NO_EDGES: Edges = MappingProxyType({})
Observer = Callable[[Core, Instruction], None]


@dataclass(frozen=True, slots=True)
class Launch:
    """What a launch did.

    Args:
        result: what the kernel returned, as the caller's kind of arrays.
        cores: the cores it ran on, with their buffers and counts.
    """

    result: Any
    cores: tuple[Core, ...]
    memory: tuple[MemoryUse, ...] = ()
    """What each core's tiles took on chip; empty where nothing was checked."""
    written: tuple[str, ...] = ()
    """Names of the arguments that the kernel wrote to."""

    @property
    def spills(self) -> tuple[Spill, ...]:
        """Tiles that do not fit in SBUF, of all cores."""
        return tuple(one for use in self.memory for one in use.spills)


def launch(
    function: Callable[..., Any],
    grid: tuple[int, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    schedule: Edges = _NO_EDGES,
) -> Launch:
    """Run a kernel once per program of its grid.

    A grid of two programs is LNC2: two cores at once, sharing ``shared_hbm``. Larger grids, of the dialect until 2.26,
    are programs one after the other, which share it too.

    Args:
        function: the kernel.
        grid: programs per axis.
        args: arrays, or containers of them, and other values.
        kwargs: likewise.
        options: how it is run.
        schedule: edges between named instructions.

    Raises:
        KernelError: at the kernel author's line; also if the programs of LNC2 wait for each other forever.
    """
    return launch_ranks(function, grid, [(args, kwargs)], options, schedule=schedule)[0]


def launch_ranks(
    function: Callable[..., Any],
    grid: tuple[int, ...],
    calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]],
    options: Options,
    ranks_per_node: int = 1,
    schedule: Edges = _NO_EDGES,
) -> list[Launch]:
    """Run a kernel on several ranks at once, each of which has its own arguments and its own HBM.

    Args:
        function: the kernel.
        grid: of every rank.
        calls: positional and named arguments, per rank.
        options: how.
        ranks_per_node: ranks of one instance.
        schedule: edges between named instructions.

    Returns:
        What each rank's launch did.

    Raises:
        KernelError: at the kernel author's line; also if ranks wait for each other forever.
    """
    programs = math.prod(grid or (1,))
    fused = getattr(function, "loops_are_fused", False)
    at_once = _cores_at_once(grid, options, _where(function), older=fused)
    # one search per cores that run at once
    searched = len(calls) * programs // at_once if options.checks is Checks.ALL else 0
    hazards = [Hazards(at_once) for _ in range(searched)]
    schedulers: list[Scheduler] = []
    make = partial(_core, options, hazards, at_once, _adding(schedule, schedulers), programs)
    machine = Machine(make, grid or (1,), ranks=len(calls), ranks_per_node=ranks_per_node, lnc=at_once)
    region = MemoryRegion.shared_hbm if machine.lnc > 1 else MemoryRegion.private_hbm
    held = [_Taken(function, args, kwargs, options) for args, kwargs in calls]
    common = separate([arguments_in((one.args, one.kwargs)) for one in held]) if len(held) > 1 else []

    def program(core: Core) -> Any:
        with running(core):
            core.ndim = len(grid)
            mine = held[core.rank]
            given = [_tensor(core, one, region) for one in mine.args]
            keyed = {key: _tensor(core, one, region) for key, one in mine.kwargs.items()}
            with misuse_told():
                if options.values:
                    return function(*given, **keyed)
                with arrays_expected(mine.named):
                    return function(*given, **keyed)

    with uncollected(wanted=not options.values):
        returned = machine.run(program)
    where = _where(function)
    _require_loops(machine, options)
    for scheduler in schedulers:
        scheduler.finish(where)
    for search in hazards:
        search.finish()
    memory = () if options.checks is Checks.OFF else _memory(machine, strict=options.strict, fused=fused)
    refuse_writes(common)
    size = machine.programs
    found = []
    for rank, one in enumerate(held):
        mine = returned[rank * size : (rank + 1) * size]
        if machine.lnc > 1:
            _returned_alike(mine, where)
        one.arrays.write_back()
        result = one.arrays.give(mine[0], where)
        if not one.arrays.given and not one.arrays.modified and options.checks is not Checks.OFF:
            raise _no_output(where)
        cores = tuple(machine.cores[rank * size : (rank + 1) * size])
        found.append(Launch(result, cores, memory[rank * size : (rank + 1) * size], one.arrays.written))
    machine.cores.clear()  # they know their machine: a cycle would keep all that the run made
    return found


def _cores_at_once(grid: tuple[int, ...], options: Options, where: str, *, older: bool) -> int:
    """Cores of one rank that run at once: two for LNC2.

    Args:
        grid: programs per axis.
        options: whose chip.
        where: the kernel.
        older: of the dialect until 2.26, in which two programs on trn1 run one after the other as any others do.

    Raises:
        KernelError: for LNC2 on a chip that has none.
    """
    if grid != _LNC2:
        return 1
    if options.generation.number >= _FIRST_LNC2:
        return _LNC2[0]
    if older:
        return 1
    raise KernelError(
        "trn2 or newer for LNC2 (kernel[2])",
        found=options.generation.chip,
        where=where,
        remedy="launch it on one core, or choose a newer chip (NEURON_PLATFORM_TARGET_OVERRIDE)",
    )


class _Taken:
    """The arguments of one rank."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Options,
    ) -> None:
        self.arrays = Arrays(values=options.values)
        names = _names(function)
        self.args = [
            self.arrays.take(value, names[at] if at < len(names) else f"argument {at}")
            for at, value in enumerate(args)
        ]
        self.kwargs = {key: self.arrays.take(value, key) for key, value in kwargs.items()}
        self.named = dict(zip(names, args, strict=False)) | kwargs
        """Arguments by name, as they were given."""


def _require_loops(machine: Machine, options: Options) -> None:
    """Every key of ``trip_counts`` but that for all loops is a loop whose bound only values tell.

    Raises:
        KernelError: naming the key and the loops that there are; not where values are computed, which need no counts.
    """
    if options.values:
        return
    taken = {line: key for core in machine.cores for line, key in core.trips_taken.items()}
    unused = sorted(key for key in options.trip_counts or {} if key and key not in taken.values())
    if not unused:
        return
    lines = sorted(line.rpartition(os.sep)[2] for line in taken)
    raise KernelError(
        "iterations of loops that ran and whose bounds only values tell",
        found=f"those of {', '.join(unused)}, where there is no such loop",
        where="trip_counts",
        remedy=f"the kernel has {', '.join(lines)}" if lines else "leave them out: the kernel has none",
    )


def _returned_alike(returned: Sequence[Any], where: str) -> None:
    """Both cores of LNC2 return the same tensors, as those of one core alone would be lost."""
    first, *others = [tensors_in(one) for one in returned]
    for other in others:
        same = len(first) == len(other) and all(
            a.storage is b.storage and (a.shape, a.strides, a.offset) == (b.shape, b.strides, b.offset)
            for a, b in zip(first, other, strict=True)
        )
        if not same:
            shown = [", ".join(tensor.describe() for tensor in one) or "none" for one in (first, other)]
            raise KernelError(
                "the same tensors returned by both cores of LNC2",
                found=f"{shown[0]} by core 0 and {shown[1]} by core 1",
                where=where,
                remedy="make outputs in nl.shared_hbm and return them on both cores",
            )


def _memory(machine: Machine, *, strict: bool, fused: bool) -> tuple[MemoryUse, ...]:
    """What the tiles take; PSUM must suffice, SBUF where spills are refused.

    Args:
        machine: after the run.
        strict: whether spills are refused.
        fused: whether the kernel's compiler fuses loops, as that of the older dialect may, so that tiles which live at
            the same time here need not do so on a device; then PSUM must suffice where spills are refused.

    Raises:
        KernelError: naming the tile that does not fit and the line where it is made.
    """
    found = tuple(memory_use(core.buffers, core.generation) for core in machine.cores)
    for core, use in zip(machine.cores, found, strict=True):
        if use.psum_over is not None and (strict or not fused):
            raise KernelError(
                f"live tiles in PSUM that fit its {PSUM_BANKS} banks of {PSUM_BANK_BYTES} bytes per partition",
                found=f"{use.psum_peak} bytes at once, without room for {use.psum_over!r}",
                where=use.psum_over.line,
                remedy="copy results to SBUF before making more tiles in PSUM, or make them smaller",
            )
        if strict and use.spills:
            first = use.spills[0]
            raise KernelError(
                f"tiles in SBUF that fit {core.generation.sbuf_partition_bytes} bytes per partition while they live",
                found=f"{use.sbuf_peak} bytes at once: the compiler would spill {use.spilled_bytes} bytes of all "
                f"partitions, first of {first.buffer!r}",
                where=first.line,
                remedy="use smaller tiles or reload what is needed later; without --strict spills are only counted",
            )
    return found


def _adding(schedule: Edges, made: list[Scheduler]) -> Callable[[], tuple[Observer, ...]]:
    """Makes a core's observer of the schedule, if there is one, and keeps it in ``made``."""

    def make() -> tuple[Observer, ...]:
        if not schedule:
            return ()
        made.append(Scheduler(schedule))
        return (made[-1],)

    return make


def _core(
    options: Options,
    hazards: Sequence[Hazards],
    at_once: int,
    scheduler: Callable[[], tuple[Observer, ...]],
    programs: int,
    rank: int,
    program: int,
) -> Core:
    lane = rank * programs + program
    sink = None if options.sink is None else partial(options.sink, lane)
    search: tuple[Observer, ...] = (hazards[lane // at_once],) if hazards else ()
    core = Core(
        options.generation,
        values=options.values,
        checks=options.checks,
        precise=options.precise,
        sink=sink,
        observers=(*scheduler(), *search),
        trip_counts=options.trip_counts,
        most_iterations=options.most_iterations,
        strict=options.strict,
        program=program,
    )
    core.shortened = options.shortened
    return core


def _tensor(core: Core, value: Any, region: MemoryRegion) -> Any:
    """An argument as the kernel gets it: arrays, also in containers, as tensors."""

    def one(found: Any, name: str) -> Any:
        del name
        if not isinstance(found, Argument):
            return found
        if found.storage is None:
            found.storage = core.adopt(found.values, found.shape, found.dtype, region, found.name, "argument")
        return NkiTensor(found.shape, found.dtype, found.storage)

    return mapped(value, one, "")


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the arguments that are given by position."""
    code = getattr(function, "__code__", None)
    return () if code is None else tuple(code.co_varnames[: code.co_argcount])


def _where(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


def _no_output(where: str) -> KernelError:
    """The error of a kernel that returned nothing and wrote nothing."""
    return KernelError(
        "a kernel that returns a tensor or writes to an argument",
        found="neither",
        where=where,
        remedy="return the HBM tensor that holds the result",
    )
