"""How products are written to PSUM, or added to what is there.

``accumulate=None`` is element by element, as the documentation says of locations: where a Tensor Engine instruction
wrote before, the product is added, elsewhere it overwrites. The first of two overlapping products is thus kept where
the second does not reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.access import require_written, single, wrote
from twintrack.neuroncore.emulator.dynamic import columns, resolve
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.memory.written import Written

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["add_product", "by_tensor_engine"]

Float32 = npt.NDArray[np.float32]
Where = bool | npt.NDArray[np.bool_]


def add_product(core: Core, ins: Instruction, dst: View, left: Float32, right: Float32) -> None:
    """``dst (+)= left.T @ right`` in float32, rounded once where ``dst`` is narrower.

    Args:
        core: whose PSUM.
        ins: says whether to accumulate.
        dst: ``(M, N)``.
        left: ``(K, M)``.
        right: ``(K, N)``.

    Raises:
        KernelError: if it is told to add to what no Tensor Engine instruction has written.
    """
    found = resolve(core, ins, dst) if dst.dynamic is not None and dst.dynamic.kind == "scalar" else dst
    assert found is not None  # noqa: S101 - nothing is skipped here
    adds = _accumulates(core, ins, found)
    with np.errstate(all="ignore"):
        _write_product(core, ins, found, left, right, adds)
    by_tensor_engine(core, ins, found)


def _write_product(
    core: Core, ins: Instruction, dst: View, left: Float32, right: Float32, adds: Where
) -> None:
    if dst.dtype == "float32" and dst.dynamic is None and not isinstance(adds, np.ndarray):
        out = dst.array()
        if out.ndim == 2 and not adds and out.flags.c_contiguous:
            np.matmul(left.T, right, out=out)
        elif adds:
            out += (left.T @ right).reshape(out.shape)
        else:
            out[...] = (left.T @ right).reshape(out.shape)
        wrote(core, dst, matmul=True)
        return
    product = (left.T @ right).reshape(dst.shape)
    if adds is not False:
        held = single(_held(core, ins, dst), dst.dtype)
        product = np.where(adds, held + product, product)
    core.write(ins, dst, product)


def by_tensor_engine(core: Core, ins: Instruction, dst: View) -> None:
    """Note that a Tensor Engine instruction wrote the destination, to which the next product is added."""
    storage = dst.storage
    if storage.matmul is None:
        storage.matmul = Written(storage.buffer.bytes)
    done = storage.matmul
    if done.whole:
        return
    if dst.dynamic is not None:
        size = dst.dtype.bytes
        done.mark_rows(columns(core, ins, dst).reshape(-1) * size, (0, (), size))
    else:
        done.mark(dst.pattern())


def _accumulates(core: Core, ins: Instruction, dst: View) -> Where:
    """Whether, or where, the product is added.

    Raises:
        KernelError: if it is told to add to what no Tensor Engine instruction has written (undefined on NeuronCore-v2
            and -v3, and on every generation where nothing was written), or is not told and the documentation leaves
            open whether it does.
    """
    told = ins.attributes["accumulate"]
    if told is False:
        return False
    storage = dst.storage
    done = storage.matmul
    if dst.dynamic is None:
        if done is not None and done.covers(dst.pattern()):
            return True
        if told is None and storage.written.nothing:
            return False
    products = _which(core, ins, dst, done)
    if told and core.checked:
        _initialised(core, ins, dst)
    others = _which(core, ins, dst, storage.written) & ~products
    if others.any() and (told or not products.all()):
        # adding to zeros is what overwriting gives; public kernels zero PSUM first, so it is let through
        filled = others & (_held(core, ins, dst) != 0)
        if core.generation.number < 4 and core.checked and filled.any():
            raise _undefined(ins, dst, core.generation.chip, told=bool(told))
        products = products | filled
    if told:
        return True
    return bool(products.all()) if products.all() or not products.any() else products


def _which(core: Core, ins: Instruction, dst: View, written: Written | None) -> npt.NDArray[np.bool_]:
    if written is None:
        return np.zeros(dst.shape, np.bool_)
    size = dst.dtype.bytes
    if dst.dynamic is None:
        return written.which(dst.shape, dst.strides, dst.offset, size)
    numbers = columns(core, ins, dst)
    return written.covers_rows(numbers.reshape(-1) * size, (0, (), size)).reshape(numbers.shape)


def _held(core: Core, ins: Instruction, dst: View) -> npt.NDArray[Any]:
    """What is in PSUM, whether or not all of it was written."""
    if dst.dynamic is None:
        return dst.array()
    held = dst.storage.data
    assert held is not None  # noqa: S101 - handlers run only with values
    found: npt.NDArray[Any] = held.view(dst.storage.kind(dst.dtype))[columns(core, ins, dst)]
    return found


def _initialised(core: Core, ins: Instruction, dst: View) -> None:
    if dst.dynamic is None:
        require_written(ins, dst)
    else:
        core.read(ins, dst)


def _undefined(ins: Instruction, dst: View, chip: str, *, told: bool) -> KernelError:
    if told:
        return broken(
            ins,
            "accumulate=True onto the result of a matrix multiplication",
            f"a location initialised by another instruction, which is undefined on {chip},",
            "pass accumulate=False (or None) for the first product",
            dst,
        )
    return broken(
        ins,
        "accumulate=True or False where another instruction wrote to the destination",
        "None, which leaves open whether its values are added or lost,",
        "pass accumulate=False to overwrite them, or add them with another instruction",
        dst,
    )
