"""Names of tensors: ours, PEFT's and the hub's; and what a file for others must hold.

One module has three names. In the model that PEFT has wrapped, which is how our runs name it, an adapter is
``base_model.model.MODULE.lora_A.default.weight``; in ``adapter_model.safetensors`` the adapter's own name is left
out: ``base_model.model.MODULE.lora_A.weight``. A whole model's parameters are ``MODULE.weight`` with us and on the
hub; inside the wrapped model they are ``base_model.model.MODULE.weight``, with a level ``base_layer`` where the
module is adapted.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from twintrack.errors import ModelError, nearest
from twintrack.job.records import Lora
from twintrack.pilot.convert.layouts.bits import same_bits
from twintrack.pilot.convert.layouts.geometry import place_of

__all__ = [
    "GROUPS",
    "drop_tied_head",
    "expected_keys",
    "expected_names",
    "from_peft",
    "hub_key",
    "own_name",
    "peft_key",
    "to_hub",
    "to_peft",
    "with_groups",
]

Shape = tuple[int, ...]

GROUPS = ("weights", "master", "moment1", "moment2")
"""Groups of a training state that are shaped like the parameters."""

_PREFIX = "base_model.model."
_ADAPTER = ".default.weight"
_HEAD = "lm_head.weight"
_EMBEDDING = "model.embed_tokens.weight"


def peft_key(name: str) -> str:
    """PEFT's key for the name of an adapter's parameter in our runs.

    Raises:
        ModelError: if it is not the name of an adapter's parameter.
    """
    if not (_is_adapter(name) and name.endswith(_ADAPTER)):
        raise _wrong_name("base_model.model.MODULE.lora_A.default.weight or lora_B", name)
    return f"{name.removesuffix(_ADAPTER)}.weight"


def own_name(key: str) -> str:
    """Our name for a PEFT key; the inverse of ``peft_key``.

    Raises:
        ModelError: if it is not a key as PEFT writes it.
    """
    if not _is_adapter(key) or key.endswith(_ADAPTER):
        raise _wrong_name("base_model.model.MODULE.lora_A.weight or lora_B", key)
    return f"{key.removesuffix('.weight')}{_ADAPTER}"


def hub_key(name: str) -> str:
    """The hub's key for a parameter of the base model, wrapped by PEFT or not.

    Raises:
        ModelError: if it belongs to an adapter or to no Llama.
    """
    place = place_of(name)
    if place is None or place.group or place.part not in ("weight", "bias"):
        raise _wrong_name("the name of a Llama's own parameter", name)
    return name.removeprefix(_PREFIX).replace(".base_layer.", ".")


def to_peft(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Adapter tensors by PEFT's keys, from those by our names; see ``peft_key``."""
    return {peft_key(name): tensor for name, tensor in tensors.items()}


def from_peft(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Adapter tensors by our names, from those by PEFT's keys; see ``own_name``."""
    return {own_name(key): tensor for key, tensor in tensors.items()}


def to_hub(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A base model's tensors by the hub's keys; see ``hub_key``. The hub's keys are our names of a plain model."""
    return {hub_key(name): tensor for name, tensor in tensors.items()}


def _is_adapter(name: str) -> bool:
    place = place_of(name)
    return (
        place is not None
        and not place.group
        and place.part in ("lora_A", "lora_B")
        and name.startswith(_PREFIX)
    )


def _wrong_name(required: str, name: str) -> ModelError:
    return ModelError(
        required, found=repr(name), where="names of tensors", remedy="convert what this job trained"
    )


def drop_tied_head(tensors: Mapping[str, Tensor], config: LlamaConfig, *, where: str) -> dict[str, Tensor]:
    """Without ``lm_head.weight`` where the model's head is its embedding, once both are equal to the bit.

    Raises:
        ModelError: if they differ or the embedding is missing: leaving the head out would lose weights.
    """
    if not config.tie_word_embeddings or _HEAD not in tensors:
        return dict(tensors)
    if _EMBEDDING not in tensors or not same_bits(tensors[_EMBEDDING], tensors[_HEAD]):
        raise ModelError(
            f"{_HEAD} equal to {_EMBEDDING}, which config.json ties",
            found="another tensor" if _EMBEDDING in tensors else f"no {_EMBEDDING}",
            where=where,
            remedy="set tie_word_embeddings to false, or take weights and config.json from one model",
        )
    return {name: tensor for name, tensor in tensors.items() if name != _HEAD}


def expected_keys(config: LlamaConfig, lora: Lora | None) -> dict[str, Shape]:
    """Keys and shapes that a file for others must hold, from the base model's configuration alone.

    Args:
        config: of the base model; no weight is made.
        lora: the job's adapters: PEFT's keys; none: the hub's, a tied head once.

    Raises:
        ModelError: if a target names no linear module, or a tied head.
    """
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    if lora is None:
        return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    if config.tie_word_embeddings:
        del linear["lm_head"]  # its weight is that of the embedding, so it can have no adapter
    for target in lora.targets:
        if not any(_ends_with(name, target) for name in linear):
            endings = sorted({name.rsplit(".", 1)[-1] for name in linear})
            raise ModelError(
                f"a linear module with weights of its own whose name ends in '{target}'",
                found="none",
                where="lora.targets",
                remedy=nearest(target, endings) or f"the model has {', '.join(endings)}",
            )
    expected: dict[str, Shape] = {}
    for name, module in linear.items():
        if any(_ends_with(name, target) for target in lora.targets):
            expected[f"{_PREFIX}{name}.lora_A.weight"] = (lora.rank, module.in_features)
            expected[f"{_PREFIX}{name}.lora_B.weight"] = (module.out_features, lora.rank)
    return expected


def _ends_with(name: str, target: str) -> bool:
    """How PEFT matches a target: the whole name, or its last levels."""
    return name == target or name.endswith(f".{target}")


def expected_names(config: LlamaConfig, lora: Lora | None) -> dict[str, Shape]:
    """``expected_keys`` by our names: what ``Adapted.trainable`` of such a job holds."""
    keys = expected_keys(config, lora)
    return keys if lora is None else {own_name(key): shape for key, shape in keys.items()}


def with_groups(expected: Mapping[str, Shape], *groups: str) -> dict[str, Shape]:
    """``GROUP/NAME`` for every group and name, as a training state names its tensors.

    Args:
        expected: shapes by name.
        groups: such as ``weights``, ``master``, ``moment1``, ``moment2``; all four where none is given.
    """
    return {f"{group}/{name}": shape for group in groups or GROUPS for name, shape in expected.items()}
