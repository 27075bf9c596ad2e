"""Outermost affine loops of which only some iterations run, so that the rest can be extrapolated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["FEWEST", "LONG", "ShortLoop", "Shortened"]

FEWEST = 6
"""Iterations that show whether a loop is steady, at least."""
LONG = 4
"""A loop is shortened only if it has so many times the iterations that run."""


@dataclass(frozen=True, slots=True)
class ShortLoop:
    """A loop of which the first iterations ran and the last one.

    Args:
        total: iterations that it has.
        starts: instructions issued before each of the first ones, and after them.
        end: instructions issued after the last iteration, which ran behind the first ones.
    """

    total: int
    starts: tuple[int, ...]
    end: int


class Shortened:
    """Which loops of a run were shortened.

    Args:
        enough: how many iterations must run, by the counts of instructions before each one that did and after it.
    """

    def __init__(self, enough: Callable[[Sequence[int]], int]) -> None:
        self.enough = enough
        self.loops: list[ShortLoop] = []
        self.whole: list[str] = []
        """Of long loops that ran whole: why."""
