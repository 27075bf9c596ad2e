"""Bytes that one micro-batch keeps for its backward pass: what autograd saves of our training step, term by term.

The terms follow Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models" (arXiv
2205.05198, section 4), adapted to what a Llama and our step keep: grouped KV heads that are repeated before attention,
SwiGLU, RMSNorm in float32, no dropout masks but LoRA's, scores in float32 and in the compute type where attention is
``eager``, none where it is fused (``sdpa``), and nothing for weights that do not learn. ``tests/pilot/qualify`` counts
what autograd really saves of the step and compares.

Letters: n = b T tokens of a micro-batch of b rows, h hidden, f intermediate, H heads, G KV heads, d head size, r rank,
c bytes of the compute type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twintrack.pilot.qualify.architecture import ModelShape

__all__ = [
    "Rows",
    "Rule",
    "layer_input_bytes",
    "layer_saved",
    "layer_working",
    "loss_saved",
    "loss_working",
    "shared_saved",
]

_FLOAT32 = 4
_INT64 = 8


@dataclass(frozen=True, slots=True)
class Rows:
    """A micro-batch on one device."""

    rows: int
    length: int
    """Positions of a row."""
    compute: int
    """Bytes of the compute type."""
    tensor: int = 1
    """Devices that share each matrix; with sequence parallelism they also share what lies between the matrices."""

    @property
    def tokens(self) -> int:
        """Positions of the micro-batch."""
        return self.rows * self.length


@dataclass(frozen=True, slots=True)
class Rule:
    """How the step keeps activations."""

    eager: bool
    """Attention keeps its scores; else it is a fused kernel that keeps its output and one number per row."""
    rank: int | None
    """Rank of the adapters; ``None``: every weight learns."""
    dropout: bool = False
    """The adapters' inputs are dropped out."""


def layer_saved(
    shape: ModelShape, rows: Rows, rule: Rule, adapted: frozenset[str], *, learned_before: bool
) -> Mapping[str, int]:
    """Bytes by part that one decoder layer saves.

    Args:
        shape: sizes of the model.
        rows: the micro-batch.
        rule: how the step keeps activations.
        adapted: linear modules of this layer with an adapter.
        learned_before: whether anything before this layer learns, so that its input has a gradient.
    """
    full, t = rule.rank is None, rows.tensor
    queries = rows.tokens * shape.heads * shape.head_size // t

    def learns(*names: str) -> bool:
        return full or learned_before or bool(adapted.intersection(names))

    q, k, v = learns("q_proj"), learns("k_proj"), learns("v_proj")
    scores, output = q or k, q or k or v
    parts = {
        "norms": _norm(shape, rows, full=full) * (1 if learned_before or full else 0),
        "inputs of learning modules": _inputs(
            shape, rows, rule, adapted, learned_before=learned_before, kept=not rule.eager and output
        ),
        "attention": rows.compute * queries * ((1 if k else 0) + (1 if q else 0) + (1 if scores else 0)),
    }
    if rule.eager:
        entries = rows.rows * shape.heads * rows.length**2 // t
        parts["attention scores"] = entries * (
            (_FLOAT32 if scores else 0) + (rows.compute if v and rows.compute != _FLOAT32 else 0)
        )
        if v and rows.compute == _FLOAT32 and not scores:
            parts["attention scores"] = entries * _FLOAT32
    elif output:
        parts["attention"] = (
            4 * rows.compute * queries + _FLOAT32 * rows.rows * shape.heads * rows.length // t
        )
    after = output or "o_proj" in adapted
    if after or full:
        parts["norms"] += _norm(shape, rows, full=full)
    parts["gated product"] = _gated(shape, rows, adapted, full or after)
    return MappingProxyType(parts)


def _norm(shape: ModelShape, rows: Rows, *, full: bool) -> int:
    """Input in float32 and one float32 per token; the normalised input too where the norm's weight learns."""
    elements = rows.tokens * shape.hidden
    return (
        elements * _FLOAT32 + rows.tokens * _FLOAT32 + (elements * rows.compute if full else 0)
    ) // rows.tensor


