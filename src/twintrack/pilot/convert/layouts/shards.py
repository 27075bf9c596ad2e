"""A checkpoint cut for a parallel plan, and put together again, to the bit.

Everything here works on names, shapes and bits alone. Optimizer state goes the same way as weights, under names with a
group (``moment1/NAME``): master weights and moments belong to elements, so they lie where their elements lie.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from twintrack.errors import CheckpointError, ModelError, nearest
from twintrack.pilot.convert.layouts.bits import same_bits
from twintrack.pilot.convert.layouts.cuts import Cut, Cuts
from twintrack.pilot.convert.layouts.fusing import fuse, unfuse
from twintrack.pilot.convert.layouts.geometry import Geometry, Place, place_of
from twintrack.pilot.convert.layouts.layout import Layout, Plan, Shard

__all__ = ["Shards", "join", "shard_shapes", "split"]

Shape = tuple[int, ...]
Shards = dict[Shard, dict[str, Tensor]]


def split(tensors: Mapping[str, Tensor], geometry: Geometry, layout: Layout) -> Shards:
    """Cut tensors for a plan.

    With a tied model of several stages, the last one gets a copy of the embedding as ``lm_head.weight``.

    Args:
        tensors: by our names or the hub's, with or without ``GROUP/``: whole, half-split, without padding, unfused, a
            tied head left out.
        geometry: of the model.
        layout: of the shards. What several shards hold alike is one tensor in memory.

    Raises:
        ModelError: if the plan does not divide the model, or a tensor is no Llama's or of another shape.
    """
    plan = Plan(geometry, layout)
    cuts = Cuts(plan)
    shards: Shards = {shard: {} for shard in layout.shards}
    for name, tensor in tensors.items():
        place = _place(name, geometry)
        pieces = _pieces(name, tensor, cuts.of(place), layout.tensor)
        homes = {plan.stage_of(place): name}
        if _copied(place, plan):
            homes[layout.pipeline - 1] = _head_of(name)
        for stage, own in homes.items():
            for rank, piece in enumerate(pieces):
                shards[Shard(rank, stage)][own] = piece
    return {shard: fuse(held, plan) for shard, held in shards.items()}


def shard_shapes(
    expected: Mapping[str, Shape], geometry: Geometry, layout: Layout
) -> dict[Shard, dict[str, Shape]]:
    """Names and shapes that each shard must hold; no data are made.

    Raises:
        ModelError: as ``split``.
    """
    whole = {name: torch.empty(shape, device="meta") for name, shape in expected.items()}
    shards = split(whole, geometry, layout)
    return {shard: {name: tuple(t.shape) for name, t in held.items()} for shard, held in shards.items()}


def join(
    shards: Mapping[Shard, Mapping[str, Tensor]],
    geometry: Geometry,
    layout: Layout,
    expected: Mapping[str, Shape],
) -> dict[str, Tensor]:
    """Put shards together: the inverse of ``split``.

    Args:
        shards: every shard of the layout.
        geometry: of the model.
        layout: of the shards.
        expected: names and shapes of the whole, as ``expected_names`` gives them, with groups for a training state.

    Raises:
        CheckpointError: a shard or tensor is missing or unknown, has another shape or type; what must be equal on
            several shards differs; or what would be cut as padding is not zero. Names shard and tensor.
        ModelError: if the plan does not divide the model.
    """
    _check_shards(shards, shard_shapes(expected, geometry, layout))
    plan = Plan(geometry, layout)
    cuts = Cuts(plan)
    apart = {shard: unfuse(held, plan) for shard, held in shards.items()}
    whole: dict[str, Tensor] = {}
    for name in expected:
        place = _place(name, geometry)
        stage = plan.stage_of(place)
        homes = {stage: name}
        if _copied(place, plan):
            homes[layout.pipeline - 1] = _head_of(name)
        pieces = [
            {Shard(rank, home): apart[Shard(rank, home)][own] for rank in range(layout.tensor)}
            for home, own in homes.items()
        ]
        _check_types(name, {shard: piece for held in pieces for shard, piece in held.items()})
        whole[name] = _whole(name, pieces[0], cuts.of(place))
        for copies in pieces[1:]:
            for (shard, copy), first in zip(copies.items(), pieces[0].values(), strict=True):
                _require_same(copy, first, shard, _head_of(name), f"the embedding on stage {stage}")
    return whole


def _place(name: str, geometry: Geometry) -> Place:
    place = place_of(name)
    if place is None:
        raise ModelError(
            "names of a Llama's tensors",
            found=repr(name),
            where="sharded checkpoint",
            remedy="convert what this job trained",
        )
    if place.module == "lm_head" and place.part == "weight" and geometry.tied:
        raise ModelError(
            "no output head of its own in a model that ties it to the embedding",
            found=name,
            where="sharded checkpoint",
            remedy="leave it out once it is known to equal the embedding",
        )
    return place


def _copied(place: Place, plan: Plan) -> bool:
    """Whether the last stage needs a copy of a tensor of the first."""
    tied = plan.geometry.tied and plan.layout.pipeline > 1
    return tied and place.module == "embed_tokens"


def _head_of(name: str) -> str:
    return name.replace("model.embed_tokens.", "lm_head.")


def _pieces(name: str, tensor: Tensor, cut: Cut | None, ranks: int) -> list[Tensor]:
    if cut is None:
        return [tensor] * ranks
    if tensor.dim() <= cut.axis or tensor.shape[cut.axis] != cut.size:
        raise ModelError(
            f"{cut.size} elements on axis {cut.axis}",
            found=f"shape {list(tensor.shape)}",
            where=name,
            remedy="take config.json and weights from one and the same model",
        )
    if cut.padded > cut.size:
        padding = list(tensor.shape)
        padding[cut.axis] = cut.padded - cut.size
        tensor = torch.cat([tensor, tensor.new_zeros(padding)], dim=cut.axis)
    return [tensor.index_select(cut.axis, index.to(tensor.device)) for index in cut.index]


def _whole(name: str, pieces: Mapping[Shard, Tensor], cut: Cut | None) -> Tensor:
    first_shard, first = next(iter(pieces.items()))
    if cut is None:
        for shard, piece in pieces.items():
            _require_same(piece, first, shard, name, f"that of {first_shard.file}")
        return first
    shape = list(first.shape)
    shape[cut.axis] = cut.padded
    whole = first.new_empty(shape)
    for piece, index in zip(pieces.values(), cut.index, strict=True):
        whole.index_copy_(cut.axis, index.to(whole.device), piece)
    if sum(len(index) for index in cut.index) > cut.padded:  # KV heads that several ranks hold
        for (shard, piece), index in zip(pieces.items(), cut.index, strict=True):
            held = whole.index_select(cut.axis, index.to(whole.device))
            _require_same(piece, held, shard, name, "the copies of its KV heads on other shards")
    _check_padding(name, pieces, whole, cut)
    return whole.narrow(cut.axis, 0, cut.size).contiguous()


def _check_padding(name: str, pieces: Mapping[Shard, Tensor], whole: Tensor, cut: Cut) -> None:
    padding = whole.narrow(cut.axis, cut.size, cut.padded - cut.size)
    if not torch.count_nonzero(padding):
        return
    row = int(padding.nonzero()[0, cut.axis]) + cut.size
    shard = next(s for s, index in zip(pieces, cut.index, strict=True) if bool((index == row).any()))
    raise CheckpointError(
        f"zeros beyond the {cut.size} tokens of the vocabulary",
        found=f"{name} with numbers in row {row}",
        where=shard.file,
        remedy="check vocab_size in config.json, and that the program that wrote the shards pads with zeros",
    )


def _require_same(piece: Tensor, other: Tensor, shard: Shard, name: str, what: str) -> None:
    if not same_bits(piece, other):
        raise CheckpointError(
            f"{name} equal to {what}",
            found="other values",
            where=shard.file,
            remedy="check degrees and order of KV heads in the layout; else the ranks have drifted apart",
        )


def _check_types(name: str, pieces: Mapping[Shard, Tensor]) -> None:
    first = next(iter(pieces.values())).dtype
    for shard, piece in pieces.items():
        if piece.dtype is not first:
            raise CheckpointError(
                f"{name} of type {first}, as on other shards",
                found=str(piece.dtype),
                where=shard.file,
                remedy="take all shards from one checkpoint",
            )


def _check_shards(
    shards: Mapping[Shard, Mapping[str, Tensor]], expected: Mapping[Shard, Mapping[str, Shape]]
) -> None:
    """Every shard holds exactly what it must, in the right shapes."""
    wrong = sorted(expected.keys() ^ shards.keys(), key=lambda shard: (shard.pipeline, shard.tensor))
    if wrong:
        raise _wrong_shard(
            f"{len(expected)} shards, of the layout's degrees",
            f"{'no ' if wrong[0] in expected else 'also '}{wrong[0].file}",
            "sharded checkpoint",
        )
    for shard, shapes in expected.items():
        held = shards[shard]
        for name in sorted(held.keys() - shapes.keys()):
            near = nearest(name, shapes.keys() - held.keys() or shapes)
            raise _wrong_shard("the tensors of the layout", f"the unknown {name}; {near}", shard.file)
        for name, shape in shapes.items():
            if name not in held:
                raise _wrong_shard(f"{name} of shape {list(shape)}", "none", shard.file)
            if tuple(held[name].shape) != shape:
                raise _wrong_shard(
                    f"{name} of shape {list(shape)}", f"shape {list(held[name].shape)}", shard.file
                )


def _wrong_shard(required: str, found: str, where: str) -> CheckpointError:
    return CheckpointError(
        required, found=found, where=where, remedy="check the layout and the model's config.json"
    )
