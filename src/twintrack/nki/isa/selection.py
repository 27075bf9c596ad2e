"""``nki.isa``: instructions that generate patterns and select by them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as _index
from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.isa.constants import reduce_cmd as _reduce_cmd
from twintrack.nki.isa.issue import NkiInstruction, author_error, flag, issue, number_or_tensor, op_name
from twintrack.nki.language.operators import equal, maximum  # documented defaults are these functions
from twintrack.nki.tensor import NkiTensor

__all__ = ["affine_select", "integer", "iota", "range_select", "select_reduce", "sequence_bounds"]

_LOWEST = -3.4028234663852886e38
"""The lowest float32."""


def integer(argument: str, value: object) -> int:
    """An argument that must be an integer known when the kernel is traced.

    Raises:
        KernelError: if it is none.
    """
    try:
        return _index(value)  # type: ignore[arg-type]
    except TypeError:
        raise author_error(
            f"an integer for {argument}",
            type(value).__name__,
            "pass one that is known when the kernel is traced",
        ) from None


def _pairs(pattern: Any) -> tuple[tuple[int, int], ...]:
    """``[[step, num], ...]`` as integers."""
    try:
        pairs = [(step, count) for step, count in pattern]
    except (TypeError, ValueError):
        raise author_error(
            "a pattern of pairs [step, num]", repr(pattern), "pass one such as [[1, 512]]"
        ) from None
    return tuple(
        [(integer("a step of pattern", one), integer("a num of pattern", two)) for one, two in pairs]
    )


def _scalar(argument: str, value: Any) -> float:
    """An argument that must be a number."""
    number, tensor = number_or_tensor(value)
    if tensor is not None or number is None:
        raise author_error(f"a number for {argument}", type(value).__name__, "pass a float")
    return number


def iota(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + z * step_z + y * step_y + x * step_x``.

    Computed in 32-bit integers on GpSimd, then cast to the type of ``dst``.

    Args:
        dst: SBUF; as many elements per partition as the pattern has.
        pattern: up to four pairs ``[step, num]``, the slowest first.
        offset: int32, added to all.
        channel_multiplier: int32, times the partition counted from the first of ``dst``.
        name: for messages and profiles.

    Raises:
        KernelError: for a destination outside SBUF, or a pattern of another size.
    """
    attributes = {
        "pattern": _pairs(pattern),
        "offset": integer("offset", offset),
        "channel_multiplier": integer("channel_multiplier", channel_multiplier),
    }
    return issue("iota", Engine.GPSIMD, (dst,), (), attributes, name)


def affine_select(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Any = equal,
    offset: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = on_true_tile where (affine value <cmp_op> 0) else on_false_value``, the affine value as in ``iota``.

    Args:
        dst: SBUF; as many elements per partition as the pattern has.
        pattern: up to four pairs ``[step, num]``, the slowest first.
        channel_multiplier: int32, times the partition counted from the first of ``dst``.
        on_true_tile: SBUF; shaped as ``dst``; bits are kept where the types agree, else cast through float32.
        on_false_value: a float32 number.
        cmp_op: a comparison with 0; ``nl.equal`` by default.
        offset: int32, added to all.
        name: for messages and profiles.

    Raises:
        KernelError: for operands outside SBUF, unequal sizes, or an operator that is no comparison.
    """
    attributes = {
        "pattern": _pairs(pattern),
        "offset": integer("offset", offset),
        "channel_multiplier": integer("channel_multiplier", channel_multiplier),
        "on_false_value": _scalar("on_false_value", on_false_value),
        "cmp_op": op_name(cmp_op),
    }
    return issue("affine_select", Engine.GPSIMD, (dst,), (on_true_tile,), attributes, name)


def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: _reduce_cmd = _reduce_cmd.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Any = maximum,
    range_start: int = 0,
    on_false_value: float = _LOWEST,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = on_true_tile where (i <comp_op0> bound0) & (i <comp_op1> bound1) else the lowest float32``.

    ``i`` is ``range_start`` plus the element's index in its partition, compared in float32. The largest result of a
    partition, not yet rounded to the type of ``dst``, goes onto the Vector Engine's accumulator registers, and from
    there to ``reduce_res``. NeuronCore-v3 and newer.

    Args:
        dst: shaped as ``on_true_tile``.
        on_true_tile: of a float type.
        comp_op0: ``nl.equal``, ``nl.less``, ``nl.less_equal``, ``nl.greater`` or ``nl.greater_equal``.
        comp_op1: likewise.
        bound0: float32, one element per partition.
        bound1: likewise.
        reduce_cmd: what becomes of the registers; ``load_reduce`` has nothing to load.
        reduce_res: one element per partition; ``None`` leaves the result in the registers.
        reduce_op: ``nl.maximum``.
        range_start: first index, known when the kernel is traced.
        on_false_value: the lowest float32, and nothing else.
        name: for messages and profiles.

    Raises:
        KernelError: on NeuronCore-v2; for types, shapes and operators other than these; for indices beyond 2**24; for
            ``reduce_cmd.reduce`` from registers that nothing has set.
    """
    attributes = {
        "comp_op0": op_name(comp_op0),
        "comp_op1": op_name(comp_op1),
        "reduce_cmd": reduce_cmd.name,
        "reduce_op": op_name(reduce_op),
        "range_start": integer("range_start", range_start),
        "on_false_value": _scalar("on_false_value", on_false_value),
    }
    ins = (on_true_tile, bound0, bound1)
    return issue("range_select", Engine.VECTOR, (dst, reduce_res), ins, attributes, name)


def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: float | NkiTensor,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: _reduce_cmd = _reduce_cmd.idle,
    reduce_op: Any = maximum,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = on_true where predicate else on_false``, and the largest result of a partition where it is asked for.

    Args:
        dst: shaped as ``on_true``; SBUF or PSUM.
        predicate: an integer type of 8 or 16 bits, or bool; shaped as ``on_true``, not both in PSUM.
        on_true: any type but tfloat32, int32 and uint32.
        on_false: a number, or one element per partition.
        reduce_res: of a float type, one element per partition; ``None`` leaves the result in the registers.
        reduce_cmd: ``idle``, ``reset_reduce`` or ``reduce``.
        reduce_op: ``nl.maximum``.
        reverse_pred: select ``on_true`` where the predicate is 0.
        name: for messages and profiles.

    Raises:
        KernelError: for types, shapes and commands other than these, or ``reduce_cmd.reduce`` from registers that
            nothing has set.
    """
    number, tensor = number_or_tensor(on_false)
    attributes = {
        "on_false": number,
        "reduce_cmd": reduce_cmd.name,
        "reduce_op": op_name(reduce_op),
        "reverse_pred": reverse_pred if type(reverse_pred) is bool else flag("reverse_pred", reverse_pred),
    }
    return issue(
        "select_reduce", Engine.VECTOR, (dst, reduce_res), (predicate, on_true, tensor), attributes, name
    )


def sequence_bounds(dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None) -> NkiInstruction:
    """For every element the first index of its segment, then for every element the index after its last.

    Args:
        dst: SBUF, ``(1, 2, n)``, float32 or int32.
        segment_ids: SBUF, ``(1, n)``, float32 or int32: non-negative integers, equal ones beside each other are a
            segment; 0 is padding, with bounds ``n`` and -1.
        name: for messages and profiles.

    Raises:
        KernelError: for more than one partition, other types or sizes, or an ID that is no non-negative integer.
    """
    return issue("sequence_bounds", Engine.GPSIMD, (dst,), (segment_ids,), {}, name)
