"""The distinct shapes that a job's data yield, in the order in which training meets them, and the programs they cost.

A track that compiles needs one program of a function for every set of shapes that the function sees. What differs from
call to call is the micro-batch alone: its rows are the job's, its length is the row's with ``data.padding = "full"``
and that of its longest row with ``"longest"``. The rows are those that training would make, the order is that of
``training.sampler``, the batches for evaluation and the prompts are made by the functions that training uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twintrack.compiler.recompile import RecompilePolicy
from twintrack.job.records import Job
from twintrack.pilot.qualify.shapes_records import (
    Apart,
    ApartName,
    BatchShape,
    FunctionName,
    FunctionShapes,
    Shapes,
)
from twintrack.quantity import Provenance, Quantity, total
from twintrack.training.data import PreparedData, Row, batch_length, prepare
from twintrack.training.evaluate import full_batches, prompt_ids
from twintrack.training.sampler import Sampler

__all__ = ["missing_data", "program_shapes"]

_MOST_ROWS = 2_000_000
"""Rows that are looked at, at most: a second of sampling."""
_BLOCK = 65_536
_UNIT = "program"
_ONE_LENGTH = 'every row is padded to data.sequence_length (data.padding = "full")'
_LONGEST = 'a micro-batch is cut to its longest row (data.padding = "longest")'


@dataclass(frozen=True, slots=True)
class _Seen:
    """Micro-batches of one occasion: shapes in the order of their first use."""

    shapes: tuple[BatchShape, ...]
    partial: int | None = None
    """Length of a last batch that had to be filled."""
    complete: bool = True
    steps: int = 0
    batches: int = 0
    positions: int = 0
    tokens: int = 0


def missing_data(job: Job, base: Path) -> str:
    """The first data file of the job that is not there, in words; empty where all are."""
    for name in (*job.data.files, *job.data.evaluation_files):
        if not (base / name).is_file():
            return f"there is no data file {name}"
    return ""


def program_shapes(
    job: Job,
    base: Path,
    *,
    tokenizer: Any | None = None,
    pad_id: int = 0,
    prepared: PreparedData | None = None,
) -> Shapes:
    """The shapes that a job's data yield.

    Args:
        job: whose data, batch and evaluation.
        base: folder of the job file.
        tokenizer: a fast tokenizer of ``transformers``; without one, the shapes are what the job alone tells.
        pad_id: token that fills rows; no shape depends on it.
        prepared: the job's data, where a caller has them already.

    Returns:
        Known counts, and unknown ones with the reason where tokenizer or data are missing and lengths decide.

    Raises:
        DataError: for whatever is wrong with data that are there, as a run would; also for prompts that do not fit.
        StorageError: if a data file cannot be read.
    """
    missing = ""
    if prepared is None:
        missing = "there is no tokenizer" if tokenizer is None else missing_data(job, base)
    if prepared is None and not missing:
        prepared = prepare(job.data, base, tokenizer, seed=job.seed, pad_id=pad_id)
    prompts = _prompts(job, tokenizer)
    if prepared is not None:
        training = _training(job, prepared.train)
        return _shapes(job, training, _evaluation(job, prepared.evaluation), prompts, "")
    if job.data.padding == "full":
        shape = BatchShape(job.batch.micro, job.data.sequence_length, None, 1)
        return _shapes(job, _Seen((shape,)), _Seen((shape,)), prompts, missing)
    return _shapes(job, None, None, prompts, missing)


def _prompts(job: Job, tokenizer: Any | None) -> BatchShape | None:
    """All prompts are answered in one batch of fixed length."""
    settings = job.evaluation
    if not settings.prompts:
        return None
    length = None
    if tokenizer is not None:
        longest = max(len(prompt_ids(job, tokenizer, prompt)) for prompt in settings.prompts)
        length = longest + settings.answer_tokens
    return BatchShape(len(settings.prompts), length, settings.answer_tokens, job.stop.steps)


def _training(job: Job, rows: Sequence[Row]) -> _Seen:
    """The micro-batches of the job's steps, as the sampler gives them."""
    micro, accumulation = job.batch.micro, job.batch.accumulation
    full = job.data.padding == "full"
    used = np.asarray([row.tokens for row in rows], dtype=np.int64)
    steps = max(1, min(job.stop.steps, _MOST_ROWS // (micro * accumulation)))
    first: dict[int, int] = {}
    calls: dict[int, int] = {}
    positions = tokens = done = 0
    for indices in _blocks(Sampler(len(rows), job.seed), steps * accumulation, micro):
        found = used[indices]
        lengths = np.full(len(found), job.data.sequence_length) if full else found.max(axis=1)
        values, places, counts = np.unique(lengths, return_index=True, return_counts=True)
        for value, place, count in zip(values.tolist(), places.tolist(), counts.tolist(), strict=True):
            first.setdefault(value, done + place)
            calls[value] = calls.get(value, 0) + count
        positions += int(lengths.sum()) * micro
        tokens += int(found.sum())
        done += len(found)
    shapes = tuple(
        BatchShape(micro, length, calls[length], place // accumulation + 1)
        for length, place in sorted(first.items(), key=lambda item: item[1])
    )
    every = full or len(first) == len(np.unique(used)) or steps == job.stop.steps
    return _Seen(shapes, None, every, steps, done, positions, tokens)


def _blocks(sampler: Sampler, batches: int, micro: int) -> Iterator[np.ndarray[Any, Any]]:
    """Row indices of micro-batches, int64 [n, micro], in the sampler's order."""
    size = max(1, _BLOCK // micro)
    for start in range(0, batches, size):
        count = min(size, batches - start)
        yield np.asarray(sampler.next(count * micro), dtype=np.int64).reshape(count, micro)


def _evaluation(job: Job, rows: Sequence[Row]) -> _Seen:
    """The micro-batches of one evaluation."""
    size = job.batch.micro
    lengths = [batch_length(batch, job.data.padding) for batch in full_batches(rows, size)]
    partial = lengths.pop() if len(rows) % size else None
    shapes = tuple(BatchShape(size, length, lengths.count(length), 1) for length in dict.fromkeys(lengths))
    return _Seen(shapes, partial)


def _shapes(
    job: Job, training: _Seen | None, evaluation: _Seen | None, prompts: BatchShape | None, missing: str
) -> Shapes:
    """Counts from what was seen; ``None`` where it is not known, for the reason ``missing``."""
    why = f"{missing}, and {_LONGEST}"
    functions = (
        _gradients(job, training, why),
        _accumulate(job),
        _fixed("update", 1, "it sees weights and optimizer state alone, whose shapes never change"),
        _evaluate(job, evaluation, why),
        _next_tokens(prompts),
    )
    seen = training if training is not None and training.batches else None
    unseen = missing or "nothing was looked at"
    return Shapes(
        padding=job.data.padding,
        packing=job.data.packing,
        rows=job.batch.micro,
        sequence_length=job.data.sequence_length,
        functions=functions,
        apart=_apart(job, evaluation, prompts, why),
        programs=_all_programs(functions),
        limit=RecompilePolicy().limit,
        filled=Quantity.unknown("", unseen)
        if seen is None
        else _counted(seen.tokens / seen.positions, "", "positions that hold samples over all positions"),
        positions=Quantity.unknown("token", unseen)
        if seen is None
        else _counted(seen.positions / seen.batches, "token", "positions over training micro-batches"),
        steps=job.stop.steps if seen is None else seen.steps,
    )


def _all_programs(functions: Sequence[FunctionShapes]) -> Quantity:
    """Their sum, a whole number as they are."""
    found = total("sum over functions", _UNIT, [one.programs for one in functions])
    return found if found.value is None else replace(found, value=int(found.value))


def _counted(value: float, unit: str, what: str) -> Quantity:
    """A figure counted from the job's rows, or from the job itself."""
    return Quantity(value, unit, Provenance.DERIVED, f"{what}, counted", rests_on=Provenance.MEASURED)


def _least(value: int, steps: int, of: int) -> Quantity:
    """A count over the first steps alone."""
    return Quantity(value, _UNIT, Provenance.BOUND, f"at least: {steps:,} of {of:,} steps were looked at")


def _programs(count: int, training: _Seen | None, job: Job, what: str) -> Quantity:
    if training is not None and not training.complete:
        return _least(count, training.steps, job.stop.steps)
    return _counted(count, _UNIT, what)


def _refused(programs: Quantity) -> bool | None:
    if programs.value is None:
        return None
    if programs.value > RecompilePolicy().limit:
        return True
    return None if programs.kind is Provenance.BOUND else False


def _function(
    name: FunctionName, programs: Quantity, recompiles: Quantity, shapes: tuple[BatchShape, ...], reason: str
) -> FunctionShapes:
    return FunctionShapes(name, programs, recompiles, shapes, reason, _refused(programs))


def _unknown(name: FunctionName, why: str) -> FunctionShapes:
    return _function(name, Quantity.unknown(_UNIT, why), Quantity.unknown(_UNIT, why), (), why)


def _fixed(
    name: FunctionName, count: int, reason: str, shapes: tuple[BatchShape, ...] = ()
) -> FunctionShapes:
    zero = _counted(0, _UNIT, "programs after the first")
    return _function(name, _counted(count, _UNIT, reason), zero, shapes, reason)


def _lengths(job: Job) -> str:
    return _ONE_LENGTH if job.data.padding == "full" else _LONGEST


def _gradients(job: Job, training: _Seen | None, why: str) -> FunctionShapes:
    if training is None:
        return _unknown("gradients", why)
    shapes, what = training.shapes, "distinct shapes of training micro-batches in the sampler's order"
    later = sum(shape.first_step > 1 for shape in shapes)
    return _function(
        "gradients",
        _programs(len(shapes), training, job, what),
        _programs(later, training, job, f"{what}, those of the first step left out"),
        shapes,
        _lengths(job),
    )


def _accumulate(job: Job) -> FunctionShapes:
    if job.batch.accumulation == 1:
        return _fixed("accumulate", 0, "a step is one micro-batch (batch.accumulation = 1)")
    return _fixed("accumulate", 1, "it sees gradients alone, whose shapes never change")


def _evaluate(job: Job, evaluation: _Seen | None, why: str) -> FunctionShapes:
    if evaluation is None:
        return _unknown("evaluate", why)
    shapes = evaluation.shapes
    if _adds(evaluation):
        shapes = (*shapes, BatchShape(job.batch.micro, evaluation.partial, 1, 1))
    return _function(
        "evaluate",
        _counted(len(shapes), _UNIT, "distinct shapes of evaluation micro-batches"),
        _counted(len(shapes) - 1, _UNIT, "distinct shapes of evaluation micro-batches, the first left out"),
        shapes,
        _lengths(job),
    )


def _next_tokens(prompts: BatchShape | None) -> FunctionShapes:
    if prompts is None:
        return _fixed("next_tokens", 0, "the job has no prompts")
    reason = "all prompts are answered in one batch of fixed length"
    return _fixed("next_tokens", 1, reason, (prompts,))


def _adds(evaluation: _Seen) -> bool:
    """Whether the last evaluation batch has a length of its own."""
    known = {shape.length for shape in evaluation.shapes}
    return evaluation.partial is not None and evaluation.partial not in known


def _apart(job: Job, evaluation: _Seen | None, prompts: BatchShape | None, why: str) -> tuple[Apart, ...]:
    def of(name: ApartName, count: int, reason: str) -> Apart:
        return Apart(name, _counted(count, _UNIT, reason), reason)

    none = "an epoch's last batch is filled from the next epoch, so that none is partial"
    saved = "a checkpoint refers to the tensors of a step: saving computes nothing"
    asked = "all prompts are answered in one batch of fixed length" if prompts else "the job has no prompts"
    if evaluation is None:
        missing = Quantity.unknown(_UNIT, why)
        middle: tuple[Apart, ...] = (
            Apart("evaluation", missing, why),
            Apart("last evaluation batch", missing, why),
        )
    else:
        middle = (
            of("evaluation", len(evaluation.shapes), f"full batches of rows: {_lengths(job)}"),
            of("last evaluation batch", int(_adds(evaluation)), _about_last(job, evaluation)),
        )
    return (
        of("last training batch", 0, none),
        *middle,
        of("prompts", int(prompts is not None), asked),
        of("checkpoint save", 0, saved),
    )


def _about_last(job: Job, evaluation: _Seen) -> str:
    if job.data.padding == "full":
        return "it is filled to a full batch with rows that carry no loss"
    if evaluation.partial is None:
        return "the rows fill all batches"
    if _adds(evaluation):
        return f"filled to a full batch, and with {evaluation.partial} positions unlike the others"
    return "filled to a full batch, and as long as another one"
