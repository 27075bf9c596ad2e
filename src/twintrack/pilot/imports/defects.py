"""What is wrong with a log, whatever its format: numbers that no run can have, steps that are not in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from twintrack.errors import EventError
from twintrack.events import Defect, Imported
from twintrack.pilot.imports.records import Log, Target
from twintrack.pilot.imports.text import LogFile

__all__ = ["MOST_DEFECTS", "holes", "imported", "refuse_far_steps", "wrong_number"]

MOST_DEFECTS = 1000
"""More are counted, not listed."""
_LARGEST = 1e30
_SMALLEST = 1e-60


def wrong_number(value: float) -> tuple[Literal["not_finite", "unreadable"], str] | None:
    """Why a number cannot be a figure of a run; ``None`` if it can.

    Sizes outside 1e-60 .. 1e30 are refused, so that no sum or quotient of figures leaves float64.
    """
    if not math.isfinite(value):
        return "not_finite", f"{value}"
    if value and not _SMALLEST <= abs(value) <= _LARGEST:
        return "unreadable", f"{value:g}, which no run can have"
    return None


def refuse_far_steps(step: int, line: int, file: LogFile, target: Target) -> None:
    """Refuse a log that cannot be the job's: readers go through every step, and a log must not decide how many.

    Raises:
        EventError: if a step is beyond ten times what the job asks for, and a thousand more.
    """
    if step > (most := 10 * target.steps + 1000):
        raise EventError(
            f"steps up to {most}, for a job that asks for {target.steps}",
            found=f"step {step}",
            where=f"{file.name}:{line}",
            remedy="name the log and the job that belong together",
        )


def imported(log: Log, file: LogFile, defects: Sequence[Defect]) -> Imported:
    """The event that stands first; at most ``MOST_DEFECTS`` defects are listed, in the order of their lines."""
    told = sorted(defects, key=lambda one: (one.line, one.step or 0))
    if (more := len(told) - MOST_DEFECTS) > 0:
        text = f"{more} more defects are not listed"
        told = [*told[:MOST_DEFECTS], Defect(line=0, step=None, what="unreadable", text=text)]
    return Imported(
        file=file.name,
        sha256=file.sha256,
        format=log.format,
        lines=log.lines,
        seconds=log.seconds,
        defects=told,
    )


def holes(steps: Mapping[int, int], covered: Mapping[int, int], end: int, line: int) -> list[Defect]:
    """Steps from 1 to ``end`` that a log lacks.

    Args:
        steps: line of each step that has one.
        covered: how many steps up to its own each of them tells of.
        end: the last step that the log speaks of.
        line: where it does, for steps that lack at the end.
    """
    found: list[Defect] = []
    before = 0
    for step in [*sorted(steps), end + 1]:
        first, last = before + 1, step - covered.get(step, 1)
        if first <= last:
            what = f"step {first} is" if first == last else f"steps {first} to {last} are"
            found.append(
                Defect(line=steps.get(step, line), step=first, what="hole", text=f"{what} not in the log")
            )
        before = step
    return found
