"""The order of rows in query and key projections: half-split (the hub) or interleaved (Meta's own files).

Rotary embeddings (Su et al. 2021, arXiv 2104.09864) turn pairs of a head's elements. The hub's Llama pairs element
i with i + d/2 (*half-split*), the original one 2i with 2i + 1 (*interleaved*). Rows of q and k, and of nothing else,
must follow; the sum over a head, and so every attention score, is then the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from twintrack.errors import ModelError
from twintrack.pilot.convert.layouts.geometry import Geometry, place_of

__all__ = ["Rotary", "permute_rotary", "permute_rows", "rotary_rows"]

Rotary = Literal["half_split", "interleaved"]


def rotary_rows(heads: int, head_dim: int, to: Rotary) -> Tensor:
    """For each row of the layout ``to``, the row of the other layout that it is; int64 ``[heads * head_dim]``.

    Raises:
        ModelError: if ``head_dim`` is odd.
    """
    if head_dim % 2:
        raise ModelError(
            "heads of an even number of elements, which rotary embeddings turn in pairs",
            found=str(head_dim),
            where="config.json",
            remedy="take a model with an even head_dim",
        )
    old = (heads, 2, head_dim // 2) if to == "interleaved" else (heads, head_dim // 2, 2)
    return torch.arange(heads * head_dim).reshape(old).transpose(1, 2).reshape(-1)


def permute_rows(tensor: Tensor, heads: int, to: Rotary) -> Tensor:
    """A weight ``[heads * d, in]``, bias ``[heads * d]`` or LoRA B ``[heads * d, rank]`` in the layout ``to``.

    Raises:
        ModelError: if the rows are no even multiple of ``heads``.
    """
    rows = tensor.shape[0]
    if rows % (2 * heads):
        raise ModelError(
            f"rows of {heads} heads of an even number of elements",
            found=f"{rows} rows",
            where="rotary layout",
            remedy="give query projections their query heads and key projections their KV heads",
        )
    return tensor.index_select(0, rotary_rows(heads, rows // heads, to).to(tensor.device))


def permute_rotary(tensors: Mapping[str, Tensor], geometry: Geometry, to: Rotary) -> dict[str, Tensor]:
    """All tensors, with the rows of q and k in the layout ``to``; the others are passed on as they are.

    Weights, biases and LoRA B change, in every group of a training state: moments belong to elements, so they move
    with them.

    Args:
        tensors: by our names, PEFT's keys or the hub's, with or without ``GROUP/``; in the other layout.

    Raises:
        ModelError: if a tensor's rows are not those of the geometry.
    """
    heads = {"q_proj": geometry.heads, "k_proj": geometry.kv_heads}
    result = dict(tensors)
    for name, tensor in tensors.items():
        place = place_of(name)
        if place is None or place.part == "lora_A" or place.module not in heads:
            continue
        count = heads[place.module]
        if tensor.shape[0] != count * geometry.head_dim:
            raise ModelError(
                f"{count} heads of {geometry.head_dim} rows",
                found=f"{tensor.shape[0]} rows",
                where=name,
                remedy="take config.json and weights from one and the same model",
            )
        result[name] = permute_rows(tensor, count, to)
    return result
