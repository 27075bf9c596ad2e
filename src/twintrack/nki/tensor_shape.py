"""Shapes and strides of reshaped views: what can be expressed without moving data, and what cannot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twintrack.nki.tensor import NkiTensor

__all__ = ["merged_strides", "rearranged", "reshaped_strides", "split_sizes"]


def split_sizes(tensor: NkiTensor, total: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Sizes with the one -1 filled in.

    Raises:
        KernelError: if their product is not ``total``.
    """
    from twintrack.nki.tensor import tensor_error

    sizes = [int(count) for count in shape]
    known = math.prod(count for count in sizes if count != -1)
    if sizes.count(-1) == 1 and known > 0 and total % known == 0:
        sizes[sizes.index(-1)] = total // known
    if math.prod(sizes) != total or any(count < 1 for count in sizes):
        raise tensor_error(
            tensor, f"sizes whose product is {total}", f"{list(shape)}", "keep the number of elements"
        )
    return tuple(sizes)


def merged_strides(tensor: NkiTensor, start: int, end: int) -> tuple[int, int]:
    """Elements and stride of dimensions ``start`` to ``end`` as one.

    Raises:
        KernelError: if they do not lie densely.
    """
    from twintrack.nki.tensor import tensor_error

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
    from twintrack.nki.tensor import tensor_error

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
    return tuple(strides)


def _names(pattern: Sequence[Any]) -> list[tuple[str, ...]]:
    return [(one,) if isinstance(one, str) else tuple(one) for one in pattern]


def rearranged(
    tensor: NkiTensor, source: Sequence[Any], target: Sequence[Any], fixed: Mapping[str, int]
) -> NkiTensor:
    """Dimensions split, reordered and merged by name.

    Raises:
        KernelError: if the patterns do not name the same dimensions, or sizes cannot be inferred.
    """
    from twintrack.nki.tensor import tensor_error

    groups, wanted = _names(source), _names(target)
    before = [name for group in groups for name in group]
    after = [name for group in wanted for name in group]
    if sorted(before) != sorted(after) or len(set(before)) != len(before) or len(groups) != tensor.ndim:
        raise tensor_error(
            tensor,
            "patterns that name the same dimensions, each once",
            f"{tuple(source)} and {tuple(target)}",
            "name every dimension on both sides",
        )
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
