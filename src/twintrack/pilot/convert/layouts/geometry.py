"""What the layouts must know of a Llama: its sizes, and what the name of a tensor says of its place.

Every layout is decided by these two alone. A name is read by its levels, so that a parameter of the plain model, of
the model that PEFT has wrapped, and a key of PEFT's files are one and the same place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from transformers import LlamaConfig

from twintrack.errors import ModelError

__all__ = ["Geometry", "Part", "Place", "place_of"]

Part = Literal["weight", "bias", "lora_A", "lora_B"]

_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")
_PLACE = re.compile(
    r"(?:(?P<group>[a-z][a-z0-9_]*)/)?(?:base_model\.model\.)?"
    rf"(?:model\.layers\.(?P<layer>0|[1-9][0-9]*)\.(?:self_attn\.(?P<attention>{'|'.join(_ATTENTION)})"
    rf"|mlp\.(?P<mlp>{'|'.join(_MLP)})|(?P<layer_norm>input_layernorm|post_attention_layernorm))"
    r"|model\.(?P<outer>embed_tokens|norm)|(?P<head>lm_head))"
    r"\.(?:(?:base_layer\.)?(?P<own>weight|bias)|(?P<lora>lora_A|lora_B)\.(?:default\.)?weight)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Sizes of a Llama, in elements."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads; each serves ``heads / kv_heads`` query heads that follow one another."""
    head_dim: int
    vocabulary: int
    """True size, without padding."""
    tied: bool
    """Whether the output head is the input embedding."""

    @classmethod
    def of(cls, config: LlamaConfig) -> Geometry:
        """From a model's configuration.

        Raises:
            ModelError: if the query heads are no multiple of the KV heads, or only a part of each head is rotated.
        """
        heads, kv_heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        if heads % kv_heads:
            raise _config_error("query heads that are a multiple of the KV heads", f"{heads} and {kv_heads}")
        partial = (config.rope_parameters or {}).get("partial_rotary_factor", 1.0)
        if partial != 1.0:
            raise _config_error("rotary embeddings over whole heads", f"partial_rotary_factor {partial}")
        return cls(
            hidden=int(config.hidden_size),
            intermediate=int(config.intermediate_size),
            layers=int(config.num_hidden_layers),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=int(config.head_dim or config.hidden_size // heads),
            vocabulary=int(config.vocab_size),
            tied=bool(config.tie_word_embeddings),
        )


def _config_error(required: str, found: str) -> ModelError:
    return ModelError(
        required, found=found, where="config.json", remedy="take a Llama whose configuration says so"
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor belongs."""

    group: str
    """Group of a training state (``weights``, ``master``, ``moment1``, ``moment2``); empty where the name has
    none."""
    layer: int | None
    """Index over the whole model, from 0; none outside the layers."""
    module: str
    """Last part of the module's name, such as ``q_proj``, ``embed_tokens``, ``norm``, ``lm_head``."""
    part: Part


def place_of(name: str) -> Place | None:
    """What a name says: ``[GROUP/][base_model.model.]MODULE[.base_layer].PART``; none if it is no Llama's.

    >>> place_of("moment1/base_model.model.model.layers.3.self_attn.q_proj.lora_B.default.weight")
    Place(group='moment1', layer=3, module='q_proj', part='lora_B')
    """
    found = _PLACE.fullmatch(name)
    if found is None:
        return None
    layer = None if found["layer"] is None else int(found["layer"])
    module = next(found[kind] for kind in ("attention", "mlp", "layer_norm", "outer", "head") if found[kind])
    part: Part = found["own"] or found["lora"]  # type: ignore[assignment]  # the pattern allows no other
    return Place(found["group"] or "", layer, module, part)
