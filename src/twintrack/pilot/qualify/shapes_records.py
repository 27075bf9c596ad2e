"""What the shapes, work and operators of a job are, as frozen records.

Terms: a *micro-batch* is one forward pass of ``batch.micro`` rows; a *program* is one function of the training step
compiled for one set of shapes; the functions are those of ``training.step``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from twintrack.quantity import Quantity

__all__ = [
    "Apart",
    "ApartName",
    "BatchShape",
    "FunctionName",
    "FunctionShapes",
    "FunctionWork",
    "GraphOperators",
    "ModelWork",
    "OperatorAnswer",
    "OperatorCount",
    "Published",
    "Rule",
    "Shapes",
]

FunctionName = Literal["gradients", "accumulate", "update", "evaluate", "next_tokens"]
ApartName = Literal[
    "last training batch", "evaluation", "last evaluation batch", "prompts", "checkpoint save"
]


@dataclass(frozen=True, slots=True)
class BatchShape:
    """Shape of a micro-batch, [rows, length]."""

    rows: int
    length: int | None
    """Tokens per row; ``None`` where only a tokenizer could tell."""
    calls: int | None
    """Micro-batches of this shape, in the steps looked at, in one evaluation, or at most in answering the prompts once;
    ``None`` where the rows are not known."""
    first_step: int
    """Optimizer step in which, or after which, it is met first."""


@dataclass(frozen=True, slots=True)
class FunctionShapes:
    """The programs that one function needs in a process that does the whole job."""

    function: FunctionName
    programs: Quantity
    """All of them, unit ``program``; unknown with the reason. Of kind *bound* where not all steps were looked at: then
    it is a least number."""
    recompiles: Quantity
    """Those among them that are needed after the first step, by a function that had run before."""
    shapes: tuple[BatchShape, ...]
    """Distinct ones, in the order in which the job meets them; none for functions that see no batch, and where they
    are unknown."""
    reason: str
    """Why it is this number."""
    refused: bool | None
    """Whether a track that compiles refuses the job, because the function needs more programs than
    ``Shapes.limit``; ``None`` where that is not known."""


@dataclass(frozen=True, slots=True)
class Apart:
    """How many programs one occasion adds, on its own."""

    name: ApartName
    programs: Quantity
    reason: str


@dataclass(frozen=True, slots=True)
class Shapes:
    """The distinct shapes that a job's data yield, and the programs that they make necessary."""

    padding: Literal["full", "longest"]
    packing: bool
    rows: int
    """Of a micro-batch."""
    sequence_length: int
    functions: tuple[FunctionShapes, ...]
    """In the order of the training step: gradients, accumulate, update, evaluate, next_tokens."""
    apart: tuple[Apart, ...]
    """What each occasion adds: last training batch, evaluation, last evaluation batch, prompts, checkpoint save."""
    programs: Quantity
    """Of all functions together."""
    limit: int
    """Most programs of one function that a track that compiles accepts in one process."""
    filled: Quantity
    """Share of the positions of the training micro-batches looked at that hold samples, unit ``""``."""
    positions: Quantity
    """Mean number of positions of a training micro-batch, rows times length, over those looked at."""
    steps: int
    """Optimizer steps that were looked at: all of the job's, but for jobs of very many rows."""

    def of(self, function: FunctionName) -> FunctionShapes:
        """The programs of one function."""
        return next(one for one in self.functions if one.function == function)


@dataclass(frozen=True, slots=True)
class OperatorCount:
    """One operator of the IR in one execution of a function."""

    name: str
    count: int
    flops: int
    bytes: int
    """That it reads and writes."""


@dataclass(frozen=True, slots=True)
class FunctionWork:
    """Work of one execution of a function on one micro-batch."""

    function: Literal["gradients", "evaluate"]
    rows: int
    length: int
    flops: int
    matmul_flops: int
    operator_bytes: int
    operators: tuple[OperatorCount, ...]
    """Most FLOPs first, then most bytes."""

    @property
    def count(self) -> int:
        """Executed operators."""
        return sum(one.count for one in self.operators)


@dataclass(frozen=True, slots=True)
class ModelWork:
    """Work of the training step of a whole model, from captures of its first one and two layers."""

    layers: int
    gradients: FunctionWork
    evaluate: FunctionWork
    flops_per_token: Quantity
    """Of matrix products, forward and backward, per position of a row; unit ``FLOP/token``."""
    evaluation_flops_per_token: Quantity
    """Of matrix products, forward alone."""
    operators: GraphOperators


Rule = Literal["rule", "decomposed", "host", "none"]


@dataclass(frozen=True, slots=True)
class GraphOperators:
    """Operators of the captured functions."""

    aten: Mapping[str, tuple[FunctionName, ...]]
    """Functions by ATen overload, such as ``aten.mm.default``."""
    counts: Mapping[str, int]
    """Executions in one ``gradients`` of the whole model, by ATen overload."""
    rules: Mapping[str, Rule]
    """What the software Trainium2 does with each overload: it has a rule; it takes it apart into operators that have
    one; it runs on the host, where the job allows it; nothing."""
    host: tuple[str, ...]
    """Overloads that the captured programs leave to the host, after what can be taken apart was; none where all of
    the work is under the rules."""


@dataclass(frozen=True, slots=True)
class Published:
    """A published list, or statement about one operator, that an answer rests on."""

    list: str
    stack: str
    source: str
    date: str
    complete: bool
    """Whether the source says that what it does not list is not supported."""


@dataclass(frozen=True, slots=True)
class OperatorAnswer:
    """What is published about one operator, and what our own software makes of it."""

    name: str
    functions: tuple[FunctionName, ...]
    count: int
    """Executions in one ``gradients`` of the whole model."""
    answer: Literal["supported", "unknown", "unsupported"]
    """``unsupported`` only where a source says so; an operator that an incomplete list lacks is ``unknown``."""
    published: tuple[Published, ...]
    """Where and when; none for ``unknown``."""
    rule: Rule
    """Of the software Trainium2."""
