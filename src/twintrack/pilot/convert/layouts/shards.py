"""A checkpoint cut for a parallel plan, and put together again, to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict
from torch import Tensor

from twintrack.pilot.convert.layouts.geometry import Geometry
from twintrack.pilot.convert.layouts.rotary import Rotary

__all__ = ["Layout", "Shard", "Shards", "join", "shard_shapes", "split"]

Shape = tuple[int, ...]


class Shard(NamedTuple):
    """One device of a plan."""

    tensor: int
    """Rank among those that share each matrix, from 0."""
    pipeline: int
    """Stage, from 0."""

    @property
    def file(self) -> str:
        """``tp-XX-pp-YY.safetensors``."""
        return f"tp-{self.tensor:02d}-pp-{self.pipeline:02d}.safetensors"


Shards = dict[Shard, dict[str, Tensor]]


class Layout(BaseModel):
    """How a checkpoint is cut; its JSON form stands in ``shards.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    tensor: int = 1
    """Devices that share each matrix."""
    pipeline: int = 1
    """Groups of layers."""
    stage_layers: tuple[int, ...] | None = None
    """Layers of each stage; none: as even as they can be, the first stages one more."""
    rotary: Rotary = "half_split"
    """Order of the rows of q and k in the shards."""
    pad_to: int = 1
    """The vocabulary is padded with zero rows to a multiple of ``tensor * pad_to``, as Megatron's
    ``make_vocab_size_divisible_by`` does."""
    fused_qkv: Literal["none", "blocks", "groups"] = "none"
    """``self_attn.qkv_proj`` of each shard: ``blocks``: its q, its k, its v (NxD); ``groups``: by KV head, its
    queries, its key, its value (Megatron)."""
    fused_gate_up: bool = False
    """``mlp.gate_up_proj`` of each shard: its gate, then its up."""
    kv_multiplier: int | None = None
    """Copies of every KV head over the tensor ranks; none: the fewest that let the ranks divide them."""
    kv_order: Literal["blocked", "interleaved"] = "blocked"
    """Where there are copies: those of a head on neighbouring ranks, or every head once before any comes again, with
    the query heads, and the columns of o, moved to their KV heads (NxD on trn1)."""


def split(tensors: Mapping[str, Tensor], geometry: Geometry, layout: Layout) -> Shards:
    """Cut tensors for a plan. Ours are whole, half-split, unpadded, unfused, a tied head left out.

    Raises:
        ModelError: if the plan does not divide the model, or a tensor is no Llama's or of another shape.
    """
    raise NotImplementedError


def shard_shapes(
    expected: Mapping[str, Shape], geometry: Geometry, layout: Layout
) -> dict[Shard, dict[str, Shape]]:
    """Names and shapes that each shard must hold; no data are made."""
    raise NotImplementedError


def join(
    shards: Mapping[Shard, Mapping[str, Tensor]],
    geometry: Geometry,
    layout: Layout,
    expected: Mapping[str, Shape],
) -> dict[str, Tensor]:
    """Put shards together: the inverse of ``split``.

    Args:
        expected: names and shapes of the whole, as ``expected_names`` gives them, with groups for a training state.

    Raises:
        CheckpointError: a shard or tensor is missing or unknown, has another shape or type; what must be equal on
            several shards differs; or what would be cut as padding is not zero. Names shard and tensor.
    """
    raise NotImplementedError
