"""``nki.isa``: instructions that gather within SBUF, move across partitions, search and count."""

from __future__ import annotations

from collections.abc import Sequence

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.isa.issue import NkiInstruction, author_error, issue, number_or_tensor
from twintrack.nki.isa.selection import integer
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "local_gather",
    "max8",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nonzero_with_count",
    "topk",
]


def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Within each 16 partitions: ``dst[:, i] = src_buffer[:, index[i] : index[i] + num_elem_per_idx]``, on GpSimd.

    The indices of 16 partitions are one list, which runs down the partitions first; each counts elements of a
    partition, free dimensions as one.

    Args:
        dst: SBUF, of the type of ``src_buffer``; ``num_valid_indices * num_elem_per_idx`` elements per partition.
        src_buffer: SBUF; a multiple of 16 partitions.
        index: SBUF, uint16; as many partitions.
        num_elem_per_idx: 1, 2, 4, 8, 16 or 32 elements beside each other.
        num_valid_indices: how many of the list are used, at most 4096; by default all.
        name: for messages and profiles.

    Raises:
        KernelError: for other types, sizes or numbers, or an index outside.
    """
    attributes = {
        "num_elem_per_idx": integer("num_elem_per_idx", num_elem_per_idx),
        "num_valid_indices": None
        if num_valid_indices is None
        else integer("num_valid_indices", num_valid_indices),
    }
    return issue("local_gather", Engine.GPSIMD, (dst,), (src_buffer, index), attributes, name)


def nc_n_gather(
    dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """``dst[p, i] = data[p, indices[p, i]]``, free dimensions as one, on GpSimd.

    Args:
        dst: SBUF, of the type of ``data``; as many elements per partition as ``indices``.
        data: SBUF.
        indices: SBUF, uint32.
        name: for messages and profiles.

    Raises:
        KernelError: for other types or sizes, or an index outside.
    """
    return issue("nc_n_gather", Engine.GPSIMD, (dst,), (data, indices), {}, name)


def nc_stream_shuffle(
    dst: NkiTensor, src: NkiTensor, shuffle_mask: Sequence[int], name: str | None = None
) -> NkiInstruction:
    """``dst[q + i] = src[q + shuffle_mask[i]]`` in every quadrant of 32 partitions from ``q``, on the Vector Engine.

    Args:
        dst: SBUF or PSUM; may be ``src``.
        src: SBUF or PSUM, of the type and with as many elements per partition as ``dst``.
        shuffle_mask: 32 partitions, 0 to 31; 255 leaves the partition of ``dst`` as it is.
        name: for messages and profiles.

    Raises:
        KernelError: for other types, sizes or start partitions, or a source partition that ``src`` does not have.
    """
    try:
        mask = tuple(shuffle_mask)
    except TypeError:
        raise author_error(
            "a list of 32 integers for shuffle_mask", type(shuffle_mask).__name__, "pass one"
        ) from None
    if {*map(type, mask)} != {int}:
        mask = tuple([integer("an element of shuffle_mask", one) for one in mask])
    return issue("nc_stream_shuffle", Engine.VECTOR, (dst,), (src,), {"shuffle_mask": mask}, name)


def max8(dst: NkiTensor, src: NkiTensor, name: str | None = None) -> NkiInstruction:
    """The 8 largest elements of each partition, the largest first, on the Vector Engine.

    Args:
        dst: ``(P, 8)``.
        src: up to 3 dimensions, 8 to 16,384 elements per partition; compared in float32.
        name: for messages and profiles.

    Raises:
        KernelError: for other shapes.
    """
    return issue("max8", Engine.VECTOR, (dst,), (src,), {}, name)


def nc_find_index8(
    dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Where each of 8 values stands first in its partition of ``data``, on the Vector Engine.

    Equal values have their positions in ascending order; a value that is not found has an index of all ones.

    Args:
        dst: ``(P, 8)``, uint16 or uint32.
        data: up to 3 dimensions, 8 to 16,384 elements per partition.
        vals: up to 3 dimensions, 8 elements per partition.
        name: for messages and profiles.

    Raises:
        KernelError: for other types or shapes.
    """
    return issue("nc_find_index8", Engine.VECTOR, (dst,), (data, vals), {}, name)


def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """``dst`` is ``data`` with the first position of each of 8 values replaced by a number, on the Vector Engine.

    Values are taken from the last to the first, so that equal ones have their positions in descending order; one that
    is not found has an index of all ones.

    Args:
        dst: as many partitions and elements per partition as ``data``; may be ``data``.
        data: up to 16,384 elements per partition.
        vals: up to 3 dimensions, 8 elements per partition.
        imm: a float32 number.
        dst_idx: 8 elements per partition, uint16 or uint32, for the positions.
        name: for messages and profiles.

    Raises:
        KernelError: for other types or shapes.
    """
    number, tensor = number_or_tensor(imm)
    if tensor is not None or number is None:
        raise author_error("a number for imm", type(imm).__name__, "pass a float")
    return issue("nc_match_replace8", Engine.VECTOR, (dst, dst_idx), (data, vals), {"imm": number}, name)


def nonzero_with_count(
    dst: NkiTensor, src: NkiTensor, index_offset: int = 0, padding_val: int = -1, name: str | None = None
) -> NkiInstruction:
    """Indices of the elements that are not 0, then padding, then their count, on GpSimd.

    Only partitions 0, 16, 32, ... are read and written. NeuronCore-v3 and newer.

    Args:
        dst: SBUF, int32; one element per partition more than ``src``.
        src: SBUF, float32 or int32.
        index_offset: int32, added to indices.
        padding_val: int32.
        name: for messages and profiles.

    Raises:
        KernelError: on NeuronCore-v2, or for other types or shapes.
    """
    attributes = {
        "index_offset": integer("index_offset", index_offset),
        "padding_val": integer("padding_val", padding_val),
    }
    return issue("nonzero_with_count", Engine.GPSIMD, (dst,), (src,), attributes, name)


def topk(
    val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: int, name: str | None = None
) -> NkiInstruction:
    """In each 16 partitions the K largest of ``n`` elements, ascending, and their numbers, on GpSimd.

    Elements run down the 16 partitions first: element ``i`` is ``src[i % 16, i // 16]``. Every one of the 16 partitions
    is given the result. Of equal elements the earlier are taken.

    Args:
        val_dst: SBUF, bfloat16, ``(P, K)``.
        idx_dst: SBUF, uint32, ``(P, K)``.
        src: SBUF, bfloat16, ``(P, F)``: a multiple of 16 partitions, at least ``ceil(n / 16)`` elements in each.
        n: 8 to 65535.
        name: for messages and profiles.

    Raises:
        KernelError: for other types or shapes, or K above ``n`` or 32767.
    """
    return issue("topk", Engine.GPSIMD, (val_dst, idx_dst), (src,), {"n": integer("n", n)}, name)
