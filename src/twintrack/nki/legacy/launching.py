"""``nki.jit``, ``nki.baremetal``, ``nki.benchmark``, ``nki.profile``, ``nki.trace`` and ``nki.simulate_kernel``.

All of them run the kernel on software cores; those that were for a device say so on the standard error stream.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.profile import Profile
from twintrack.neuroncore.timing.summary import profile_of
from twintrack.nki.context import current_core, is_running
from twintrack.nki.kernel import Kernel, Simulated, options_from_environment
from twintrack.nki.language import creation
from twintrack.nki.legacy.copies import assign
from twintrack.nki.legacy.regions import undefined
from twintrack.nki.legacy.tile import Tile, settle
from twintrack.nki.legacy.typing import given
from twintrack.nki.profiling import run_traced
from twintrack.nki.tensor import NkiTensor
from twintrack.report.format import quantity_text

__all__ = [
    "BenchmarkResult",
    "Latency",
    "LegacyKernel",
    "baremetal",
    "benchmark",
    "jit",
    "profile",
    "simulate_kernel",
    "trace",
]


class Latency:
    """Latencies of a benchmark: simulated, so that all executions take the same time.

    Args:
        kernel: its name.
    """

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.profile: Profile | None = None
        """Of the last run; ``None`` before, or where the chip's timing was not published."""
        self.unknown = "the kernel was not run yet"
        """Why there is no profile."""

    def get_latency_percentile(self, percentile: float) -> float:
        """The latency that so many percent of executions stay below, in microseconds, simulated.

        Raises:
            KernelError: if it is unknown: before the kernel has run, or on a chip without published timing.
        """
        if self.profile is None:
            raise KernelError(
                "a simulated latency",
                found=f"unknown (percentile {percentile}): {self.unknown}",
                where=self.kernel,
                remedy="run the kernel on trn1 or trn2 first",
            )
        return self.profile.seconds * 1e6


class BenchmarkResult:
    """What ``nki.benchmark`` leaves in ``kernel.benchmark_result``.

    Args:
        kernel: its name.
    """

    def __init__(self, kernel: str) -> None:
        self.nc_latency = Latency(kernel)


