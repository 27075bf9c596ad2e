"""The description of a sharded checkpoint, and what it makes of one model: stages, heads and vocabulary per device."""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from twintrack.errors import ModelError
from twintrack.pilot.convert.layouts.geometry import Geometry, Place
from twintrack.pilot.convert.layouts.rotary import Rotary

__all__ = ["Layout", "Plan", "Shard"]

Degree = Annotated[int, Field(ge=1, le=1024)]


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


class Layout(BaseModel):
    """How a checkpoint is cut; its JSON form stands in ``shards.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    tensor: Degree = 1
    """Devices that share each matrix."""
    pipeline: Degree = 1
    """Groups of layers."""
    stage_layers: tuple[Annotated[int, Field(ge=1)], ...] | None = None
    """Layers of each stage; none: as even as they can be, the first stages one more."""
    rotary: Rotary = "half_split"
    """Order of the rows of q and k in the shards."""
    pad_to: Annotated[int, Field(ge=1, le=1_048_576)] = 1
    """The vocabulary is padded with zero rows to a multiple of ``tensor * pad_to``, as Megatron's
    ``make_vocab_size_divisible_by`` does."""
    fused_qkv: Literal["none", "blocks", "groups"] = "none"
    """``self_attn.qkv_proj`` of each shard: ``blocks``: its q, its k, its v (NxD); ``groups``: by KV head, its
    queries, its key, its value (Megatron)."""
    fused_gate_up: bool = False
    """``mlp.gate_up_proj`` of each shard: its gate, then its up."""
    kv_multiplier: Degree | None = None
    """Copies of every KV head over the tensor ranks; none: the fewest that let the ranks divide them."""
    kv_order: Literal["blocked", "interleaved"] = "blocked"
    """Where there are copies: those of a head on neighbouring ranks, or every head once before any comes again, with
    the query heads, and the columns of o, moved to their KV heads (NxD on trn1)."""

    @model_validator(mode="after")
    def _stages_agree(self) -> Layout:
        if self.stage_layers is not None and len(self.stage_layers) != self.pipeline:
            raise ValueError(f"stage_layers: {self.pipeline} entries are required, found {self.stage_layers}")
        return self

    @property
    def shards(self) -> tuple[Shard, ...]:
        """All devices, the ranks of the first stage first."""
        return tuple(Shard(rank, stage) for stage in range(self.pipeline) for rank in range(self.tensor))


class Plan:
    """A layout for one model.

    KV heads are copied ``kv_multiplier`` times, so that there are ``slots`` of them, each with its share of the
    queries of its head; the ranks divide the slots evenly, and slot and queries stay together.

    Raises:
        ModelError: if the layout does not divide the model.
    """

    def __init__(self, geometry: Geometry, layout: Layout) -> None:
        self.geometry = geometry
        self.layout = layout
        degree, kv_heads = layout.tensor, geometry.kv_heads
        multiplier = layout.kv_multiplier or math.lcm(kv_heads, degree) // kv_heads
        self.slots = kv_heads * multiplier
        """KV heads, copies counted."""
        _require(self.slots % degree == 0, f"KV heads times kv_multiplier divisible by {degree}", self.slots)
        _require(
            geometry.heads % self.slots == 0,
            f"query heads divisible by {self.slots} KV heads and copies",
            geometry.heads,
        )
        _require(
            geometry.intermediate % degree == 0,
            f"an intermediate size divisible by {degree}",
            geometry.intermediate,
        )
        unit = degree * layout.pad_to
        self.vocabulary = -(-geometry.vocabulary // unit) * unit
        """Size with padding."""
        self.stages = self._stages()
        """Layers of each stage."""
        self._multiplier = multiplier
        self._order = list(range(self.slots))
        if layout.kv_order == "interleaved":
            self._order = [head * multiplier + copy for copy in range(multiplier) for head in range(kv_heads)]

    def _stages(self) -> tuple[int, ...]:
        layers, stages = self.geometry.layers, self.layout.pipeline
        if self.layout.stage_layers is not None:
            found = self.layout.stage_layers
            _require(sum(found) == layers, f"stage_layers that add up to {layers}", list(found))
            return found
        _require(layers >= stages, f"at least one layer for each of {stages} stages", layers)
        return tuple(layers // stages + (stage < layers % stages) for stage in range(stages))

    def stage_of(self, place: Place) -> int:
        """The stage that a tensor belongs to: the embedding to the first, final norm and head to the last.

        Raises:
            ModelError: if the model has no such layer.
        """
        if place.layer is None:
            return 0 if place.module == "embed_tokens" else self.layout.pipeline - 1
        last = 0
        for stage, layers in enumerate(self.stages):
            last += layers
            if place.layer < last:
                return stage
        raise _plan_error(f"layers 0 to {last - 1}", f"layer {place.layer}")

    def slots_of(self, rank: int) -> list[int]:
        """Slots of a rank, in its order; a slot's KV head is ``slot // kv_multiplier``."""
        count = self.slots // self.layout.tensor
        return self._order[rank * count : (rank + 1) * count]

    def kv_heads_of(self, rank: int) -> list[int]:
        """KV heads of a rank, in its order; one may come more than once."""
        return [slot // self._multiplier for slot in self.slots_of(rank)]

    def heads_of(self, rank: int) -> list[int]:
        """Query heads of a rank, in its order."""
        share = self.geometry.heads // self.slots
        return [head for slot in self.slots_of(rank) for head in range(slot * share, (slot + 1) * share)]


def _require(holds: bool, required: str, found: object) -> None:
    if not holds:
        raise _plan_error(required, str(found))


def _plan_error(required: str, found: str) -> ModelError:
    return ModelError(
        required, found=found, where="parallel plan", remedy="choose degrees that divide the model"
    )
