"""What benchmarks share: ratios of two things measured in turn, in one run, so that other load falls on both."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

__all__ = ["line", "median_ratio", "verdict"]


def median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Median of first over second."""
    return statistics.median(first / second for first, second in pairs)


def line(name: str, values: Sequence[float], unit: str) -> str:
    """Median and range of one column."""
    return f"{name:<34} {statistics.median(values):10.3f} {unit}   {min(values):.3f} to {max(values):.3f}"


def verdict(name: str, ratio: float, limit: float, *, at_most: bool) -> tuple[str, bool]:
    """A line that says whether a ratio keeps its limit."""
    kept = ratio <= limit if at_most else ratio >= limit
    bound = "at most" if at_most else "at least"
    return f"{name:<34} {ratio:10.3f}     {bound} {limit:g}: {'kept' if kept else 'BROKEN'}", kept