class LegacyKernel(Kernel):
    """A kernel of the dialect until 2.26; called directly it runs on the software NeuronCore.

    Args:
        function: the kernel.
        grid: the launch grid, of any number of axes.
        chip: the chip that the decorator names, if any.
        notice: what is said on the standard error stream when it runs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        grid: tuple[int, ...] = (),
        chip: str | None = None,
        notice: str = "",
    ) -> None:
        super().__init__(_tiled(function), grid, chip)
        self.plain = function
        self.title = getattr(function, "__name__", "kernel")
        self.notice = notice
        if notice.startswith("benchmark"):
            self.benchmark_result = BenchmarkResult(self.title)

    def changed(self, function: Callable[..., Any] | None = None, **changes: Any) -> LegacyKernel:
        """The same with another function, grid, chip or notice."""
        kept = {"grid": self.grid, "chip": self.chip, "notice": self.notice}
        return LegacyKernel(function or self.plain, **{**kept, **changes})

    def __getitem__(self, grid: Any) -> LegacyKernel:
        """The kernel on a grid: ``kernel[4, 2]``, ``kernel[nl.spmd_dim(nl.nc(2), 2)]``; 0 is one program."""
        sizes = grid if isinstance(grid, tuple) else (grid,)
        made = self.changed(grid=tuple(int(size) or 1 for size in sizes))
        if hasattr(self, "benchmark_result"):
            made.benchmark_result = self.benchmark_result
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it; inside another kernel it is a plain function.

        Raises:
            KernelError: at the kernel author's line.
        """
        if is_running():
            return self.function(*args, **kwargs)
        args, kwargs = tuple(map(given, args)), {key: given(value) for key, value in kwargs.items()}
        if self.notice in (_BENCHMARK, _PROFILE):
            return self._timed(args, kwargs)
        if self.notice:
            sys.stderr.write(f"twintrack: {self.title}: {self.notice}\n")
        return Simulated(self)(*args, **kwargs)

    def _timed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it and say how long it takes."""
        latency = (
            self.benchmark_result.nc_latency if hasattr(self, "benchmark_result") else Latency(self.title)
        )
        latency.profile = None
        options = options_from_environment(chip=self.chip)
        try:
            parameters = parameters_of(options.generation.chip)
        except KernelError as error:
            latency.unknown = f"no published timing of {options.generation.chip} ({error.found})"
            sys.stderr.write(f"twintrack: {self.title}: {self.notice}; time {latency.unknown}\n")
            return Simulated(self)(*args, **kwargs)
        done, run = run_traced(self, args, kwargs, options, parameters)
        latency.profile = found = profile_of(run, what_if=False)
        error_known = "" if found.error is None else f", {found.error.basis}"
        sys.stderr.write(
            f"twintrack: {self.title}: {self.notice}; {quantity_text(found.time)} on {found.where}{error_known}\n"
        )
        return done.result


def _tiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel with tensors of this dialect as arguments; what is late at its end is issued."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        state = current_core().state
        outermost = not state.get(_RUNNING, False)
        state[_RUNNING] = True
        tiles = [_tile(one) for one in args]
        returned = function(*tiles, **{key: _tile(one) for key, one in kwargs.items()})
        if not outermost:
            return returned
        settle()
        return _output(returned)

    run.loops_are_fused = True  # type: ignore[attr-defined]
    return run


def _output(value: Any) -> Any:
    """What a kernel returns, as the launch takes it.

    A tile on chip is copied to HBM. Elements of an output that nothing wrote are undefined, as documented, if anything
    was written of it: they hold NaN, or 4 in integers.
    """
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_output(one) for one in value)
    if not isinstance(value, Tile):
        return value
    if value.settled().storage.buffer.on_chip:
        made = Tile.of(creation.ndarray(value.shape, value.dtype, MemoryRegion.shared_hbm))
        assign(made, value)
        undefined(made)  # as far as a mask left elements out
        return made
    if not value.storage.written.nothing:
        undefined(value)
    return value


def _tile(value: Any) -> Any:
    if isinstance(value, NkiTensor):
        return Tile.of(value)
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_tile(one) for one in value)
    if type(value) is dict:
        return {key: _tile(one) for key, one in value.items()}
    return value


def _plain(kernel: Any) -> tuple[Callable[..., Any], tuple[int, ...], str | None]:
    """The function, grid and chip of a kernel, or of a function."""
    if isinstance(kernel, LegacyKernel):
        return kernel.plain, kernel.grid, kernel.chip
    if isinstance(kernel, Kernel):
        return kernel.function, kernel.grid, kernel.chip
    return kernel, (), None


def _kernel(kernel: Any, notice: str, options: dict[str, Any]) -> Any:
    if kernel is None:
        return lambda function: _kernel(function, notice, options)
    function, grid, chip = _plain(kernel)
    return LegacyKernel(function, grid, options.get("platform_target", chip), notice)


_RUNNING = "nki.legacy runs"
_BENCHMARK = "benchmark: simulated, without a device"
_PROFILE = "profile: simulated, without a device"
_BAREMETAL = "baremetal: simulated, without a device"


def jit(func: Any = None, mode: str = "auto", **kwargs: Any) -> Any:
    """Make a kernel of a function, or of a kernel with other options.

    Args:
        func: the function.
        mode: the run is simulated in each; ``benchmark`` is ``nki.benchmark``.
        **kwargs: ``platform_target`` names a chip; others are for the vendor's compiler and change nothing here.
    """
    return _kernel(func, _BENCHMARK if mode == "benchmark" else "", kwargs)


def trace(func: Any = None, **kwargs: Any) -> Any:
    """As ``jit``: a kernel that ``simulate_kernel`` takes."""
    return _kernel(func, "", kwargs)


def baremetal(kernel: Any = None, **kwargs: Any) -> Any:
    """As ``jit``; no artifacts are saved."""
    return _kernel(kernel, _BAREMETAL, kwargs)


def benchmark(kernel: Any = None, **kwargs: Any) -> Any:
    """As ``jit``; the kernel runs once, and ``benchmark_result`` holds its simulated latency."""
    return _kernel(kernel, _BENCHMARK, kwargs)


def profile(func: Any = None, **kwargs: Any) -> Any:
    """As ``jit``; the simulated time is told, and nothing is saved: ``twintrack kernel profile`` makes files."""
    return _kernel(func, _PROFILE, kwargs)


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel, or a function, with NumPy arrays; what it writes to an argument is written to the array.

    Raises:
        KernelError: at the kernel author's line.
    """
    function, grid, chip = _plain(kernel)
    return LegacyKernel(function, grid, chip)(*args, **kwargs)
