"""Shapes and strides of reshaped views: what can be expressed without moving data, and what cannot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki.tensor_errors import tensor_error, whole, wholes

if TYPE_CHECKING:
    from twintrack.nki.tensor import NkiTensor

__all__ = [
    "merged_strides",
    "rearranged",
    "reinterpretable",
    "reinterpreted",
    "reshaped_strides",
    "split_sizes",
    "split_strides",
]


def split_sizes(tensor: NkiTensor, total: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Sizes with the one -1 filled in.

    Raises:
        KernelError: if their product is not ``total``.
    """
    sizes = list(wholes(tensor, shape, "a shape"))
    given = list(sizes)
    known = math.prod(count for count in sizes if count != -1)
    if sizes.count(-1) == 1 and known > 0 and total % known == 0:
        sizes[sizes.index(-1)] = total // known
    if not sizes or math.prod(sizes) != total or any(count < 1 for count in sizes):
        raise tensor_error(
            tensor, f"sizes whose product is {total}", f"{given}", "keep the number of elements"
        )
    return tuple(sizes)


def split_strides(step: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dimension that was split into these sizes."""
    found = [step]
    for count in reversed(sizes[1:]):
        found.insert(0, found[0] * count)
    return tuple(found)


def merged_strides(tensor: NkiTensor, start: int, end: int) -> tuple[int, int]:
    """Elements and stride of dimensions ``start`` to ``end`` as one.

    Raises:
        KernelError: if they do not lie densely.
    """
    kept = [
        (count, step)
        for count, step in zip(tensor.shape[start : end + 1], tensor.strides[start : end + 1], strict=True)
        if count != 1
    ]
    if not kept:
        return 1, tensor.strides[end]
    for (_, outer), (count, inner) in itertools.pairwise(kept):
        if outer != inner * count:
            raise tensor_error(
                tensor,
                f"dimensions {start} to {end} to lie densely",
                f"strides {[step for _, step in kept]}",
                "copy the tensor first, or merge before slicing and permuting",
            )
    return math.prod(count for count, _ in kept), kept[-1][1]


def reshaped_strides(tensor: NkiTensor, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides under which the tensor has another shape; NumPy's rule for a reshape without a copy.

    Raises:
        KernelError: if there are none.
    """
    old = [(count, step) for count, step in zip(tensor.shape, tensor.strides, strict=True) if count != 1]
    strides = [0] * len(sizes)
    at = new = 0
    while at < len(old) and new < len(sizes):
        if sizes[new] == 1:
            new += 1
            continue
        have, want, first = old[at][0], sizes[new], at
        last = new
        while have != want:
            if have < want:
                at += 1
                have *= old[at][0]
                if old[at - 1][1] != old[at][1] * old[at][0]:
                    raise tensor_error(
                        tensor,
                        f"a layout that shape {list(sizes)} can be read from without a copy",
                        f"strides {[step for _, step in old[first : at + 1]]}",
                        "copy the tensor first",
                    )
            else:
                last += 1
                want *= sizes[last]
        step = old[at][1]
        for position in range(last, new - 1, -1):
            strides[position] = step
            step *= sizes[position]
        at += 1
        new = last + 1
    for position in range(len(sizes) - 1, -1, -1):
        if sizes[position] == 1:
            strides[position] = (
                strides[position + 1] * sizes[position + 1] if position + 1 < len(sizes) else 1
            )
    if tensor.storage.buffer.on_chip and sizes[0] == 1:
        strides[0] = tensor.strides[0]  # one partition is still as far from the next
    return tuple(strides)


def reinterpretable(tensor: NkiTensor, kind: DType) -> None:
    """Whether the buffer has the bits of another type.

    Raises:
        KernelError: if it does not, as ``NKI_PRECISE_FP=0`` holds narrow floats as float32.
    """
    held = tensor.storage
    if kind is tensor.dtype or held.precise or not (kind.is_float or held.buffer.dtype.is_float):
        return
    raise tensor_error(
        tensor,
        "NKI_PRECISE_FP=1 for a tensor seen as another type",
        "NKI_PRECISE_FP=0, under which narrow floats have no bits",
        "run it with precise floating point",
    )


def reinterpreted(tensor: NkiTensor, kind: DType) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and offset of the same bits as another type.

    Raises:
        KernelError: if the last dimension is not dense or does not divide, or the address is dynamic.
    """
    reinterpretable(tensor, kind)
    if tensor.dynamic is not None:
        raise tensor_error(tensor, "a view with a static address", "an indirect one", "reinterpret it before")
    old, new = tensor.dtype.bytes, kind.bytes
    if old == new:
        return tensor.shape, tensor.strides, tensor.offset
    if tensor.strides[-1] != 1 and tensor.shape[-1] != 1:
        raise tensor_error(tensor, "a dense last dimension", f"stride {tensor.strides[-1]}", "copy it first")
    total = tensor.shape[-1] * old
    steps = [step for step, count in zip(tensor.strides[:-1], tensor.shape[:-1], strict=True) if count > 1]
    if total % new or any(at * old % new for at in (tensor.offset, *steps)):
        raise tensor_error(
            tensor,
            f"a last dimension, an offset and strides of whole {new}-byte elements",
            f"a last dimension of {total} bytes from byte {tensor.offset * old} in steps of "
            f"{[step * old for step in steps]}",
            "pad it",
        )
    strides = (*(step * old // new for step in tensor.strides[:-1]), 1)
    return (*tensor.shape[:-1], total // new), strides, tensor.offset * old // new


def _names(pattern: Sequence[Any]) -> list[tuple[str, ...]]:
    return [(one,) if isinstance(one, str) else tuple(one) for one in pattern]


def rearranged(
    tensor: NkiTensor, source: Sequence[Any], target: Sequence[Any], fixed: Mapping[str, int]
) -> NkiTensor:
    """Dimensions split, reordered and merged by name.

    Raises:
        KernelError: if the patterns do not name the same dimensions, or sizes cannot be inferred.
    """
    groups, wanted = _names(source), _names(target)
    before = [name for group in groups for name in group]
    after = [name for group in wanted for name in group]
    if (
        sorted(before) != sorted(after)
        or len(set(before)) != len(before)
        or len(groups) != tensor.ndim
        or not all(groups)
        or not all(wanted)
    ):
        raise tensor_error(
            tensor,
            f"patterns of {tensor.ndim} dimensions that name the same ones, each once",
            f"{tuple(source)} and {tuple(target)}",
            "name every dimension on both sides",
        )
    if not set(fixed) <= set(before):
        raise tensor_error(
            tensor, "sizes of named dimensions", f"{sorted(set(fixed) - set(before))}", "mend fixed_sizes"
        )
    fixed = {name: whole(tensor, size, f"size of {name} in rearrange", 1) for name, size in fixed.items()}
    found = tensor
    for dim in range(len(groups) - 1, -1, -1):
        group = groups[dim]
        if len(group) > 1:
            found = found.reshape_dim(dim, tuple(fixed.get(name, -1) for name in group))
        elif group[0] in fixed and fixed[group[0]] != tensor.shape[dim]:
            raise tensor_error(
                tensor, f"size {tensor.shape[dim]} for {group[0]}", f"{fixed[group[0]]}", "mend fixed_sizes"
            )
    found = found.permute(tuple(before.index(name) for name in after))
    for at, group in enumerate(wanted):
        if len(group) > 1:
            found = found.flatten_dims(at, at + len(group) - 1)
    return found
