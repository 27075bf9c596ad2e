"""Whether the second run is as good as the first: a rule over what the comparison found, and its reasons in words."""

from __future__ import annotations

from collections.abc import Iterator

from twintrack.pilot.compare.read import LoadedRun
from twintrack.pilot.compare.records import LossTest, SliceComparison
from twintrack.pilot.compare.refuse import Sameness
from twintrack.pilot.summary_records import Comparison, FailureKind
from twintrack.quantity import Quantity

__all__ = ["judge"]

SPOILS: tuple[FailureKind, ...] = ("inputs", "steps", "data", "adapter", "training", "schedule", "rules")
"""Kinds of failures after which a run's losses are not those of the job."""
LEAVES_OPEN: tuple[FailureKind, ...] = ("log", "evaluation", "resume")
"""Kinds after which that is not known, or not all of it."""


def judge(
    first: LoadedRun,
    second: LoadedRun,
    same: Sameness,
    losses: Comparison,
    test: LossTest,
    slices: SliceComparison | None,
) -> tuple[bool | None, tuple[str, ...]]:
    """Whether quality holds, and why.

    It does not if a run is not one of the job, a loss differs by more than the tolerance at any step, the test calls
    the curves different, or a slice is worse by more than the tolerance. It holds if none of these is so, both runs
    are shown to have had the same data and weights, the test calls the curves equivalent and every slice of one is in
    the other. Otherwise it is not shown.
    """
    broken = tuple(_broken(first, second, losses, test, slices))
    if broken:
        return False, broken
    unknown = tuple(_open(first, second, same, losses, test, slices))
    if unknown:
        return None, unknown
    return True, (
        test.reason,
        f"losses are at most {_percent(losses.largest)} apart at any step",
        f"no slice is worse by more than {_percent(test.tolerance)}",
    )


def _percent(share: Quantity) -> str:
    return f"{100 * float(share.require()):.4g} %"


def _broken(
    first: LoadedRun,
    second: LoadedRun,
    losses: Comparison,
    test: LossTest,
    slices: SliceComparison | None,
) -> Iterator[str]:
    for one in (first, second):
        yield from (f"{one.label}: {failure.what}" for failure in one.failures if failure.kind in SPOILS)
    if losses.within is False:
        yield (
            f"losses differ by {_percent(losses.largest)} at step {losses.at_step}, and {_percent(losses.tolerance)} "
            "is tolerated"
        )
    if losses.samples.identical is False:
        yield f"they saw different samples: {losses.samples.detail}"
    if test.verdict == "different":
        yield test.reason
    yield from (finding.text for finding in (slices.findings if slices else ()) if finding.breaks)


def _open(
    first: LoadedRun,
    second: LoadedRun,
    same: Sameness,
    losses: Comparison,
    test: LossTest,
    slices: SliceComparison | None,
) -> Iterator[str]:
    for one in (first, second):
        yield from (f"{one.label}: {failure.what}" for failure in one.failures if failure.kind in LEAVES_OPEN)
    for what, known in (("data", same.data), ("weights", same.weights)):
        if known is None:
            lacking = [one.label for one in (first, second) if getattr(one.run, _FIELD[what]) is None]
            yield f"{' and '.join(lacking)} does not tell its {what}"
    if losses.within is None:
        yield "not every step of the loss curves can be compared"
    if test.verdict == "not shown":
        yield test.reason
    if slices is None:
        yield "there is no evaluation of the same last step in both"
    elif any(not row.difference.known for row in slices.rows):
        lonely = next(row for row in slices.rows if not row.difference.known)
        yield f"slice {lonely.name!r} stands in one of the evaluations only"


_FIELD = {"data": "data", "weights": "model"}
