"""What capture tests share: the training step of a tiny Llama, and one way to run a program on nested tensors."""

from __future__ import annotations

import torch

from tiny_llama import tiny_model
from twintrack.compiler.execute import Executor
from twintrack.job.records import Lora, Optimizer
from twintrack.numerics.rounding import NearestEven
from twintrack.torch.trees import flatten, rebuild
from twintrack.training.adapter import adapt
from twintrack.training.dropout import dropout_key_names
from twintrack.training.step import Step

TOKENS = 8


class Case:
    """A step, and arguments for its functions."""

    def __init__(self, *, layers, lora=None, dropout=0.0, tied=False, dtype=torch.float32):
        model = tiny_model(tied=tied, layers=layers)
        model.set_attn_implementation("eager")
        adapter = Lora(targets=lora, rank=4, alpha=8.0, dropout=dropout) if lora else None
        adapted = adapt(model, adapter, seed=1, dtype=dtype)
        model = adapted.model
        keys = dropout_key_names(model)
        model.train(bool(keys))
        self.model, self.step = model, Step(model, Optimizer(weight_decay=0.1), dtype)
        tensors = dict([*model.named_parameters(), *model.named_buffers()])
        trained = set(adapted.trainable)
        self.master = {name: tensor + 0.0 for name, tensor in adapted.initial.items()}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            for name, tensor in self.master.items():
                if (
                    "lora_B" in name
                ):  # as after some steps: with zeros, half of the gradients would be zeros too
                    self.master[name] = torch.randn_like(tensor) * 0.02
        self.weights = {name: tensor.to(dtype) for name, tensor in self.master.items()}
        self.frozen = {name: tensor.detach() for name, tensor in tensors.items() if name not in trained}
        self.frozen |= dict.fromkeys(keys, torch.tensor(12345))
        self.batch = batch()
        self.scale = torch.tensor(1.0 / 16)

    def arguments(self):
        return self.weights, self.frozen, self.batch, self.scale

    def update_arguments(self, gradients):
        state = {"master": self.master} | {
            name: {k: t.square() if name == "moment2" else t for k, t in gradients.items()}
            for name in ("moment1", "moment2")
        }
        scalars = {"step_size": 0.01, "second_correction": 1.5, "decay": 0.999}
        return state, gradients, {name: torch.tensor(value) for name, value in scalars.items()}


def batch():
    """Two rows of two samples each, with a label masked."""
    generator = torch.Generator().manual_seed(4)
    ids, labels = (torch.randint(0, 512, (2, TOKENS), generator=generator) for _ in range(2))
    labels[0, 2] = -100
    ids[1, 3] = 0  # the padding's id
    segments = torch.tensor([[0] * 5 + [1] * 3, [0] * 2 + [1] * 6])
    positions = torch.tensor([[*range(5), *range(3)], [*range(2), *range(6)]])
    return {"input_ids": ids, "labels": labels, "position_ids": positions, "segment_ids": segments}


def run(program, arguments, rounding=None, invocation=0):
    """The program's result on nested tensors, in their structure."""
    leaves = [tensor for _, tensor in flatten(list(arguments))]
    executor = Executor(program, rounding or NearestEven())
    return rebuild(program.result, executor.run(leaves, invocation=invocation))


def differences(left, right):
    """Largest difference of any two tensors that correspond, relative to the larger of 1e-3 and the tensor's largest
    element."""
    pairs = zip(flatten(left), flatten(right), strict=True)
    worst = 0.0
    for (path, a), (other, b) in pairs:
        assert path == other
        assert a.dtype is b.dtype, path
        assert a.shape == b.shape, path
        a, b = a.double(), b.double()
        apart = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
        scale = torch.where(b.isfinite(), b.abs(), 0.0).flatten().amax().clamp(min=1e-3) if b.numel() else 1.0
        worst = max(worst, (apart / scale).max().item() if b.numel() else 0.0)
    return worst
