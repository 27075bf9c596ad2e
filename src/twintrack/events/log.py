"""The file of a run's events: appended to while it happens, read again later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from twintrack.clock import Clock
from twintrack.errors import EventError
from twintrack.events.records import AnyEvent, Event
from twintrack.storage import FileSystem, WritableFile, storage_errors, write_bytes_atomic

__all__ = ["EventLog", "read_events"]

_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


class EventLog:
    """Appends events to a file; a line is on the file before ``write`` returns, so a kill loses none.

    Not safe for two processes at once (the run folder's lock sees to that); safe for threads of one process,
    because a line is one ``write`` in append mode.
    """

    def __init__(self, fs: FileSystem, path: Path, clock: Clock, *, leg: int = 0) -> None:
        self.path = path
        self._fs = fs
        self._clock = clock
        self._leg = leg
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
        record = event.model_dump(mode="json") | {"time": self._clock.now(), "leg": self._leg}
        line = json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n"
        with storage_errors(self.path, "write an event"):
            self._file.write(line.encode())

    def close(self) -> None:
        """Force what was written to disk and close."""
        with storage_errors(self.path, "write events"):
            self._file.sync()
            self._file.close()


def read_events(path: Path) -> Iterator[AnyEvent]:
    """Read events in the order they were written; half a last line is not an event and is left out.

    Raises:
        EventError: naming the line, if it is not JSON, of an unknown kind, or lacks a field.
        StorageError: if the file cannot be read.
    """
    with storage_errors(path, "read events"):
        data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            yield _ADAPTER.validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise EventError(
                "an event of this version",
                found=f"{first['msg']} {place}".strip(),
                where=f"{path}:{number}",
                remedy="put the file back as it was written, or use the version of twintrack that wrote it",
            ) from error
