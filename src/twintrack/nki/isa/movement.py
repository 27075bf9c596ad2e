"""``nki.isa``: instructions that move data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.nki.earlier import also_took
from twintrack.nki.isa.constants import dge_mode as _dge
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.constants import oob_mode as _oob
from twintrack.nki.isa.issue import (
    NkiInstruction,
    author_error,
    choose,
    flag,
    issue,
    number_or_tensor,
    op_name,
    tensor_of,
)
from twintrack.nki.tensor import NkiTensor, to_dtype

__all__ = [
    "dma_compute",
    "dma_copy",
    "dma_transpose",
    "memset",
    "tensor_copy",
    "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
]


def _read_modify_write(copy: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """``dst_rmw_op`` (2.27 and 2.28) adds to what is there, as ``dma_compute`` does since.

    Indices that repeat were promised to be absent by ``unique_indices``. Who makes the descriptors changes no value.
    """
    op, unique = given.pop("dst_rmw_op", None), given.pop("unique_indices", True)
    if op is None:
        return copy(*args, **given)
    bound = signature(copy).bind(*args, **given)
    bound.apply_defaults()
    dst, src, oob, name = (bound.arguments[each] for each in ("dst", "src", "oob_mode", "name"))
    if oob is not _oob.error:
        raise author_error(
            "oob_mode.error for nki.isa.dma_copy with dst_rmw_op", f"{oob}", "check indices before"
        )
    return dma_compute(dst, [dst, src], op, unique_indices=unique, name=name)


@also_took(_read_modify_write, "dst_rmw_op", "unique_indices")
def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: _oob = _oob.error,
    dge_mode: _dge = _dge.unknown,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = src`` by a DMA, between SBUF and HBM in any direction, cast through float32 where types differ.

    Args:
        dst: as many elements as ``src``; may scatter to rows of HBM that a vector of indices names.
        src: may gather such rows.
        priority: 0 (first) to 3; NeuronCore-v4.
        oob_mode: what a dynamic index out of bounds does; ``skip`` leaves the elements of ``dst`` as they were.
        dge_mode: who makes the descriptors; hardware from NeuronCore-v3, and not for vectors of indices.
        engine: ``sync`` or ``scalar``, which trigger a hardware DGE.
        name: for messages and profiles.

    Raises:
        KernelError: for PSUM operands, unequal numbers of elements, a mode that the generation or the addresses do not
            allow, or an index out of bounds.
    """
    attributes = {
        "oob_mode": oob_mode.name,
        "dge_mode": dge_mode.name,
        "trigger": engine.name,
        "priority": priority,
    }
    return issue("dma_copy", Engine.DMA, (dst,), (src,), attributes, name)


def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: _dge = _dge.unknown,
    oob_mode: _oob = _oob.error,
    name: str | None = None,
) -> NkiInstruction:
    """``dst`` is ``src`` with its first and last dimension exchanged, by a DMA; bits are kept.

    Args:
        dst: SBUF, of the type of ``src``: ``(c, r)``, ``(c, b, r)`` or ``(c, a, b, r)``.
        src: HBM or SBUF, 2 or 4 bytes an element: ``(r, c)``, ``(r, b, c)`` or ``(r, a, b, c)``. With a vector of
            indices, HBM rows ``index.T.flatten()[:r]``, 2 bytes an element, ``r`` a multiple of 16.
        axes: ``(1, 0)``, ``(2, 1, 0)`` or ``(3, 1, 2, 0)``, which is what happens anyway.
        priority: 0 (first) to 3; NeuronCore-v4.
        dge_mode: ``hwdge`` (16 rows, 2 bytes an element) for a direct transpose, ``swdge`` for an indirect one.
        oob_mode: what a dynamic index out of bounds does; ``skip`` leaves what it names of ``dst`` as it was.
        name: for messages and profiles.

    Raises:
        KernelError: for shapes, types, regions or modes that the DMA does not take, or an index out of bounds.
    """
    attributes = {
        "axes": None if axes is None else tuple(axes),
        "priority": priority,
        "dge_mode": dge_mode.name,
        "oob_mode": oob_mode.name,
    }
    return issue("dma_transpose", Engine.DMA, (dst,), (src,), attributes, name)


def dma_compute(
    dst: NkiTensor,
    srcs: Sequence[NkiTensor],
    reduce_op: Any,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: _oob = _oob.error,
    name: str | None = None,
) -> NkiInstruction:
    """``dst`` is the sum of ``srcs``, in float32 with one rounding, by the DMA engines.

    With a vector of indices it reads, adds and writes in place: rows of ``dst`` in HBM, or of a source in HBM onto
    ``dst`` in SBUF; then ``srcs`` are ``dst`` itself and one other.

    Args:
        dst: SBUF or HBM.
        srcs: 1 to 16, each with as many elements as ``dst``.
        reduce_op: ``nl.add``.
        scales: ``None``, or 1.0 for each.
        unique_indices: must be true with a vector of indices, and is checked for a scatter.
        oob_mode: what an index out of bounds does.
        name: for messages and profiles.

    Raises:
        KernelError: for another operator or scale, unequal sizes, indices that repeat or are out of bounds.
    """
    sources = tuple(tensor_of("dma_compute", "srcs", one) for one in srcs)
    same = next((at for at, one in enumerate(sources) if _same_tensor(one, dst)), None)
    attributes = {
        "reduce_op": op_name(reduce_op),
        "scales": None if scales is None else tuple(float(one) for one in scales),
        "unique_indices": unique_indices
        if type(unique_indices) is bool
        else flag("unique_indices", unique_indices),
        "oob_mode": oob_mode.name,
        "same_as_dst": same,
    }
    return issue("dma_compute", Engine.DMA, (dst,), sources, attributes, name)


