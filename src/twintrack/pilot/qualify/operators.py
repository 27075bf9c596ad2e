"""Operators of a job's graph against what is published about their support, and against our own rules.

The published lists are data, in ``data/operators.toml``, each with its source and date. What a list names is supported
on its word. What it lacks is *unknown*: only a list that says it is complete, or one of operators that do not work,
makes an operator *unsupported*. Of lists that contradict each other the newest counts; on one and the same day none.
"""

from __future__ import annotations

import tomllib
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
_TEXTS = ("key", "source", "date")
_OPTIONAL = ("complete", "says", "note", "title", "url")
_ORDER: Mapping[Answer, int] = {"unsupported": 0, "unknown": 1, "supported": 2}


@dataclass(frozen=True, slots=True)
class SupportList:
    """One published list of operators."""

    key: str
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
    """Read lists from TOML: tables ``[[list]]`` with key, source, date, operators and, where the source says so,
    ``complete = true`` or ``says = "unsupported"``.

    Raises:
        CatalogueError: naming file and key.
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _wrong("TOML", str(error), _FILE) from error
    tables = content.get("list")
    if (
        set(content) != {"list"}
        or not isinstance(tables, list)
        or not all(isinstance(t, dict) for t in tables)
    ):
        raise _wrong("tables [[list]] and nothing else", f"keys {', '.join(content) or 'none'}", _FILE)
    lists = tuple(_list(table, f"{_FILE}: list {number}") for number, table in enumerate(tables, 1))
    if len({one.key for one in lists}) != len(lists):
        raise _wrong("lists of different keys", ", ".join(one.key for one in lists), _FILE)
    return lists


def _list(table: Mapping[str, Any], where: str) -> SupportList:
    known = (*_TEXTS, *_OPTIONAL, "operators")
    if unknown := [key for key in table if key not in known]:
        raise _wrong(f"keys among {', '.join(known)}", f"'{unknown[0]}' {nearest(unknown[0], known)}", where)
    for key in _TEXTS:
        if not isinstance(table.get(key), str) or not table[key]:
            raise _wrong(f"a text '{key}'", repr(table.get(key)), where)
    names, complete, says = (
        table.get("operators"),
        table.get("complete", False),
        table.get("says", "supported"),
    )
    if not isinstance(names, list) or not all(isinstance(name, str) and _bare(name) for name in names):
        raise _wrong("names in 'operators'", repr(names)[:80], where)
    if not isinstance(complete, bool) or says not in ("supported", "unsupported"):
        raise _wrong(
            "complete as true or false, says as 'supported' or 'unsupported'",
            f"{complete!r}, {says!r}",
            where,
        )
    return SupportList(
        table["key"],
        table["source"],
        table["date"],
        frozenset(map(_bare, names)),
        complete,
        says,
        str(table.get("note", "")),
    )


def _wrong(required: str, found: str, where: str) -> CatalogueError:
    return CatalogueError(required, found=found, where=where, remedy="mend the list")


def operator_support(
    found: GraphOperators, lists: Sequence[SupportList] | None = None
) -> tuple[OperatorAnswer, ...]:
    """What is known about every operator of a captured graph.

    Args:
        found: operators, as ``model_work`` saw them.
        lists: published lists; those of the package by default.

    Returns:
        One answer per ATen overload: unsupported ones first, then unknown ones, then by executions.

    Raises:
        CatalogueError: if the package's own lists cannot be read.
    """
    published = load_support_lists() if lists is None else lists
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
    basis = tuple(Published(one.key, one.source, one.date, one.complete) for one in last)
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
