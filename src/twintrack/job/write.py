"""Write a job as commented TOML: every key with its meaning, what it takes and its default, from the records.

A value that is the default is written as a comment, ``#key = value``: removing the ``#`` changes nothing, and
the value can then be changed. Prose begins with ``# ``. What is written loads back to the same job.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from twintrack.job.keys import KeyPath, table_header
from twintrack.job.records import (
    NEVER,
    CheckpointPolicy,
    Data,
    Job,
    Lora,
    Model,
    Stop,
    StopCriteria,
    TrackSlot,
)
from twintrack.job.schema import JobSchema, requirement

__all__ = ["job_toml", "starter_job", "toml_value"]

_WIDTH = 100
_HEAD = """\
# A fine-tuning job. It declares everything; nothing outside this file decides.
# A key behind a '#' has its default: remove the '#' to change it.
# `twintrack job show FILE` prints what a job means and where each value comes from.
"""


def starter_job() -> Job:
    """The job that ``twintrack init`` writes: LoRA on a small public model, stopped and killed on purpose."""
    return Job(
        name="my-job",
        model=Model(source="HuggingFaceTB/SmolLM2-135M-Instruct"),
        data=Data(files=("train.jsonl",)),
        lora=Lora(targets=("q_proj", "k_proj", "v_proj", "o_proj")),
        stop=StopCriteria(steps=100),
        checkpoint=CheckpointPolicy(every_steps=20),
        stops=(Stop(kind="polite", step=30), Stop(kind="kill-in-write", step=55), Stop(kind="kill", step=75)),
        tracks=(TrackSlot(use=("cuda", "cpu")), TrackSlot(use=("trn2",))),
    )


def job_toml(job: Job) -> str:
    """The job as commented TOML; ``load_job`` makes an equal job of it."""
    writer = _Writer(JobSchema.of_jobs())
    writer.lines += [_HEAD]
    writer.fields((), Job.model_fields, job)
    return "\n".join(writer.lines).rstrip("\n") + "\n"


def toml_value(value: Any) -> str:
    """A value in TOML notation.

    Raises:
        TypeError: for what TOML has no notation for.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple | list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    raise TypeError(f"no TOML for a {type(value).__name__}")


class _Writer:
    """Lines of TOML, in the order of the records: plain keys of a table first, then the tables inside it."""

    def __init__(self, schema: JobSchema) -> None:
        self.schema = schema
        self.lines: list[str] = []

    def fields(
        self,
        table: KeyPath,
        fields: Mapping[str, FieldInfo],
        record: BaseModel | None,
        *,
        explain: bool = True,
    ) -> None:
        """The keys of one table; without a record, all as comments."""
        for name, field in fields.items():
            key = (*table, name)
            node = self.schema.at(key)
            if node.get("type") == "object":
                self._table(key, node, getattr(record, name))
            elif node.get("type") == "array" and node["items"].get("type") == "object":
                self._tables(key, node, getattr(record, name))
            else:
                self._plain(key, node, field, record, explain=explain)
        if not explain:
            self.lines.append("")

    def _plain(
        self,
        key: KeyPath,
        node: Mapping[str, Any],
        field: FieldInfo,
        record: BaseModel | None,
        *,
        explain: bool,
    ) -> None:
        name = str(key[-1])
        default = None if field.is_required() else field.get_default()
        value = default if record is None else getattr(record, name)
        same = record is None or (not field.is_required() and value == default)
        if value is None:
            value = node["examples"][0] if same else NEVER
        if explain:
            self._prose(node["description"])
            self._prose(_takes(node, field))
        if explain or not same:
            self.lines.append(f"{'#' if same else ''}{name} = {toml_value(value)}")
        if explain:
            self.lines.append("")

    def _table(self, key: KeyPath, node: Mapping[str, Any], record: BaseModel | None) -> None:
        self._open(table_header(key), node, absent=record is None)
        self.fields(key, _fields_at(key), record)

    def _tables(self, key: KeyPath, node: Mapping[str, Any], records: tuple[BaseModel, ...]) -> None:
        header = table_header((*key, 0))
        self._open(header, node, absent=not records)
        self.fields((*key, 0), _fields_at(key), records[0] if records else None)
        for record in records[1:]:
            self.lines.append(header)
            self.fields((*key, 0), _fields_at(key), record, explain=False)

    def _open(self, header: str, node: Mapping[str, Any], *, absent: bool) -> None:
        self._prose(f"---- {node['description']}")
        self.lines += [f"{'#' if absent else ''}{header}", ""]

    def _prose(self, text: str) -> None:
        self.lines += textwrap.wrap(
            text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False
        )


def _takes(node: Mapping[str, Any], field: FieldInfo) -> str:
    """What a key takes and its default, such as ``A whole number from 1 to 4096; default 16.``"""
    words = requirement(node)
    if field.is_required():
        rest = "required"
    elif field.get_default() is None:
        rest = "not set by default"
    else:
        rest = f"default {toml_value(field.get_default())}"
    return f"{words[:1].upper()}{words[1:]}; {rest}."


def _fields_at(key: KeyPath) -> Mapping[str, FieldInfo]:
    """Fields of the record, or of the entries of the list of records, under a key of the job."""
    return _record_of(Job.model_fields[str(key[0])].annotation).model_fields


def _record_of(annotation: Any) -> type[BaseModel]:
    """The record inside ``Record``, ``Record | None`` or ``tuple[Record, ...]``."""
    candidates = (annotation, *getattr(annotation, "__args__", ()))
    return next(kind for kind in candidates if isinstance(kind, type) and issubclass(kind, BaseModel))
