"""Which rows or columns of a tensor each tensor rank holds.

Axes of a weight are ``[out, in]``. A column-parallel module (q, k, v, gate, up, head, and the embedding on its
vocabulary) is cut on ``out``: its weight, its bias and B of its adapter; A is on every rank. A row-parallel module
(o, down) is cut on ``in``: its weight and A of its adapter; its bias, which is added once after the ranks' sums are
added, and B are on every rank, as are norms (Shoeybi et al. 2019, arXiv 1909.08053).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from twintrack.errors import ModelError
from twintrack.pilot.convert.layouts.geometry import Place
from twintrack.pilot.convert.layouts.layout import Plan
from twintrack.pilot.convert.layouts.rotary import rotary_rows

__all__ = ["Cut", "Cuts"]

_COLUMN = frozenset({"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head", "embed_tokens"})
_ROW = frozenset({"o_proj", "down_proj"})


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """How one axis of a tensor is divided over the tensor ranks."""

    axis: int
    size: int
    """Of the whole, without padding."""
    padded: int
    index: tuple[Tensor, ...]
    """For every rank, where its elements lie on the padded axis; int64. All together cover the axis; with copies of
    KV heads, some of it more than once."""


class Cuts:
    """The cuts of a plan, each made once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._made: dict[tuple[str, int], Cut] = {}

    def of(self, place: Place) -> Cut | None:
        """The cut of a tensor; none: every rank holds it whole.

        Raises:
            ModelError: if an adapter is on a module that is not linear.
        """
        module, part = place.module, place.part
        adapter = part in ("lora_A", "lora_B")
        if adapter and module not in (_COLUMN | _ROW) - {"embed_tokens"}:
            raise ModelError(
                "adapters of linear modules",
                found=f"{part} of {module}",
                where="names of tensors",
                remedy="leave it out of lora.targets",
            )
        if module in _COLUMN and part != "lora_A":
            return self._cut(module, 0)
        if module in _ROW and part in ("weight", "lora_A"):
            return self._cut(module, 1)
        return None

    def _cut(self, module: str, axis: int) -> Cut:
        key = (module, axis)
        if key not in self._made:
            self._made[key] = self._make(module, axis)
        return self._made[key]

    def _make(self, module: str, axis: int) -> Cut:
        plan, geometry, ranks = self._plan, self._plan.geometry, range(self._plan.layout.tensor)
        if module in ("q_proj", "o_proj"):
            heads, index = geometry.heads, [self._elements(plan.heads_of(rank)) for rank in ranks]
        elif module in ("k_proj", "v_proj"):
            heads, index = geometry.kv_heads, [self._elements(plan.kv_heads_of(rank)) for rank in ranks]
        else:
            vocabulary = module in ("lm_head", "embed_tokens")
            size = geometry.vocabulary if vocabulary else geometry.intermediate
            padded = plan.vocabulary if vocabulary else size
            return Cut(axis, size, padded, torch.arange(padded).chunk(len(ranks)))
        if module in ("q_proj", "k_proj") and plan.layout.rotary == "interleaved":
            rows = rotary_rows(heads, geometry.head_dim, "interleaved")
            index = [rows[part] for part in index]
        return Cut(axis, heads * geometry.head_dim, heads * geometry.head_dim, tuple(index))

    def _elements(self, heads: Sequence[int]) -> Tensor:
        """Places of all elements of some heads, one head after the other."""
        size = self._plan.geometry.head_dim
        return (torch.tensor(heads)[:, None] * size + torch.arange(size)).reshape(-1)
