"""``nki.isa``: elementwise instructions on two tensors, or a tensor and scalars."""

from __future__ import annotations

from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.issue import NkiInstruction, choose, issue, op_name
from twintrack.nki.isa.movement import in_psum
from twintrack.nki.tensor import NkiTensor

__all__ = ["tensor_tensor"]

_EXACT = frozenset({"int32", "uint32"})


def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Any,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data1 <op> data2``, element by element.

    Bitvec operators work on the bits of integers. Arithmetic ones compute in float32 and round once, but for 32-bit
    integers, which run on GpSimd in integers unless an operand is in PSUM or the Vector Engine is named.

    Args:
        dst: SBUF or PSUM.
        data1: as many partitions and elements per partition as ``dst``.
        data2: likewise; not both in PSUM.
        op: a binary operator such as ``nl.add``; ``nl.power`` runs on GpSimd.
        engine: vector or gpsimd.
        name: for messages and profiles.

    Raises:
        KernelError: for unequal shapes, two inputs in PSUM, or types that the operator does not take.
    """
    operator = op_name(op)
    default = Engine.VECTOR
    exact = data1.dtype in _EXACT and data2.dtype in _EXACT and dst.dtype in _EXACT
    if operator == "power" or (exact and not in_psum(dst, data1, data2)):
        default = Engine.GPSIMD
    return issue("tensor_tensor", choose(engine, default), (dst,), (data1, data2), {"op": operator}, name)
