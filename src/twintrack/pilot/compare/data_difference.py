"""What is different between the data of two runs, down to the sample where their events allow that."""

from __future__ import annotations

from collections.abc import Sequence

from twintrack.events import StepDone
from twintrack.pilot.compare.read import LoadedRun

__all__ = ["data_difference"]

_COUNTS = (
    ("train_samples", "training samples"),
    ("evaluation_samples", "evaluation samples"),
    ("train_rows", "training rows"),
    ("evaluation_rows", "evaluation rows"),
    ("truncated", "truncated samples"),
    ("split", "split samples"),
    ("tokens", "tokens"),
    ("loss_tokens", "tokens with loss"),
)
_SHOWN = 3


def data_difference(first: LoadedRun, second: LoadedRun) -> str:
    """In words: the sample if it can be named, then counts, else the digests.

    A sample is named if only one run saw it; or, with the same samples in the same steps, if it is in every step whose
    tokens differ. Two runs of one track have equal losses until they see a sample that differs: the first step whose
    loss differs then names its samples.
    """
    a, b = first.run.data, second.run.data
    if a is None or b is None:
        raise ValueError("both runs must tell of their data")
    counts = [
        f"{label} {getattr(a, name).value:,} and {getattr(b, name).value:,}"
        for name, label in _COUNTS
        if getattr(a, name).value != getattr(b, name).value
    ]
    found = _sample(first, second)
    facts = ([found] if found else []) + counts
    return "; ".join(facts) or f"digests {a.digest[:12]}… and {b.digest[:12]}…, with equal counts"


def _sample(first: LoadedRun, second: LoadedRun) -> str:
    ours, theirs = ({name for step in run.steps for name in step.sample_ids} for run in (first, second))
    if not ours or not theirs:
        return ""
    if ours != theirs:
        lonely = [f"{_names(sorted(ours - theirs))} only in {first.label}"] if ours - theirs else []
        lonely += [f"{_names(sorted(theirs - ours))} only in {second.label}"] if theirs - ours else []
        return " and ".join(lonely)
    pairs = _pairs(first.steps, second.steps)
    if any(one.sample_ids != other.sample_ids for one, other in pairs):
        step = next(one.step for one, other in pairs if one.sample_ids != other.sample_ids)
        return f"other samples from step {step} on"
    other_tokens = [one for one, other in pairs if _tokens(one) != _tokens(other)]
    if other_tokens:
        suspects = set.intersection(*(set(step.sample_ids) for step in other_tokens))
        steps = f"tokens differ in step {other_tokens[0].step}"
        if suspects:
            return f"{_names(sorted(suspects))} ({steps})"
        return f"{_names(other_tokens[0].sample_ids)} or others ({steps})"
    changed = next((one for one, other in pairs if one.loss != other.loss), None)
    if first.run.track == second.run.track and changed is not None:
        return f"{_names(changed.sample_ids)} (step {changed.step} is the first whose loss differs)"
    return ""


def _pairs(first: Sequence[StepDone], second: Sequence[StepDone]) -> list[tuple[StepDone, StepDone]]:
    theirs = {step.step: step for step in second}
    return [(step, theirs[step.step]) for step in first if step.step in theirs]


def _tokens(step: StepDone) -> tuple[int | None, int | None]:
    return step.tokens, step.loss_tokens


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{'sample' if len(names) == 1 else 'samples'} {shown}{more}"
