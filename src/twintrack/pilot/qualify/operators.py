"""Operators of a job's graph against what is published about their support, and against our own rules.

What is published is data, in ``data/operators.toml``, each statement with its source and date. What a list names is
supported on its word. What it lacks is *unknown*: only a source that names it as not supported, or a list that says it
is complete, makes an operator *unsupported*. Of statements that contradict each other the newest counts; on one and
the same day none.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import Traversable
from importlib.resources import files
from typing import Any, Literal

import torch
from torch._decomp import core_aten_decompositions

from twintrack.compiler.hostcall import find_overload
from twintrack.errors import CatalogueError, nearest
from twintrack.pilot.qualify.shapes_records import GraphOperators, OperatorAnswer, Published, Rule
from twintrack.torch.convert import CONVERTERS

__all__ = ["SupportList", "load_support_lists", "operator_support", "read_support_lists", "rule_of"]

Answer = Literal["supported", "unknown", "unsupported"]
_FILE = "operators.toml"
_LIST = ("key", "stack", "source", "date", "complete", "note", "operators")
_UNSUPPORTED = ("operator", "stack", "source", "date", "note")
_ORDER: Mapping[Answer, int] = {"unsupported": 0, "unknown": 1, "supported": 2}


@dataclass(frozen=True, slots=True)
class SupportList:
    """One published list of operators, or a statement about a single one."""

    key: str
    stack: str
    """Software that it is about: ``xla`` (PyTorch/XLA, torch-neuronx) or ``torchneuron``."""
    source: str
    date: str
    """``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``, which sort by day."""
    operators: frozenset[str]
    """Names without namespace, with or without an overload: ``add``, ``add.Tensor``."""
    complete: bool = False
    """Whether the source says that what it does not list is not supported."""
    says: Literal["supported", "unsupported"] = "supported"
    """What it says of the operators that it lists."""
    note: str = ""

    def answer(self, overload: str) -> Answer:
        """What this list says of an overload, such as ``aten.add.Tensor``."""
        full = _bare(overload)
        if full in self.operators or full.split(".")[0] in self.operators:
            return self.says
        return "unsupported" if self.complete and self.says == "supported" else "unknown"


def _bare(name: str) -> str:
    """A name without its namespace, written ``aten::add``, ``aten.add.Tensor`` or ``add``."""
    return name.replace("::", ".").removeprefix("aten.").removesuffix(".default")


def load_support_lists(root: Traversable | None = None) -> tuple[SupportList, ...]:
    """The published lists that come with the package.

    Args:
        root: folder with ``operators.toml``; the package's own by default.

    Raises:
        CatalogueError: naming file and key, if the file is not as it should be.
    """
    folder = files("twintrack.pilot.qualify") / "data" if root is None else root
    return read_support_lists((folder / _FILE).read_text(encoding="utf-8"))


def read_support_lists(text: str) -> tuple[SupportList, ...]:
    """Read statements from TOML: tables ``[[list]]`` of operators that a source calls supported (key, stack, source,
    date, operators, note and, where the source says so, ``complete = true``), and ``[[unsupported]]`` (operator, stack,
    source, date, note).

    Raises:
        CatalogueError: naming file and key.
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _wrong("TOML", str(error), _FILE) from error
    for name, value in content.items():
        if name not in ("list", "unsupported") or not isinstance(value, list):
            raise _wrong("tables [[list]] and [[unsupported]], nothing else", f"'{name}'", _FILE)
    found = [_list(table, f"{_FILE}: list {n}") for n, table in enumerate(content.get("list", ()), 1)]
    for n, table in enumerate(content.get("unsupported", ()), 1):
        found.append(_unsupported(table, f"{_FILE}: unsupported {n}"))
    repeated = [key for key, count in Counter(one.key for one in found).items() if count > 1]
    if repeated or not found:
        raise _wrong("statements of different keys", f"'{repeated[0]}' twice" if repeated else "none", _FILE)
    return tuple(found)


