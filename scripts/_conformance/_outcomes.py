"""What became of each test: a record per test, and how it is read from a junit file of pytest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

__all__ = ["Outcome", "Result", "read_junit"]

Result = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Outcome:
    """One test of one suite.

    ``test`` is ``FILE::CLASS::NAME`` as pytest prints it, the dotted module where a file could not be collected,
    or the path of a script. ``reason`` is one line; empty where the test passed.
    """

    suite: str
    test: str
    result: Result
    reason: str = ""


def read_junit(path: Path, suite: str) -> list[Outcome]:
    """Outcomes in a junit file that pytest wrote with ``junit_family=xunit1``, in the file's order.

    A test that was expected to fail and did counts as skipped; one that pytest reports twice, because its
    teardown failed too, is one outcome, the worse of the two.

    Raises:
        xml.etree.ElementTree.ParseError: the file is cut off, as after a crash of the interpreter.
    """
    worst: dict[str, Outcome] = {}
    rank: dict[Result, int] = {"passed": 0, "skipped": 1, "failed": 2}
    root = ElementTree.parse(path).getroot()  # noqa: S314 - written by the pytest that we started
    for case in root.iter("testcase"):
        outcome = _outcome(case, suite)
        before = worst.get(outcome.test)
        if before is None or rank[outcome.result] > rank[before.result]:
            worst[outcome.test] = outcome
    return list(worst.values())


def _outcome(case: ElementTree.Element, suite: str) -> Outcome:
    test = _identity(case)
    for tag in ("failure", "error"):
        if (found := case.find(tag)) is not None:
            return Outcome(suite, test, "failed", _said(found))
    if (skipped := case.find("skipped")) is not None:
        expected = skipped.get("type") == "pytest.xfail"
        return Outcome(suite, test, "skipped", ("expected to fail: " if expected else "") + _said(skipped))
    return Outcome(suite, test, "passed")


def _identity(case: ElementTree.Element) -> str:
    """``FILE::CLASS::NAME``: junit names the class with the dotted module before it."""
    file, dotted, name = case.get("file", ""), case.get("classname", ""), case.get("name", "")
    if not file or not dotted:
        return "::".join(part for part in (dotted, name) if part)
    module = file.removesuffix(".py").replace("/", ".")
    inner = dotted.removeprefix(module).removeprefix(".")
    return "::".join([file, *inner.split("."), name] if inner else [file, name])


def _said(element: ElementTree.Element) -> str:
    """The last telling line: ``collection skipped`` and ``collection failure`` hide what was said below them."""
    message = " ".join(element.get("message", "").split())
    if message in ("collection skipped", "collection failure", ""):
        lines = [" ".join(line.split()) for line in (element.text or "").splitlines() if line.strip()]
        message = lines[-1].removeprefix("E ") if lines else message
    return message[:300]
