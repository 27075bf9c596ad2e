"""What instructions on MX formats compute, which NeuronCore-v4 has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator.access import read_columns, scale_view, write_raw
from twintrack.neuroncore.emulator.microscaling import GROUP_PARTITIONS, PACKED, dequantize, quantize
from twintrack.neuroncore.emulator.ops.psum import add_product
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]


def _nc_matmul_mx(core: Core, ins: Instruction) -> None:
    """``dst (+)= stationary.T @ moving`` of the numbers that words and scales mean, summed in float32."""
    (dst,) = ins.outs
    stationary, moving, stationary_scale, moving_scale = ins.ins
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    assert stationary is not None  # noqa: S101
    assert moving is not None  # noqa: S101
    assert stationary_scale is not None  # noqa: S101
    assert moving_scale is not None  # noqa: S101
    left = _rows(core, ins, stationary, stationary_scale)
    right = _rows(core, ins, moving, moving_scale)
    add_product(core, ins, dst, left, right)


def _rows(core: Core, ins: Instruction, data: View, scale: View) -> npt.NDArray[np.float32]:
    """Scaled numbers, one row for each step of the contraction: four for each partition."""
    partitions = data.shape[0]
    words = core.read(ins, data).reshape(partitions, -1)
    if scale.dynamic is None:
        held: npt.NDArray[Any] = core.read(ins, scale_view(scale, partitions))
    else:
        held = read_columns(core, ins, scale, partitions)
    numbers = dequantize(words, held.reshape(partitions // GROUP_PARTITIONS, -1), data.dtype)
    return numbers.reshape(partitions, -1, PACKED).transpose(0, 2, 1).reshape(partitions * PACKED, -1)


def _quantize_mx(core: Core, ins: Instruction) -> None:
    """``dst, dst_scale = src`` as narrow elements and one power of two for each group of 32."""
    (dst, dst_scale), (src,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert dst_scale is not None  # noqa: S101
    assert src is not None  # noqa: S101
    words, scales = quantize(core.read32(ins, src).reshape(src.shape[0], -1), dst.dtype)
    write_raw(core, ins, dst, words)
    write_raw(core, ins, scale_view(dst_scale, src.shape[0]), scales)


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {"nc_matmul_mx": _nc_matmul_mx, "quantize_mx": _quantize_mx}
)
"""By opcode."""
