"""``nki.jit`` and ``nki.simulate``: from a decorated function and arrays to a run on software cores and arrays back.

Arrays in are seen by the kernel as HBM tensors over their own memory, so that what a kernel writes to an argument is
written to the caller's array, as documented; where that memory is not dense or not writable a copy is made, and what
was written is copied back to a writable one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.generation import GENERATIONS, Generation
from twintrack.nki.launch import Launch, launch

__all__ = ["Kernel", "Options", "Simulated", "jit", "options_from_environment", "simulate"]


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
    """

    generation: Generation
    checks: Checks = Checks.FAST
    values: bool = True
    precise: bool = True
    strict: bool = False
    trip_counts: Mapping[str, int] | None = None
    sink: Callable[[int, Instruction], None] | None = None
    default_chip: bool = False


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
    """

    def __init__(
        self, function: Callable[..., Any], grid: tuple[int, ...] = (), chip: str | None = None
    ) -> None:
        self.function = function
        self.grid = grid
        self.chip = chip
        functools.update_wrapper(self, function)

    def __getitem__(self, grid: Any) -> Kernel:
        """The kernel on a grid: ``kernel[2]`` for two cores (LNC2)."""
        sizes = grid if isinstance(grid, tuple) else (grid,)
        return Kernel(self.function, tuple(int(size) for size in sizes), self.chip)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it; inside another kernel it is a plain function."""
        from twintrack.nki.context import _CORE

        if _CORE.get(None) is not None:
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
        self.last = launch(self.kernel.function, self.kernel.grid, args, kwargs, options)
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
    function = fn.function if isinstance(fn, Kernel) else fn
    return Kernel(function, chip=chip)


def simulate(kernel: Any) -> Simulated:
    """A callable that runs a kernel on software NeuronCores, NumPy or torch in and the same out.

    Args:
        kernel: decorated with ``nki.jit``, or a plain function.
    """
    return Simulated(kernel if isinstance(kernel, Kernel) else Kernel(kernel))
