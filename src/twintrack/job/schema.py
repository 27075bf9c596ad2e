"""The JSON Schema of a job file, and its parts in words: what a key takes, and what it means.

Error messages and the starter file both get their words here, from the records, so they cannot drift apart.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twintrack.job.keys import KeyPath
from twintrack.job.records import JOB_NAME_PATTERN, PRINTABLE_PATTERN, Job

__all__ = ["JobSchema", "job_schema", "meaning", "requirement"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PATTERNS = {
    JOB_NAME_PATTERN: "of at most 100 letters, digits, '.', '-' and '_', the first a letter or digit",
    PRINTABLE_PATTERN: "without control characters",
}


def job_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a job file, with the description of every key.

    Rules between keys cannot be said in it: ``twintrack job show`` checks those too.
    """
    schema = copy.deepcopy(Job.model_json_schema())
    for node in _nodes(schema):
        node.pop("title", None)
        if isinstance(node.get("description"), str):
            node["description"] = meaning(node["description"])
    return {"$schema": _DIALECT, "title": "twintrack job", **schema}


def meaning(description: str) -> str:
    """A field's docstring as one line of plain text."""
    return " ".join(description.replace("``", "`").split())


def _nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every subschema; what stands under ``properties`` and ``$defs`` are names, not keywords."""
    yield schema
    for word in ("properties", "$defs"):
        for inner in schema.get(word, {}).values():
            yield from _nodes(inner)
    for inner in (schema.get("items"), *schema.get("anyOf", ())):
        if isinstance(inner, dict):
            yield from _nodes(inner)


@dataclass(frozen=True, slots=True)
class JobSchema:
    """The schema, and where one is in it."""

    root: Mapping[str, Any]

    @classmethod
    def of_jobs(cls) -> JobSchema:
        """The schema of ``Job``."""
        return cls(job_schema())

    def at(self, path: KeyPath) -> Mapping[str, Any]:
        """The subschema of a key; empty where no such key is known."""
        node = self.resolve(self.root)
        for part in path:
            inner = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
            if inner is None:
                return {}
            node = {**self.resolve(inner)}
            # what the field says of itself goes before what its record says
            node |= {word: inner[word] for word in ("description", "default", "examples") if word in inner}
            if "items" in node:
                node["items"] = self.resolve(node["items"])
        return node

    def resolve(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """The node, or what it refers to; an optional table is that table."""
        if "$ref" in node:
            return self.resolve(self.root["$defs"][node["$ref"].rsplit("/", 1)[-1]])
        choices = [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
        if len(choices) == 1:
            return {**self.resolve(choices[0]), **({"default": node["default"]} if "default" in node else {})}
        return node

    def known(self, path: KeyPath) -> tuple[str, ...]:
        """Names of the keys of a table, in the order of its record."""
        return tuple(self.at(path).get("properties", {}))

    def tables_with(self, name: str) -> tuple[KeyPath, ...]:
        """Tables, entries of lists of tables as entry 0, that have a key of this name."""
        tables: list[KeyPath] = [()]
        for key in self.known(()):
            tables += [(key,), (key, 0)]
        return tuple(table for table in tables if name in self.known(table))


def requirement(node: Mapping[str, Any]) -> str:
    """What a value must be, in words.

    >>> requirement({"type": "integer", "minimum": 1})
    'a whole number of 1 or more'
    """
    if "anyOf" in node:
        return " or ".join(requirement(choice) for choice in node["anyOf"] if choice.get("type") != "null")
    if "const" in node:
        return _word(node["const"])
    if "enum" in node:
        return "one of " + ", ".join(_word(value) for value in node["enum"])
    kind = node.get("type")
    if kind in ("integer", "number"):
        noun = "a whole number" if kind == "integer" else "a number"
        return f"{noun} {_range(node)}".rstrip()
    if kind == "string":
        return " ".join(filter(None, ("text", _characters(node), _PATTERNS.get(node.get("pattern", "")))))
    if kind == "array":
        return f"a list of {_entries(node)}"
    return {"boolean": "true or false", "object": "a table"}[str(kind)]


def _word(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value:,}"


def _range(node: Mapping[str, Any]) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None:
        return f"from {_number(low)} to {_number(high)}"
    above, below = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    words = {"of {} or more": low, "above {}": above, "at most {}": high, "below {}": below}
    return ", ".join(word.format(_number(bound)) for word, bound in words.items() if bound is not None)


def _characters(node: Mapping[str, Any]) -> str:
    low, high = node.get("minLength"), node.get("maxLength")
    if high is None:
        return ""
    return f"of at most {high} characters" if low is None else f"of {low} to {high} characters"


def _entries(node: Mapping[str, Any]) -> str:
    items = node["items"]
    if "enum" in items:
        noun = requirement(items).removeprefix("one of ")
        return f"at least one of {noun}" if node.get("minItems") else noun
    one, many = ("text", "texts") if items.get("type") == "string" else ("table", "tables")
    return f"at least one {one}" if node.get("minItems") else many
