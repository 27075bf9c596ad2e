"""Excuses: a closed list of tests that need not pass, each with its kind and reason, and the judgement by it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from _conformance._outcomes import Outcome
from twintrack.errors import UserError

__all__ = ["KINDS", "Excuse", "Judgement", "judge", "read_excuses"]

KINDS = re.compile(r"needs hardware|needs package [\w.-]+|documented deviation [1-9]\d*")
_FIELDS = {"suite", "test", "kind", "reason"}


@dataclass(frozen=True)
class Excuse:
    """Tests of one suite that need not pass. In ``test`` a star stands for any text; nothing else is special."""

    suite: str
    test: str
    kind: str
    reason: str

    def covers(self, outcome: Outcome) -> bool:
        """Whether this excuse speaks of this test."""
        pattern = ".*".join(re.escape(part) for part in self.test.split("*"))
        return outcome.suite == self.suite and re.fullmatch(pattern, outcome.test) is not None


@dataclass(frozen=True)
class Judgement:
    """What a suite came to: everything that did not pass is either excused or a failure."""

    suite: str
    passed: tuple[Outcome, ...] = ()
    failed: tuple[Outcome, ...] = ()
    excused: tuple[tuple[Outcome, Excuse], ...] = ()
    unused: tuple[Excuse, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Nothing failed, every excuse was needed, and something was measured at all."""
        return not self.failed and not self.unused and bool(self.passed or self.excused)


def read_excuses(path: Path, suites: Iterable[str]) -> list[Excuse]:
    """The list in a TOML file of ``[[excuse]]`` tables with suite, test, kind and reason.

    Args:
        path: the file.
        suites: names of all suites there are; an excuse of another one is a mistake.

    Raises:
        UserError: the file or an entry is malformed, of an unknown kind, suite, or written twice.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(
            "a readable list of excuses", found=str(error), where=path.name, remedy="mend it"
        ) from None
    known = set(suites)
    excuses: list[Excuse] = []
    for number, entry in enumerate(document.get("excuse", []), 1):
        excuse = _excuse(entry, f"{path.name}, excuse {number}", known)
        if any((other.suite, other.test) == (excuse.suite, excuse.test) for other in excuses):
            raise UserError(
                "each excuse once", found=f"{excuse.test} again", where=f"{path.name}, excuse {number}",
                remedy="remove one",
            )  # fmt: skip
        excuses.append(excuse)
    return excuses


def _excuse(entry: dict[str, object], where: str, suites: set[str]) -> Excuse:
    if set(entry) != _FIELDS or not all(isinstance(value, str) and value.strip() for value in entry.values()):
        found = ", ".join(sorted(entry)) or "nothing"
        raise UserError(
            "suite, test, kind and reason, each a text", found=found, where=where, remedy="complete it"
        )
    excuse = Excuse(**{key: str(value) for key, value in entry.items()})
    if not KINDS.fullmatch(excuse.kind):
        kinds = "'needs hardware', 'needs package NAME' or 'documented deviation NUMBER'"
        raise UserError(
            f"kind {kinds}", found=repr(excuse.kind), where=where, remedy="there are no other excuses"
        )
    if excuse.suite not in suites:
        raise UserError(
            f"one of the suites {', '.join(sorted(suites))}", found=excuse.suite, where=where, remedy="mend"
        )
    return excuse


def judge(
    suite: str, outcomes: Iterable[Outcome], excuses: Iterable[Excuse], has_module: Callable[[str], bool]
) -> Judgement:
    """Divide a suite's outcomes. An excuse is used by a test that did not pass; one for a test that passes is idle.

    Args:
        suite: its name.
        outcomes: of its tests.
        excuses: of any suites.
        has_module: whether a module can be imported here; where the package that an excuse speaks of is there,
            the excuse does not hold.
    """
    own = [excuse for excuse in excuses if excuse.suite == suite and not _met(excuse, has_module)]
    passed, failed, excused = [], [], []
    for outcome in outcomes:
        if outcome.result == "passed":
            passed.append(outcome)
        elif excuse := next((excuse for excuse in own if excuse.covers(outcome)), None):
            excused.append((outcome, excuse))
        else:
            failed.append(outcome)
    used = {excuse for _, excuse in excused}
    unused = tuple(excuse for excuse in own if excuse not in used)
    return Judgement(suite, tuple(passed), tuple(failed), tuple(excused), unused)


def _met(excuse: Excuse, has_module: Callable[[str], bool]) -> bool:
    """Whether the package that is said to be needed is there."""
    _, _, package = excuse.kind.partition("needs package ")
    return bool(package) and has_module(package)
