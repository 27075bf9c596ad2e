"""Work and operators of the training step of a whole model, from its configuration alone.

Equal decoder layers do equal work, so a model of one layer and one of two, captured on tensors without memory, tell
that of ``n`` layers: ``one + (n - 1) * (two - one)``. The first layer may differ from the others (with adapters, no
gradient goes back beyond it), which is why the second one is the one that is counted again. The figures are those of
the full capture; a test holds that for small models.

The step is the one that runs: ``training.step`` with the attention that the software Trainium2 uses, plain operators
over all positions of a row, without recomputation.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

from twintrack.compiler.cost import Work, measure_work
from twintrack.job.records import Job
from twintrack.pilot.qualify.operators import rule_of
from twintrack.pilot.qualify.shapes_records import (
    FunctionName,
    FunctionWork,
    GraphOperators,
    ModelWork,
    OperatorCount,
)
from twintrack.quantity import Provenance, Quantity
from twintrack.torch.capture import capture
from twintrack.torch.trees import flatten, rebuild, template
from twintrack.tracks.base import COMPUTE_DTYPES
from twintrack.training.adapter import adapt
from twintrack.training.dropout import dropout_key_names
from twintrack.training.session import in_evaluation
from twintrack.training.step import Step

__all__ = ["Outline", "flops_per_token", "model_work", "outline"]

Tensors = dict[str, Tensor]
Compute = Literal["bf16", "fp32"]
_BATCH = ("input_ids", "labels", "position_ids", "segment_ids")
_SCALARS = ("step_size", "second_correction", "decay")


@dataclass(frozen=True, slots=True)
class Outline:
    """A model of a few layers without memory, and arguments for the functions of its step: fake tensors, which have a
    type, a shape and strides, and no data. Strides count: by them PyTorch decides which matrix it transposes."""

    step: Step
    weights: Tensors
    frozen: Tensors
    batch: Tensors

    def function(self, name: FunctionName) -> Callable[..., Any]:
        """A function of the step, as a session runs it: dropout is off but for gradients."""
        found: Callable[..., Any] = getattr(self.step, name)
        return found if name == "gradients" else in_evaluation(self.step.model, found)

    def arguments(self, function: FunctionName) -> tuple[Any, ...]:
        """What a function of the step takes."""
        forward = (self.weights, self.frozen, self.batch)
        if function == "gradients":
            return (*forward, torch.zeros(()))
        if function == "evaluate":
            return forward
        if function == "next_tokens":
            return (*forward, _fake((self.batch["input_ids"].shape[0],), torch.int64))
        wide = {name: _fake(tensor.shape, torch.float32) for name, tensor in self.weights.items()}
        if function == "accumulate":
            result = {"loss": torch.zeros(()), "gradients": wide}
            return result, result
        state = {kind: dict(wide) for kind in ("master", "moment1", "moment2")}
        return state, wide, {name: torch.zeros(()) for name in _SCALARS}


def _fake(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor on the CPU without data."""
    with FakeTensorMode():
        return torch.empty(tuple(shape), dtype=dtype)


def outline(config: LlamaConfig, job: Job, layers: int, *, compute: Compute | None = None) -> Outline:
    """The first ``layers`` layers of a model, adapted as the job says, without memory.

    Raises:
        ModelError: if the job's adapters do not go with the model.
    """
    dtype = COMPUTE_DTYPES[compute or job.precision.compute]
    small = copy.deepcopy(config)
    small.num_hidden_layers = layers
    small._attn_implementation = "eager"
    with torch.device("meta"):
        adapted = adapt(LlamaForCausalLM(small).eval(), job.lora, seed=job.seed, dtype=dtype)
    model = adapted.model
    model.train(bool(dropout_key_names(model)))
    trained = set(adapted.trainable)
    named = [*model.named_parameters(), *model.named_buffers()]
    tensors = {name: _fake(tensor.shape, tensor.dtype) for name, tensor in named}
    ids = _fake((job.batch.micro, job.data.sequence_length), torch.int64)
    return Outline(
        Step(model, job.optimizer, dtype),
        {name: tensor for name, tensor in tensors.items() if name in trained},
        {name: tensor for name, tensor in tensors.items() if name not in trained},
        dict.fromkeys(_BATCH, ids),
    )


def flops_per_token(config: LlamaConfig, job: Job) -> Quantity:
    """FLOPs of matrix products, forward and backward, that training spends on one position of a row.

    What the job trains counts: with adapters there are no gradients of the frozen weights. The optimizer's update is
    not in it, nor any recomputation. Takes about a second.

    Args:
        config: of the whole model.
        job: its adapters, precision, rows and sequence length.

    Returns:
        Unit ``FLOP/token``.

    Raises:
        ModelError: if the job's adapters do not go with the model.
        UnsupportedOperator: if the step cannot be captured.
    """
    return _per_token(
        _whole(_outlines(config, job, None), "gradients", config), config, job, "forward and backward"
    )


