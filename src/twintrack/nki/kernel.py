"""``nki.jit`` and ``nki.simulate``: from a decorated function and arrays to a run on software cores and arrays back.

Arrays in are seen by the kernel as HBM tensors over their own memory, so that what a kernel writes to an argument is
written to the caller's array, as documented; where that memory is not dense or not writable a copy is made, and what
was written is copied back to a writable one.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from twintrack.errors import KernelError
from twintrack.nki.context import is_running
from twintrack.nki.earlier import also_took, renamed
from twintrack.nki.launch import Launch, launch
from twintrack.nki.options import Options, changed, options_from_environment
from twintrack.nki.schedule import Edges, read_schedule

__all__ = ["Kernel", "Options", "Simulated", "jit", "options_from_environment", "simulate"]

_LOG = logging.getLogger("twintrack.nki")
_NO_EDGES: Edges = MappingProxyType({})
_MODES = ("auto", "jax", "torchxla", "baremetal", "benchmark", "profile", "simulation", "trace")
"""What ``mode`` of ``nki.jit`` was documented to be until 2.29, and the decorators of their own beside it."""


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

    def __repr__(self) -> str:
        """Its name and grid, and where it is."""
        return f"<NKI kernel {_shown(self)}>"

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

    def __repr__(self) -> str:
        """Its kernel."""
        return f"<simulated NKI kernel {_shown(self.kernel)}>"

    def __getitem__(self, grid: Any) -> Simulated:
        return Simulated(self.kernel[grid], self.options)

    def with_options(self, **changes: Any) -> Simulated:
        """The same with other options, such as ``checks=Checks.ALL`` or ``checks="all"``.

        Raises:
            KernelError: if an option is unknown, or its value of another kind.
        """
        base = self.options or options_from_environment(chip=self.kernel.chip)
        return Simulated(self.kernel, changed(base, **changes))


def _as_func(make: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """``func`` (until 2.29) is ``fn``; ``mode`` chose the framework, which is here seen from the arrays."""
    mode = given.pop("mode", "auto")
    if mode is not None and mode not in _MODES:
        raise KernelError(
            f"a mode among {', '.join(_MODES)}", found=repr(mode)[:80], where="nki.jit", remedy="leave it out"
        )
    return make(*args, **(renamed(make, args, given, "func", "fn") if "func" in given else given))


@also_took(_as_func, "func", "mode")
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


def _shown(kernel: Kernel) -> str:
    """``name[grid] at file:line``, as far as there is one."""
    function = inspect.unwrap(kernel.function)
    name = getattr(function, "__qualname__", None) or repr(function)
    grid = f"[{', '.join(map(str, kernel.grid))}]" if kernel.grid else ""
    code = getattr(function, "__code__", None)
    return name + grid + ("" if code is None else f" at {code.co_filename}:{code.co_firstlineno}")


def _no_function(name: str, found: object) -> KernelError:
    return KernelError(
        "a function", found=repr(found)[:80], where=name, remedy="pass the kernel itself, not what it returns"
    )
