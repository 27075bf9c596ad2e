"""Whether two loss curves are the same but for the tolerance: a test that allows for neighbouring steps being alike.

The differences of two curves at the same steps, ``(b − a) / max(|a|, |b|)``, depend on their neighbours, so their
mean over the last half of the steps is given an interval by the moving-block bootstrap (Kuensch 1989, Annals of
Statistics 17(3), 1217-1241): blocks of ``ceil(sqrt(n))`` neighbouring differences are drawn with replacement until
there are ``n``, and the mean of each such resample is one draw. The deviations of the draws from their own mean, at
2.5 % and 97.5 %, are widened by ``sqrt(m / (m − 1))`` and by the ratio of Student's to the normal quantile at
``m − 1`` degrees of freedom, with ``m = n / block`` blocks: few blocks show too little of the spread.

*Equivalent*: the whole interval lies inside plus and minus the tolerance. *Different*: all of it lies outside.
Otherwise, and always below 16 differences, nothing is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twintrack.pilot.compare.records import LossTest, LossVerdict
from twintrack.pilot.summary_checks import matched
from twintrack.pilot.summary_parts import Curve
from twintrack.quantity import Provenance, Quantity

__all__ = ["LEAST_PAIRS", "RESAMPLES", "Interval", "block_length", "bootstrap_mean", "loss_test"]

LEAST_PAIRS = 16
"""Fewest differences in the last half from which anything is concluded: four blocks of four."""
RESAMPLES = 2000
"""Draws from which the interval is taken."""
_NORMAL = 1.959963984540054
"""97.5 % quantile of the standard normal distribution."""
_DRAWS_AT_ONCE = 1_000_000

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


def block_length(pairs: int) -> int:
    """Neighbours in one block: ``ceil(sqrt(n))``."""
    return max(1, math.isqrt(pairs - 1) + 1) if pairs > 0 else 1


def bootstrap_mean(values: Sequence[float], block: int, *, resamples: int, seed: int) -> Interval:
    """Mean of values that depend on their neighbours, with its 95 % interval, as the module describes.

    Draws are taken from the raw outputs of PCG64, so that a seed gives the same interval everywhere.

    Args:
        values: at least two blocks of them.
        block: length of a block.
        resamples: how many.
        seed: from 0.

    Raises:
        ValueError: if there are fewer than two blocks, or no resample.
    """
    data = np.asarray(values, dtype=np.float64)
    if block < 1 or len(data) < 2 * block or resamples < 1:
        raise ValueError(
            f"two blocks and a resample are required, found {len(data)} values in blocks of {block}"
        )
    means = _resampled_means(data, block, resamples, np.random.PCG64(seed))
    low, high = np.percentile(means - means.mean(), [2.5, 97.5])
    blocks = len(data) / block
    wider = math.sqrt(blocks / (blocks - 1.0)) * _student(blocks - 1.0) / _NORMAL
    mean = math.fsum(data) / len(data)
    return Interval(mean, mean - wider * float(high), mean - wider * float(low))


def _resampled_means(data: FloatArray, block: int, resamples: int, bits: np.random.PCG64) -> FloatArray:
    count = -(-len(data) // block)
    lengths = np.full(count, block)
    lengths[-1] = len(data) - (count - 1) * block
    sums = np.concatenate([[0.0], np.cumsum(data)])
    choices = len(data) - block + 1
    means: list[FloatArray] = []
    at_once = max(1, _DRAWS_AT_ONCE // count)
    for begin in range(0, resamples, at_once):
        rows = min(at_once, resamples - begin)
        unit = (bits.random_raw(rows * count) >> np.uint64(11)) * 2.0**-53
        starts = (unit * choices).astype(np.int64).reshape(rows, count)
        means.append((sums[starts + lengths] - sums[starts]).sum(axis=1) / len(data))
    return np.concatenate(means)


def _student(freedom: float) -> float:
    """97.5 % quantile of Student's t, expanded in 1 / freedom (Abramowitz and Stegun 1964, 26.7.5)."""
    z = _NORMAL
    terms = (
        (z**3 + z) / 4.0,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96.0,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384.0,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160.0,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def loss_test(first: Curve, second: Curve, tolerance: Quantity, *, resamples: int, seed: int) -> LossTest:
    """The stated test on two loss curves of the same steps."""
    pairs = [(step, a, b) for step, a, b in matched(first, second) if math.isfinite(a) and math.isfinite(b)]
    last = pairs[len(pairs) // 2 :]
    block = block_length(len(last))
    formula = f"(b − a) / max(|a|, |b|) of {first.source} and {second.source}"
    count = _derived(
        len(last), f"number of steps of the last half in both {first.source} and {second.source}"
    )
    verdict: LossVerdict
    if len(last) < LEAST_PAIRS:
        verdict, reason = (
            "not shown",
            f"{len(last)} steps in the last half are too few, {LEAST_PAIRS} are needed",
        )
        ends = [Quantity.unknown("", reason)] * 3
    else:
        found = bootstrap_mean([_relative(a, b) for _, a, b in last], block, resamples=resamples, seed=seed)
        verdict, reason = _verdict(found, float(tolerance.require()))
        what = f"95 % interval, moving-block bootstrap of the mean of {formula}"
        ends = [
            _derived(found.mean, f"mean of {formula}"),
            _derived(found.low, f"low end of the {what}"),
            _derived(found.high, f"high end of the {what}"),
        ]
    return LossTest(
        verdict=verdict,
        mean=ends[0],
        low=ends[1],
        high=ends[2],
        tolerance=tolerance,
        pairs=count,
        first_step=last[0][0] if last else None,
        block_length=block,
        resamples=resamples,
        seed=seed,
        reason=reason,
    )


def _verdict(found: Interval, limit: float) -> tuple[LossVerdict, str]:
    interval = (
        f"the 95 % interval of the mean difference, {100 * found.low:+.3f} % to {100 * found.high:+.3f} %,"
    )
    if -limit <= found.low and found.high <= limit:
        return "equivalent", f"{interval} lies inside ±{100 * limit:g} %"
    if found.low > limit or found.high < -limit:
        return "different", f"{interval} lies outside ±{100 * limit:g} %"
    return "not shown", f"{interval} reaches over an end of ±{100 * limit:g} %"


def _relative(first: float, second: float) -> float:
    largest = max(abs(first), abs(second))
    return (second - first) / largest if largest else 0.0


def _derived(value: float, formula: str) -> Quantity:
    return Quantity(value, "", Provenance.DERIVED, formula, rests_on=Provenance.MEASURED)
