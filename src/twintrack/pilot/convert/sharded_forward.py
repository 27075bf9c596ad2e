"""A forward pass over shards as the devices of a plan would make it, in plain PyTorch: no shard is joined first.

Cutting and joining may be wrong in ways that undo each other; what devices compute from their shards may not. So each
rank here uses its own shard alone: a slice of the vocabulary, some heads with the KV heads that it holds, some columns
of the feed-forward. Ranks meet only where a plan has collectives: sums after the embedding and after row-parallel
modules, a gather of the logits (Shoeybi et al. 2019, arXiv 1909.08053). Rotary embeddings turn the pairs that the
layout names.

Shapes: B rows, T tokens, N local heads, D elements of a head, H hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from twintrack.job.records import Lora
from twintrack.pilot.convert.layouts import Geometry, Layout, Shard, place_of
from twintrack.pilot.convert.probe import Batch

__all__ = ["ShardedModel"]

_Device = dict[tuple[int | None, str, str], Tensor]
"""A device's tensors by layer, module and part."""


class ShardedModel:
    """All devices of a plan, one after the other on this machine, in float32.

    Args:
        shards: as they stand on disk; more than one mapping where adapters and base weights are apart.
        layout: unfused.
        config: of the base model.
        lora: of the job.
        group: of the training state whose tensors count; tensors without a group always do.
    """

    def __init__(
        self,
        shards: Sequence[Mapping[Shard, Mapping[str, Tensor]]],
        layout: Layout,
        config: LlamaConfig,
        lora: Lora | None,
        group: str = "master",
    ) -> None:
        self._layout, self._geometry, self._config = layout, Geometry.of(config), config
        self._scale = 0.0 if lora is None else lora.alpha / lora.rank
        self._devices: dict[Shard, _Device] = {}
        for part in shards:
            for shard, tensors in part.items():
                self._devices.setdefault(shard, {}).update(_by_place(tensors, group))

    def logits(self, batch: Batch) -> Tensor:
        """Logits ``[B, T, V]`` of a batch with ``input_ids``, ``position_ids`` and ``segment_ids``."""
        with torch.no_grad():
            rotation = LlamaRotaryEmbedding(self._config)(torch.empty(0), batch["position_ids"])
            segments = batch["segment_ids"]
            seen = (segments[:, None, :] == segments[:, :, None]).tril()[:, None]
            x = self._embed(batch["input_ids"])
            for layer in range(self._geometry.layers):
                ranks = self._stage(layer)
                x = x + self._attention(
                    ranks, layer, self._norm(ranks, layer, "input_layernorm", x), rotation, seen
                )
                h = self._norm(ranks, layer, "post_attention_layernorm", x)
                gated = [
                    torch.nn.functional.silu(self._linear(device, layer, "gate_proj", h))
                    * self._linear(device, layer, "up_proj", h)
                    for device in ranks
                ]
                x = x + self._row_parallel(ranks, layer, "down_proj", gated)
            return self._head(x)

    def _ranks(self, stage: int) -> list[_Device]:
        return [self._devices[Shard(rank, stage)] for rank in range(self._layout.tensor)]

    def _stage(self, layer: int) -> list[_Device]:
        """The devices that hold a layer."""
        for stage in range(self._layout.pipeline):
            ranks = self._ranks(stage)
            if (layer, "input_layernorm", "weight") in ranks[0]:
                return ranks
        raise KeyError(f"no stage holds layer {layer}")

    def _embed(self, ids: Tensor) -> Tensor:
        """Each rank looks its own rows up; the sum of all is the embedding."""
        total, first = torch.zeros(()), 0
        for device in self._ranks(0):
            table = device[None, "embed_tokens", "weight"]
            own = (ids >= first) & (ids < first + len(table))
            total = total + table[(ids - first).clamp(0, len(table) - 1)] * own[..., None]
            first += len(table)
        return total

    def _head(self, x: Tensor) -> Tensor:
        ranks = self._ranks(self._layout.pipeline - 1)
        x = self._norm(ranks, None, "norm", x)
        tied = self._geometry.tied and self._layout.pipeline == 1
        module = "embed_tokens" if tied else "lm_head"
        parts = [self._linear(device, None, module, x) for device in ranks]
        return torch.cat(parts, dim=-1)[..., : self._geometry.vocabulary]

    def _norm(self, ranks: Sequence[_Device], layer: int | None, module: str, x: Tensor) -> Tensor:
        root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self._config.rms_norm_eps)
        return x * root * ranks[0][layer, module, "weight"]

    def _linear(self, device: _Device, layer: int | None, module: str, x: Tensor) -> Tensor:
        """A device's share, with its share of the adapter; without a bias that is added once for all ranks."""
        y = x @ device[layer, module, "weight"].T
        a, b = device.get((layer, module, "lora_A")), device.get((layer, module, "lora_B"))
        if a is not None and b is not None:
            y = y + self._scale * (x @ a.T @ b.T)
        bias = device.get((layer, module, "bias"))
        return y if bias is None or module in ("o_proj", "down_proj") else y + bias

    def _row_parallel(
        self, ranks: Sequence[_Device], layer: int, module: str, inputs: Sequence[Tensor]
    ) -> Tensor:
        total = torch.zeros(())
        for device, x in zip(ranks, inputs, strict=True):
            total = total + self._linear(device, layer, module, x)
        bias = ranks[0].get((layer, module, "bias"))
        return total if bias is None else total + bias

    def _attention(
        self, ranks: Sequence[_Device], layer: int, h: Tensor, rotation: tuple[Tensor, Tensor], seen: Tensor
    ) -> Tensor:
        """``[B, T, H]``; every rank attends with the heads that it holds."""
        outputs = []
        for device in ranks:
            q, k, v = (self._heads(device, layer, f"{name}_proj", h) for name in "qkv")
            q, k = self._rotate(q, rotation), self._rotate(k, rotation)
            k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
            scores = q @ k.transpose(-1, -2) * self._geometry.head_dim**-0.5
            weights = scores.masked_fill(~seen, torch.finfo(torch.float32).min).softmax(-1)
            outputs.append((weights @ v).transpose(1, 2).flatten(2))
        return self._row_parallel(ranks, layer, "o_proj", outputs)

    def _heads(self, device: _Device, layer: int, module: str, h: Tensor) -> Tensor:
        """``[B, N, T, D]``."""
        y = self._linear(device, layer, module, h)
        return y.reshape(*h.shape[:2], -1, self._geometry.head_dim).transpose(1, 2)

    def _rotate(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        """Turn pairs of elements: i with i + D/2, or 2i with 2i + 1 where the layout is interleaved."""
        half = self._geometry.head_dim // 2
        cosine, sine = (part[:, None, :, :half] for part in rotation)
        if self._layout.rotary == "interleaved":
            left, right = x[..., 0::2], x[..., 1::2]
            pairs = (left * cosine - right * sine, right * cosine + left * sine)
            return torch.stack(pairs, dim=-1).flatten(-2)
        left, right = x[..., :half], x[..., half:]
        return torch.cat((left * cosine - right * sine, right * cosine + left * sine), dim=-1)


def _by_place(tensors: Mapping[str, Tensor], group: str) -> _Device:
    found: _Device = {}
    for name, tensor in tensors.items():
        place = place_of(name)
        if place is not None and place.group in ("", group):
            found[place.layer, place.module, place.part] = tensor.float()
    return found
