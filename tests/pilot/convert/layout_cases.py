"""Small Llamas for the layout tests, a second implementation of their forward pass, and one that runs on shards."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, silu
from transformers import LlamaConfig, LlamaForCausalLM

from twintrack.job.records import Lora
from twintrack.pilot.convert.layouts import Geometry, Layout, Plan, Shard, expected_names

EVERY_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
LORA = Lora(targets=EVERY_LINEAR, rank=2, alpha=4.0)


def config_of(
    *,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 8,
    layers: int = 2,
    vocabulary: int = 61,
    intermediate: int = 48,
    tied: bool = False,
    bias: bool = False,
) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=heads * 4,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        attention_bias=bias,
        mlp_bias=bias,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )


def random_tensors(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, Tensor]:
    """Every element another number, so that no two places can be taken for each other."""
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) * 0.3 for name, shape in shapes.items()}


def hub_logits(config: LlamaConfig, weights: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """What ``transformers`` computes; the yardstick."""
    model = LlamaForCausalLM(config).eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    with torch.no_grad():
        return model(tokens).logits


def merged(weights: dict[str, Tensor], adapter: dict[str, Tensor], lora: Lora) -> dict[str, Tensor]:
    """Base weights with the adapter's product added, as in the LoRA paper."""
    result = dict(weights)
    for name in adapter:
        if ".lora_A." in name:
            module = name.removeprefix("base_model.model.").split(".lora_A.")[0]
            product = adapter[name.replace("lora_A", "lora_B")] @ adapter[name]
            result[f"{module}.weight"] = weights[f"{module}.weight"] + product * (lora.alpha / lora.rank)
    return result


