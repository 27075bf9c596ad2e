"""Turn what validation found into one ``JobError``: file, line, key, required, found, what to do.

The first mistake is told in full and the others are counted. Unknown keys come first, since a misspelt key
also makes a required one missing; then the order of the file decides.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from twintrack.errors import JobError, nearest
from twintrack.job.keys import KeyPath, dotted, shown, table_header
from twintrack.job.rules import ERROR_TYPE, BrokenRule
from twintrack.job.schema import JobSchema, requirement

__all__ = ["found_value", "job_error", "place", "validation_error"]

_UNKNOWN_KEY = "extra_forbidden"
_LAST = 2**31


def validation_error(path: Path, error: ValidationError, lines: Mapping[KeyPath, int]) -> JobError:
    """One error for all that validation found: the first in full, the number of the others.

    Args:
        path: the file, as the user named it.
        error: what validating the file's content as ``Job`` raised.
        lines: line of each key.
    """
    schema = JobSchema.of_jobs()
    found: list[tuple[bool, int, BrokenRule]] = []
    for detail in _distinct(error.errors(include_url=False)):
        broken = detail["ctx"]["broken"] if detail["type"] == ERROR_TYPE else (_mistake(detail, schema),)
        known = detail["type"] != _UNKNOWN_KEY
        found.extend((known, _line(one.key, lines) or _LAST, one) for one in broken)
    found.sort(key=lambda entry: entry[:2])
    return job_error(path, found[0][2], lines, others=len(found) - 1)


def job_error(path: Path, broken: BrokenRule, lines: Mapping[KeyPath, int], *, others: int = 0) -> JobError:
    """The error for one mistake, saying how many others there are."""
    remedy = broken.remedy
    if others:
        remedy += f" (and {others} more mistake{'s' if others > 1 else ''} in this file)"
    where = f"{place(path, _line(broken.key, lines))}: {dotted(broken.key)}"
    return JobError(broken.required, found=broken.found, where=where, remedy=remedy)


def place(path: Path, line: int | None) -> str:
    """``file:line``, or the file alone where no line is known; what a terminal might obey is escaped."""
    name = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in str(path))
    return f"{name}:{line}" if line else name


def found_value(value: Any) -> str:
    """A value read from TOML, for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {shown(value)}" if value else "an empty text"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, datetime.date):
        return f"the date {value}"
    return f"the {type(value).__name__} {value}"


def _line(key: KeyPath, lines: Mapping[KeyPath, int]) -> int | None:
    """Line of a key or, where it is not in the file, of the table that it would be in."""
    for length in range(len(key), 0, -1):
        if key[:length] in lines:
            return lines[key[:length]]
    return None


def _distinct(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without complaints that a list is too short where only its bad entries were not counted."""
    keys = [detail["loc"] for detail in details]

    def inside(key: KeyPath) -> bool:
        return any(len(other) > len(key) and other[: len(key)] == key for other in keys)

    return [detail for detail in details if detail["type"] != "too_short" or not inside(detail["loc"])]


def _mistake(detail: ErrorDetails, schema: JobSchema) -> BrokenRule:
    key: KeyPath = detail["loc"]
    if detail["type"] == _UNKNOWN_KEY:
        return _unknown(key, schema)
    node = schema.at(key)
    if detail["type"] == "missing":
        return BrokenRule(key, requirement(node), "none", _add(key, node))
    value = detail["input"]
    return BrokenRule(key, requirement(node), found_value(value), _change(key, value, node))


def _unknown(key: KeyPath, schema: JobSchema) -> BrokenRule:
    *table, name = key
    parent = tuple(table)
    known = schema.known(parent)
    hints = [nearest(str(name), known)] if nearest(str(name), known) else []
    elsewhere = schema.tables_with(str(name))
    if elsewhere:
        places = " or ".join(f"under {table_header(key)}" if key else "at the top" for key in elsewhere)
        hints.append(f"or does it belong {places}?" if hints else f"it belongs {places}")
    if not hints:
        hints.append(f"the keys here are {', '.join(known)}")
    where = table_header(parent) if parent else "a job file"
    return BrokenRule(key, f"a key of {where}", shown(str(name)), " ".join(hints))


def _add(key: KeyPath, node: Mapping[str, Any]) -> str:
    *table, name = key
    if node.get("type") == "object":
        what = f"add a table {table_header(key)}"
    elif node.get("type") == "array" and node["items"].get("type") == "object":
        what = f"add a table {table_header((*key, 0))}"
    else:
        what = f"add '{name} = ...' {f'under {table_header(tuple(table))}' if table else 'at the top'}"
    return f"{what}; `twintrack init` writes a job with every key explained"


def _change(key: KeyPath, value: Any, node: Mapping[str, Any]) -> str:
    """What to do about a value that is not what its key takes."""
    kind = node.get("type")
    if kind == "object":
        return f"open the table with {table_header(tuple(part for part in key if isinstance(part, str)))}"
    if kind == "array" and not isinstance(value, tuple):
        if node["items"].get("type") == "object":
            return f"open each of the tables with {table_header((*key, 0))}"
        entry = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else "..."
        return f"write it in brackets, as in {key[-1]} = [{entry}]"
    if "enum" in node and isinstance(value, str) and (hint := nearest(value, map(str, node["enum"]))):
        return hint
    if isinstance(value, str) and kind in ("integer", "number", "boolean") and _is_plain(value):
        return "write it without quotes"
    if isinstance(value, float) and kind == "integer" and value.is_integer():
        return f"write {int(value)}" if abs(value) < 2**53 else "give such a value"
    if kind == "string" and not isinstance(value, str | tuple | dict):
        return "write it in quotes"
    default = node.get("default")
    if default is None or isinstance(default, list):
        return "give such a value"
    return f"give such a value, or leave the key out for the default, {_default_text(default)}"


def _default_text(default: Any) -> str:
    return found_value(default).removeprefix("the text ")


def _is_plain(text: str) -> bool:
    """Whether a text reads as a number or truth value."""
    try:
        float(text)
    except ValueError:
        return text in ("true", "false")
    return True
