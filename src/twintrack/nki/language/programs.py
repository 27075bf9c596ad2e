"""``nki.language``: which program of the launch grid runs, and printing from the device."""

from __future__ import annotations

import math
from collections.abc import Sequence

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.context import current_core
from twintrack.nki.isa.issue import NkiInstruction, author_error, issue
from twintrack.nki.tensor import NkiTensor

__all__ = ["device_print", "num_programs", "program_id", "program_ndim"]


def _grid() -> tuple[int, ...]:
    """Programs per axis; one axis of one program where the kernel was launched without a grid."""
    machine = current_core().machine
    return machine.grid if machine is not None else (1,)


def _axis(axis: int) -> int:
    grid = _grid()
    if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < len(grid):
        raise author_error(
            f"an axis from 0 below {len(grid)}, the axes of the launch grid,", repr(axis), "name one of them"
        )
    return axis


def program_id(axis: int = 0) -> int:
    """Index of this program in one axis of the launch grid; 0 without a grid. Programs are counted row by row.

    Args:
        axis: of the grid.

    Raises:
        KernelError: if the grid has no such axis.
    """
    grid, axis = _grid(), _axis(axis)
    return current_core().program // math.prod(grid[axis + 1 :]) % grid[axis]


def num_programs(axes: int | Sequence[int] | None = 0) -> int:
    """Programs in one axis of the launch grid, or in several together; 1 without a grid.

    Args:
        axes: an axis, several, or ``None`` for all.

    Raises:
        KernelError: if the grid has no such axis.
    """
    grid = _grid()
    if axes is None:
        return math.prod(grid)
    if isinstance(axes, int):
        return grid[_axis(axes)]
    return math.prod(grid[_axis(axis)] for axis in axes)


def program_ndim() -> int:
    """Axes of the launch grid; 0 without one."""
    return current_core().ndim


def device_print(print_prefix: str, tensor: NkiTensor) -> NkiInstruction:
    """Print the prefix and the elements of a tensor to stdout, at once.

    Args:
        print_prefix: a constant string.
        tensor: SBUF or HBM.

    Raises:
        KernelError: if the prefix is no string, or the tensor was not written.
    """
    if not isinstance(print_prefix, str):
        raise author_error("a constant string as print_prefix", repr(print_prefix), "give a string")
    return issue("device_print", Engine.DMA, (), (tensor,), {"print_prefix": print_prefix})
