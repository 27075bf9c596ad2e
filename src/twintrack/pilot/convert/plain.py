"""The other side of a conversion: plain ``transformers``, ``peft`` and ``torch.optim.AdamW``, nothing of ours.

What a user of the converted folder would write: load it with the libraries' own calls, put the optimizer's state
back, train on. No function of twintrack's model, step or optimizer is used, so that a mistake there has no twin here.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from twintrack.pilot.convert.probe import Answers, Batch, Probe

__all__ = ["PlainSide", "load_full", "load_peft"]

IGNORED = -100


class PlainSide:
    """A model of plain libraries, and what it was before training.

    Args:
        model: trained, in float32.
        base_logits: of the probe's fixed batch, before training.
    """

    def __init__(self, model: nn.Module, base_logits: Tensor) -> None:
        self.model = model
        self.base_logits = base_logits

    def ask(self, probe: Probe, optimizer: Mapping[str, Mapping[str, Tensor]] | None) -> Answers:
        """Answer a probe.

        Args:
            probe: what is asked.
            optimizer: groups ``master``, ``exp_avg``, ``exp_avg_sq`` by parameter name; none where no update is asked
                for.
        """
        with torch.no_grad():
            logits = _logits(self.model, probe.fixed).float()
        return Answers(logits, self.base_logits, self._losses(probe, optimizer))

    def _losses(
        self, probe: Probe, optimizer: Mapping[str, Mapping[str, Tensor]] | None
    ) -> tuple[float, ...]:
        if not probe.steps:
            return ()
        if optimizer is None:
            with torch.no_grad():
                return (self._loss(probe.steps[0], backward=False),)
        parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        adamw = self._adamw(probe, parameters, optimizer)
        losses = [self._loss(probe.steps[0], backward=True)]
        most = probe.terms.optimizer.max_gradient_norm
        if most is not None:
            nn.utils.clip_grad_norm_(list(parameters.values()), most)
        adamw.step()
        with torch.no_grad():
            losses += [self._loss(batches, backward=False) for batches in probe.steps[1:]]
        return tuple(losses)

    def _adamw(
        self, probe: Probe, parameters: Mapping[str, Tensor], state: Mapping[str, Mapping[str, Tensor]]
    ) -> torch.optim.AdamW:
        """AdamW with the state put back; what has fewer than two axes does not decay."""
        terms = probe.terms
        decaying = [p for p in parameters.values() if p.dim() > 1]
        others = [p for p in parameters.values() if p.dim() <= 1]
        adamw = torch.optim.AdamW(
            [
                {"params": decaying, "weight_decay": terms.optimizer.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=terms.rate,
            betas=(terms.optimizer.beta1, terms.optimizer.beta2),
            eps=terms.optimizer.epsilon,
        )
        for name, parameter in parameters.items():
            with torch.no_grad():  # the folder's weights may be rounded
                parameter.copy_(state["master"][name])
            adamw.state[parameter] = {
                "step": torch.tensor(float(terms.step)),
                "exp_avg": state["exp_avg"][name].clone(),
                "exp_avg_sq": state["exp_avg_sq"][name].clone(),
            }
        return adamw

    def _loss(self, batches: tuple[Batch, ...], *, backward: bool) -> float:
        count = sum(int((batch["labels"] != IGNORED).sum()) for batch in batches)
        total = 0.0
        for batch in batches:
            logits = _logits(self.model, batch)
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), batch["labels"].flatten(), reduction="sum"
            )
            loss = loss / count
            if backward:
                loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it untyped
            total += float(loss.detach())
        return total


def _logits(model: nn.Module, batch: Batch) -> Tensor:
    segments = batch["segment_ids"]
    length = segments.shape[1]
    seen = (segments[:, None, :] == segments[:, :, None]).tril()[:, None]
    mask = torch.zeros(len(segments), 1, length, length).masked_fill(~seen, torch.finfo(torch.float32).min)
    logits: Tensor = model(
        input_ids=batch["input_ids"],
        position_ids=batch["position_ids"],
        attention_mask=mask,
        use_cache=False,
    ).logits
    return logits


def _load(folder: Path) -> Any:
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
    )
    return model.eval()


def load_full(folder: Path, base: Path, probe: Probe) -> PlainSide:
    """A whole model, and its base's logits; one of the two is in memory at a time.

    Raises:
        Exception: whatever the libraries raise.
    """
    with torch.no_grad():
        base_logits = _logits(_load(base), probe.fixed).float()
    return PlainSide(_load(folder), base_logits)


def load_peft(folder: Path, base: Path, probe: Probe) -> PlainSide:
    """An adapter on its base model.

    Raises:
        Exception: whatever the libraries raise.
    """
    from peft import PeftModel

    model = _load(base)
    with torch.no_grad():
        base_logits = _logits(model, probe.fixed).float()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing`", category=FutureWarning)
        warnings.filterwarnings("error", message="Found missing adapter keys", category=UserWarning)
        adapted = PeftModel.from_pretrained(model, folder, is_trainable=True)
    adapted.eval()  # dropout is off on both sides
    return PlainSide(adapted, base_logits)
