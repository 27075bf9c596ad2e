"""``nki.isa``: reductions, scans, batch-norm statistics."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.isa.constants import reduce_cmd as _command
from twintrack.nki.isa.issue import (
    NkiInstruction,
    author_error,
    flag,
    issue,
    number_or_tensor,
    op_name,
    tensor_of,
)
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "bn_aggr",
    "bn_stats",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor_scan",
]


def tensor_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: int | Iterable[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst`` is ``data`` combined by ``op`` over its last free axes, on the Vector Engine.

    Arithmetic operators compute in float32 and round once; bitvec ones work on the bits of integers.

    Args:
        dst: as many partitions as ``data``, and one element for each reduction; SBUF or PSUM.
        op: an operator that reduces, such as ``nl.add`` or ``nl.maximum``.
        data: SBUF or PSUM.
        axis: the last axis, or the last ones; never 0; negative ones count from the end.
        negate: multiply results by -1; arithmetic operators only.
        keepdims: reduced axes stay in the result with length 1, which ``dst`` may show or not.
        name: for messages and profiles.

    Raises:
        KernelError: for other axes, an operator that does not reduce, or a ``dst`` of another size.
    """
    flag("keepdims", keepdims)  # the shape of dst is the author's; only its size must fit
    ndim = tensor_of("tensor_reduce", "data", data).ndim
    axes = _axes(axis, ndim)
    attributes = {
        "op": op_name(op),
        "axis": axes,
        "negate": negate if type(negate) is bool else flag("negate", negate),
    }
    return issue("tensor_reduce", Engine.VECTOR, (dst,), (data,), attributes, name)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """In ascending order, counted from the front."""
    try:
        given = [index(axis)] if hasattr(axis, "__index__") else [index(one) for one in axis]
    except TypeError:
        raise author_error("an int or a list of ints as axis", repr(axis), "pass the last axis") from None
    return tuple(sorted(one + ndim if one < 0 else one for one in given))