def _list(table: Any, where: str) -> SupportList:
    key, stack, source, date = _texts(table, _LIST, ("key", "stack", "source", "date"), where)
    names, complete = table.get("operators"), table.get("complete", False)
    if not isinstance(names, list) or not all(isinstance(name, str) and _bare(name) for name in names):
        raise _wrong("names in 'operators'", repr(names)[:80], where)
    if not isinstance(complete, bool):
        raise _wrong("true or false for 'complete'", repr(complete)[:80], where)
    operators = frozenset(map(_bare, names))
    return SupportList(key, stack, source, date, operators, complete, note=str(table.get("note", "")))


def _unsupported(table: Any, where: str) -> SupportList:
    name, stack, source, date = _texts(table, _UNSUPPORTED, ("operator", "stack", "source", "date"), where)
    key = f"{stack} without {name}"
    note = str(table.get("note", ""))
    return SupportList(key, stack, source, date, frozenset({_bare(name)}), says="unsupported", note=note)


def _texts(table: Any, known: Sequence[str], wanted: Sequence[str], where: str) -> list[str]:
    """Texts of a table in the order wanted; every key of the table is known and every text is there."""
    if not isinstance(table, dict):
        raise _wrong("a table", repr(table)[:80], where)
    if unknown := [key for key in table if key not in known]:
        raise _wrong(f"keys among {', '.join(known)}", f"'{unknown[0]}' {nearest(unknown[0], known)}", where)
    for key in wanted:
        if not isinstance(table.get(key), str) or not _bare(table[key]):
            raise _wrong(f"a text '{key}'", repr(table.get(key))[:80], where)
    if re.fullmatch(r"\d{4}(-\d{2}){0,2}", table["date"]) is None:
        raise _wrong("a date as YYYY, YYYY-MM or YYYY-MM-DD", repr(table["date"])[:80], where)
    return [table[key] for key in wanted]


def _wrong(required: str, found: str, where: str) -> CatalogueError:
    return CatalogueError(required, found=found, where=where, remedy="mend the list")


def operator_support(
    found: GraphOperators, lists: Sequence[SupportList] | None = None, *, stack: str | None = None
) -> tuple[OperatorAnswer, ...]:
    """What is known about every operator of a captured graph.

    Args:
        found: operators, as ``model_work`` saw them.
        lists: published statements; those of the package by default.
        stack: only statements about this software count; all of them by default.

    Returns:
        One answer per ATen overload: unsupported ones first, then unknown ones, then by executions.

    Raises:
        CatalogueError: if the package's own lists cannot be read.
    """
    every = load_support_lists() if lists is None else lists
    published = [one for one in every if stack in (None, one.stack)]
    answers = []
    for name, functions in found.aten.items():
        answer, basis = _judge(name, published)
        answers.append(
            OperatorAnswer(name, functions, found.counts.get(name, 0), answer, basis, found.rules[name])
        )
    return tuple(sorted(answers, key=lambda one: (_ORDER[one.answer], -one.count, one.name)))


def _judge(name: str, lists: Sequence[SupportList]) -> tuple[Answer, tuple[Published, ...]]:
    """The newest lists that say anything; unknown where they contradict each other."""
    said = {one.key: one.answer(name) for one in lists}
    speaking = [one for one in lists if said[one.key] != "unknown"]
    newest = max((one.date for one in speaking), default="")
    last = [one for one in speaking if one.date == newest]
    basis = tuple(Published(one.key, one.stack, one.source, one.date, one.complete) for one in last)
    answers = {said[one.key] for one in last}
    return (answers.pop() if len(answers) == 1 else "unknown"), basis


def rule_of(overload: Any) -> Rule:
    """What capture makes of an ATen overload: see ``GraphOperators.rules``.

    An operator that changes its operand is captured as its functional twin.
    """
    if overload in CONVERTERS:
        return "rule"
    if overload._schema.is_mutable:
        name = overload._schema.name.removeprefix("aten::").removesuffix("_")
        twin = getattr(getattr(torch.ops.aten, name, None), overload._overloadname, None)
        return "none" if twin is None else rule_of(twin)
    if overload in core_aten_decompositions() or overload._can_decompose():
        return "decomposed"
    return "host" if find_overload(str(overload)) is not None else "none"
