"""``twintrack.profile``: how long a kernel takes on a NeuronCore, and why, from the shapes of its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.shortened import FEWEST, Shortened
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.timing.extended import extended_profile
from twintrack.neuroncore.timing.extrapolate import Loop, needed_iterations, proven
from twintrack.neuroncore.timing.parameters import Parameters, parameters_of
from twintrack.neuroncore.timing.profile import Profile
from twintrack.neuroncore.timing.summary import Progress, Run, profile_of
from twintrack.neuroncore.timing.trace import Trace
from twintrack.nki.arguments import require_arguments
from twintrack.nki.kernel import Kernel, Options, Simulated, options_from_environment
from twintrack.nki.launch import Launch, launch

__all__ = ["profile", "run_traced"]

_TELL_EVERY = 5000


def profile(
    kernel: Any,
    *arrays_or_shapes: Any,
    chip: str | None = None,
    lnc: int | None = None,
    settings: Mapping[str, Any] | None = None,
    options: Options | None = None,
    what_if: bool = True,
    drop_reloads: bool = False,
    extrapolate: bool = True,
    progress: Progress | None = None,
) -> Profile:
    """Time a kernel without computing its values.

    Args:
        kernel: decorated with ``nki.jit``, or a plain function.
        *arrays_or_shapes: its positional arguments; arrays stand for their shapes, as
            ``twintrack.nki.Shape(dims, dtype)`` does.
        chip: ``trn1`` or ``trn2``; by default what the kernel or the environment names, or trn2.
        lnc: cores at once, 1 or 2; the kernel's grid by default.
        settings: named arguments.
        options: further options of the run, such as ``strict`` or ``trip_counts`` of loops over registers.
        what_if: whether it is timed again with one limit lifted at a time.
        drop_reloads: whether loads of what an earlier tile still holds are left out, as the compiler is known to.
        extrapolate: whether of long outermost ``nl.affine_range`` loops only the first iterations and the last are
            traced, where the others are proven to do the same; see ``language.proven`` and ``timing.extrapolate``.
        progress: told the stage, how much is done and how much there is.

    Returns:
        The profile. Two runs, in any process, give the same picoseconds.

    Raises:
        KernelError: at the kernel author's line, if it does not run; if arguments are missing or unknown; if it issues
            no instruction; if the chip's timing was not published.
    """
    for name, flag in (("what_if", what_if), ("drop_reloads", drop_reloads), ("extrapolate", extrapolate)):
        _require_flag(name, flag)
    made = _kernel(kernel, lnc)
    _require_settings(settings)
    require_arguments(made.function, arrays_or_shapes, settings or {})
    base = options or options_from_environment(chip=chip or made.chip)
    if options is not None and chip is not None:
        base = replace(base, generation=options_from_environment(chip=chip).generation)
    parameters = parameters_of(base.generation.chip)
    asked = replace(base, values=False)
    if extrapolate and math.prod(made.grid) == 1 and not drop_reloads:
        found = _extrapolated(
            made, arrays_or_shapes, dict(settings or {}), asked, parameters, what_if, progress
        )
        if found is not None:
            return found
    _, run = run_traced(made, arrays_or_shapes, dict(settings or {}), asked, parameters, progress)
    return profile_of(replace(run, drop_reloads=drop_reloads), what_if=what_if, progress=progress)


def _extrapolated(
    kernel: Kernel,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    parameters: Parameters,
    what_if: bool,
    progress: Progress | None,
) -> Profile | None:
    """The profile from some iterations of long affine loops; ``None`` where the kernel must be traced whole."""
    least = FEWEST
    while True:
        try:
            done, run = run_traced(kernel, args, kwargs, options, parameters, progress, least)
        except Exception:  # noqa: BLE001 - whatever went wrong, the whole run tells, without watched indices
            return None
        shortened = done.cores[0].shortened
        if len(run.traces) != 1 or shortened is None:
            return None
        if not shortened.loops:
            return profile_of(run, what_if=what_if, progress=progress)
        trace, loops = proven(run.traces[0], shortened.loops)
        if not loops:
            return None
        found = extended_profile(replace(run, traces=(trace,)), loops, what_if=what_if, progress=progress)
        if found is not None:
            return found
        least = 2 * max(loop.traced for loop in loops)  # not steady yet; loops too short for that run whole


def _require_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise KernelError("True or False", found=repr(value)[:80], where=name, remedy="pass one of them")


def _require_settings(settings: object) -> None:
    if settings is None or (
        isinstance(settings, Mapping) and all(isinstance(name, str) for name in settings)
    ):
        return
    raise KernelError(
        "values by the arguments' names",
        found=repr(settings)[:80],
        where="settings",
        remedy='pass a dictionary such as {"alpha": 0.5}',
    )


def _kernel(kernel: Any, lnc: int | None) -> Kernel:
    if isinstance(kernel, Simulated):
        kernel = kernel.kernel
    if not callable(kernel):
        raise KernelError(
            "a kernel",
            found=repr(kernel)[:80],
            where="profile",
            remedy="pass the kernel itself, not its result",
        )
    made = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    if lnc is None:
        return made
    if type(lnc) is not int or lnc not in (1, 2):
        raise KernelError("1 or 2 cores", found=repr(lnc), where="lnc", remedy="name one of them")
    return made[lnc] if lnc > 1 else Kernel(made.function, (), made.chip, made.schedule)


class _Sink:
    """Keeps the instructions of every program in a trace of its own."""

    def __init__(self, parameters: Parameters, progress: Progress | None) -> None:
        self._parameters = parameters
        self._progress = progress
        self._count = 0
        self.traces: dict[int, Trace] = {}

    def keep(self, core: int, ins: Instruction) -> None:
        trace = self.traces.get(core)
        if trace is None:
            trace = self.traces[core] = Trace(self._parameters)
        trace.keep(core, ins)
        self._count += 1
        if self._progress is not None and self._count % _TELL_EVERY == 0:
            self._progress("tracing", self._count, 0)

    def enough(self, least: int, generation: Generation, starts: Sequence[int]) -> int:
        """Iterations of a loop that must be traced, by the numbers of instructions before those that were."""
        (trace,) = self.traces.values()
        return max(least, needed_iterations(trace, Loop(0, tuple(starts)), generation))


def run_traced(
    kernel: Kernel,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    parameters: Parameters,
    progress: Progress | None = None,
    least: int | None = None,
) -> tuple[Launch, Run]:
    """Run a kernel and keep what it issues, to be timed.

    Args:
        kernel: with its grid.
        args: arrays, or shapes where no values are computed.
        kwargs: likewise.
        options: of the run; a sink of its own is called too.
        parameters: of the chip.
        progress: told how many instructions there are.
        least: iterations of long affine loops that are enough, if they show how the loop goes on; ``None`` for all.

    Returns:
        What the launch did, and what there is to time.

    Raises:
        KernelError: at the kernel author's line; if no instruction is issued.
    """
    sink = _Sink(parameters, progress)
    short = None if least is None else Shortened(partial(sink.enough, least, options.generation))
    asked = replace(options, sink=_both(sink.keep, options.sink), shortened=short)
    done = launch(kernel.function, kernel.grid, args, kwargs, asked, kernel.schedule)
    name = getattr(kernel, "__name__", "kernel")
    if not sink.traces:
        raise KernelError(
            "a kernel that issues instructions",
            found="none, so that there is nothing to time",
            where=_where(kernel.function, name),
            remedy="call functions of nki.isa or nki.language in it",
        )
    traces = tuple(sink.traces[core] for core in sorted(sink.traces))
    machine = done.cores[0].machine
    together = machine is not None and machine.lnc > 1
    return done, Run(name, traces, done.memory, options.generation, together=together)


def _both(
    mine: Callable[[int, Instruction], None], other: Callable[[int, Instruction], None] | None
) -> Callable[[int, Instruction], None]:
    if other is None:
        return mine

    def sink(core: int, ins: Instruction) -> None:
        mine(core, ins)
        other(core, ins)

    return sink


def _where(function: Any, name: str) -> str:
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else name
