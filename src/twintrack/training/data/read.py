"""Read samples from JSON Lines, Parquet and plain text, and check each of them.

All three become one table of the ``datasets`` library, of one schema, held in memory by Arrow. Parquet files
are read by ``datasets`` itself, without a network and without a cache that outlives the call. Lines of text
are decoded and checked here before they enter the table, because only here a line still has a number, and
because the JSON reader of Arrow guesses types: it would turn a text that looks like a date into a date.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from twintrack.errors import DataError, nearest
from twintrack.storage import storage_errors

if TYPE_CHECKING:
    import datasets

__all__ = ["Message", "Sample", "Template", "read_samples", "samples_of"]

Template = Literal["chat", "prompt", "text"]
ROLES = ("system", "user", "assistant")
DEFAULT_SLICE = "all"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One checked sample; the fields of its template are set, the others are empty."""

    id: str
    where: str
    """File and line (or row, in Parquet), for messages."""
    slice: str
    messages: tuple[Message, ...] = ()
    prompt: str = ""
    response: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Form:
    """What a record must look like."""

    template: Template
    slice_field: str


def read_samples(
    names: Sequence[str], base: Path, *, template: Template, slice_field: str, limit: int | None = None
) -> datasets.Dataset:
    """A table of samples in the order of files and lines, at most ``limit`` of them; see ``samples_of``.

    Args:
        names: files, relative to ``base``; ``.jsonl``, ``.parquet`` or ``.txt`` (only with ``text``).
        base: folder of the job file.
        template: which fields a record must have.
        slice_field: field that names the slice.
        limit: read no further than this many samples; later lines are not looked at.

    Raises:
        DataError: naming file and line, for a file that is missing, empty or of an unknown kind, a malformed
            line, a field that is missing or mistyped.
        StorageError: if a file cannot be read.
    """
    form = _Form(template, slice_field)
    stems = Counter(Path(name).stem for name in dict.fromkeys(names))
    samples: list[Sample] = []
    for name in names:
        path = base / name
        left = None if limit is None else limit - len(samples)
        if left == 0:
            break
        stem = path.stem if stems[path.stem] == 1 else name
        read = _reader(path, form)
        found = list(islice(read(path, form, stem), left))
        if not found:
            raise DataError("at least one sample", found="an empty file", where=name, remedy="add samples")
        samples += found
    return _table(samples)


def samples_of(table: datasets.Dataset) -> Iterator[Sample]:
    """The samples of a table, in order."""
    for record in table:
        turns = tuple(Message(**turn) for turn in record["messages"])
        yield Sample(**{**record, "messages": turns})


def _table(samples: Sequence[Sample]) -> datasets.Dataset:
    import datasets

    string = datasets.Value("string")
    features = {field.name: string for field in fields(Sample)}
    features["messages"] = datasets.List({"role": string, "content": string})
    return datasets.Dataset.from_list(
        [asdict(sample) for sample in samples], features=datasets.Features(features)
    )


def _no_such_file(path: Path) -> DataError:
    """The error for a data file that is not there; it offers the nearest name in the folder."""
    beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    hint = nearest(path.name, beside)
    return DataError(
        "a data file",
        found="a folder" if path.is_dir() else "no such file",
        where=str(path),
        remedy="name the files in it"
        if path.is_dir()
        else hint or "check the path, which is relative to the job file",
    )


_Reader = Callable[[Path, _Form, str], Iterator[Sample]]


