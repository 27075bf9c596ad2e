"""Rules of reductions, scans and batch-norm statistics.

Sources: docstrings of ``nki.isa.tensor_reduce``, ``tensor_partition_reduce``, ``tensor_scalar_reduce``,
``tensor_scalar_cumulative``, ``tensor_tensor_scan``, ``bn_stats`` and ``bn_aggr`` (AWS Neuron 2.32).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken, free_size_is, partitions_agree, same_free_size
from twintrack.neuroncore.isa.legality.operands import (
    agree,
    command_in,
    integers,
    not_both_in_psum,
    operator,
    operator_in,
    reachable,
    scalar_operand,
    tensors,
    vector_operand,
)
from twintrack.neuroncore.isa.legality.tiles import one_per_partition
from twintrack.neuroncore.isa.operators import Operator
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["RULES"]

_FLOAT32 = frozenset({"float32"})
_CUMULATIVE = frozenset(
    {"bfloat16", "float16", "float32", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"}
    | {"uint8", "uint16", "int8", "int16"}
)
_COMMANDS = ("reset_reduce", "reduce", "load_reduce")
_MOST_BN_STATS = 512
_BN_STATS = 6


def _arithmetic(ins: Instruction, generation: Generation, argument: str, *, binary: bool) -> Operator:
    op = operator(ins, generation, argument)
    if op.category == "bitvec" or (binary and op.operands != 2):
        kind = "a binary arithmetic" if binary else "an arithmetic"
        raise broken(ins, f"{kind} operator as {argument}", op.name, "choose one such as nl.add")
    return op


def _tensor_reduce(ins: Instruction, generation: Generation) -> None:
    dst, data = tensors(ins, "dst", "data")
    reachable(ins, dst, data)
    partitions_agree(ins, data, dst)
    op = operator(ins, generation, "op")
    if not op.reduces:
        raise broken(ins, "an operator that reduces", op.name, "choose one such as nl.add or nl.maximum")
    if op.category == "bitvec":
        integers(ins, op.name, dst, data)
        if ins.attributes["negate"]:
            raise broken(
                ins, "an arithmetic operator with negate=True", op.name, "negate in another instruction"
            )
    axes: tuple[int, ...] = ins.attributes["axis"]
    ndim = len(data.shape)
    if 0 in axes:
        raise broken(
            ins,
            "free axes only",
            f"axis {list(axes)}",
            "reduce over partitions by nisa.nc_transpose or nisa.nc_matmul",
        )
    if not axes or axes != tuple(range(ndim - len(axes), ndim)):
        raise broken(
            ins,
            f"the last axes of {ndim} dimensions, such as ({ndim - 1},)",
            f"axis {list(axes)}",
            "permute the free dimensions so that those come last",
        )
    left = math.prod(data.shape[1 : ndim - len(axes)])
    if dst.free_size != left:
        raise broken(
            ins,
            f"{left} elements per partition in dst, one for each reduction over axis {list(axes)}",
            f"{dst.free_size}",
            f"allocate it as {[data.shape[0], *data.shape[1 : ndim - len(axes)]]}",
            dst,
        )


def _tensor_partition_reduce(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, data = tensors(ins, "dst", "data")
    operator_in(ins, "op", ("add", "average", "maximum", "bitwise_or", "bitwise_and"))
    reachable(ins, dst, data)
    if ins.attributes["op"].startswith("bitwise"):
        integers(ins, ins.attributes["op"], dst, data)
    if dst.shape[0] != 1:
        raise broken(
            ins, "one partition in dst", f"{dst.shape[0]}", f"allocate it as (1, {data.free_size})", dst
        )
    same_free_size(ins, data, dst)


def _commands(ins: Instruction, initial: str, like: View) -> bool:
    """``reduce_cmd``, and the value that it loads; whether it loads one."""
    command_in(ins, _COMMANDS)
    vector_operand(ins, initial, like, _FLOAT32, "float32")
    loads: bool = ins.attributes["reduce_cmd"] == "load_reduce"
    if loads and ins.ins[2] is None and ins.attributes[initial] is None:
        raise broken(ins, f"{initial} with load_reduce", "None", "pass a number or a tile (P, 1)")
    return loads


def _tensor_scalar_reduce(ins: Instruction, generation: Generation) -> None:
    dst, data = tensors(ins, "dst", "data")
    agree(ins, dst, data)
    op0 = _arithmetic(ins, generation, "op0", binary=False)
    scalar_operand(ins, "operand0", op0, data, _FLOAT32, "float32")
    if ins.attributes["reverse0"]:
        raise broken(ins, "reverse0=False", "True", "use nisa.tensor_scalar and nisa.tensor_reduce")
    operator_in(ins, "reduce_op", ("add", "multiply", "maximum", "minimum"))
    loads = _commands(ins, "reduce_init", data)
    if not loads and (ins.ins[2] is not None or ins.attributes["reduce_init"] is not None):
        raise broken(
            ins, "reduce_init only with load_reduce", ins.attributes["reduce_cmd"], "leave reduce_init out"
        )
    reduced = ins.outs[1]
    if reduced is not None:
        reachable(ins, reduced)
        one_per_partition(ins, reduced, data)


def _tensor_scalar_cumulative(ins: Instruction, generation: Generation) -> None:
    dst, src = tensors(ins, "dst", "src")
    agree(ins, dst, src)
    for view in (dst, src):
        if view.dtype not in _CUMULATIVE:
            raise broken(
                ins, f"a type among {', '.join(sorted(_CUMULATIVE))}", view.dtype, "convert it", view
            )
    op0 = _arithmetic(ins, generation, "op0", binary=True)
    scalar_operand(ins, "imm0", op0, src, _FLOAT32, "float32")
    operator_in(ins, "op1", ("add", "subtract", "multiply", "maximum", "minimum"))
    _commands(ins, "imm1", src)


def _tensor_tensor_scan(ins: Instruction, generation: Generation) -> None:
    dst, data0, data1 = tensors(ins, "dst", "data0", "data1")
    agree(ins, data0, data1, dst)
    not_both_in_psum(ins, data0, data1)
    for argument in ("op0", "op1"):
        _arithmetic(ins, generation, argument, binary=True)
    if ins.ins[2] is None and ins.attributes["initial"] is None:
        raise broken(ins, "a number or a tile (P, 1) as initial", "None", "pass one, such as 0.0")
    vector_operand(ins, "initial", data0, None, "number")


def _bn_stats(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, data = tensors(ins, "dst", "data")
    reachable(ins, dst, data)
    partitions_agree(ins, data, dst)
    if data.free_size > _MOST_BN_STATS:
        raise broken(
            ins,
            f"at most {_MOST_BN_STATS} elements per partition in data",
            f"{data.free_size}",
            "take the statistics of pieces, and join them with nisa.bn_aggr",
            data,
        )
    free_size_is(ins, dst, _BN_STATS)


def _bn_aggr(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, data = tensors(ins, "dst", "data")
    reachable(ins, dst, data)
    partitions_agree(ins, data, dst)
    if data.free_size % 3:
        raise broken(
            ins,
            "a multiple of three elements per partition in data (count, mean, variance * count)",
            f"{data.free_size}",
            "pass whole outputs of nisa.bn_stats",
            data,
        )
    free_size_is(ins, dst, 2)


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {
        "tensor_reduce": _tensor_reduce,
        "tensor_partition_reduce": _tensor_partition_reduce,
        "tensor_scalar_reduce": _tensor_scalar_reduce,
        "tensor_scalar_cumulative": _tensor_scalar_cumulative,
        "tensor_tensor_scan": _tensor_tensor_scan,
        "bn_stats": _bn_stats,
        "bn_aggr": _bn_aggr,
    }
)
"""By opcode."""
