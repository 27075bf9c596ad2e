"""The parallel plan against the model's sizes: what divides, what is repeated, what is padded, what is impossible.

The cut is that of Megatron-LM (Shoeybi et al. 2019, arXiv 1909.08053): query, key, value, gate, up and the head by
outputs, output and down projection by inputs, the embedding by vocabulary; norms are repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twintrack.job.records import Parallel
from twintrack.pilot.qualify.architecture import Linear, ModelShape
from twintrack.pilot.qualify.parameters import Targets
from twintrack.pilot.qualify.records import Finding, PlanReport

__all__ = ["Shard", "check_plan", "shard_of", "stages_to_compare"]


def check_plan(shape: ModelShape, plan: Parallel, sequence: int) -> PlanReport:
    """What the plan does to the model."""
    findings = (
        *_heads(shape, plan.tensor),
        *_width(shape, plan.tensor),
        *_tables(shape, plan),
        *_layers(shape, plan.pipeline),
        *_rows(plan.tensor, sequence),
    )
    return PlanReport(plan.data, plan.tensor, plan.pipeline, findings)


def _heads(shape: ModelShape, tensor: int) -> Iterator[Finding]:
    heads, groups = shape.heads, shape.kv_heads
    if heads % tensor:
        yield Finding("heads", True, f"{heads} heads cannot be shared by {tensor} devices")
    elif tensor > 1:
        yield Finding("heads", False, f"{heads // tensor} of {heads} on each of {tensor} devices")
    if tensor == 1 or heads % tensor:
        return
    if groups % tensor == 0:
        yield Finding("KV heads", False, f"{groups // tensor} of {groups} on each of {tensor} devices")
    elif tensor % groups == 0:
        times = tensor // groups
        yield Finding(
            "KV heads",
            False,
            f"{groups} KV heads are fewer than {tensor} devices: each is kept {times} times",
        )
    else:
        yield Finding(
            "KV heads", True, f"{groups} KV heads neither divide among {tensor} devices nor repeat to them"
        )


def _width(shape: ModelShape, tensor: int) -> Iterator[Finding]:
    if shape.intermediate % tensor:
        yield Finding("intermediate size", True, f"{shape.intermediate:,} is no multiple of {tensor}")


def _tables(shape: ModelShape, plan: Parallel) -> Iterator[Finding]:
    padded = _padded(shape.vocabulary, plan.tensor)
    if padded != shape.vocabulary:
        yield Finding(
            "vocabulary",
            False,
            f"{shape.vocabulary:,} tokens are padded to {padded:,} for {plan.tensor} devices",
        )
    elif plan.tensor > 1:
        yield Finding("vocabulary", False, f"{padded // plan.tensor:,} of {padded:,} tokens on each device")
    if shape.tied and plan.pipeline > 1:
        yield Finding("tied embedding", False, "kept twice, on the first and the last pipeline stage")


def _layers(shape: ModelShape, pipeline: int) -> Iterator[Finding]:
    if pipeline > shape.layers:
        yield Finding("layers", True, f"{shape.layers} layers are fewer than {pipeline} pipeline stages")
    elif shape.layers % pipeline:
        most = -(-shape.layers // pipeline)
        yield Finding(
            "layers", False, f"{shape.layers} layers on {pipeline} stages: uneven, {most} on the longest"
        )
    elif pipeline > 1:
        yield Finding("layers", False, f"{shape.layers // pipeline} of {shape.layers} on each stage")


def _rows(tensor: int, sequence: int) -> Iterator[Finding]:
    if sequence % tensor:
        yield Finding(
            "sequence",
            False,
            f"{sequence} positions are no multiple of {tensor}: sequence parallelism pads each row",
        )


def _padded(size: int, degree: int) -> int:
    return -(-size // degree) * degree


@dataclass(frozen=True, slots=True)
class Shard:
    """What one device holds."""

    stage: int
    first: bool
    """It holds the embedding."""
    last: bool
    """It holds the last norm and the head."""
    adapted: tuple[frozenset[str], ...]
    """Adapted linear modules of each of its layers."""
    base: int
    """Parameters of the model on it."""
    adapters: int
    """LoRA parameters on it."""
    trained: tuple[int, ...]
    """Elements of every trained tensor on it."""
    vocabulary: int
    """Rows of the embedding or head on it."""

    @property
    def layers(self) -> int:
        """Decoder layers on it."""
        return len(self.adapted)


def stages_to_compare(plan: Parallel) -> tuple[int, ...]:
    """Stages of which one needs most memory: the first holds most micro-batches, the last the logits."""
    return (0,) if plan.pipeline == 1 else (0, plan.pipeline - 1)


def shard_of(shape: ModelShape, targets: Targets, rank: int | None, plan: Parallel, stage: int) -> Shard:
    """What a device of the first or the last pipeline stage holds; both are taken to be longest stages.

    Args:
        shape: sizes of the model.
        targets: adapted modules.
        rank: of the adapters; ``None``: the whole model is trained.
        plan: a possible one.
        stage: 0, or the last.
    """
    tensor, first, last = plan.tensor, stage == 0, stage == plan.pipeline - 1
    count = -(-shape.layers // plan.pipeline)
    adapted = targets.layers[:count] if first else targets.layers[-count:]
    vocabulary = _padded(shape.vocabulary, tensor) // tensor
    tables = [vocabulary * shape.hidden] * (
        (1 if first else 0) + (1 if last and not (shape.tied and first) else 0)
    )
    layer = [size for one in shape.linears for size in _linear_shares(one, shape, tensor)] + [
        shape.hidden
    ] * 2
    base = [*tables, *layer * count, *([shape.hidden] if last else [])]
    if rank is None:
        return Shard(stage, first, last, adapted, sum(base), 0, tuple(base), vocabulary)
    linears = {one.name: _adapter_shares(one, shape, rank, tensor) for one in shape.linears}
    adapters = [size for names in adapted for name in sorted(names) for size in linears[name]]
    if last and targets.head:
        adapters += [rank * shape.hidden, rank * vocabulary]
    return Shard(stage, first, last, adapted, sum(base), sum(adapters), tuple(adapters), vocabulary)


def _linear_shares(linear: Linear, shape: ModelShape, tensor: int) -> list[int]:
    """Elements of weight and bias of a linear module on one device."""
    weight, bias = linear.inputs * linear.outputs, linear.outputs if linear.bias else 0
    if linear.split == "row":
        shares = [weight // tensor, bias]
    else:
        copies = _copies(linear, shape, tensor)
        shares = [weight * copies // tensor, bias * copies // tensor]
    return [share for share in shares if share]


def _adapter_shares(linear: Linear, shape: ModelShape, rank: int, tensor: int) -> tuple[int, int]:
    """Elements of A and B on one device: the side that is cut follows its module, the other is repeated."""
    a, b = rank * linear.inputs, rank * linear.outputs
    if linear.split == "row":
        return a // tensor, b
    return a, b * _copies(linear, shape, tensor) // tensor


def _copies(linear: Linear, shape: ModelShape, tensor: int) -> int:
    """How many devices keep the same KV heads."""
    repeats = linear.name in ("k_proj", "v_proj") and tensor > shape.kv_heads
    return tensor // shape.kv_heads if repeats else 1
