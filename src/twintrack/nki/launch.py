"""One launch of a kernel: arguments to HBM tensors, a core per program, results back to the caller's kind of array."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks, Core
from twintrack.neuroncore.emulator.hazards import Hazards
from twintrack.neuroncore.emulator.machine import Machine
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.capacity import MemoryUse, Spill, memory_use
from twintrack.neuroncore.memory.generation import PSUM_BANK_BYTES, PSUM_BANKS
from twintrack.nki.arrays import Argument, Arrays
from twintrack.nki.context import running
from twintrack.nki.tensor import NkiTensor

if TYPE_CHECKING:
    from twintrack.nki.kernel import Options

__all__ = ["Launch", "launch"]


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
) -> Launch:
    """Run a kernel once per program of its grid.

    A grid of two programs is LNC2: two cores at once, sharing ``shared_hbm``. Larger grids, of the dialect until 2.26,
    are programs one after the other.

    Raises:
        KernelError: at the kernel author's line; also if the programs of LNC2 wait for each other forever.
    """
    arrays = Arrays(values=options.values)
    hazards = Hazards(_programs(grid)) if options.checks is Checks.ALL else None
    machine = Machine(partial(_core, options, hazards), grid or (1,))
    shared = MemoryRegion.shared_hbm if machine.programs > 1 else MemoryRegion.private_hbm
    wrapped = [arrays.take(value, f"argument {at}") for at, value in enumerate(args)]
    named = {key: arrays.take(value, key) for key, value in kwargs.items()}

    def program(core: Core) -> Any:
        with running(core):
            core.ndim = len(grid)
            given = [_tensor(core, one, shared) for one in wrapped]
            keyed = {key: _tensor(core, one, shared) for key, one in named.items()}
            return function(*given, **keyed)

    returned = machine.run(program)
    where = _where(function)
    memory = () if options.checks is Checks.OFF else _memory(machine, strict=options.strict)
    arrays.write_back()
    result = arrays.give(returned, where)
    if not arrays.given and not arrays.modified and options.checks is not Checks.OFF:
        raise _no_output(where)
    return Launch(result, tuple(machine.cores), memory)


def _programs(grid: tuple[int, ...]) -> int:
    return math.prod(grid) if grid == (2,) else 1


def _memory(machine: Machine, *, strict: bool) -> tuple[MemoryUse, ...]:
    """What the tiles take; PSUM must suffice, SBUF where spills are refused.

    Raises:
        KernelError: naming the tile that does not fit and the line where it is made.
    """
    found = tuple(memory_use(core.buffers, core.generation) for core in machine.cores)
    for core, use in zip(machine.cores, found, strict=True):
        if use.psum_over is not None:
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
                found=f"{use.sbuf_peak} bytes at once: the compiler would spill {len(use.spills)} tiles "
                f"({use.spilled_bytes} bytes), the first {first.buffer!r}",
                where=first.line,
                remedy="use smaller tiles or reload what is needed later; without --strict spills are only counted",
            )
    return found


def _core(options: Options, hazards: Hazards | None, program: int) -> Core:
    sink = None if options.sink is None else partial(options.sink, program)
    return Core(
        options.generation,
        values=options.values,
        checks=options.checks,
        precise=options.precise,
        sink=sink,
        observers=() if hazards is None else (hazards,),
        trip_counts=options.trip_counts,
        program=program,
    )


def _tensor(core: Core, value: Any, region: MemoryRegion) -> Any:
    if not isinstance(value, Argument):
        return value
    if value.storage is None:
        value.storage = core.adopt(value.values, value.shape, value.dtype, region, value.name, "argument")
    return NkiTensor(value.shape, value.dtype, value.storage)


def _where(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


def _no_output(where: str) -> KernelError:
    """The error of a kernel that returned nothing and wrote nothing."""
    return KernelError(
        "a kernel that returns a tensor or writes to an argument",
        found="neither",
        where=where,
        remedy="return the HBM tensor that holds the result",
    )
