"""Rules of instructions that generate patterns and select by them.

Sources: docstrings of ``nki.isa.iota``, ``affine_select``, ``range_select``, ``select_reduce`` and ``sequence_bounds``
(AWS Neuron 2.32).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import (
    SBUF,
    SBUF_PSUM,
    broken,
    free_size_is,
    operands_of,
    partitions_agree,
    same_free_size,
    type_in,
)
from twintrack.neuroncore.isa.legality.tiles import (
    affine_pattern,
    at_least,
    float32_number,
    number_type,
    one_per_partition,
    tile,
)
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["RULES"]

_COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
_RANGE_COMPARISONS = _COMPARISONS - {"not_equal"}
_FLOATS = frozenset(name for name, one in DTYPES.items() if one.is_float)
_SELECTED = frozenset(
    name for name, one in DTYPES.items() if one.kind not in ("packed", "scale")
) - frozenset({"tfloat32", "int32", "uint32"})
_PREDICATES = frozenset({"int8", "uint8", "int16", "uint16", "bool"})
_BOUNDS = frozenset({"float32", "int32"})
_EXACT = 2**24
"""Integers below this are exact in float32."""


def _iota(ins: Instruction, generation: Generation) -> None:
    del generation
    (dst,) = operands_of(ins)
    tile(ins, dst, SBUF, "SBUF")
    number_type(ins, dst)
    affine_pattern(ins, dst)


def _affine_select(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, on_true = operands_of(ins)
    for view in (dst, on_true):
        tile(ins, view, SBUF, "SBUF")
        number_type(ins, view)
    partitions_agree(ins, dst, on_true)
    same_free_size(ins, dst, on_true)
    affine_pattern(ins, dst)
    float32_number(ins, "on_false_value")
    _comparison(ins, "cmp_op", _COMPARISONS)


def _range_select(ins: Instruction, generation: Generation) -> None:
    at_least(ins, generation, 3, "compare an nisa.iota tile with nisa.tensor_scalar, then select by it")
    dst, reduce_res = ins.outs
    on_true, bound0, bound1 = ins.ins
    assert dst is not None and on_true is not None  # noqa: S101, PT018 - both are required
    assert bound0 is not None and bound1 is not None  # noqa: S101, PT018
    for view in operands_of(ins):
        tile(ins, view, SBUF_PSUM, "SBUF or PSUM")
    number_type(ins, dst)
    type_in(ins, on_true, _FLOATS, "float")
    for view in (bound0, bound1):
        one_per_partition(ins, view, on_true)
        type_in(ins, view, frozenset({"float32"}), "float32")
    partitions_agree(ins, dst, on_true)
    same_free_size(ins, dst, on_true)
    _comparison(ins, "comp_op0", _RANGE_COMPARISONS)
    _comparison(ins, "comp_op1", _RANGE_COMPARISONS)
    _range(ins, on_true)
    float32_number(ins, "on_false_value")
    if np.float32(ins.attributes["on_false_value"]) != np.finfo(np.float32).min:
        raise broken(
            ins,
            "on_false_value=-3.4028235e+38 (the lowest float32)",
            f"{ins.attributes['on_false_value']}",
            "leave it unset, or select with nisa.select_reduce",
        )
    _reduction(ins, reduce_res, on_true, ("idle", "reset", "reduce", "reset_reduce"))


def _range(ins: Instruction, on_true: View) -> None:
    start = ins.attributes["range_start"]
    last = start + on_true.free_size - 1
    if start < -_EXACT or last > _EXACT:
        raise broken(
            ins,
            f"range_start plus every index within 2**24 ({_EXACT}), as they are compared in float32,",
            f"{start} to {last}",
            "split the range",
        )


def _select_reduce(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, reduce_res = ins.outs
    predicate, on_true, on_false = ins.ins
    assert dst is not None and predicate is not None and on_true is not None  # noqa: S101, PT018 - required
    for view in operands_of(ins):
        tile(ins, view, SBUF_PSUM, "SBUF or PSUM")
    if all(view.storage.buffer.region is MemoryRegion.psum for view in (predicate, on_true)):
        raise broken(ins, "at most one of on_true and predicate in PSUM", "both", "copy one to SBUF", on_true)
    partitions_agree(ins, on_true, predicate, dst)
    same_free_size(ins, on_true, predicate, dst)
    number_type(ins, dst)
    type_in(ins, on_true, _SELECTED, "at most 16 bits, or float32,")
    type_in(ins, predicate, _PREDICATES, "int8, uint8, int16 or uint16")
    if on_false is None:
        float32_number(ins, "on_false")
    else:
        one_per_partition(ins, on_false, on_true)
        number_type(ins, on_false)
    _reduction(ins, reduce_res, on_true, ("idle", "reduce", "reset_reduce"))
    if reduce_res is not None:
        type_in(ins, reduce_res, _FLOATS, "float")


def _sequence_bounds(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, segment_ids = operands_of(ins)
    for view in (dst, segment_ids):
        tile(ins, view, SBUF, "SBUF")
        type_in(ins, view, _BOUNDS, "float32 or int32")
        if view.shape[0] != 1:
            raise broken(ins, "one partition", f"{view.shape[0]}", "pass one row at a time", view)
    free_size_is(ins, dst, 2 * segment_ids.free_size)


def _comparison(ins: Instruction, attribute: str, allowed: frozenset[str]) -> None:
    op = ins.attributes[attribute]
    if op not in allowed:
        raise broken(
            ins,
            f"a comparison ({', '.join(sorted(allowed))}) as {attribute}",
            op,
            "choose one such as nl.less",
        )


def _reduction(ins: Instruction, result: View | None, first: View, commands: tuple[str, ...]) -> None:
    command, op = ins.attributes["reduce_cmd"], ins.attributes["reduce_op"]
    if op != "maximum":
        raise broken(ins, "reduce_op=nl.maximum", op, "reduce with nisa.tensor_reduce")
    if command not in commands:
        raise broken(ins, f"a reduce_cmd among {', '.join(commands)}", command, "choose one")
    if result is None:
        return
    one_per_partition(ins, result, first)
    number_type(ins, result)
    if command in ("idle", "reset"):
        raise broken(
            ins,
            "no reduce_res where nothing is accumulated",
            f"reduce_cmd.{command}",
            "pass reduce_cmd=nisa.reduce_cmd.reset_reduce, or leave reduce_res out",
            result,
        )


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {
        "iota": _iota,
        "affine_select": _affine_select,
        "range_select": _range_select,
        "select_reduce": _select_reduce,
        "sequence_bounds": _sequence_bounds,
    }
)
"""By opcode."""
