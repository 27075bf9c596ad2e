"""How many programs each function of a process needed, and why: too many is an error, never a slow run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from twintrack.compiler.cachekey import CacheKey, differing_parts, explain_difference
from twintrack.errors import RecompileLimit

__all__ = ["FIRST", "During", "RecompileCounter", "RecompilePolicy", "Recompiles"]

During = Literal["warmup", "first_use", "later"]
"""When a program was needed: before the first step was over; after it, by a function that had not run before; or
after it, by one that had: a recompile."""

FIRST = "first program"
"""The reason of the first program of a function."""


@dataclass(frozen=True, slots=True)
class RecompilePolicy:
    """How many programs one function may need in one process.

    Raises:
        ValueError: if the limit is below 1.
    """

    limit: int = 8

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"a function needs at least one program, got a limit of {self.limit}")


@dataclass(frozen=True, slots=True)
class Recompiles:
    """Programs of one function by reason: ``first program``, or the names of the parts that differed."""

    warmup: Mapping[str, int]
    first_use: Mapping[str, int]
    later: Mapping[str, int]

    @property
    def programs(self) -> int:
        """All of them."""
        return sum(sum(kind.values()) for kind in (self.warmup, self.first_use, self.later))


class RecompileCounter:
    """Counts the programs that functions need, found in the cache or not: either way a step waited for one.

    Not safe for threads: one process drives its track from one thread.
    """

    def __init__(self, policy: RecompilePolicy) -> None:
        self.policy = policy
        self._keys: dict[str, list[CacheKey]] = {}
        self._counts: dict[tuple[str, During], Counter[str]] = {}

    def record(self, key: CacheKey, during: During) -> str:
        """Count that ``key.program`` needs this program; one that it had before counts once.

        Returns:
            why it is needed: ``first program``, or what differs from the nearest earlier one.

        Raises:
            RecompileLimit: if the function would then have more programs than the policy allows. The
                program is not counted.
        """
        known = self._keys.setdefault(key.program, [])
        if key in known:
            return "known"
        if len(known) >= self.policy.limit:
            raise self._too_many(key, known)
        reason, explanation = FIRST, FIRST
        if known:
            nearest = min(known, key=lambda other: len(differing_parts(other.parts, key.parts)))
            reason = ", ".join(differing_parts(nearest.parts, key.parts))
            explanation = explain_difference(nearest.parts, key.parts)
        known.append(key)
        self._counts.setdefault((key.program, during), Counter())[reason] += 1
        return explanation

    def counts(self) -> Mapping[str, Recompiles]:
        """What was counted, by function."""

        def of(program: str, during: During) -> Mapping[str, int]:
            return dict(self._counts.get((program, during), {}))

        return {
            program: Recompiles(of(program, "warmup"), of(program, "first_use"), of(program, "later"))
            for program, keys in self._keys.items()
            if keys
        }

    def _too_many(self, key: CacheKey, known: list[CacheKey]) -> RecompileLimit:
        every = [*known, key]
        names = dict.fromkeys(name for one in every for name in one.parts)
        varied = {name: len({one.parts.get(name) for one in every}) for name in names}
        parts = ", ".join(f"{name} ({count} values)" for name, count in varied.items() if count > 1)
        last = explain_difference(known[-1].parts, key.parts)
        return RecompileLimit(
            f"at most {self.policy.limit} programs for one function",
            found=f"one more; what varied: {parts}; last: {last}",
            where=f"function '{key.program}'",
            remedy="keep what varied fixed, such as by packing or padding all rows to one length",
        )
