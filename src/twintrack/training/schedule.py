"""Learning rate over the steps, and the numbers that AdamW needs at each, computed on the host in float64."""

from __future__ import annotations

import math

from twintrack.job.records import Optimizer, Schedule

__all__ = ["adamw_scalars", "learning_rate"]


def learning_rate(step: int, steps: int, optimizer: Optimizer, schedule: Schedule) -> float:
    """Rate of the update that ends step ``step`` (counted from 1) of ``steps``.

    Warm-up is linear from ``peak / warmup_steps`` to the peak; after it the rate falls from the peak to
    ``final_fraction`` of it, which it has at the last step: along a line or half a cosine (Loshchilov and Hutter
    2017, arXiv 1608.03983, without restarts).
    """
    peak = optimizer.learning_rate
    if step <= schedule.warmup_steps:
        return peak * step / schedule.warmup_steps
    if schedule.kind == "constant":
        return peak
    first = max(schedule.warmup_steps, 1)
    progress = (step - first) / (steps - first) if steps > first else 0.0
    shape = 1.0 - progress if schedule.kind == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
    return peak * (schedule.final_fraction + (1.0 - schedule.final_fraction) * shape)


def adamw_scalars(step: int, rate: float, optimizer: Optimizer) -> dict[str, float]:
    """What changes from step to step in AdamW.

    ``step_size``: rate over the bias correction of the first moment; ``second_correction``: one over the square root
    of the bias correction of the second; ``decay``: factor on weights that decay.
    """
    return {
        "step_size": rate / (1.0 - optimizer.beta1**step),
        "second_correction": 1.0 / math.sqrt(1.0 - optimizer.beta2**step),
        "decay": 1.0 - rate * optimizer.weight_decay,
    }
