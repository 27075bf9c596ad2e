"""``nki.jit`` and ``nki.simulate``: from a decorated function and arrays to a run on software cores and arrays back.

Arrays in are seen by the kernel as HBM tensors over their own memory, so that what a kernel writes to an argument is
written to the caller's array, as documented; where that memory is not dense or not writable a copy is made, and what
was written is copied back to a writable one.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.generation import GENERATIONS, Generation
from twintrack.nki.context import is_running
from twintrack.nki.launch import Launch, launch
from twintrack.nki.schedule import Edges, read_schedule

__all__ = ["Kernel", "Options", "Simulated", "jit", "options_from_environment", "simulate"]

_LOG = logging.getLogger("twintrack.nki")
_NO_EDGES: Edges = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Options:
    """How a kernel is run.

    Args:
        generation: whose NeuronCore.
        checks: how much is checked.
        values: whether values are computed; without them arguments may be shapes.
        precise: whether narrow floats are rounded.
        strict: whether spills are refused.
        trip_counts: iterations of loops whose bounds are not known without values.
        sink: is given every instruction of every core.
        default_chip: whether the chip was chosen for want of another choice.
        iterations: trace only so many iterations of outermost affine loops, for extrapolation; outputs are then not
            wholly written, and nothing is said about that.
    """

    generation: Generation
    checks: Checks = Checks.FAST
    values: bool = True
    precise: bool = True
    strict: bool = False
    trip_counts: Mapping[str, int] | None = None
    sink: Callable[[int, Instruction], None] | None = None
    default_chip: bool = False
    iterations: int | None = None


def options_from_environment(
    environment: Mapping[str, str] | None = None, chip: str | None = None
) -> Options:
    """The documented environment variables, read at each run.

    ``NEURON_PLATFORM_TARGET_OVERRIDE`` names the chip (trn2 where unset), ``NKI_PRECISE_FP=0`` keeps narrow floats
    unrounded.

    Args:
        environment: ``os.environ`` where ``None``.
        chip: goes before the environment's.

    Raises:
        KernelError: if the chip is unknown.
    """
    found = os.environ if environment is None else environment
    name = chip or found.get("NEURON_PLATFORM_TARGET_OVERRIDE") or ""
    if name and name.lower() not in GENERATIONS:
        raise KernelError(
            f"a chip among {', '.join(GENERATIONS)}",
            found=repr(name),
            where="chip" if chip else "NEURON_PLATFORM_TARGET_OVERRIDE",
            remedy="name one of them",
        )
    precise = found.get("NKI_PRECISE_FP", "1") != "0"
    return Options(GENERATIONS[name.lower() or "trn2"], precise=precise, default_chip=not name)


class Kernel:
    """A function decorated with ``nki.jit``; called directly it runs on the software NeuronCore.

    Args:
        function: the kernel.
        grid: the launch grid; ``()`` for one core.
        chip: the chip that the decorator names, if any.
        schedule: order between instructions that the author asks for by their names.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        grid: tuple[int, ...] = (),
        chip: str | None = None,
        schedule: Edges = _NO_EDGES,
    ) -> None:
        self.function = function
        self.grid = grid
        self.chip = chip
        self.schedule = schedule
        functools.update_wrapper(self, function)

    def __getitem__(self, grid: Any) -> Kernel:
        """The kernel on a grid: ``kernel[2]`` for two cores (LNC2).

        Raises:
            KernelError: unless it is an integer from 1, or a tuple of such.
        """
        try:
            sizes = tuple(int(size) for size in (grid if isinstance(grid, tuple) else (grid,)))
        except (TypeError, ValueError):
            sizes = ()
        if not sizes or any(size < 1 for size in sizes):
            raise KernelError(
                "a launch grid of integers from 1",
                found=repr(grid),
                where=f"{getattr(self.function, '__name__', 'kernel')}[...]",
                remedy="write kernel[2] for the two cores of LNC2",
            )
        return Kernel(self.function, sizes, self.chip, self.schedule)

    def with_schedule(self, pairs: Sequence[Any]) -> Kernel:
        """The kernel with order between instructions: ``[(consumer, producer or list of producers), ...]`` by name.

        Raises:
            KernelError: if these are no such pairs; when it runs, if a name is not there or comes too late.
        """
        return Kernel(self.function, self.grid, self.chip, read_schedule(pairs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it; inside another kernel it is a plain function."""
        if is_running():
            return self.function(*args, **kwargs)
        return Simulated(self)(*args, **kwargs)


class Simulated:
    """What ``nki.simulate(kernel)`` returns: call it with arrays.

    Args:
        kernel: what to run.
        options: how; the environment's where ``None``.
    """

    def __init__(self, kernel: Kernel, options: Options | None = None) -> None:
        self.kernel = kernel
        self.options = options
        self.last: Launch | None = None
        """What the last call did: streams are not kept unless asked for, spills and peaks are."""
        functools.update_wrapper(self, kernel.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Arrays in, arrays of the same kind out.

        Raises:
            KernelError: at the kernel author's line.
        """
        options = self.options or options_from_environment(chip=self.kernel.chip)
        kernel = self.kernel
        if options.default_chip:
            _LOG.info("chip: trn2, as NEURON_PLATFORM_TARGET_OVERRIDE names none")
        self.last = launch(kernel.function, kernel.grid, args, kwargs, options, kernel.schedule)
        return self.last.result

    def __getitem__(self, grid: Any) -> Simulated:
        return Simulated(self.kernel[grid], self.options)

    def with_options(self, **changes: Any) -> Simulated:
        """The same with other options, such as ``checks=Checks.ALL``."""
        base = self.options or options_from_environment(chip=self.kernel.chip)
        return Simulated(self.kernel, replace(base, **changes))


def jit(fn: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """Make a kernel of a function; with or without arguments.

    Args:
        fn: the kernel.
        **kwargs: ``platform_target`` names a chip; others are for the vendor's compiler and change nothing here.
    """
    chip = kwargs.get("platform_target")
    if fn is None:
        return lambda function: jit(function, **kwargs)
    if isinstance(fn, Kernel):
        return Kernel(fn.function, fn.grid, chip or fn.chip, fn.schedule)
    if not callable(fn):
        raise _no_function("nki.jit", fn)
    return Kernel(fn, chip=chip)


def simulate(kernel: Any) -> Simulated:
    """A callable that runs a kernel on software NeuronCores, NumPy or torch in and the same out.

    Args:
        kernel: decorated with ``nki.jit``, or a plain function.

    Raises:
        KernelError: if it is neither.
    """
    if isinstance(kernel, Simulated):
        return kernel
    if not callable(kernel):
        raise _no_function("nki.simulate", kernel)
    return Simulated(kernel if isinstance(kernel, Kernel) else Kernel(kernel))


def _no_function(name: str, found: object) -> KernelError:
    return KernelError(
        "a function", found=repr(found)[:80], where=name, remedy="pass the kernel itself, not what it returns"
    )
