"""Count what autograd saves, and what lives at once, while our own training step runs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from transformers import LlamaConfig, LlamaForCausalLM

from twintrack.job.records import Lora, Optimizer
from twintrack.training.adapter import adapt
from twintrack.training.step import Step, token_losses

ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def small_config(**changes: Any) -> LlamaConfig:
    """3 layers, hidden 64, 4 heads, 2 KV heads."""
    sizes = {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
    }
    return LlamaConfig(**(sizes | changes))


class Prepared:
    """A step, its weights and one batch."""

    def __init__(
        self,
        config: LlamaConfig,
        lora: Lora | None,
        dtype: torch.dtype,
        attention: str,
        *,
        rows: int,
        length: int,
        device: str = "cpu",
    ) -> None:
        config._attn_implementation = attention
        with torch.device(device):
            adapted = adapt(LlamaForCausalLM(config), lora, seed=0, dtype=dtype)
        model = adapted.model.train(bool(lora and lora.dropout))
        names = set(adapted.trainable)
        tensors = [*model.named_parameters(), *model.named_buffers()]
        self.weights = {n: p.detach().clone() for n, p in model.named_parameters() if n in names}
        self.frozen = {n: p.detach() for n, p in tensors if n not in names}
        self.step = Step(model, Optimizer(), dtype)
        ids = torch.zeros((rows, length), dtype=torch.int64, device=device)
        positions = torch.arange(length, device=device).repeat(rows, 1)
        self.batch = {
            "input_ids": ids,
            "labels": ids.clone(),
            "position_ids": positions,
            "segment_ids": ids.clone(),
        }

    def given(self) -> set[int]:
        """Storages that exist before the step."""
        groups: list[Mapping[str, Tensor]] = [self.weights, self.frozen, self.batch]
        return {t.untyped_storage()._cdata for group in groups for t in group.values()}


def saved_bytes(prepared: Prepared) -> int:
    """Bytes of distinct storages that the forward pass saves for the backward pass, weights and batch left out."""
    given, saved = prepared.given(), {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in given:
            saved[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        leaves = {n: w.detach().requires_grad_(True) for n, w in prepared.weights.items()}
        given |= {leaf.untyped_storage()._cdata for leaf in leaves.values()}
        state = {**prepared.frozen, **leaves}
        losses = token_losses(prepared.step._logits(state, prepared.batch), prepared.batch["labels"])
        loss = losses.sum() * torch.ones((), device=losses.device)
    assert loss.requires_grad
    return sum(storage.nbytes() for storage in saved.values())


class LiveBytes(TorchDispatchMode):
    """Bytes of the storages that operators make inside the block: now, and at most."""

    def __init__(self, given: set[int]) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._sizes = dict.fromkeys(given, 0)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in tree_iter(result):
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                if storage._cdata not in self._sizes:
                    self._sizes[storage._cdata] = storage.nbytes()
                    self.now += storage.nbytes()
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self._gone, storage._cdata)
        return result

    def _gone(self, key: int) -> None:
        self.now -= self._sizes.pop(key, 0)


def gradients_peak(prepared: Prepared) -> int:
    """Most bytes that live at once while ``gradients`` runs, beside weights and batch."""
    gc.collect()
    live = LiveBytes(prepared.given())
    with live:
        prepared.step.gradients(prepared.weights, prepared.frozen, prepared.batch, torch.tensor(1.0))
    return live.peak