def model_work(config: LlamaConfig, job: Job, *, compute: Compute | None = None) -> ModelWork:
    """Work and operators of the training step of a whole model, for full micro-batches of full length.

    Args:
        config: of the whole model; no weights are read or made.
        job: its adapters, precision, batch and sequence length.
        compute: type of weights and activations, where not the job's.

    Raises:
        ModelError: if the job's adapters do not go with the model.
        UnsupportedOperator: if the step cannot be captured, not even with operators on the host.
    """
    few = _outlines(config, job, compute)
    gradients, evaluate = _whole(few, "gradients", config), _whole(few, "evaluate", config)
    host = sorted({place.split(" ", 1)[0] for work in (gradients, evaluate) for place in work.host})
    return ModelWork(
        layers=config.num_hidden_layers,
        gradients=_function_work("gradients", job, gradients),
        evaluate=_function_work("evaluate", job, evaluate),
        flops_per_token=_per_token(gradients, config, job, "forward and backward"),
        evaluation_flops_per_token=_per_token(evaluate, config, job, "forward"),
        operators=_operators(few, config, job, host),
    )


def _outlines(config: LlamaConfig, job: Job, compute: Compute | None) -> list[Outline]:
    """One layer and, where the model has more, two."""
    return [outline(config, job, n, compute=compute) for n in (1, 2) if n <= config.num_hidden_layers]


def _whole(outlines: list[Outline], function: FunctionName, config: LlamaConfig) -> Work:
    """Work of a function for the whole model."""
    found = []
    for few in outlines:
        program = capture(
            function,
            few.function(function),
            few.arguments(function),
            layers=few.step.layers,
            allow_host=True,
        )
        found.append(measure_work(program))
    return _extended(found, config.num_hidden_layers)


def _extended(found: list[Work], layers: int) -> Work:
    """Work of ``layers`` layers, from that of one and, where there are more, that of two."""
    if layers == 1:
        return found[0]
    one, two, times = found[0], found[1], layers - 1

    def counter(name: str) -> Counter[str]:
        return _line(getattr(one, name), getattr(two, name), times)

    return Work(
        flops=counter("flops"),
        peak_flops=counter("peak_flops"),
        matmul_flops=one.matmul_flops + times * (two.matmul_flops - one.matmul_flops),
        operator_bytes=one.operator_bytes + times * (two.operator_bytes - one.operator_bytes),
        counts=counter("counts"),
        host=counter("host"),
        host_flops=one.host_flops + times * (two.host_flops - one.host_flops),
        bytes=counter("bytes"),
    )


def _line(one: Counter[str], two: Counter[str], times: int) -> Counter[str]:
    return Counter({name: one[name] + times * (two[name] - one[name]) for name in {**one, **two}})


def _function_work(function: Literal["gradients", "evaluate"], job: Job, work: Work) -> FunctionWork:
    operators = [
        OperatorCount(name, count, work.flops[name], work.bytes[name]) for name, count in work.counts.items()
    ]
    return FunctionWork(
        function,
        job.batch.micro,
        job.data.sequence_length,
        work.total_flops,
        work.matmul_flops,
        work.operator_bytes,
        tuple(sorted(operators, key=lambda one: (-one.flops, -one.bytes, one.name))),
    )


def _per_token(work: Work, config: LlamaConfig, job: Job, way: str) -> Quantity:
    positions = job.batch.micro * job.data.sequence_length
    trained = f"LoRA of rank {job.lora.rank}" if job.lora else "all parameters trained"
    return Quantity(
        work.matmul_flops / positions,
        "FLOP/token",
        Provenance.DERIVED,
        f"FLOPs of matrix products in the captured {way} pass of {config.num_hidden_layers} layers, over its positions",
        rests_on=Provenance.MEASURED,
        conditions=f"{trained}, rows of {job.data.sequence_length} positions, attention over all of them, no"
        " recomputation",
    )


class _Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts ATen overloads."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[torch._ops.OpOverload] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace == "aten":
            self.counts[func] += 1
        return func(*args, **(kwargs or {}))


def _observed(few: Outline, function: FunctionName) -> Counter[torch._ops.OpOverload]:
    """ATen overloads of one execution of a function, counted on tensors without data."""
    arguments = list(few.arguments(function))
    fake = FakeTensorMode()
    fakes = [fake.from_tensor(tensor) for _, tensor in flatten(arguments)]
    with fake, _Observer() as observer:
        few.function(function)(*rebuild(template(arguments), fakes))
    counts: Counter[torch._ops.OpOverload] = observer.counts
    return counts


def _operators(few: list[Outline], config: LlamaConfig, job: Job, host: Iterable[str]) -> GraphOperators:
    one, *more = [_observed(each, "gradients") for each in few]
    functions: list[FunctionName] = ["update", "evaluate"]
    functions += ["accumulate"] if job.batch.accumulation > 1 else []
    functions += ["next_tokens"] if job.evaluation.prompts else []
    every = {**one, **more[0]} if more else one
    seen: dict[torch._ops.OpOverload, list[FunctionName]] = {op: ["gradients"] for op in every}
    for function in functions:
        for overload in _observed(few[-1], function):
            seen.setdefault(overload, []).append(function)
    times = config.num_hidden_layers - 1
    counts = {op: one[op] + times * (more[0][op] - one[op]) if more else one[op] for op in seen}
    left = frozenset(host)
    return GraphOperators(
        aten={str(op): tuple(names) for op, names in seen.items()},
        counts={str(op): count for op, count in counts.items() if count},
        rules={str(op): "host" if str(op) in left else rule_of(op) for op in seen},
        host=tuple(host),
    )
