"""Whether every epoch saw every sample once, from the sample ids of the steps and the counts of the data.

After ``s`` steps of ``R`` rows, ``s R`` rows of ``N`` have gone by, so every sample must have been seen
``floor(s R / N)`` times at least and ``ceil(s R / N)`` times at most, however rows are packed and wherever a step
reaches over the end of an epoch. That finds what was left out or seen again inside an epoch. A run made here also took
its rows in the order that the job's seed gives: each sample must lie in one row of the order, in every step that saw
it, which finds a whole epoch left out too. What the events do not tell is not judged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from twintrack.job.records import Job
from twintrack.pilot.summary_parts import DataSummary, LegSummary
from twintrack.pilot.summary_records import FailureKind, RunSummary
from twintrack.training.sampler import Stream, permutation

__all__ = ["resumed_into", "rows_per_step", "samples_kept"]

_PIECE = re.compile(r"#\d+$")


def rows_per_step(job: Job) -> int:
    """Rows that all copies of the model see in one optimizer step."""
    return job.batch.micro * job.batch.accumulation * job.parallel.data


def resumed_into(legs: Sequence[LegSummary], step: int) -> LegSummary | None:
    """The process whose account of a step counts, if it had resumed: the last one that did the step."""
    for leg in reversed(legs):
        if (
            leg.first_step is not None
            and leg.last_step is not None
            and leg.first_step <= step <= leg.last_step
        ):
            return leg if leg.resumed_from is not None else None
    return None


def samples_kept(job: Job, run: RunSummary) -> Iterator[tuple[FailureKind, str]]:
    """Samples left out, seen too often, or not those that the job's order has at a step: the first of each."""
    steps, ids = run.loss.steps, run.sample_ids
    whole = steps == tuple(range(1, len(steps) + 1)) and len(ids) == len(steps) and all(ids)
    if not whole or run.data is None or not run.data.train_rows.value:
        return
    data, rows, size = run.data, int(run.data.train_rows.value), rows_per_step(job)
    few = [step for step, own in zip(steps, ids, strict=True) if not _enough(job, len(own), size)]
    if few:
        wanted = f"{size}" if not job.data.packing else f"at least {size}"
        yield "data", f"step {few[0]} saw {len(ids[few[0] - 1])} samples, and a step of the job has {wanted}"
    for text in (_repeated(ids, size, rows), _left_out(ids, size, rows), _too_few(ids, data, size, rows)):
        if text is not None:
            step, what = text
            yield "data", what + _since(run, step)
    if run.told_here:
        found = _out_of_order(ids, size, rows, job.seed)
        if found is not None:
            step, what = found
            yield "data", what + _since(run, step)


def _enough(job: Job, found: int, size: int) -> bool:
    return found >= size if job.data.packing else found == size


def _since(run: RunSummary, step: int) -> str:
    leg = resumed_into(run.legs, step)
    return (
        "" if leg is None else f"; process {leg.number} did this step, resumed from step {leg.resumed_from}"
    )


def _repeated(ids: Sequence[Sequence[str]], size: int, rows: int) -> tuple[int, str] | None:
    seen: Counter[str] = Counter()
    for step, own in enumerate(ids, 1):
        seen.update(own)
        most = -(-step * size // rows)
        for name in own:
            if seen[name] > most:
                often = f"{seen[name]} times" if seen[name] > 1 else "once"
                return (
                    step,
                    f"sample {name!r} was seen {often} by step {step}, which is in epoch {most} of {rows} rows",
                )
    return None


def _left_out(ids: Sequence[Sequence[str]], size: int, rows: int) -> tuple[int, str] | None:
    known = {name for own in ids for name in own}
    seen: Counter[str] = Counter()
    done = 0
    for step, own in enumerate(ids, 1):
        seen.update(own)
        if step * size // rows > done:
            done = step * size // rows
            lacking = sorted(name for name in known if seen[name] < done)
            if lacking:
                more = f" and {len(lacking) - 1} more" if lacking[1:] else ""
                return (
                    step,
                    f"sample {lacking[0]!r}{more} was left out: step {step} ends epoch {done}, "
                    f"and it had been seen {seen[lacking[0]]} times",
                )
    return None


def _too_few(ids: Sequence[Sequence[str]], data: DataSummary, size: int, rows: int) -> tuple[int, str] | None:
    """Whether the first epoch saw as many samples as there are; some may be dropped where samples are cut."""
    step = -(-rows // size)
    if len(ids) < step:
        return None
    cut = int(data.truncated.value or 0) + int(data.split.value or 0)
    names = {name for own in ids for name in own}
    found = len({_PIECE.sub("", name) for name in names} if data.split.value else names)
    asked = int(data.train_samples.require())
    if asked - cut <= found <= asked:
        return None
    return step, f"the steps saw {found} different samples in all, and the data have {asked} to train on"


def _out_of_order(ids: Sequence[Sequence[str]], size: int, rows: int, seed: int) -> tuple[int, str] | None:
    """The first step that saw a sample which earlier steps had shown to be in another row."""
    orders = _Orders(rows, seed)
    places: dict[str, frozenset[int]] = {}
    for step, own in enumerate(ids, 1):
        here = orders.rows_of(step, size)
        for name in own:
            before = places.get(name)
            now = here if before is None else before & here
            if not now:
                return step, _misplaced(step, name, ids, size, orders, places)
            places[name] = now
    return None


class _Orders:
    """Rows of a step, as the loop's sampler hands them out."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rows, self._seed = rows, seed
        self._epochs: dict[int, list[int]] = {}

    def epoch_of(self, step: int, size: int) -> int:
        """Epoch of a step's first row, from 0."""
        return (step - 1) * size // self._rows

    def rows_of(self, step: int, size: int, ahead: int = 0) -> frozenset[int]:
        """Rows of a step, if ``ahead`` epochs had been left out before it."""
        places = range((step - 1) * size, step * size)
        return frozenset(self._epoch(at // self._rows + ahead)[at % self._rows] for at in places)

    def _epoch(self, number: int) -> list[int]:
        if number not in self._epochs:
            self._epochs[number] = permutation(self._rows, Stream.EPOCH, self._seed, number).tolist()
        return self._epochs[number]


def _misplaced(
    step: int,
    name: str,
    ids: Sequence[Sequence[str]],
    size: int,
    orders: _Orders,
    places: Mapping[str, frozenset[int]],
) -> str:
    """What is wrong at a step, and whether its samples and the next ones' are those of a later epoch."""
    text = f"step {step} saw sample {name!r}, which the job's order has elsewhere"
    last = next(
        (s for s in range(step, len(ids)) if orders.epoch_of(s + 1, size) > orders.epoch_of(step, size)),
        len(ids),
    )
    for ahead in (1, 2, 3):
        fits = all(
            places.get(sample, here) & here
            for one in range(step, last + 1)
            for here in (orders.rows_of(one, size, ahead),)
            for sample in ids[one - 1]
        )
        if fits and last > step:
            epoch = orders.epoch_of(step, size) + 1
            skipped = "an epoch was" if ahead == 1 else f"{ahead} epochs were"
            place = f"step {step} should be in epoch {epoch} and saw the samples of epoch {epoch + ahead}"
            return f"{skipped} left out: {place}"
    return text