def _inputs(
    shape: ModelShape,
    rows: Rows,
    rule: Rule,
    adapted: frozenset[str],
    *,
    learned_before: bool,
    kept: bool,
) -> int:
    """Inputs that the weights' gradients need: shared by q, k, v and by gate, up; and A's outputs for B's gradient.

    ``kept``: attention has kept its output already, which is the input of the output projection.
    """
    c, t, n = rows.compute, rows.tensor, rows.tokens
    hidden, queries, inner = (
        n * shape.hidden // t,
        n * shape.heads * shape.head_size // t,
        n * shape.intermediate // t,
    )
    groups = (
        (("q_proj", "k_proj", "v_proj"), hidden),
        (("o_proj",), 0 if kept else queries),
        (("gate_proj", "up_proj"), hidden),
        (("down_proj",), inner),
    )
    if rule.rank is None:
        return c * sum(size for _, size in groups)
    ranks = c * n * rule.rank * len(adapted)
    if not rule.dropout:
        return ranks + c * sum(size for names, size in groups if adapted.intersection(names))
    own = {name: size for names, size in groups for name in names} | {"o_proj": queries}
    first = {"q_proj", "k_proj", "v_proj"}
    masks = 2 if learned_before else 1
    return ranks + c * sum(own[name] * (masks if name in first else 2) for name in adapted)


def _gated(shape: ModelShape, rows: Rows, adapted: frozenset[str], learned: bool) -> int:
    """Gate before and after SiLU, and up, each where the other factor's gradient needs it."""
    inner = rows.compute * rows.tokens * shape.intermediate // rows.tensor
    gate, up = learned or "gate_proj" in adapted, learned or "up_proj" in adapted
    return inner * ((2 if gate else 0) + (1 if up else 0))


def shared_saved(shape: ModelShape, rows: Rows, rule: Rule) -> int:
    """Bytes kept once for all layers: rotary cosine and sine; the mask [b, 1, T, T] where attention is fused."""
    mask = 0 if rule.eager else rows.rows * rows.length**2
    return rows.compute * (2 * rows.tokens * shape.head_size + mask)


def layer_input_bytes(shape: ModelShape, rows: Rows) -> int:
    """Bytes of a decoder layer's input, all that is kept of a layer that is computed again."""
    return rows.compute * rows.tokens * shape.hidden // rows.tensor


def loss_saved(
    shape: ModelShape, rows: Rows, rule: Rule, vocabulary: int, *, head: bool, learned: bool
) -> int:
    """Bytes kept by the last norm, the head and the loss.

    The log-probabilities [n, V] are kept in float32, the labels as int64, whether they count as a byte, and one scale;
    the logits are not, as nobody needs them later.

    Args:
        shape: sizes of the model.
        rows: the micro-batch.
        rule: how the step keeps activations.
        vocabulary: rows of the head on this device.
        head: whether the head has an adapter.
        learned: whether anything before the last norm learns.
    """
    n, full = rows.tokens, rule.rank is None
    kept = _norm(shape, rows, full=full) if learned or full else 0
    if full or head:
        kept += rows.compute * n * shape.hidden // rows.tensor * (2 if head and rule.dropout else 1)
    if head and rule.rank:
        kept += rows.compute * n * rule.rank
    return kept + _FLOAT32 * n * vocabulary + _INT64 * n + n + _FLOAT32


def loss_working(rows: Rows, vocabulary: int) -> int:
    """Bytes beside what is kept when the backward pass begins: two more float32 tensors [n, V]."""
    return 2 * _FLOAT32 * rows.tokens * vocabulary


def layer_working(shape: ModelShape, rows: Rows, rule: Rule, adapted: frozenset[str]) -> int:
    """Bytes beside what is kept while one layer's backward pass runs; within 8 % of the whole in the tests.

    The larger of two places: gradients of the gated product and its factors, with the product itself where it is not
    kept; or gradient and result of the softmax in float32, when what the gated product kept is free again. Twelve bytes
    per element of the residual stream go with either.
    """
    n, c, t = rows.tokens, rows.compute, rows.tensor
    inner = c * n * shape.intermediate // t
    product = rule.rank is None or "down_proj" in adapted
    gated = inner * (2 if product else 3)
    scores = 0
    if rule.eager:
        entries = rows.rows * shape.heads * rows.length**2 // t
        cast = c if c != _FLOAT32 else 0
        scores = (2 * _FLOAT32 - cast) * entries - 3 * inner - _FLOAT32 * n * shape.hidden // t
    return max(gated, scores) + 12 * n * shape.hidden // t
