"""Whether training did something, and what the job says: gradients, losses, the adapter's effect, the learning rate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from twintrack.job.records import Job
from twintrack.pilot.summary_failures_data import resumed_into
from twintrack.pilot.summary_parts import Curve, EvaluationSummary
from twintrack.pilot.summary_records import FailureKind, RunSummary
from twintrack.training.schedule import learning_rate

__all__ = ["DIVERGED_NATS", "RATE_TOLERANCE", "rate_kept", "trained"]

DIVERGED_NATS = math.log(2.0)
"""A loss that rises by more than this has diverged: the perplexity, its exponential, has more than doubled."""
RATE_TOLERANCE = 1e-6
"""How far a learning rate may lie from the schedule's, as a fraction of the peak: room for a log's rounding."""

_Found = tuple[FailureKind, str]
_LEAST_WINDOW = 5
_SEARCHED = 100_000
_TELLING_DIGITS = 6


def trained(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether training changed anything, stayed finite, and what was trained is applied."""
    if run.model is not None and run.model.trainable_parameters.value == 0:
        yield "training", "no parameter was trainable"
    if run.model is not None and job.lora is not None and run.model.adapted_modules.value == 0:
        yield "adapter", "no module was adapted"
    yield from _gradients(run)
    for name, curve in (("loss", run.loss), ("gradient norm", run.gradient_norm)):
        bad = [
            step for step, value in zip(curve.steps, curve.values, strict=True) if not math.isfinite(value)
        ]
        if bad:
            yield "training", f"the {name} of step {bad[0]} is not finite; {_of(bad, curve)}"
    yield from _applied(job, run)
    yield from _diverged(run)


def _of(found: Sequence[int], curve: Curve) -> str:
    return f"{len(found)} of {len(curve.steps)} steps"


def _gradients(run: RunSummary) -> Iterator[_Found]:
    curve = run.gradient_norm
    zero = [step for step, norm in zip(curve.steps, curve.values, strict=True) if norm == 0.0]
    if curve.values and len(zero) == len(curve.values):
        yield "training", "every gradient was zero: nothing was trained"
    elif zero:
        yield "training", f"the gradient of step {zero[0]} was zero; {_of(zero, curve)}"


def _applied(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether evaluations, and losses on samples that came again, show that the weights changed."""
    moved = not run.gradient_norm.values or any(run.gradient_norm.values)
    kind: FailureKind = "adapter" if job.lora is not None and moved else "training"
    meaning = "the adapter was trained and is not applied" if kind == "adapter" else "nothing was trained"
    first = run.evaluations[0] if run.evaluations else None
    for other in run.evaluations[1:]:
        if first is not None and _same(first, other) and _telling(run, first):
            steps = f"steps {first.step} and {other.step}"
            yield kind, f"evaluation loss is the same to the bit after {steps}: {meaning}"
            break
    again = _came_again(job, run)
    if len(again) > 1 and all(before.hex() == after.hex() for _, _, before, after in again):
        earlier, later, loss, _ = again[0]
        yield (
            kind,
            f"the loss on the same samples is the same to the bit in steps {earlier} and {later} ({loss:g}), "
            f"and in all {len(again)} such pairs: {meaning}",
        )


def _same(one: EvaluationSummary, other: EvaluationSummary) -> bool:
    slices = [{part.name: part.loss.require() for part in each.slices} for each in (one, other)]
    return one.loss.value == other.loss.value and slices[0] == slices[1]


def _telling(run: RunSummary, one: EvaluationSummary) -> bool:
    """Whether equal numbers mean equal bits: a log from elsewhere may have rounded them."""
    digits = f"{float(one.loss.require())!r}".partition("e")[0].replace(".", "").lstrip("-0")
    return run.told_here or len(digits) >= _TELLING_DIGITS


def _came_again(job: Job, run: RunSummary) -> list[tuple[int, int, float, float]]:
    """Steps on the same samples in the same order, each with the one before; dropout alone changes a loss."""
    dropout = job.lora is not None and job.lora.dropout > 0.0
    if dropout or len(run.sample_ids) != len(run.loss.steps) or not run.told_here:
        return []
    before: dict[tuple[str, ...], tuple[int, float]] = {}
    found = []
    for step, loss, ids in zip(run.loss.steps, run.loss.values, run.sample_ids, strict=True):
        if ids in before:
            found.append((before[ids][0], step, before[ids][1], loss))
        if ids:
            before[ids] = (step, loss)
    return found


def _diverged(run: RunSummary) -> Iterator[_Found]:
    """The last evaluation against the first; without two of them, the last tenth of the steps against the first."""
    if len(run.evaluations) > 1:
        first, last = (float(run.evaluations[index].loss.require()) for index in (0, -1))
        what = f"evaluation loss went from {first:.4g} to {last:.4g} (step {run.evaluations[-1].step})"
    else:
        values = run.loss.values
        window = len(values) // 10
        if window < _LEAST_WINDOW:
            return
        first, last = statistics.median(values[:window]), statistics.median(values[-window:])
        what = (
            f"training loss went from {first:.4g} to {last:.4g}, medians of the first and last {window} steps"
        )
    if last - first > DIVERGED_NATS:
        yield "training", f"it diverged: {what}; its perplexity has more than doubled"


def rate_kept(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether every learning rate on record is the one that the job's schedule has for its step."""
    peak, steps = job.optimizer.learning_rate, job.stop.steps
    wrong: list[tuple[int, float, float]] = []
    curve = run.learning_rate
    for step, rate in zip(curve.steps, curve.values, strict=True):
        if not 1 <= step <= steps:
            continue
        expected = learning_rate(step, steps, job.optimizer, job.schedule)
        if not abs(rate - expected) <= RATE_TOLERANCE * peak:
            wrong.append((step, rate, expected))
    if not wrong:
        return
    step, rate, expected = wrong[0]
    leg = resumed_into(run.legs, step)
    where = f"is {rate:.6g} at step {step}"
    if leg is not None:
        resumed = f"the resume from step {leg.resumed_from}"
        where = f"{'jumps at' if leg.first_step == step else 'is wrong after'} {resumed}: {rate:.6g} at step {step}"
    yield (
        "schedule",
        f"the learning rate {where}, where the job's schedule has {expected:.6g}{_as_at(job, step, rate)}; "
        f"{_of([one for one, _, _ in wrong], curve)} differ",
    )


def _as_at(job: Job, step: int, rate: float) -> str:
    """Which step has this rate by the schedule, if one does: a schedule that was begun anew shows itself so."""
    steps, peak = job.stop.steps, job.optimizer.learning_rate
    for other in range(1, min(steps, _SEARCHED) + 1):
        expected = learning_rate(other, steps, job.optimizer, job.schedule)
        if other != step and abs(rate - expected) <= RATE_TOLERANCE * peak:
            return f" (it has this rate at step {other})"
    return ""
