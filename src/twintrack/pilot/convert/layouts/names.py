"""Names of tensors: ours, PEFT's and the hub's; what must be there, and what is wrong with what is.

One module has three names. In the model that PEFT has wrapped, which is how our runs name it, an adapter is
``base_model.model.MODULE.lora_A.default.weight``; in ``adapter_model.safetensors`` the adapter's own name is left
out: ``base_model.model.MODULE.lora_A.weight``. A whole model's parameters are ``MODULE.weight`` with us and on the
hub; inside the wrapped model they are ``base_model.model.MODULE.weight``, with a level ``base_layer`` where the
module is adapted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaConfig

from twintrack.job.records import Lora

__all__ = [
    "KeyProblem",
    "check_keys",
    "drop_tied_head",
    "expected_keys",
    "expected_names",
    "from_peft",
    "hub_key",
    "key_problems",
    "own_name",
    "peft_key",
    "to_hub",
    "to_peft",
    "with_groups",
]

Shape = tuple[int, ...]


def peft_key(name: str) -> str:
    """PEFT's key for the name of an adapter's parameter in our runs.

    Raises:
        ModelError: if it is not the name of an adapter's parameter.
    """
    raise NotImplementedError


def own_name(key: str) -> str:
    """Our name for a PEFT key; the inverse of ``peft_key``.

    Raises:
        ModelError: if it is not a key as PEFT writes it.
    """
    raise NotImplementedError


def hub_key(name: str) -> str:
    """The hub's key for a parameter of the base model, wrapped by PEFT or not.

    Raises:
        ModelError: if it belongs to an adapter or to no Llama.
    """
    raise NotImplementedError


def to_peft(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Adapter tensors by PEFT's keys, from those by our names; see ``peft_key``."""
    raise NotImplementedError


def from_peft(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Adapter tensors by our names, from those by PEFT's keys; see ``own_name``."""
    raise NotImplementedError


def to_hub(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A base model's tensors by the hub's keys; see ``hub_key``. The hub's keys are our names of a plain model."""
    raise NotImplementedError


def drop_tied_head(tensors: Mapping[str, Tensor], config: LlamaConfig, *, where: str) -> dict[str, Tensor]:
    """Without ``lm_head.weight`` where the model's head is its embedding, once both are equal to the bit.

    Raises:
        ModelError: if they differ: leaving one out would lose weights.
    """
    raise NotImplementedError


def expected_keys(config: LlamaConfig, lora: Lora | None) -> dict[str, Shape]:
    """Keys and shapes that a file for others must hold, from the base model's configuration alone.

    Args:
        config: of the base model; no weight is made.
        lora: the job's adapters: PEFT's keys; none: the hub's, a tied head once.

    Raises:
        ModelError: if a target names no linear module, or a tied head.
    """
    raise NotImplementedError


def expected_names(config: LlamaConfig, lora: Lora | None) -> dict[str, Shape]:
    """``expected_keys`` by our names: what ``Adapted.trainable`` of such a job holds."""
    raise NotImplementedError


def with_groups(expected: Mapping[str, Shape], *groups: str) -> dict[str, Shape]:
    """``GROUP/NAME`` for every group and name, as a training state names its tensors.

    Args:
        groups: such as ``weights``, ``master``, ``moment1``, ``moment2``; all four where none is given.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """One tensor that is not as the other side needs it."""

    key: str
    required: str
    found: str
    nearest: str
    """The expected key that it was most likely meant to be; may be empty."""


def key_problems(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, Shape],
    *,
    dtypes: frozenset[torch.dtype] = frozenset({torch.float32}),
) -> Iterator[KeyProblem]:
    """Everything that is wrong: unknown keys first, then missing ones, then types, sizes of zero and shapes.

    Args:
        tensors: by key; tensors on the meta device do.
        expected: as ``expected_keys`` gives it.
        dtypes: types that are allowed.
    """
    raise NotImplementedError


def check_keys(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, Shape],
    *,
    where: str,
    dtypes: frozenset[torch.dtype] = frozenset({torch.float32}),
) -> None:
    """Refuse at the first of ``key_problems``, saying how many there are.

    Raises:
        ModelError: a wrong prefix, an extra or missing level, a missing or unknown key, a wrong type or shape, a
            tensor without elements; names the key and the nearest expected one.
    """
    raise NotImplementedError
