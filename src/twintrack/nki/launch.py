"""One launch of a kernel: arguments to HBM tensors, a core per program, results back to the caller's kind of array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.emulator.machine import Machine
from twintrack.neuroncore.memory.buffer import MemoryRegion
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
    machine = Machine(partial(_core, options), grid or (1,))
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
    arrays.write_back()
    return Launch(arrays.give(returned, _where(function)), tuple(machine.cores))


def _core(options: Options, program: int) -> Core:
    sink = None if options.sink is None else partial(options.sink, program)
    return Core(
        options.generation,
        values=options.values,
        checks=options.checks,
        precise=options.precise,
        sink=sink,
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


def no_output(where: str) -> KernelError:
    """The error of a kernel that returned nothing and wrote nothing."""
    return KernelError(
        "a kernel that returns a tensor or writes to an argument",
        found="neither",
        where=where,
        remedy="return the HBM tensor that holds the result",
    )
