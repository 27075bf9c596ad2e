"""The order of rows in query and key projections: half-split (the hub) or interleaved (Meta's own files).

Rotary embeddings (Su et al. 2021, arXiv 2104.09864) turn pairs of a head's elements. The hub's Llama pairs element
i with i + d/2 (*half-split*), the original one 2i with 2i + 1 (*interleaved*). Rows of q and k, and of nothing else,
must follow; the sum over a head, and so every attention score, is then the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from torch import Tensor

from twintrack.pilot.convert.layouts.geometry import Geometry

__all__ = ["Rotary", "permute_rotary", "permute_rows", "rotary_rows"]

Rotary = Literal["half_split", "interleaved"]


def rotary_rows(heads: int, head_dim: int, to: Rotary) -> Tensor:
    """For each row of the layout ``to``, the row of the other layout that it is; int64 ``[heads * head_dim]``.

    Raises:
        ModelError: if ``head_dim`` is odd.
    """
    raise NotImplementedError


def permute_rows(tensor: Tensor, heads: int, to: Rotary) -> Tensor:
    """A weight ``[heads * d, in]``, bias ``[heads * d]`` or LoRA B ``[heads * d, rank]`` in the layout ``to``.

    Raises:
        ModelError: if the rows are no even multiple of ``heads``.
    """
    raise NotImplementedError


def permute_rotary(tensors: Mapping[str, Tensor], geometry: Geometry, to: Rotary) -> dict[str, Tensor]:
    """All tensors, with the rows of q and k in the layout ``to``; the others are passed on as they are.

    Weights, biases and LoRA B change, in every group of a training state: moments belong to elements, so they move
    with them.

    Args:
        tensors: by our names, PEFT's keys or the hub's, with or without ``GROUP/``; in the other layout.

    Raises:
        ModelError: if a tensor's rows are not those of the geometry.
    """
    raise NotImplementedError
