"""A log as bytes, as lines and as JSON values, within bounds; nothing in it is executed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twintrack.errors import EventError
from twintrack.events import Defect
from twintrack.storage import FileSystem, digest_bytes, storage_errors

__all__ = [
    "LARGEST_BYTES",
    "Line",
    "LogFile",
    "json_value",
    "lines_of",
    "moment",
    "number",
    "read_log",
    "shown",
    "told_value",
]

LARGEST_BYTES = 256 << 20
"""A log of a few million lines; more is refused before it is read."""
_LONGEST_LINE = 1 << 20
_LONGEST_SHOWN = 60
_LATEST = 1e11  # seconds; a larger number is milliseconds or no time at all
_NUMBER = re.compile(
    r"[-+]?(\d[\d_]*\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|nan|inf|infinity)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log that was read."""

    name: str
    """Without its folder; control characters are escaped."""
    data: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text."""

    number: int
    text: str


def read_log(path: Path, fs: FileSystem) -> LogFile:
    """Read a log whole.

    Raises:
        EventError: if it is empty or larger than ``LARGEST_BYTES``.
        StorageError: if it cannot be read.
    """
    with storage_errors(path, "read the log"):
        size = fs.size(path)
        data = fs.read_bytes(path) if size <= LARGEST_BYTES else b""
    if not 0 < len(data) <= LARGEST_BYTES:
        raise EventError(
            f"a log of 1 to {LARGEST_BYTES} bytes",
            found=f"{size} bytes",
            where=shown(str(path)),
            remedy="name the file that the trainer wrote, or the part of it with the steps",
        )
    return LogFile(shown(path.name), data, digest_bytes(data))


def lines_of(data: bytes, defects: list[Defect]) -> Iterator[Line]:
    """Lines that are text; of any other the reason is added to ``defects``. Empty lines are passed over."""
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if len(raw) > _LONGEST_LINE:
            defects.append(
                _unreadable(number, f"the line has {len(raw)} bytes, at most {_LONGEST_LINE} are read")
            )
            continue
        try:
            text = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            defects.append(_unreadable(number, f"byte {error.start + 1} of the line is not UTF-8"))
            continue
        if text.strip():
            yield Line(number, text)


def _unreadable(line: int, text: str) -> Defect:
    return Defect(line=line, step=None, what="unreadable", text=text)


def json_value(text: str) -> Any:
    """The JSON value of a text; ``NaN`` and ``Infinity``, which trainers write, are read as numbers.

    Raises:
        ValueError: if it is not JSON, or nested too deep.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def number(value: Any) -> float | None:
    """A number that a log gives as one or as text, NaN and infinities too; ``None`` if it is none.

    >>> number("3.0e-04"), number("tensor(1)"), number(True)
    (0.0003, None, None)
    """
    if isinstance(value, str) and len(value) <= _LONGEST_SHOWN and _NUMBER.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def moment(value: Any) -> float | None:
    """Seconds from a number of seconds or an ISO 8601 text (UTC where it names no zone); ``None`` if it is neither."""
    seconds = number(value)
    if seconds is None and isinstance(value, str) and len(value) <= _LONGEST_SHOWN:
        try:
            told = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        seconds = (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    return None if seconds is None or (math.isfinite(seconds) and abs(seconds) > _LATEST) else seconds


def told_value(value: Any) -> str:
    """A value from outside for a message; lists and objects, which may be deep, by their kind alone."""
    if isinstance(value, str):
        return repr(shown(value))
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 64):
        return str(value)
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "a number"


def shown(text: str) -> str:
    """Text from outside for a message: control characters escaped, cut where it is long."""
    cut = text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in cut)
