"""What Tensor Engine instructions compute; those on MX formats are in ``microscaling``.

A matrix multiplication of narrow types is exact in every product and is summed in float32, in PSUM; the order of the
sum over the 128 rows is that of the machine's float32 matrix product, as the vendor documents none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator.access import single, write_raw
from twintrack.neuroncore.emulator.ops import microscaling
from twintrack.neuroncore.emulator.ops.psum import add_product, by_tensor_engine
from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]


def _nc_matmul(core: Core, ins: Instruction) -> None:
    """``dst (+)= stationary.T @ moving``."""
    (dst,), (stationary, moving) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    assert stationary is not None  # noqa: S101
    assert moving is not None  # noqa: S101
    if ins.attributes["is_transpose"] and core.generation.number >= 3:
        _passed_through(core, ins, dst, stationary, moving)
        return
    left, right = core.read32(ins, stationary), core.read32(ins, moving)
    # in double_row mode [partitions, 2, columns] are two rows of the contraction
    rows = left.shape[0] * (2 if ins.attributes["perf_mode"] == "double_row" else 1)
    add_product(core, ins, dst, left.reshape(rows, -1), right.reshape(rows, -1))


def _passed_through(core: Core, ins: Instruction, dst: View, stationary: View, moving: View) -> None:
    """Transpose mode: column ``n`` of ``dst`` has the bits of the row of ``stationary`` that ``moving`` names by a 1.

    With an identity that is ``stationary.T``. Our choice for other moving tiles: each column must hold one 1 and zeros,
    so that nothing would be added.
    """
    chooser = core.read32(ins, moving).reshape(moving.shape[0], -1)
    data = core.read(ins, stationary).reshape(stationary.shape[0], -1)
    if not ((chooser != 0).sum(axis=0) == 1).all() or not ((chooser == 1).sum(axis=0) == 1).all():
        raise broken(
            ins,
            "an identity matrix (one 1 in each column) as moving in transpose mode",
            "other values",
            "pass an identity, or is_transpose=False for a product",
            moving,
        )
    chosen = data[chooser.argmax(axis=0)].T
    if dst.dtype is stationary.dtype:
        held: npt.NDArray[Any] = chosen
    elif dst.dtype == "uint16":  # float8 comes out with 8 zero bits above
        held = np.ascontiguousarray(chosen).view(np.uint8).astype(np.uint16)
    else:
        held = single(chosen, stationary.dtype)
    write_raw(core, ins, dst, held)
    by_tensor_engine(core, ins, dst)


def _nc_transpose(core: Core, ins: Instruction) -> None:
    """``dst = data.T`` with all free dimensions of ``data`` as one; bits are kept.

    The Tensor Engine of NeuronCore-v2 multiplies by an identity: NaN and infinities spread, as documented, and a zero
    loses its sign.
    """
    (dst,), (data,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert data is not None  # noqa: S101
    if ins.engine is Engine.TENSOR and core.generation.number == 2 and data.dtype.is_float:
        values = core.read32(ins, data).reshape(data.shape[0], -1)
        with np.errstate(all="ignore"):
            core.write(ins, dst, values.T @ np.eye(len(values), dtype=np.float32))
    else:
        held = core.read(ins, data)
        write_raw(core, ins, dst, held.reshape(held.shape[0], -1).T)
    if ins.engine is Engine.TENSOR:
        by_tensor_engine(core, ins, dst)


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {**microscaling.HANDLERS, "nc_matmul": _nc_matmul, "nc_transpose": _nc_transpose}
)
"""By opcode."""