def _reader(path: Path, form: _Form) -> _Reader:
    if not path.is_file():
        raise _no_such_file(path)
    readers: dict[str, _Reader] = {".jsonl": _read_jsonl, ".parquet": _read_parquet, ".txt": _read_text}
    if path.suffix not in readers:
        raise DataError(
            f"a file that ends in {', '.join(readers)}",
            found=repr(path.suffix),
            where=str(path),
            remedy="convert the file, or rename it if it is one of these",
        )
    if path.suffix == ".txt" and form.template != "text":
        raise DataError(
            f"records for the template '{form.template}'",
            found="plain text",
            where=str(path),
            remedy='use template = "text", or a .jsonl or .parquet file',
        )
    return readers[path.suffix]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with something on them, numbered from 1."""
    with storage_errors(path, "read data"), path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
            except UnicodeDecodeError as error:
                raise DataError(
                    "text in UTF-8",
                    found=f"byte 0x{raw[error.start]:02x} at column {error.start + 1}",
                    where=f"{path}:{number}",
                    remedy="convert the file to UTF-8",
                ) from error
            if line.strip():
                yield number, line


def _read_text(path: Path, form: _Form, stem: str) -> Iterator[Sample]:
    del form
    for number, line in _lines(path):
        yield Sample(f"{stem}:{number}", f"{path}:{number}", DEFAULT_SLICE, text=line)


def _read_jsonl(path: Path, form: _Form, stem: str) -> Iterator[Sample]:
    for number, line in _lines(path):
        where = f"{path}:{number}"
        try:
            record = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise DataError(
                "one JSON object per line",
                found=str(error) or type(error).__name__,
                where=where,
                remedy="mend or remove the line",
            ) from error
        if not isinstance(record, dict):
            raise DataError(
                "one JSON object per line", found=_kind(record), where=where, remedy="mend or remove the line"
            )
        yield _check(record, form, f"{stem}:{number}", where)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name}, which JSON does not have")


def _read_parquet(path: Path, form: _Form, stem: str) -> Iterator[Sample]:
    import datasets

    with tempfile.TemporaryDirectory(prefix="twintrack-data-") as cache, _without_bars():
        try:
            table = datasets.Dataset.from_parquet(str(path), cache_dir=cache, keep_in_memory=True)
        except Exception as error:  # Arrow and datasets raise many kinds; all mean the same here
            cause = error.__cause__ or error
            raise DataError(
                "a readable Parquet file",
                found=f"{type(cause).__name__}: {cause}"[:200],
                where=str(path),
                remedy="write the file again",
            ) from error
        for number, record in enumerate(table, 1):
            yield _check(record, form, f"{stem}:{number}", f"{path}: row {number}")


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """Keep the progress bars of ``datasets`` off the terminal, and leave its setting as it was."""
    import datasets

    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


def _check(record: Mapping[str, Any], form: _Form, sample_id: str, where: str) -> Sample:
    """A sample from a record whose fields and types are right."""
    name = record.get(form.slice_field)
    if name is not None and not (isinstance(name, str) and name):
        raise _mistyped(form.slice_field, "a non-empty string", name, where)
    if name is not None:
        _require_utf8(name, form.slice_field, where)
    slice_name = name or DEFAULT_SLICE
    if form.template == "chat":
        return Sample(sample_id, where, slice_name, messages=_messages(record, where))
    if form.template == "prompt":
        prompt, response = _string(record, "prompt", where), _string(record, "response", where)
        return Sample(sample_id, where, slice_name, prompt=prompt, response=response)
    return Sample(sample_id, where, slice_name, text=_string(record, "text", where))


def _messages(record: Mapping[str, Any], where: str) -> tuple[Message, ...]:
    turns = _field(record, "messages", where)
    if not isinstance(turns, list) or not turns:
        raise _mistyped("messages", "a list of messages", turns, where)
    messages = []
    for index, turn in enumerate(turns):
        place = f"{where}: messages[{index}]"
        if not isinstance(turn, dict):
            raise _mistyped("message", "an object with role and content", turn, place)
        known = {key: value for key, value in turn.items() if value is not None}
        if spare := sorted(set(known) - {"role", "content"}):
            raise DataError(
                "messages with role and content alone",
                found=f"the key '{spare[0]}'",
                where=place,
                remedy="remove the key; this version has no tool calls",
            )
        role = _string(turn, "role", place)
        if role not in ROLES:
            raise DataError(
                f"a role out of {', '.join(ROLES)}", found=repr(role), where=place, remedy="mend the role"
            )
        messages.append(Message(role, _string(turn, "content", place, empty=True)))
    return tuple(messages)


def _string(record: Mapping[str, Any], field: str, where: str, *, empty: bool = False) -> str:
    value = _field(record, field, where)
    if not isinstance(value, str):
        raise _mistyped(field, "a string", value, where)
    if not value and not empty:
        raise _mistyped(field, "a non-empty string", value, where)
    _require_utf8(value, field, where)
    return value


def _require_utf8(value: str, field: str, where: str) -> None:
    """JSON can escape half a surrogate pair, which no file or tokenizer can hold."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{field} to be text that UTF-8 can hold",
            found=f"half a surrogate pair, \\u{ord(value[error.start]):04x}, at character {error.start + 1}",
            where=where,
            remedy="mend the escape in the sample",
        ) from error


def _field(record: Mapping[str, Any], field: str, where: str) -> Any:
    if record.get(field) is None:
        raise DataError(
            f"the field '{field}'",
            found="null" if field in record else f"fields {', '.join(sorted(record)) or 'none'}",
            where=where,
            remedy="add or rename the field, or choose the template that the file has",
        )
    return record[field]


def _mistyped(field: str, required: str, value: Any, where: str) -> DataError:
    return DataError(f"{field} to be {required}", found=_kind(value), where=where, remedy="mend the sample")


def _kind(value: Any) -> str:
    """A short description of a JSON value."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"{names.get(type(value), 'a number')} {text[:40]}{'...' if len(text) > 40 else ''}"
