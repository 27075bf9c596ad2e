"""A published training speed of a like job, scaled to this one, openly.

A published figure is like the job if chip, method and precision are the same, its rows are packed, and parameters,
sequence length and number of chips are near. The nearest one, of several equally near the one in the middle, is scaled
by FLOPs per position at equal MFU::

    seconds = positions × job FLOPs / (chips × published token/s/chip × published FLOPs)

FLOPs of the published job are those of the usual count: per position ``2 N`` forward, ``2 N`` for the gradients of
activations and, where all parameters are trained, ``2 N`` for theirs; attention adds ``12 L h T`` (forward and
backward of the two products over all ``T`` positions), as the captured step of the job counts it too. Evaluation is
a forward pass.

The error is the spread of what all like figures give, their own errors included. One figure without a spread, alone,
gives no time: a cost without an error would decide what it cannot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from twintrack.hardware.throughputs import Method, Scope, Throughput
from twintrack.quantity import Error, Quantity, combine

__all__ = [
    "MOST_CHIPS",
    "MOST_PARAMETERS",
    "MOST_SEQUENCE",
    "Scaled",
    "Workload",
    "differences",
    "published_flops",
    "scale",
]

MOST_PARAMETERS = 2.0
"""Largest ratio of parameters: equal MFU is assumed, and within it MFU changes by less than software stacks differ
(docs/ledger.md has the figures)."""
MOST_SEQUENCE = 2.0
"""Largest ratio of sequence lengths: within it the share of attention, which has another MFU, changes little."""
MOST_CHIPS = 8.0
"""Largest ratio of chips: one machine against one chip of it, not a cluster against a machine."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a job asks of whatever trains it.

    Args:
        chip: catalogue name of the chip that is priced.
        method: ``LORA`` or ``FULL``.
        precision: of the matrix products, ``bf16`` or ``fp32``.
        parameters: of the model.
        sequence_length: positions of a row.
        chips: devices of the parallel plan.
        positions: trained on, padding included.
        evaluation_positions: of all evaluations together.
        flops: FLOPs of matrix products, forward and backward, per position; unit ``FLOP/token``.
    """

    chip: str
    method: Method
    precision: str
    parameters: int
    sequence_length: int
    chips: int
    positions: Quantity
    evaluation_positions: Quantity
    flops: Quantity


@dataclass(frozen=True, slots=True)
class Scaled:
    """Seconds that a published figure gives for the job; unknown with the nearest figure and what is unlike."""

    training: Quantity
    evaluation: Quantity | None
    remark: str


def differences(job: Workload, row: Throughput) -> tuple[str, ...]:
    """In what a published figure is not like the job; empty where it is."""
    found = []
    if row.chip != job.chip:
        found.append(f"its chip is {row.chip}, not {job.chip}")
    if not _same_method(job.method, row.method):
        found.append(f"its method is {row.method}, not {job.method}")
    if row.precision.value != job.precision:
        found.append(f"its precision is {row.precision}, not {job.precision}")
    if row.packed is False:
        found.append("its rows are not packed, so that its tokens are not its positions")
    for what, theirs, ours, most in (
        ("parameters", row.parameters, job.parameters, MOST_PARAMETERS),
        ("positions of a row", row.sequence_length, job.sequence_length, MOST_SEQUENCE),
        ("chips", row.chips, job.chips, MOST_CHIPS),
    ):
        if _ratio(theirs, ours) > most:
            found.append(f"its {theirs:,} {what} are more than a factor of {most:g} from {ours:,}")
    return tuple(found)


def scale(job: Workload, rows: Sequence[Throughput]) -> Scaled:
    """Scale the nearest like figure to the job; unknown where there is none, or where it would have no error."""
    like = sorted((row for row in rows if not differences(job, row)), key=lambda row: _distance(job, row))
    if not like:
        return _unlike(job, rows)
    missing = [one.source for one in (job.positions, job.flops, job.evaluation_positions) if not one.known]
    if missing:
        return _unknown("; ".join(missing))
    best = _middle(job, [row for row in like if _distance(job, row)[:2] == _distance(job, like[0])[:2]])
    training = _training(job, best)
    spread = [limit for row in like for limit in _training(job, row).interval]
    value = float(training.require())
    low, high = min(spread), max(spread)
    if low == high:
        return _unknown(
            f"only {best.key} is like the job, and nothing says how far off it may be: there is no spread between"
            " parties or stacks"
        )
    basis = f"spread of the published speeds that are like the job: {', '.join(row.key for row in like)}"
    error = Error((value - low) / value, (high - value) / value, basis)
    remark = (
        f"the time is that of {best.key} ({best.model} on {best.chips} × {best.chip}, {best.software}), scaled by"
        " FLOPs per position at equal MFU"
    )
    return Scaled(training.within(error), _evaluation(job, best, error), remark)


def _middle(job: Workload, rows: Sequence[Throughput]) -> Throughput:
    """Of figures that are equally near the one in the middle, of two the slower."""
    ordered = sorted(rows, key=lambda row: float(_training(job, row).require()))
    return ordered[len(ordered) // 2]


def _training(job: Workload, row: Throughput) -> Quantity:
    chips, theirs = job.chips, published_flops(row)
    formula = (
        f"positions × job FLOPs / ({chips} chips × token/s/chip × {theirs:.4g} published FLOPs per position), "
        f"of {row.key} at equal MFU"
    )
    inputs = [job.positions, job.flops, row.tokens_per_second_per_chip]
    return combine(formula, "s", inputs, lambda n, flops, speed: n * flops / (chips * speed * theirs))


def _evaluation(job: Workload, row: Throughput, error: Error) -> Quantity | None:
    """Forward passes alone; nothing where the published time has evaluations inside, or the job has none."""
    if row.scope is Scope.END_TO_END or job.evaluation_positions.value == 0:
        return None
    share = 1.0 / (2.0 if job.method is Method.LORA else 3.0)
    theirs = published_flops(row)
    formula = f"as training, for evaluation positions, forward alone ({share:.3g} of its FLOPs)"
    inputs = [job.evaluation_positions, job.flops, row.tokens_per_second_per_chip]
    found = combine(
        formula, "s", inputs, lambda n, flops, speed: share * n * flops / (job.chips * speed * theirs)
    )
    return found.within(error)


def published_flops(row: Throughput) -> float:
    """FLOPs of matrix products per position of a published job, forward and backward, by the usual count."""
    passes = 4.0 if row.method in (Method.LORA, Method.QLORA) else 6.0
    return passes * row.parameters + 12.0 * row.layers * row.hidden_size * row.sequence_length


def _same_method(job: Method, row: Method) -> bool:
    """The arithmetic of a step of pre-training is that of training all parameters."""
    return job == row or {job, row} == {Method.FULL, Method.PRETRAIN}


def _ratio(one: float, two: float) -> float:
    return max(one, two) / max(1e-300, min(one, two))


def _distance(job: Workload, row: Throughput) -> tuple[float, int, str]:
    """Sum of the logarithms of the ratios; training alone before end to end where two are equally near."""
    far = (
        (row.parameters, job.parameters),
        (row.sequence_length, job.sequence_length),
        (row.chips, job.chips),
    )
    return (
        sum(math.log(_ratio(theirs, ours)) for theirs, ours in far),
        row.scope is Scope.END_TO_END,
        row.key,
    )


def _unlike(job: Workload, rows: Sequence[Throughput]) -> Scaled:
    if not rows:
        return _unknown("no published training speed is known")
    nearest = min(rows, key=lambda row: (len(differences(job, row)), _distance(job, row)))
    told = ", ".join(differences(job, nearest))
    return _unknown(f"no published training speed is like the job: the nearest is {nearest.key}, but {told}")


def _unknown(reason: str) -> Scaled:
    return Scaled(Quantity.unknown("s", reason), None, reason)
