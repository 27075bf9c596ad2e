"""Make a loaded model ready for training: low-rank adapters through PEFT, or all of its parameters.

LoRA (Hu et al. 2021, arXiv 2106.09685): a linear module of weight W [out, in] computes
W x + (alpha / rank) B A x, with A [rank, in] and B [out, rank] trained and W frozen. A starts uniform in
+-1 / sqrt(in), as in PEFT, and B at zero, so that training starts from the model as it was.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import dataclass

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from transformers import PreTrainedModel

from twintrack.errors import ModelError, RunFailed, nearest
from twintrack.job.records import Lora
from twintrack.training.dropout import KeyedDropout
from twintrack.training.sampler import Stream, uniform

__all__ = ["Adapted", "adapt"]

_ADAPTER = "default"
_PREFIX = "base_model.model."


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """A model of which some parameters learn."""

    model: PeftModel | PreTrainedModel
    trainable: tuple[str, ...]
    """Names of the trained parameters, in the order of ``named_parameters``; tied ones once."""
    adapted_modules: tuple[str, ...]
    """Linear modules with an adapter, by their names in the model as it was loaded; none in full
    fine-tuning."""
    trainable_parameters: int
    initial: dict[str, Tensor]
    """float32 master weights of every trained parameter, before any cast to the compute type."""


def adapt(
    model: PreTrainedModel, lora: Lora | None, *, seed: int, dtype: torch.dtype | None = None
) -> Adapted:
    """Add adapters (``lora``), or let every parameter learn (none).

    The first adapter weights depend on the seed and on each parameter's name alone: not on the global
    generator, not on the compute type, and not on which other modules are adapted.

    Args:
        model: as ``load_model`` gave it; changed in place.
        lora: the job's adapters.
        seed: the job's seed.
        dtype: type of all parameters once the master weights are taken; none: leave them as they are.

    Raises:
        ModelError: if a target names no linear module; the nearest name is offered.
        RunFailed: if what became trainable is not what was asked for.
    """
    if lora is None:
        for parameter in model.parameters():
            parameter.requires_grad_(True)
        return _finish(model, (), sum(p.numel() for p in model.parameters()), {}, dtype)
    modules = _targets(model, lora)
    expected = sum(lora.rank * (m.in_features + m.out_features) for m in modules.values())
    base = next(iter(modules.values())).weight
    with torch.random.fork_rng(devices=[base.device] if base.is_cuda else []), warnings.catch_warnings():
        # PEFT asks transformers for a property by its old name; nothing a user could act on
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing`", category=FutureWarning)
        wrapped = get_peft_model(model, _config(lora), autocast_adapter_dtype=False)
    initial = _initial_weights(modules, lora.rank, seed)
    parameters = dict(wrapped.named_parameters())
    with torch.no_grad():
        for name, value in initial.items():
            parameters[name].copy_(value)
    if lora.dropout > 0.0:
        _use_keyed_dropout(wrapped, lora.dropout)
    return _finish(wrapped, tuple(modules), expected, initial, dtype)


def _config(lora: Lora) -> LoraConfig:
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=sorted(lora.targets),
        bias="none",
    )


def _targets(model: PreTrainedModel, lora: Lora) -> dict[str, nn.Linear]:
    """The linear modules to adapt, in the model's order; every target matches at least one."""
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    endings = sorted({name.rsplit(".", 1)[-1] for name in linear})
    for target in lora.targets:
        matched = [name for name, _ in model.named_modules() if _ends_with(name, target)]
        if not matched or any(name not in linear for name in matched):
            raise ModelError(
                f"a linear module whose name ends in '{target}'",
                found=f"another kind of module, {matched[0]}" if matched else "none",
                where="lora.targets",
                remedy=nearest(target, endings) or f"the model has {', '.join(endings)}",
            )
        if model.config.tie_word_embeddings and any(name == "lm_head" for name in matched):
            raise ModelError(
                "targets with weights of their own",
                found="lm_head, whose weight is that of the input embedding in this model",
                where="lora.targets",
                remedy="leave lm_head out",
            )
    return {name: m for name, m in linear.items() if any(_ends_with(name, t) for t in lora.targets)}


def _ends_with(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _initial_weights(modules: dict[str, nn.Linear], rank: int, seed: int) -> dict[str, Tensor]:
    """float32 A and B of each module, by the parameter names of the wrapped model."""
    initial: dict[str, Tensor] = {}
    for name, module in modules.items():
        words = hashlib.sha256(name.encode()).digest()
        numbers = uniform(
            rank * module.in_features, Stream.ADAPTER, seed, int.from_bytes(words[:8], "little")
        )
        bound = 1.0 / math.sqrt(module.in_features)
        a = (torch.from_numpy(numbers) * 2.0 - 1.0) * bound
        initial[f"{_PREFIX}{name}.lora_A.{_ADAPTER}.weight"] = a.reshape(rank, module.in_features)
        initial[f"{_PREFIX}{name}.lora_B.{_ADAPTER}.weight"] = torch.zeros(module.out_features, rank)
    return initial


def _use_keyed_dropout(model: PeftModel, p: float) -> None:
    """Put ``KeyedDropout`` where PEFT put ``nn.Dropout``; sites are numbered in the model's order, from 1."""
    places = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.Dropout)
    ]
    device = next(model.parameters()).device
    for site, (parent, name) in enumerate(places, 1):
        parent.register_module(name, KeyedDropout(p, site).to(device))


def _finish(
    model: PeftModel | PreTrainedModel,
    modules: tuple[str, ...],
    expected: int,
    initial: dict[str, Tensor],
    dtype: torch.dtype | None,
) -> Adapted:
    """Check what learns against what was asked for, take the master weights, cast."""
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    count = sum(p.numel() for p in learning.values())
    asked = set(initial) if modules else {name for name, _ in model.named_parameters()}
    if count != expected or set(learning) != asked:
        odd = sorted(set(learning) ^ asked)
        raise RunFailed(
            f"{expected} trainable parameters",
            found=f"{count}; {len(odd)} names differ, such as {odd[:1]}",
            where="before step 1",
            remedy="report it with the versions of peft and transformers",
        )
    masters = {
        name: initial[name] if modules else p.detach().to(torch.float32, copy=True)
        for name, p in learning.items()
    }
    if dtype is not None:
        for parameter in model.parameters():
            parameter.data = parameter.data.to(dtype)
    return Adapted(model, tuple(learning), modules, count, masters)