def _same_tensor(first: NkiTensor, second: NkiTensor) -> bool:
    """Whether both are the same elements, by the same indices where there are some."""
    if first.storage is not second.storage or first.dtype is not second.dtype:
        return False
    if (first.shape, first.strides, first.offset) != (second.shape, second.strides, second.offset):
        return False
    one, other = first.dynamic, second.dynamic
    if one is None or other is None:
        return one is other
    if isinstance(one.index, NkiTensor) and isinstance(other.index, NkiTensor):
        return one[2:] == other[2:] and _same_tensor(one.index, other.index)
    return one == other


def _of_type(copy: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """``dtype`` was documented until 2.26, where a copy made its destination; since then that of ``dst`` counts."""
    dtype = given.pop("dtype")
    if dtype is not None:
        to_dtype(dtype)  # it counts for nothing, but must be one
    return copy(*args, **given)


@also_took(_of_type, "dtype")
def tensor_copy(
    dst: NkiTensor, src: NkiTensor, engine: _engine = _engine.unknown, name: str | None = None
) -> NkiInstruction:
    """``dst = src`` on chip: bits where the types agree, else through float32.

    Args:
        dst: as many partitions and elements per partition as ``src``; SBUF or PSUM.
        src: SBUF or PSUM.
        engine: vector (default), scalar or gpsimd, which cannot reach PSUM.
        name: for messages and profiles.

    Raises:
        KernelError: for operands in HBM, unequal shapes, or an engine that cannot.
    """
    return issue("tensor_copy", choose(engine, Engine.VECTOR), (dst,), (src,), {}, name)


def tensor_copy_dynamic_src(
    dst: NkiTensor, src: NkiTensor, engine: _engine = _engine.unknown, name: str | None = None
) -> NkiInstruction:
    """``tensor_copy`` from an address within each partition that is known only at run time (documented in 2.27).

    Args:
        dst: as many partitions and elements per partition as ``src``.
        src: a view whose free offset is one index in SBUF or a register, as ``select`` and ``ap`` make.
        engine: as for ``tensor_copy``.
        name: for messages and profiles.

    Raises:
        KernelError: as ``tensor_copy``; also if the address of ``src`` is static.
    """
    _require_dynamic("src", tensor_of("tensor_copy", "src", src))
    return tensor_copy(dst, src, engine, name)


def tensor_copy_dynamic_dst(
    dst: NkiTensor, src: NkiTensor, engine: _engine = _engine.unknown, name: str | None = None
) -> NkiInstruction:
    """``tensor_copy`` to an address within each partition that is known only at run time (documented in 2.27).

    Args:
        dst: a view whose free offset is one index in SBUF or a register.
        src: as many partitions and elements per partition as ``dst``.
        engine: as for ``tensor_copy``.
        name: for messages and profiles.

    Raises:
        KernelError: as ``tensor_copy``; also if the address of ``dst`` is static.
    """
    _require_dynamic("dst", tensor_of("tensor_copy", "dst", dst))
    return tensor_copy(dst, src, engine, name)


def _require_dynamic(operand: str, tensor: NkiTensor) -> None:
    if not tensor.is_indirect():
        raise author_error(
            f"{operand} at an address known only at run time",
            f"a static one, {tensor.describe()}",
            "use nisa.tensor_copy, or make the view with select(dim, index) or ap(scalar_offset=index)",
        )


def tensor_copy_predicated(
    dst: NkiTensor,
    src: float | NkiTensor,
    predicate: NkiTensor,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = src`` where the predicate is not 0; other elements of ``dst`` stay as they were.

    Args:
        dst: SBUF or PSUM.
        src: a number, or a tensor of the type and shape of ``dst``, in SBUF or PSUM.
        predicate: uint8, uint16 or uint32, of the shape of ``dst``; not in PSUM together with ``src``.
        reverse_pred: copy where the predicate is 0 instead.
        name: for messages and profiles.

    Raises:
        KernelError: for types, shapes or regions that the Vector Engine does not take.
    """
    number, tensor = number_or_tensor(src)
    if number is None and tensor is None:
        raise author_error("a number or a tensor for src", "None", "pass one of them")
    attributes = {
        "src": number,
        "reverse_pred": flag("reverse_pred", reverse_pred),
    }
    return issue("tensor_copy_predicated", Engine.VECTOR, (dst,), (tensor, predicate), attributes, name)


def memset(
    dst: NkiTensor, value: Any, engine: _engine = _engine.unknown, name: str | None = None
) -> NkiInstruction:
    """``dst = value``, rounded to the type of ``dst``.

    Args:
        dst: SBUF, or PSUM on the Vector Engine.
        value: a number known when the kernel is traced.
        engine: vector (default) or gpsimd.
        name: for messages and profiles.

    Raises:
        KernelError: for a destination in HBM, or another engine.
    """
    try:
        number = value.item() if hasattr(value, "item") else value
    except (ValueError, RuntimeError):  # an array or torch tensor of several
        number = value
    if not isinstance(number, bool | int | float):
        raise author_error(
            "a number known when the kernel is traced as value of nki.isa.memset",
            type(value).__name__,
            "copy tensors with nisa.tensor_copy",
        )
    return issue("memset", choose(engine, Engine.VECTOR), (dst,), (), {"value": number}, name)


def in_psum(*tensors: NkiTensor | None) -> bool:
    """Whether any of these lies in PSUM, which GpSimd cannot reach."""
    return any(one is not None and one.storage.buffer.region is MemoryRegion.psum for one in tensors)