def half_split_rope(x: Tensor) -> Tensor:
    """Pairs (i, i + d/2) turned by position; ``x [heads, T, d]``."""
    cos, sin = _angles(x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def interleaved_rope(x: Tensor) -> Tensor:
    """Pairs (2i, 2i + 1) turned by position, as complex numbers; ``x [heads, T, d]``."""
    cos, sin = _angles(x)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


def _angles(x: Tensor) -> tuple[Tensor, Tensor]:
    size = x.shape[-1]
    frequencies = 10_000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angles = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * frequencies
    return angles.cos(), angles.sin()


def attention(q: Tensor, k: Tensor, v: Tensor, heads: int, kv_heads: int, rope) -> Tensor:
    """Causal attention of some heads; all ``[T, heads * d]``, neighbouring queries share a KV head."""

    def by_head(x: Tensor, count: int) -> Tensor:
        return x.reshape(x.shape[0], count, -1).transpose(0, 1)

    queries, keys, values = rope(by_head(q, heads)), rope(by_head(k, kv_heads)), by_head(v, kv_heads)
    keys, values = (x.repeat_interleave(heads // kv_heads, dim=0) for x in (keys, values))
    scores = queries @ keys.transpose(1, 2) / queries.shape[-1] ** 0.5
    length = scores.shape[-1]
    scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    return (scores.softmax(-1) @ values).transpose(0, 1).reshape(length, -1)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def whole_logits(config: LlamaConfig, weights: dict[str, Tensor], tokens: Tensor, rope) -> Tensor:
    """A Llama written from its description, with the rotary embedding as an argument; ``tokens [T]``."""
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    x = weights["model.embed_tokens.weight"][tokens]
    for layer in range(config.num_hidden_layers):
        p = f"model.layers.{layer}."
        h = rms_norm(x, weights[p + "input_layernorm.weight"])
        q, k, v = (linear(h, weights[f"{p}self_attn.{m}_proj.weight"]) for m in "qkv")
        mixed = attention(q, k, v, heads, kv_heads, rope)
        x = x + linear(mixed, weights[p + "self_attn.o_proj.weight"])
        h = rms_norm(x, weights[p + "post_attention_layernorm.weight"])
        gate, up = (linear(h, weights[f"{p}mlp.{m}_proj.weight"]) for m in ("gate", "up"))
        x = x + linear(silu(gate) * up, weights[p + "mlp.down_proj.weight"])
    head = "model.embed_tokens.weight" if config.tie_word_embeddings else "lm_head.weight"
    return linear(rms_norm(x, weights["model.norm.weight"]), weights[head])


@dataclass
class ShardedForward:
    """The forward pass of a parallel plan, device by device: what each computes comes from its own shard alone, and
    devices meet only in sums (row-parallel) and in the concatenation of the logits.

    ``adapters`` are shards of LoRA tensors by our names; fused layouts take none.
    """

    config: LlamaConfig
    layout: Layout
    shards: dict[Shard, dict[str, Tensor]]
    adapters: dict[Shard, dict[str, Tensor]] | None = None
    lora: Lora = LORA

    def logits(self, tokens: Tensor) -> Tensor:
        ranks, last = range(self.layout.tensor), self.layout.pipeline - 1
        first = [self.shards[Shard(rank, 0)]["model.embed_tokens.weight"] for rank in ranks]
        rows = first[0].shape[0]
        x = torch.zeros(len(tokens), self.config.hidden_size)
        for rank, table in enumerate(first):  # each looks up the tokens that it has; the others add zero
            own = (tokens >= rank * rows) & (tokens < (rank + 1) * rows)
            x = x + torch.where(own[:, None], table[(tokens - rank * rows).clamp(0, rows - 1)], 0.0)
        for stage in range(self.layout.pipeline):
            held = {
                int(n.split(".")[2]) for n in self.shards[Shard(0, stage)] if n.startswith("model.layers.")
            }
            for layer in sorted(held):
                x = self._layer(x, f"model.layers.{layer}.", [Shard(rank, stage) for rank in ranks])
        final = self.shards[Shard(0, last)]
        head = "lm_head.weight" if "lm_head.weight" in final else "model.embed_tokens.weight"
        h = rms_norm(x, final["model.norm.weight"])
        parts = [linear(h, self.shards[Shard(rank, last)][head]) for rank in ranks]
        return torch.cat(parts, dim=-1)[:, : self.config.vocab_size]

    def _layer(self, x: Tensor, p: str, shards: list[Shard]) -> Tensor:
        ranks = len(shards)
        plan = Plan(Geometry.of(self.config), self.layout)
        heads, slots = self.config.num_attention_heads // ranks, plan.slots // ranks
        rope = interleaved_rope if self.layout.rotary == "interleaved" else half_split_rope
        h = rms_norm(x, self.shards[shards[0]][p + "input_layernorm.weight"])
        mixed = [attention(*self._qkv(h, p, shard, heads, slots), heads, slots, rope) for shard in shards]
        x = x + self._row(mixed, p + "self_attn.o_proj", shards)
        h = rms_norm(x, self.shards[shards[0]][p + "post_attention_layernorm.weight"])
        inner = []
        for shard in shards:
            gate, up = self._gate_up(h, p, shard)
            inner.append(silu(gate) * up)
        return x + self._row(inner, p + "mlp.down_proj", shards)

    def _qkv(self, h: Tensor, p: str, shard: Shard, heads: int, slots: int) -> tuple[Tensor, Tensor, Tensor]:
        if self.layout.fused_qkv == "none":
            return tuple(self._column(h, f"{p}self_attn.{m}_proj", shard) for m in "qkv")
        fused = self._column(h, p + "self_attn.qkv_proj", shard)
        size, groups = self.config.head_dim, slots if self.layout.fused_qkv == "groups" else 1
        share = [heads // groups * size, slots // groups * size, slots // groups * size]
        q, k, v = fused.reshape(len(h), groups, -1).split(share, dim=-1)
        return q.flatten(1), k.flatten(1), v.flatten(1)

    def _gate_up(self, h: Tensor, p: str, shard: Shard) -> tuple[Tensor, ...]:
        if self.layout.fused_gate_up:
            return self._column(h, p + "mlp.gate_up_proj", shard).chunk(2, dim=-1)
        return tuple(self._column(h, f"{p}mlp.{m}_proj", shard) for m in ("gate", "up"))

    def _column(self, h: Tensor, module: str, shard: Shard) -> Tensor:
        held = self.shards[shard]
        y = linear(h, held[f"{module}.weight"], held.get(f"{module}.bias"))
        if self.adapters:
            a, b = self._adapter(module, shard)
            y = y + linear(linear(h, a), b) * (self.lora.alpha / self.lora.rank)
        return y

    def _row(self, parts: list[Tensor], module: str, shards: list[Shard]) -> Tensor:
        pairs = list(zip(parts, shards, strict=True))
        y = sum(linear(part, self.shards[shard][f"{module}.weight"]) for part, shard in pairs)
        bias = self.shards[shards[0]].get(f"{module}.bias")
        if self.adapters:
            inner = sum(linear(part, self._adapter(module, shard)[0]) for part, shard in pairs)
            y = y + linear(inner, self._adapter(module, shards[0])[1]) * (self.lora.alpha / self.lora.rank)
        return y if bias is None else y + bias

    def _adapter(self, module: str, shard: Shard) -> tuple[Tensor, Tensor]:
        held = self.adapters[shard]
        names = [f"base_model.model.{module}.lora_{part}.default.weight" for part in "AB"]
        return held[names[0]], held[names[1]]


def weights_of(config: LlamaConfig, seed: int = 0) -> dict[str, Tensor]:
    return random_tensors(expected_names(config, None), seed)
