"""Train on in plain peft from a folder that ``twintrack convert RUN@STEP --to peft FOLDER`` made.

Nothing of twintrack is used: peft and transformers load the adapter, ``torch.optim.AdamW`` gets its moments back, and
adapter and optimizer are written in the same layout, so that ``twintrack convert OUT --job JOB --to twintrack RUN``
can take them home::

    python examples/convert/continue_in_peft.py FOLDER BASE_MODEL CHATS.jsonl OUT --steps 3 --rate 1e-3
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

Batch = dict[str, torch.Tensor]


def load(folder: Path, base: Path) -> PeftModel:
    """The adapter on its base model, in float32; dropout stays off, as in the proof of the conversion."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return PeftModel.from_pretrained(model, folder, is_trainable=True).eval()


def restore(model: PeftModel, folder: Path, **constants: float) -> tuple[torch.optim.AdamW, int]:
    """AdamW with the moments of ``optimizer.safetensors`` put back, and the steps that were done."""
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    adamw = torch.optim.AdamW(learning.values(), weight_decay=0.0, **constants)
    with safe_open(folder / "optimizer.safetensors", framework="pt") as file, torch.no_grad():
        step = int(file.metadata()["step"])
        for name, parameter in learning.items():
            parameter.copy_(file.get_tensor(f"master.{name}"))
            adamw.state[parameter] = {
                "step": torch.tensor(float(step)),
                "exp_avg": file.get_tensor(f"exp_avg.{name}"),
                "exp_avg_sq": file.get_tensor(f"exp_avg_sq.{name}"),
            }
    return adamw, step


def train(
    model: PeftModel,
    adamw: torch.optim.AdamW,
    steps: Iterable[tuple[float, list[Batch]]],
    most_norm: float | None = 1.0,
) -> list[float]:
    """One optimizer step for each learning rate and its micro-batches; returns the losses."""
    losses = []
    for rate, batches in steps:
        count = sum(int((batch["labels"] != -100).sum()) for batch in batches)
        adamw.zero_grad()
        total = 0.0
        for batch in batches:
            inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
            logits = model(**inputs, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum"
            )
            (loss / count).backward()
            total += float(loss.detach()) / count
        if most_norm is not None:
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], most_norm)
        for group in adamw.param_groups:
            group["lr"] = rate
        adamw.step()
        losses.append(total)
    return losses


def save(model: PeftModel, adamw: torch.optim.AdamW, begun: Path, folder: Path, step: int) -> None:
    """Adapter and optimizer, as the folder that training began from has them."""
    model.save_pretrained(folder)
    tensors = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            tensors[f"master.{name}"] = parameter.detach().clone()
            for kind in ("exp_avg", "exp_avg_sq"):
                tensors[f"{kind}.{name}"] = adamw.state[parameter][kind]
    with safe_open(begun / "optimizer.safetensors", framework="pt") as file:
        metadata = {**file.metadata(), "step": str(step)}
    save_file(tensors, folder / "optimizer.safetensors", metadata=metadata)


def chats(path: Path, tokenizer: AutoTokenizer) -> Iterator[list[Batch]]:
    """One chat a step, again and again; every token but the first carries loss."""
    lines = [json.loads(line)["messages"] for line in path.read_text(encoding="utf-8").splitlines()]
    for messages in itertools.cycle(lines):
        text = tokenizer.apply_chat_template(messages, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        yield [{"input_ids": ids[:, :-1], "labels": ids[:, 1:]}]


def main() -> None:
    """Load, train on, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("chats", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1e-3)
    options = parser.parse_args()
    model = load(options.folder, options.base)
    adamw, done = restore(model, options.folder)
    batches = chats(options.chats, AutoTokenizer.from_pretrained(options.base))
    for step in range(done + 1, done + options.steps + 1):
        (loss,) = train(model, adamw, [(options.rate, next(batches))])
        print(f"step {step}: loss {loss:.4f}")
    save(model, adamw, options.folder, options.out, done + options.steps)


if __name__ == "__main__":
    main()
