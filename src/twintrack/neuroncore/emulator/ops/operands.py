"""What handlers of arithmetic instructions share: numbers and vectors as operands, results without a copy.

A float32 destination of the result's own shape is computed into; everything else is computed beside it and rounded by
the write. Operands are read before anything is written, also where they overlap the destination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator import alu
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.operators import OPERATORS
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["apply", "destination", "finish", "scalar", "there"]

Array = npt.NDArray[Any]


def there(view: View | None) -> View:
    """A required operand: ``issue`` has refused the instruction if it was absent."""
    assert view is not None  # noqa: S101 - see above
    return view


def destination(core: Core, dst: View, shape: tuple[int, ...]) -> Array | None:
    """The elements of ``dst`` where float32 results of this shape can be computed into them; else ``None``."""
    if dst.shape != shape or dst.dynamic is not None:
        return None
    dtype = dst.dtype
    if dtype == "float32" or (dtype.is_float and not core.precise):
        return dst.array()
    return None


def finish(core: Core, ins: Instruction, dst: View, values: Array, out: Array | None) -> None:
    """Results into ``dst``, of which ``out`` are the elements where ``destination`` gave them."""
    if out is None:
        core.write(ins, dst, values)
        return
    if values is not out:
        np.copyto(out, values)
    core.wrote(dst)


def scalar(
    core: Core, ins: Instruction, view: View | None, number: Any, ndim: int, dst: View | None = None
) -> Any:
    """An operand of one number for all or one for each partition, as float32 that broadcasts along free dimensions.

    Args:
        core: whose memory.
        ins: the instruction.
        view: the tile of one element per partition, if it is one.
        number: what the author gave instead; ``None`` stays ``None``.
        ndim: dimensions of the tile that it is combined with.
        dst: where the instruction writes before it uses this operand.
    """
    if view is None:
        return None if number is None else np.float32(number)
    column = core.read32(ins, view)
    if dst is not None and view.storage is dst.storage:
        column = column.copy()
    return column if column.ndim == ndim else column.reshape(-1, *(1,) * (ndim - 1))


def apply(op: str, x: Array, operand: Any, *, reverse: bool, out: Array | None) -> Array:
    """``x <op> operand``, or ``operand <op> x``; unary operators take ``x`` alone."""
    if OPERATORS[op].operands == 1:
        return alu.unary(op, x, out=out)
    return alu.binary(op, operand, x, out=out) if reverse else alu.binary(op, x, operand, out=out)
