"""``nki.jit``, ``nki.baremetal``, ``nki.benchmark``, ``nki.profile``, ``nki.trace`` and ``nki.simulate_kernel``.

All of them run the kernel on software cores; those that were for a device say so on the standard error stream.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.nki.context import current_core, is_running
from twintrack.nki.kernel import Kernel, Simulated
from twintrack.nki.language import creation
from twintrack.nki.legacy.copies import assign
from twintrack.nki.legacy.regions import undefined
from twintrack.nki.legacy.tile import Tile, settle
from twintrack.nki.tensor import NkiTensor

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
    """Latencies of a benchmark, of which none is known.

    Args:
        kernel: its name.
    """

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel

    def get_latency_percentile(self, percentile: float) -> NoReturn:
        """The latency that so many percent of executions stay below, in microseconds.

        Raises:
            KernelError: always: there is no timing model yet.
        """
        raise KernelError(
            "a measured latency",
            found=f"unknown: no timing model yet (percentile {percentile})",
            where=self.kernel,
            remedy="measure it on a device; results are computed, times are not",
        )


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
        if self.notice:
            sys.stderr.write(f"twintrack: {self.title}: {self.notice}\n")
        return Simulated(self)(*args, **kwargs)


def _tiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel with tensors of this dialect as arguments; what is late at its end is issued."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        state = current_core().state
        outermost = not state.get(_RUNNING, False)
        state[_RUNNING] = True
        given = [_tile(one) for one in args]
        returned = function(*given, **{key: _tile(one) for key, one in kwargs.items()})
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
_BENCHMARK = "benchmark: simulated, without a device; results are computed, times are unknown"
_PROFILE = "profile: simulated, without a device; results are computed, nothing is profiled"
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
    """As ``jit``; the kernel runs once, and ``benchmark_result`` says that times are unknown."""
    return _kernel(kernel, _BENCHMARK, kwargs)


def profile(func: Any = None, **kwargs: Any) -> Any:
    """As ``jit``; nothing is profiled or saved."""
    return _kernel(func, _PROFILE, kwargs)


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel, or a function, with NumPy arrays; what it writes to an argument is written to the array.

    Raises:
        KernelError: at the kernel author's line.
    """
    function, grid, chip = _plain(kernel)
    return LegacyKernel(function, grid, chip)(*args, **kwargs)
