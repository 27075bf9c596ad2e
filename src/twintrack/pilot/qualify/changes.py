"""The smallest change that makes a job fit.

Changes are tried in the order of what they touch, fewest kinds first, and of two with as many kinds the one whose kinds
come earlier in this list:

1. ``checkpoint.asynchronous = false``: the same results; training waits while a checkpoint is written.
2. ``batch.micro`` lower with ``batch.accumulation`` higher: the same rows per step, the same mean, other rounding.
3. other ``parallel.tensor`` and ``parallel.pipeline``, higher or lower, nearest first: by how often the two degrees are
   doubled or halved, then by devices.
4. recomputation of every decoder layer: the same results, more work; the training step has no key for it.
5. ``lora.rank`` lower: another adapter, so another result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from twintrack.job.records import Parallel
from twintrack.pilot.qualify.memory import Need
from twintrack.pilot.qualify.plan import check_plan

__all__ = ["smallest_change"]

_MOST_STAGES = 1024
"""The most that a job may ask for (``parallel.pipeline``)."""
_MOST_DEVICES = 4096


@dataclass(frozen=True, slots=True)
class _Option:
    """One value of one kind of change."""

    text: str
    apply: Callable[[Need], Need]


def smallest_change(need: Need, fits: Callable[[Need], bool]) -> tuple[tuple[str, ...], Need] | None:
    """The first change in the stated order that fits: what to set, and the need that it leads to.

    Args:
        need: of the job.
        fits: whether a possible need fits.

    Returns:
        ``None`` where no combination fits.
    """
    kinds = [list(kind(need)) for kind in (_synchronous, _micro, _plan, _recompute, _rank)]
    for count in range(1, len(kinds) + 1):
        for chosen in itertools.combinations(kinds, count):
            for options in itertools.product(*chosen):
                tried = need
                for option in options:
                    tried = option.apply(tried)
                if check_plan(tried.shape, tried.plan, tried.length).possible and fits(tried):
                    return tuple(option.text for option in options), tried
    return None


def _synchronous(need: Need) -> Iterator[_Option]:
    if need.asynchronous:
        yield _Option("checkpoint.asynchronous = false", lambda one: replace(one, asynchronous=False))


def _micro(need: Need) -> Iterator[_Option]:
    rows = need.micro * need.accumulation
    for micro in range(need.micro - 1, 0, -1):
        if rows % micro == 0:
            yield _Option(
                f"batch.micro = {micro}, batch.accumulation = {rows // micro}",
                _with_micro(micro, rows // micro),
            )


def _with_micro(micro: int, accumulation: int) -> Callable[[Need], Need]:
    return lambda one: replace(one, micro=micro, accumulation=accumulation)


def _plan(need: Need) -> Iterator[_Option]:
    """Other possible plans, higher or lower, nearest first; of two as near the fewer devices, then the higher tensor
    degree."""
    now, layers = need.plan, need.shape.layers
    tensors = sorted({now.tensor, *(2**power for power in range(7))})
    pipelines = sorted(
        {now.pipeline, *(d for d in range(1, min(layers, _MOST_STAGES) + 1) if layers % d == 0)}
    )

    def distance(one: tuple[int, int]) -> tuple[float, int, int]:
        tensor, pipeline = one
        doublings = abs(math.log2(tensor / now.tensor)) + abs(math.log2(pipeline / now.pipeline))
        return round(doublings, 9), tensor * pipeline, -tensor

    for tensor, pipeline in sorted(itertools.product(tensors, pipelines), key=distance):
        if tensor * pipeline * now.data > _MOST_DEVICES:
            continue
        plan = Parallel(data=now.data, tensor=tensor, pipeline=pipeline)
        same = (tensor, pipeline) == (now.tensor, now.pipeline)
        if same or plan.devices > _MOST_DEVICES or not check_plan(need.shape, plan, need.length).possible:
            continue
        texts = []
        if tensor != now.tensor:
            texts.append(f"parallel.tensor = {tensor}")
        if pipeline != now.pipeline:
            texts.append(f"parallel.pipeline = {pipeline}")
        yield _Option(", ".join(texts), _with_plan(plan))


def _with_plan(plan: Parallel) -> Callable[[Need], Need]:
    return lambda one: replace(one, plan=plan)


def _recompute(need: Need) -> Iterator[_Option]:
    if not need.recompute:
        yield _Option(
            "recomputation of every decoder layer (a change of the training step: no key of the job)",
            lambda one: replace(one, recompute=True),
        )


def _rank(need: Need) -> Iterator[_Option]:
    rank = (need.rank or 1) // 2
    while rank >= 1:
        yield _Option(f"lora.rank = {rank}", _with_rank(rank))
        rank //= 2


def _with_rank(rank: int) -> Callable[[Need], Need]:
    return lambda one: replace(one, rank=rank)
