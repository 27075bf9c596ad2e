"""Device memory by kind, at each moment of the training step, for one parallel plan.

State follows the job's precision policy: weights in use in the compute type; master weights, gradients of trained
weights and both moments of AdamW in float32. The step is pure: an update makes new tensors while the old ones still
exist, and a checkpoint that is being written holds the state of its step. Both are counted, as they take real memory.

Activations are those of ``activations``. Tensor parallelism is counted with sequence parallelism (Korthikanti et al.
2022, arXiv 2205.05198): what lies between the matrices is shared by the devices as well. A pipeline runs one forward,
one backward (Narayanan et al. 2021, arXiv 2104.04473): stage s of p holds p - s micro-batches at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twintrack.job.records import Parallel
from twintrack.pilot.qualify.activations import (
    Rows,
    Rule,
    layer_input_bytes,
    layer_saved,
    layer_working,
    loss_saved,
    loss_working,
    shared_saved,
)
from twintrack.pilot.qualify.architecture import ModelShape
from twintrack.pilot.qualify.parameters import Targets
from twintrack.pilot.qualify.plan import Shard, shard_of, stages_to_compare
from twintrack.pilot.qualify.records import DeviceMemory, Moment, Part
from twintrack.quantity import Error, Quantity, total

__all__ = ["BUCKET_BYTES", "ESTIMATED", "Need", "Term", "device_memory", "moments", "peak_bytes"]

BUCKET_BYTES = 50 * 2**20
"""One bucket of the gradients' all-reduce: Neuron's default, ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB = 50 (aws-neuron-sdk,
archive/nxd-training/torch-neuron-envvars.rst)."""
_FLOAT32 = 4
_STACKED_ELEMENTS = 1 << 20
"""Trained tensors up to half of this size are updated together, and copied for that (``training.step``)."""
_UPDATE_TENSORS = 4
"""float32 tensors of the size of the largest group that one AdamW update holds beside its results."""
ESTIMATED = frozenset({"activations", "attention scores", "logits and loss", "working memory"})
"""Kinds whose size is a model of what a program keeps; all others are counts of parameters."""


@dataclass(frozen=True, slots=True)
class Need:
    """What decides the memory of a device."""

    shape: ModelShape
    targets: Targets
    rank: int | None
    """Of the adapters; ``None``: every weight learns."""
    dropout: bool
    plan: Parallel
    micro: int
    accumulation: int
    length: int
    compute: int
    """Bytes of the compute type."""
    eager: bool
    """Attention keeps its scores."""
    recompute: bool
    """Every decoder layer is computed again in the backward pass."""
    asynchronous: bool
    """Checkpoints are written in the background."""

    @property
    def rows(self) -> Rows:
        """A micro-batch."""
        return Rows(self.micro, self.length, self.compute, self.plan.tensor)

    @property
    def rule(self) -> Rule:
        """How activations are kept."""
        return Rule(self.eager, self.rank, self.dropout)


@dataclass(frozen=True, slots=True)
class Term:
    """Bytes of one kind, with the formula that gave them."""

    kind: str
    size: int
    formula: str


def moments(need: Need, stage: int) -> dict[str, tuple[Term, ...]]:
    """What lies on a device of a pipeline stage, at each moment of a step that may be its peak."""
    shard = shard_of(need.shape, need.targets, need.rank, need.plan, stage)
    always = tuple(_state(need, shard))
    summed = tuple(_summed(need, shard))
    kept, one_layer = _activations(need, shard)
    found = {
        "backward of a layer": (
            *always,
            *summed,
            *kept,
            Term("working memory", one_layer, "what one layer's backward pass holds beside what was kept"),
            *_collectives(need, shard),
        ),
        "gradients complete": (*always, _new_gradients(need, shard)),
        "update": (*always, *_update(need, shard)),
    }
    if shard.last:
        found["loss"] = (*always, *summed, *kept, _loss(need, shard), *_collectives(need, shard))
    return {name: tuple(term for term in terms if term.size) for name, terms in found.items()}


def peak_bytes(need: Need, *, estimates: float = 1.0) -> float:
    """Bytes on the device that needs most, at its worst moment, the kinds in ``ESTIMATED`` times ``estimates``."""
    return max(
        sum(term.size * (estimates if term.kind in ESTIMATED else 1.0) for term in terms)
        for stage in stages_to_compare(need.plan)
        for terms in moments(need, stage).values()
    )


def device_memory(need: Need, basis: tuple[Quantity, ...], error: Error | None) -> DeviceMemory:
    """The device that needs most, as figures.

    Args:
        need: of the job.
        basis: what every figure rests on: configuration and job.
        error: how far off the kinds in ``ESTIMATED`` may be.
    """
    found = {stage: moments(need, stage) for stage in stages_to_compare(need.plan)}

    def size(terms: tuple[Term, ...]) -> int:
        return sum(term.size for term in terms)

    stage = max(found, key=lambda one: max(map(size, found[one].values())))
    made = tuple(_moment(name, terms, basis, error) for name, terms in found[stage].items())
    return DeviceMemory(stage, made, max(made, key=lambda one: one.total.require()))


def _moment(name: str, terms: tuple[Term, ...], basis: tuple[Quantity, ...], error: Error | None) -> Moment:
    parts = tuple(Part(term.kind, _figure(term, basis, error)) for term in terms)
    return Moment(name, parts, total("sum of the kinds", "byte", [part.size for part in parts]))


def _figure(term: Term, basis: tuple[Quantity, ...], error: Error | None) -> Quantity:
    made = Quantity.derived(term.size, "byte", term.formula, basis)
    return made.within(error) if error is not None and term.kind in ESTIMATED else made


def _state(need: Need, shard: Shard) -> Iterator[Term]:
    """What lies there all the time: weights, masters, moments, and a checkpoint that is being written."""
    c, trained = need.compute, sum(shard.trained)
    in_use = 0 if c == _FLOAT32 else c  # float32 weights in use are the masters themselves
    if need.rank is None:
        yield Term("weights", in_use * trained, f"{in_use} B x {trained:,}")
        yield Term(
            "weights as loaded", c * trained, f"{c} B x {trained:,}: the model's own, which no step reads"
        )
    else:
        yield Term("weights", c * shard.base, f"{c} B x {shard.base:,}")
        yield Term(
            "LoRA",
            (in_use + c) * trained,
            f"{in_use + c} B x {trained:,}: adapters in use, and as they were made",
        )
    yield Term("master weights", _FLOAT32 * trained, f"4 B x {trained:,}")
    yield Term("optimizer", 2 * _FLOAT32 * trained, f"2 moments x 4 B x {trained:,}")
    if need.asynchronous:
        each = 3 * _FLOAT32 + in_use
        yield Term(
            "checkpoint being written",
            each * trained,
            f"{each} B x {trained:,}: the state of an earlier step, until it is on disk",
        )


def _summed(need: Need, shard: Shard) -> Iterator[Term]:
    """Gradients of earlier micro-batches of the step."""
    if need.accumulation > 1:
        trained = sum(shard.trained)
        yield Term("gradients", _FLOAT32 * trained, f"4 B x {trained:,}: sum of earlier micro-batches")


def _new_gradients(need: Need, shard: Shard) -> Term:
    """At the end of a backward pass: found in the compute type and cast; or summed, old, new and sum at once."""
    trained = sum(shard.trained)
    cast = _FLOAT32 + (need.compute if need.compute != _FLOAT32 else 0)
    each = cast if need.accumulation == 1 else max(cast + _FLOAT32, 3 * _FLOAT32)
    what = "as found and cast" if need.accumulation == 1 else "earlier sum, new ones, and their sum"
    return Term("gradients", each * trained, f"{each} B x {trained:,}: {what}")


def _update(need: Need, shard: Shard) -> Iterator[Term]:
    """Gradients, the new state beside the old one, and what AdamW holds meanwhile."""
    trained = sum(shard.trained)
    yield Term("gradients", _FLOAT32 * trained, f"4 B x {trained:,}")
    each = 3 * _FLOAT32 + (need.compute if need.compute != _FLOAT32 else 0)
    yield Term("next state", each * trained, f"{each} B x {trained:,}: the step changes nothing in place")
    small = sum(size for size in shard.trained if 2 * size <= _STACKED_ELEMENTS)
    largest = max(max(shard.trained, default=0), min(small, _STACKED_ELEMENTS))
    yield Term(
        "working memory",
        _FLOAT32 * (small + _UPDATE_TENSORS * largest),
        f"4 B x ({small:,} stacked + {_UPDATE_TENSORS} x {largest:,})",
    )


def _activations(need: Need, shard: Shard) -> tuple[tuple[Term, Term], int]:
    """What all micro-batches in flight keep, and bytes that one layer's backward pass holds beside it."""
    shape, rows, rule = need.shape, need.rows, need.rule
    learned, kept, scores, worst = not shard.first or need.rank is None, 0, 0, 0
    saved: dict[tuple[frozenset[str], bool], Mapping[str, int]] = {}
    for adapted in shard.adapted:
        key = (adapted, learned)
        if key not in saved:
            saved[key] = layer_saved(shape, rows, rule, adapted, learned_before=learned)
        size, working = sum(saved[key].values()), layer_working(shape, rows, rule, adapted)
        if need.recompute:
            kept += layer_input_bytes(shape, rows)
            worst = max(worst, size + working)
        else:
            kept += size - saved[key].get("attention scores", 0)
            scores += saved[key].get("attention scores", 0)
            worst = max(worst, working)
        learned = learned or bool(adapted)
    in_flight = min(need.plan.pipeline - shard.stage, need.accumulation)
    times = f"{shard.layers} layers x {in_flight} micro-batch(es) of {need.micro} x {need.length:,} tokens"
    what = (
        "inputs of layers alone, each is computed again" if need.recompute else "kept for the backward pass"
    )
    attention = "eager" if need.eager else "fused"
    return (
        Term(
            "activations",
            in_flight * (kept + shared_saved(shape, rows, rule)),
            f"{times}, {what} (arXiv 2205.05198 adapted; attention {attention}, tensor {need.plan.tensor})",
        ),
        Term(
            "attention scores",
            in_flight * scores,
            f"{times} x {shape.heads // need.plan.tensor} heads x {need.length:,} x (4 B after the softmax, and again"
            f" in the compute type where that is not float32)",
        ),
    ), worst


def _loss(need: Need, shard: Shard) -> Term:
    rows = need.rows
    kept = loss_saved(need.shape, rows, need.rule, shard.vocabulary, head=need.targets.head, learned=True)
    return Term(
        "logits and loss",
        kept + loss_working(rows, shard.vocabulary),
        f"3 float32 tensors of {rows.tokens:,} x {shard.vocabulary:,}, and the input of the head",
    )


def _collectives(need: Need, shard: Shard) -> Iterator[Term]:
    rows, plan = need.rows, need.plan
    stream = rows.compute * rows.tokens * need.shape.hidden
    size, texts = 0, []
    if plan.tensor > 1:
        size += 2 * stream
        texts.append("tensor: one gathered input and one sum to scatter")
    if plan.pipeline > 1:
        size += 2 * (stream // plan.tensor)
        texts.append("pipeline: one block to send and one to receive")
    if plan.data > 1:
        size += min(BUCKET_BYTES, _FLOAT32 * sum(shard.trained))
        texts.append("data: one bucket of gradients, 50 MiB at most")
    yield Term("collective buffers", size, "; ".join(texts) or "none")
