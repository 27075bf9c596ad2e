"""What instructions compute that generate patterns and select by them.

An affine value is computed in 32-bit integers that wrap around; everything selected is rounded to the destination's
type once, and keeps its bits where the types agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.convert import cast, round_to
from twintrack.neuroncore.emulator import accumulators, alu
from twintrack.neuroncore.emulator.access import write_raw
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]

Array = npt.NDArray[Any]
_LOWEST = np.finfo(np.float32).min
_COMPARISONS: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        "equal": np.equal,
        "not_equal": np.not_equal,
        "less": np.less,
        "less_equal": np.less_equal,
        "greater": np.greater,
        "greater_equal": np.greater_equal,
    }
)


def affine_values(ins: Instruction, partitions: int) -> npt.NDArray[np.int32]:
    """The affine expression of an instruction, shape ``(partitions, elements per partition)``."""
    values = ins.attributes["offset"] + ins.attributes["channel_multiplier"] * np.arange(
        partitions, dtype=np.int64
    )
    for step, count in ins.attributes["pattern"]:
        values = values[..., None] + step * np.arange(count, dtype=np.int64)
    wrapped: npt.NDArray[np.int32] = values.astype(np.int32).reshape(partitions, -1)
    return wrapped


def _iota(core: Core, ins: Instruction) -> None:
    """``dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + ... + x * step_x``."""
    (dst,) = ins.outs
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    core.write(ins, dst, affine_values(ins, dst.shape[0]))


def _affine_select(core: Core, ins: Instruction) -> None:
    """``dst = on_true_tile where affine <cmp_op> 0, else on_false_value``."""
    (dst,), (on_true,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert on_true is not None  # noqa: S101
    values = affine_values(ins, dst.shape[0])
    chosen = _COMPARISONS[ins.attributes["cmp_op"]](values, 0)
    held = cast(core.read(ins, on_true), on_true.dtype, dst.dtype, precise=core.precise)
    other = np.array([ins.attributes["on_false_value"]], np.float32)
    filled = round_to(other, dst.dtype, precise=core.precise)
    write_raw(core, ins, dst, np.where(chosen, held.reshape(chosen.shape), filled))


def _range_select(core: Core, ins: Instruction) -> None:
    """``dst = on_true_tile where both comparisons of range_start + index hold, else the lowest float32``."""
    (dst, reduce_res), (on_true, bound0, bound1) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert on_true is not None  # noqa: S101
    assert bound0 is not None  # noqa: S101
    assert bound1 is not None  # noqa: S101
    lanes = on_true.shape[0]
    values = core.read32(ins, on_true).reshape(lanes, -1)
    index = (ins.attributes["range_start"] + np.arange(values.shape[1])).astype(np.float32)
    low, high = (core.read32(ins, bound).reshape(lanes, 1) for bound in (bound0, bound1))
    chosen = _COMPARISONS[ins.attributes["comp_op0"]](index, low)
    chosen &= _COMPARISONS[ins.attributes["comp_op1"]](index, high)
    result = np.where(chosen, values, _LOWEST)
    _accumulate(core, ins, on_true, reduce_res, result)
    core.write(ins, dst, result)


def _select_reduce(core: Core, ins: Instruction) -> None:
    """``dst = on_true where predicate (or where not, reversed), else on_false``."""
    (dst, reduce_res), (predicate, on_true, on_false) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert predicate is not None  # noqa: S101
    assert on_true is not None  # noqa: S101
    lanes = on_true.shape[0]
    chosen = (core.read(ins, predicate) != 0).reshape(lanes, -1)
    if ins.attributes["reverse_pred"]:
        chosen = ~chosen
    values = core.read32(ins, on_true).reshape(lanes, -1)
    other = (
        np.float32(ins.attributes["on_false"])
        if on_false is None
        else core.read32(ins, on_false).reshape(lanes, 1)
    )
    result = np.where(chosen, values, other)
    _accumulate(core, ins, on_true, reduce_res, result)
    core.write(ins, dst, result)


def _accumulate(core: Core, ins: Instruction, lanes: View, reduce_res: View | None, result: Array) -> None:
    """The largest number of each row onto the accumulator registers, and from them to ``reduce_res``."""
    command = ins.attributes["reduce_cmd"]
    if command == "idle":
        accumulators.forget(core, lanes)
        return
    held = accumulators.start(core, ins, lanes, command, -np.inf)
    if command != "reset":
        held = alu.binary("maximum", held, alu.reduce("maximum", result, 1))
    accumulators.keep(core, lanes, held)
    if reduce_res is not None:
        core.write(ins, reduce_res, held)


def _sequence_bounds(core: Core, ins: Instruction) -> None:
    """For every element the first index of its run of equal IDs, then for every element the index after it.

    Padding (ID 0) has ``n`` and -1, with ``n`` elements.
    """
    (dst,), (segment_ids,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert segment_ids is not None  # noqa: S101
    ids = core.read(ins, segment_ids).reshape(-1)
    _require_ids(ins, segment_ids, ids)
    count = len(ids)
    begins = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    lengths = np.diff(begins, append=count)
    padding = ids == 0
    first = np.where(padding, count, np.repeat(begins, lengths))
    after = np.where(padding, -1, np.repeat(begins + lengths, lengths))
    core.write(ins, dst, np.concatenate([first, after])[None, :])


def _require_ids(ins: Instruction, view: View, ids: Array) -> None:
    good = ids >= 0
    if ids.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            good &= np.floor(ids) == ids
            good &= np.isfinite(ids)
    if not good.all():
        at = int(np.argmin(good))
        raise broken(
            ins,
            "non-negative integers as segment IDs",
            f"{ids[at]} at index {at}",
            "number segments from 1",
            view,
        )


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        "iota": _iota,
        "affine_select": _affine_select,
        "range_select": _range_select,
        "select_reduce": _select_reduce,
        "sequence_bounds": _sequence_bounds,
    }
)
"""By opcode."""