def tensor_partition_reduce(
    dst: NkiTensor, op: Any, data: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """``dst`` is ``data`` combined by ``op`` over its partitions, on GpSimd.

    Args:
        dst: one partition, as many elements as ``data`` has per partition; SBUF.
        op: ``nl.add``, ``nl.maximum``, average, ``nl.bitwise_or`` or ``nl.bitwise_and``.
        data: SBUF.
        name: for messages and profiles.

    Raises:
        KernelError: for another operator, PSUM, or a ``dst`` of another shape.
    """
    return issue("tensor_partition_reduce", Engine.GPSIMD, (dst,), (data,), {"op": op_name(op)}, name)


def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: float | NkiTensor | None,
    reduce_op: Any,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: _command = _command.reset_reduce,
    reduce_init: float | NkiTensor | None = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data <op0> operand0``, and its reduction over the free dimensions, on the Vector Engine in float32.

    Args:
        dst: as many partitions and elements per partition as ``data``; SBUF or PSUM.
        data: SBUF or PSUM.
        op0: an arithmetic operator.
        operand0: a number or a float32 tile ``(P, 1)``; ``None`` or 0 if ``op0`` is unary.
        reduce_op: ``nl.add``, ``nl.multiply``, ``nl.maximum`` or ``nl.minimum``.
        reduce_res: tile ``(P, 1)`` for the accumulator registers; ``None`` leaves the result there.
        reverse0: not supported, as documented.
        reduce_cmd: reset_reduce, reduce or load_reduce.
        reduce_init: a number or a float32 tile ``(P, 1)``, with ``load_reduce`` and only then.
        reduce_res_negate: negate ``reduce_res``, not the registers.
        name: for messages and profiles.

    Raises:
        KernelError: for shapes, operators or operands that the engine does not take, or registers that nothing set.
    """
    number, tensor = number_or_tensor(operand0)
    start, starts = number_or_tensor(reduce_init)
    attributes = {
        "op0": op_name(op0),
        "operand0": number,
        "reverse0": reverse0 if type(reverse0) is bool else flag("reverse0", reverse0),
        "reduce_op": op_name(reduce_op),
        "reduce_cmd": reduce_cmd.name,
        "reduce_init": start,
        "reduce_res_negate": flag("reduce_res_negate", reduce_res_negate),
    }
    ins = (data, tensor, starts)
    return issue("tensor_scalar_reduce", Engine.VECTOR, (dst, reduce_res), ins, attributes, name)


def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: float | NkiTensor,
    imm1: float | NkiTensor | None = None,
    reduce_cmd: _command = _command.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """``reg = (src[i] <op0> imm0) <op1> reg; dst[i] = reg`` along the free dimensions, on the Vector Engine.

    Args:
        dst: as many partitions and elements per partition as ``src``; no 32-bit integers.
        src: likewise.
        op0: a binary arithmetic operator.
        op1: ``nl.add``, ``nl.subtract``, ``nl.multiply``, ``nl.maximum`` or ``nl.minimum``.
        imm0: a number or a float32 tile ``(P, 1)``.
        imm1: likewise; from which ``load_reduce`` starts.
        reduce_cmd: reset_reduce (start from the identity of ``op1``, 0 for subtract), reduce or load_reduce.
        name: for messages and profiles.

    Raises:
        KernelError: for shapes, types or operators that the engine does not take, or registers that nothing set.
    """
    number0, tensor0 = number_or_tensor(imm0)
    number1, tensor1 = number_or_tensor(imm1)
    attributes = {
        "op0": op_name(op0),
        "op1": op_name(op1),
        "imm0": number0,
        "imm1": number1,
        "reduce_cmd": reduce_cmd.name,
    }
    ins = (src, tensor0, tensor1)
    return issue("tensor_scalar_cumulative", Engine.VECTOR, (dst,), ins, attributes, name)


def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: float | NkiTensor,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i]`` along the free dimensions, ``dst = r``; Vector Engine, float32.

    Args:
        dst: as many partitions and elements per partition as ``data0``.
        data0: SBUF or PSUM.
        data1: like ``data0``; not both in PSUM.
        initial: stands for ``r[-1]``: a number, or a tile ``(P, 1)``.
        op0: a binary arithmetic operator.
        op1: likewise.
        reverse0: ``r[i-1] <op0> data0[i]``.
        reverse1: ``data1[i] <op1> (...)``.
        name: for messages and profiles.

    Raises:
        KernelError: for unequal shapes, two tiles in PSUM, or other operators.
    """
    number, tensor = number_or_tensor(initial)
    attributes = {
        "initial": number,
        "op0": op_name(op0),
        "op1": op_name(op1),
        "reverse0": reverse0 if type(reverse0) is bool else flag("reverse0", reverse0),
        "reverse1": reverse1 if type(reverse1) is bool else flag("reverse1", reverse1),
    }
    return issue("tensor_tensor_scan", Engine.VECTOR, (dst,), (data0, data1, tensor), attributes, name)


def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Statistics of each partition: count, mean, ``variance * count`` of its even elements, then of its odd ones.

    Args:
        dst: six elements per partition.
        data: up to 512 elements per partition; SBUF or PSUM.
        name: for messages and profiles.

    Raises:
        KernelError: for more elements, or a ``dst`` of another shape.
    """
    return issue("bn_stats", Engine.VECTOR, (dst,), (data,), {}, name)


def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Mean and variance of each partition from one or more outputs of ``bn_stats``.

    Args:
        dst: two elements per partition.
        data: triples ``(count, mean, variance * count)``.
        name: for messages and profiles.

    Raises:
        KernelError: if ``data`` is no multiple of three long, or ``dst`` has another shape.
    """
    return issue("bn_aggr", Engine.VECTOR, (dst,), (data,), {}, name)
