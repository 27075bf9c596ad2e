"""What Tensor Engine instructions compute.

A matrix multiplication of narrow types is exact in every product and is summed in float32, in PSUM; the order of the
sum over the 128 rows is that of the machine's float32 matrix product, as the vendor documents none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator.access import require_written, wrote
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.memory.written import Written

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]


def _nc_matmul(core: Core, ins: Instruction) -> None:
    """``dst (+)= stationary.T @ moving``."""
    (dst,), (stationary, moving) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    assert stationary is not None  # noqa: S101
    assert moving is not None  # noqa: S101
    if ins.attributes["is_transpose"]:
        _transposed(core, ins, dst, stationary, moving)
        return
    left, right = core.read32(ins, stationary), core.read32(ins, moving)
    if ins.attributes["perf_mode"] == "double_row":
        left, right = _rows(left), _rows(right)
    left = left if left.ndim == 2 else left.reshape(left.shape[0], -1)
    right = right if right.ndim == 2 else right.reshape(right.shape[0], -1)
    adds = accumulates(core, ins, dst)
    out = dst.array()
    if dst.dtype == "float32" and out.ndim == 2:
        if adds:
            out += left.T @ right
        elif out.flags.c_contiguous:
            np.matmul(left.T, right, out=out)
        else:
            out[...] = left.T @ right
    else:
        product = (left.T @ right).reshape(dst.shape)
        core.write(ins, dst, core.read32(ins, dst) + product if adds else product)
    wrote_by_matmul(core, dst)


def _rows(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """``[partitions, 2, columns]`` of double_row mode as ``[2 * partitions, columns]``."""
    return values.reshape(values.shape[0] * 2, -1)


def _transposed(core: Core, ins: Instruction, dst: View, stationary: View, moving: View) -> None:
    """The moving tile passed through an identity: bits of ``moving.T``, or of ``stationary.T``, as NKI documents.

    ``nc_transpose`` loads the data as the stationary operand and an identity as the moving one.
    """
    identity = core.read32(ins, moving).reshape(moving.shape[0], -1)
    data = core.read(ins, stationary).reshape(stationary.shape[0], -1)
    if identity.shape[0] == identity.shape[1] and np.array_equal(
        identity, np.eye(len(identity), dtype=np.float32)
    ):
        out = dst.array()
        moved = data.T
        out[...] = (moved if out.dtype == moved.dtype else core.read32(ins, stationary).T).reshape(dst.shape)
    else:
        product = core.read32(ins, stationary).reshape(data.shape).T @ identity
        core.write(ins, dst, product.reshape(dst.shape))
    wrote_by_matmul(core, dst)


def accumulates(core: Core, ins: Instruction, dst: View) -> bool:
    """Whether a matrix multiplication adds to what is in PSUM.

    ``accumulate=None``: where a matrix multiplication has written the whole destination before.

    Raises:
        KernelError: if it is told to add to what no matrix multiplication has written (undefined on NeuronCore-v2 and
            -v3, and on every generation where nothing was written).
    """
    told = ins.attributes["accumulate"]
    done = dst.storage.matmul
    if told is False:
        return False
    pattern = dst.pattern()
    if done is not None and done.covers(pattern):
        return True
    if told is None:
        if done is not None and done.touches(pattern):
            raise broken(
                ins,
                "a destination that earlier matrix multiplications wrote wholly or not at all",
                "one written in part, so that accumulate=None is ambiguous,",
                "pass accumulate=True or False",
                dst,
            )
        return False
    if core.checked:
        require_written(ins, dst)
        if core.generation.number < 4 and not _zeroed(dst):
            raise broken(
                ins,
                "accumulate=True onto the result of a matrix multiplication",
                "a location initialised by another instruction, which is undefined on "
                f"{core.generation.chip},",
                "pass accumulate=False (or None) for the first product",
                dst,
            )
    return True


def _zeroed(dst: View) -> bool:
    """Adding to zeros is what overwriting gives; public kernels zero PSUM first, so it is let through."""
    return not dst.array().any()


def wrote_by_matmul(core: Core, dst: View) -> None:
    """Note that a matrix multiplication wrote the destination."""
    storage = dst.storage
    if storage.matmul is None:
        storage.matmul = Written(storage.buffer.bytes)
    done = storage.matmul
    if not done.whole:
        done.mark(dst.pattern())
    wrote(core, dst, matmul=True)


def _nc_transpose(core: Core, ins: Instruction) -> None:
    """``dst = data.T`` with all free dimensions of ``data`` as one; bits are kept."""
    (dst,), (data,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert data is not None  # noqa: S101
    held = core.read(ins, data)
    dst.array()[...] = held.reshape(held.shape[0], -1).T.reshape(dst.shape)
    core.wrote(dst)


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {"nc_matmul": _nc_matmul, "nc_transpose": _nc_transpose}
)
"""By opcode."""
