"""How many cycles an instruction keeps its engine busy, from its shapes, types and attributes alone.

Formulas: the docstrings of ``nki.isa`` in Neuron 2.26 (sdk@v2.26.0:general/nki/api/nki/isa/__init__.py), written for
NeuronCore-v2 and applied with the clocks of the modelled generation; performance modes of the Vector Engine of
NeuronCore-v3: sdk:nki/guides/architecture/trainium2_arch.rst. N is elements per partition. Instructions without a
published cost follow the published rule of thumb (one input about N cycles, two about 2 N) and are listed as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.timing.parameters import Parameters

__all__ = ["NO_TABLE", "PSUM", "SBUF", "Work", "unpublished", "work_of"]

SBUF, PSUM = 1, 2


class Work(NamedTuple):
    """What an instruction asks of its engine.

    Attributes:
        cycles: of useful work, without the fixed cost.
        fixed: further cycles per instruction.
        mode: how it shares the port of Vector and GpSimd Engine: 2 or 4 in a performance mode, else 1.
        flops: multiplications and additions of a matrix multiplication.
        rows: share of the Tensor Engine's rows that are fed.
        table: activation function that must be loaded, or empty.
        published: whether the formula was published for this instruction.
        memories: that it accesses: ``SBUF``, ``PSUM``, their sum, or 0.
    """

    cycles: float
    fixed: float
    mode: int = 1
    flops: int = 0
    rows: float = 1.0
    table: str = ""
    published: bool = True
    memories: int = 0


NO_TABLE = frozenset({"copy", "square", "relu", "abs", "sign", "prelu"})
"""Functions that need no table of coefficients: our choice, none is published."""
_HALF_WIDTH = frozenset({"bfloat16", "float16"})
_PASSES = 4
_DYNAMIC_COPY = 600
"""Cycles at least of a copy whose address is known only at run time."""


def _n(ins: Instruction) -> int:
    """Elements per partition of the largest operand."""
    return max((view.free_size for view in (*ins.outs, *ins.ins) if view is not None), default=1)


def _in_psum(*views: View | None) -> bool:
    return any(view is not None and view.storage.buffer.region is MemoryRegion.psum for view in views)


def _one_in_psum(first: View | None, second: View | None) -> bool:
    return _in_psum(first) != _in_psum(second)


def _sixteen(*views: View | None) -> bool:
    return all(view.dtype in _HALF_WIDTH for view in views if view is not None)


def _brain(*views: View | None) -> bool:
    return all(view.dtype == "bfloat16" for view in views if view is not None)


def _dense(*views: View | None) -> bool:
    return all(view.strides[-1] == 1 or view.shape[-1] == 1 for view in views if view is not None)


def _fast_copy(ins: Instruction, out: View, data: View, parameters: Parameters) -> int:
    """Elements per cycle of a copy or tensor-scalar on the Vector Engine."""
    if parameters.chip == "trn1" or ins.engine is not Engine.VECTOR:
        return 1
    psum = _in_psum(out, data)
    if _sixteen(out, data):
        if not psum and _dense(out, data):
            return 4
        return 2 if not psum or (_one_in_psum(out, data) and _dense(out, data)) else 1
    if not psum and _dense(out, data):
        # the width of the datapath for other types; measured: 512 float32 copied in 415 to 424 ns
        # (kernel-optimization.rst, profile image), 16,384 to float8 in 8,778 (design-rmsnorm-quant.rst, likewise)
        return 2
    return 1


def _copy(ins: Instruction, p: Parameters) -> tuple[float, int]:
    out, data = ins.outs[0], ins.ins[0]
    assert out is not None  # noqa: S101 - operands of an issued instruction
    assert data is not None  # noqa: S101
    if out.dynamic is not None or data.dynamic is not None:
        return max(_DYNAMIC_COPY, _n(ins)), 1
    rate = _fast_copy(ins, out, data, p)
    return max(p.minimum_interval, _n(ins) / rate), rate


def _tensor_scalar(ins: Instruction, p: Parameters) -> tuple[float, int]:
    return _copy(ins, p)


def _tensor_tensor(ins: Instruction, p: Parameters) -> tuple[float, int]:
    n = _n(ins)
    data1, data2 = ins.ins[:2]
    if _one_in_psum(data1, data2):
        return max(p.minimum_interval, n), 1
    sbuf = not _in_psum(data1, data2)
    if p.chip != "trn1" and ins.engine is Engine.VECTOR and sbuf and _sixteen(ins.outs[0], data1, data2):
        return max(p.minimum_interval, n), 2
    plain = ins.attributes.get("op") in ("add", "multiply", "subtract")
    if plain and sbuf and _brain(ins.outs[0], data1, data2) and _dense(data1, data2):
        return max(p.minimum_interval, n), 1
    return max(p.minimum_interval, 2 * n), 1


def _two_inputs(ins: Instruction, p: Parameters) -> tuple[float, int]:
    return max(p.minimum_interval, 2 * _n(ins)), 1


def _one_input(ins: Instruction, p: Parameters) -> tuple[float, int]:
    return max(p.minimum_interval, _n(ins)), 1


def _scalar_tensor_tensor(ins: Instruction, p: Parameters) -> tuple[float, int]:
    n = _n(ins)
    fast = (
        _brain(ins.ins[0], ins.ins[2])
        and (ins.attributes.get("op0"), ins.attributes.get("op1")) == ("subtract", "multiply")
        and n % 2 == 0
    )
    if fast or _in_psum(ins.ins[0], ins.ins[2]):
        return max(p.minimum_interval, n), 1
    return max(p.minimum_interval, 2 * n), 1


def _tensor_reduce(ins: Instruction, p: Parameters) -> tuple[float, int]:
    n = _n(ins)
    half = _brain(ins.outs[0], ins.ins[0]) and ins.attributes.get("op") in ("add", "maximum")
    # published as N / 2 for bf16; a profile image of Trainium2 shows N = 16,384 bf16 in N cycles for abs-max
    return max(p.minimum_interval, n / 2 if half else n), 1


def _predicated(ins: Instruction, p: Parameters) -> tuple[float, int]:
    n = _n(ins)
    return max(p.minimum_interval, n if _one_in_psum(ins.ins[0], ins.ins[1]) else 2 * n), 1


def _memset(ins: Instruction, p: Parameters) -> tuple[float, int]:
    n = _n(ins)
    out = ins.outs[0]
    fast = _sixteen(out) and ins.attributes.get("value") == 0
    return max(p.minimum_interval, n / 2 if fast else n), 1


def _reciprocal(ins: Instruction, p: Parameters) -> tuple[float, int]:
    return max(p.minimum_interval, 8 * _n(ins)), 1


def _bn_aggr(ins: Instruction, p: Parameters) -> tuple[float, int]:
    return max(p.minimum_interval, 13 * _n(ins) / 3), 1


def _with_result(ins: Instruction, p: Parameters) -> tuple[float, int]:
    return max(p.minimum_interval, _n(ins)) + 64, 1


def _topk(ins: Instruction, p: Parameters) -> tuple[float, int]:
    del p
    out = ins.outs[0]
    return float(4 * int(ins.attributes.get("n", 0)) + (out.free_size if out is not None else 0)), 1


def _gather(ins: Instruction, p: Parameters) -> tuple[float, int]:
    del p
    index = ins.ins[1]
    count = int(ins.attributes.get("num_valid_indices") or (index.free_size * 16 if index is not None else 1))
    e = int(ins.attributes.get("num_elem_per_idx") or 1)
    out = ins.outs[0]
    width = out.dtype.bytes if out is not None else 4
    rate = ((28 + 4 * e) / (4 * e)) / min(4 / width, e)
    return count * e / rate, 1


_VECTOR: Mapping[str, Callable[[Instruction, Parameters], tuple[float, int]]] = MappingProxyType(
    {
        "tensor_copy": _copy,
        "tensor_scalar": _tensor_scalar,
        "tensor_tensor": _tensor_tensor,
        "scalar_tensor_tensor": _scalar_tensor_tensor,
        "tensor_reduce": _tensor_reduce,
        "tensor_scalar_reduce": _with_result,
        "tensor_copy_predicated": _predicated,
        "tensor_tensor_scan": _two_inputs,
        "memset": _memset,
        "reciprocal": _reciprocal,
        "bn_stats": _one_input,
        "bn_aggr": _bn_aggr,
        "dropout": _one_input,
        "max8": _one_input,
        "nc_find_index8": _one_input,
        "nc_match_replace8": _one_input,
        "range_select": _one_input,
        "nc_stream_shuffle": _one_input,
        "nc_transpose": _one_input,
        "iota": _one_input,
        "affine_select": _one_input,
        "local_gather": _gather,
        "topk": _topk,
        "activation": _one_input,
        "activation_reduce": _one_input,
    }
)
_RULE_OF_THUMB: Mapping[str, Callable[[Instruction, Parameters], tuple[float, int]]] = MappingProxyType(
    {
        "select_reduce": _two_inputs,
        "tensor_partition_reduce": _one_input,
        "tensor_scalar_cumulative": _one_input,
        "sequence_bounds": _one_input,
        "nonzero_with_count": _one_input,
        "nc_n_gather": _one_input,
        "rng": _one_input,
        "rand2": _one_input,
        "rand_get_state": _one_input,
        "rand_set_state": _one_input,
        "set_rng_seed": _one_input,
        "activate2": _one_input,
        "exponential": _one_input,
        "quantize_mx": _one_input,
        "register_move": _one_input,
        "register_load": _one_input,
        "register_store": _one_input,
        "core_barrier": _one_input,
        "sendrecv": _one_input,
        "device_print": _one_input,
    }
)
_ACTIVATIONS = frozenset({"activation", "activation_reduce", "activate2"})


def unpublished() -> frozenset[str]:
    """Instructions whose cost nobody published; they follow the rule of thumb."""
    return frozenset(_RULE_OF_THUMB)


def work_of(ins: Instruction, p: Parameters) -> Work:
    """What an instruction of a compute engine asks of it; a DMA is costed in ``dma``."""
    if ins.engine is Engine.TENSOR:
        return _matmul(ins, p)
    rule = _VECTOR.get(ins.opcode)
    published = rule is not None
    if rule is None:
        rule = _RULE_OF_THUMB.get(ins.opcode, _one_input)
    cycles, mode = rule(ins, p)
    table = ""
    fixed = {Engine.VECTOR: p.vector_fixed, Engine.SCALAR: p.scalar_fixed, Engine.GPSIMD: p.gpsimd_fixed}.get(
        ins.engine, 0.0
    )
    if ins.engine is Engine.SCALAR and ins.opcode in _ACTIVATIONS:
        op = str(ins.attributes.get("op", ""))
        table = "" if op in NO_TABLE else op
        if ins.outs[-1] is not None and len(ins.outs) > 1:
            cycles += p.scalar_accumulator_read
    regions = {view.storage.buffer.region for view in (*ins.outs, *ins.ins) if view is not None}
    memories = SBUF * (MemoryRegion.sbuf in regions) + PSUM * (MemoryRegion.psum in regions)
    return Work(cycles, fixed, mode, table=table, published=published, memories=memories)


def _matmul(ins: Instruction, p: Parameters) -> Work:
    """``max(min(64, N_stationary), N_moving)`` cycles, four times that in float32; a transposition streams its data."""
    if ins.opcode == "nc_transpose":
        data = ins.ins[0]
        assert data is not None  # noqa: S101 - operands of an issued instruction
        passes = _passes(ins, data, p, transposes=True)
        cycles = max(data.shape[0], min(p.minimum_interval, data.free_size)) * passes
        return Work(cycles, p.tensor_gap * passes, rows=data.shape[0] / 128)
    stationary, moving = ins.ins[:2]
    assert stationary is not None  # noqa: S101
    assert moving is not None  # noqa: S101
    transposes = bool(ins.attributes.get("is_transpose"))
    pairs = 2 if ins.attributes.get("perf_mode") == "double_row" else 1
    m, n, k = stationary.free_size // pairs, moving.free_size // pairs, stationary.shape[0]
    passes = _passes(ins, moving, p, transposes=transposes)
    cycles = float(max(min(p.minimum_interval, m), n)) * passes
    return Work(cycles, p.tensor_gap * passes, flops=0 if transposes else 2 * k * pairs * m * n, rows=k / 128)


def _passes(ins: Instruction, data: View, p: Parameters, *, transposes: bool) -> int:
    """How often the array is fed: four times in float32, half of that for zeros and ones, or in v3's transpose mode."""
    if data.dtype != "float32":
        return 1
    halved = (transposes and p.chip != "trn1") or any(ins.attributes.get("onezero", ()))
    return _PASSES // 2 if halved else _PASSES
