"""The file of a run's events: appended to while it happens, read again later."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

import twintrack
from twintrack.clock import Clock
from twintrack.errors import EventError
from twintrack.events.records import AnyEvent, Event, LegStarted
from twintrack.storage import FileSystem, WritableFile, storage_errors, write_bytes_atomic

__all__ = ["EventLog", "event_error", "read_events", "validate_event", "written_by"]

_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


class EventLog:
    """Appends events to a file; a line is on the file before ``write`` returns, so a kill loses none.

    Not safe for two processes at once (the run folder's lock sees to that); safe for threads of one process, whose
    events stand in the order of their times.
    """

    def __init__(self, fs: FileSystem, path: Path, clock: Clock, *, leg: int = 0) -> None:
        self.path = path
        self._fs = fs
        self._clock = clock
        self._leg = leg
        # stamped and written by one thread at a time; reentrant, because a signal handler may write meanwhile
        self._writing = threading.RLock()
        with storage_errors(path, "write events"):
            if fs.exists(path):
                self._cut_torn_line()
            self._file: WritableFile = fs.create(path, append=True)

    def _cut_torn_line(self) -> None:
        """A process killed while writing leaves half a line; it was never an event."""
        data = self._fs.read_bytes(self.path)
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            write_bytes_atomic(self._fs, self.path, data[:whole])

    def write(self, event: Event) -> None:
        """Stamp the event with time and leg, and append it.

        Raises:
            StorageError: if the file system refuses.
            ValueError: if a number is NaN or infinite.
        """
        fields = event.model_dump(mode="json")
        with self._writing, storage_errors(self.path, "write an event"):
            record = fields | {"time": self._clock.now(), "leg": self._leg}
            line = json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n"
            self._file.write(line.encode())

    def close(self) -> None:
        """Force what was written to disk and close."""
        with storage_errors(self.path, "write events"):
            self._file.sync()
            self._file.close()


def validate_event(value: Any) -> AnyEvent:
    """An event from JSON values.

    Raises:
        pydantic.ValidationError: if it is none of this version; ``event_error`` says why in one line.
    """
    return _ADAPTER.validate_python(value)


def written_by(event: AnyEvent) -> str | None:
    """The version of twintrack that a process says it is; ``None`` of any event that is not its first."""
    return event.environment.get("twintrack") if isinstance(event, LegStarted) else None


def event_error(error: ValidationError, where: str, version: str | None) -> EventError:
    """Why a line is no event of this version; keys that it does not know are all named.

    Args:
        error: of the validation.
        where: file and line.
        version: that wrote it, where known.
    """
    details = error.errors(include_url=False)
    unknown = [str(one["loc"][-1])[:40] for one in details if one["type"] == "extra_forbidden"]
    first = details[0]
    place = ".".join(str(part)[:40] for part in first["loc"])
    found = f"unknown keys {', '.join(unknown)}" if unknown else f"{first['msg'][:400]} {place}".strip()
    ours = twintrack.__version__
    by = "" if version is None else f" (written by twintrack {version[:40]}, this is {ours})"
    return EventError(
        "an event of this version",
        found=found + by,
        where=where,
        remedy="put the file back as it was written, or use the version of twintrack that wrote it",
    )


def read_events(path: Path) -> Iterator[AnyEvent]:
    """Read events in the order they were written; half a last line is not an event and is left out.

    Raises:
        EventError: naming the line, if it is not JSON, of an unknown kind, or lacks a field; where a newer version
            wrote it, naming that and every key that this one does not know.
        StorageError: if the file cannot be read.
    """
    with storage_errors(path, "read events"):
        data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    version: str | None = None
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            event = _ADAPTER.validate_json(line)
        except ValidationError as error:
            raise event_error(error, f"{path}:{number}", version) from error
        version = written_by(event) or version
        yield event
