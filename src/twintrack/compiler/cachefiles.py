"""The files of a compile cache: what they are called, how they are read without trust, and how written.

::

    ROOT/
      entries/<digest of the key>.json    what the program was compiled from; its modification time is its last use
      payloads/<digest of the payload>    the program itself
      locks/<digest of the key>.lock      held by the process that is compiling it
      store.lock                          held while files appear or go

Every byte that is read is compared with a digest. Nothing here decides what goes; ``cache`` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from twintrack.compiler.cachekey import CacheKey
from twintrack.compiler.cacherecords import Damaged, Entry, Problem, Record, Survey
from twintrack.errors import StorageError
from twintrack.storage import (
    FileSystem,
    digest_bytes,
    inside,
    storage_errors,
    write_bytes_atomic,
)

__all__ = ["CacheFiles"]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST_RECORD = 16 << 20
"""Bytes; a record is a few thousand, and a larger file is none of ours."""


class CacheFiles:
    """Reads and writes the files under ``root``; takes no locks."""

    def __init__(self, root: Path, fs: FileSystem) -> None:
        self.root = root
        self.fs = fs
        self.entries = root / "entries"
        self.payloads = root / "payloads"
        self.locks = root / "locks"
        self.store_lock = root / "store.lock"

    def record_path(self, digest: str) -> Path:
        """Of the entry with this key digest."""
        return self.entries / f"{digest}.json"

    def lock_path(self, digest: str) -> Path:
        """Of the lock of this key digest."""
        return self.locks / f"{digest}.lock"

    def read_record(self, digest: str) -> Record | None:
        """The record of a key digest, or ``None`` where there is none.

        Raises:
            Damaged: if it is not what was written.
            StorageError: if the file system refuses.
        """
        data = self._read(self.record_path(digest), _LARGEST_RECORD)
        if data is None:
            return None
        try:
            record = Record.model_validate_json(data)
            intact = record.digest() == record.record_sha256
            key = CacheKey(record.program, record.parts)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise Damaged(f"its record is malformed: {first['msg']} {place}".strip()) from None
        except (ValueError, RecursionError) as error:
            raise Damaged(f"its record is malformed: {error}") from None
        if not intact:
            raise Damaged("its record does not have the digest that it was written with")
        if key.digest != digest:
            raise Damaged("its record is of another key")
        return record

    def read_payload(self, record: Record) -> bytes:
        """The payload of a record.

        Raises:
            Damaged: if it is missing or not what was written.
            StorageError: if the file system refuses.
        """
        data = self._read(self.payloads / record.payload_sha256, record.payload_bytes)
        if data is None:
            raise Damaged("its payload is missing")
        if len(data) != record.payload_bytes:
            raise Damaged(f"its payload has {len(data)} bytes, {record.payload_bytes} were written")
        if digest_bytes(data) != record.payload_sha256:
            raise Damaged("its payload does not have the digest that it was written with")
        return data

    def write(self, digest: str, record: Record, payload: bytes) -> None:
        """Payload first, then the record that makes it an entry; an intact payload is not written again.

        Raises:
            StorageError: if the file system refuses.
        """
        with storage_errors(self.root, "make the folders of the compile cache"):
            for folder in (self.entries, self.payloads):
                self.fs.make_folder(folder)
        try:
            self.read_payload(record)
        except Damaged:
            path = self.payloads / record.payload_sha256
            self.remove_unless_file(path)
            write_bytes_atomic(self.fs, path, payload)
        self.remove_unless_file(self.record_path(digest))
        write_bytes_atomic(self.fs, self.record_path(digest), record.to_bytes())

    def set_last_used(self, digest: str, seconds: float) -> None:
        """Record a use; nothing happens where the entry is gone.

        Raises:
            StorageError: if the file system refuses.
        """
        path = self.record_path(digest)
        with storage_errors(path, "record the use of a compiled program"):
            try:
                self.fs.set_modified(path, seconds)
            except FileNotFoundError:
                return  # evicted since it was read

    def remove(self, path: Path) -> None:
        """Remove a file.

        Raises:
            StorageError: if the file system refuses.
        """
        with storage_errors(path, "remove a file of the compile cache"):
            self.fs.remove(path)

    def remove_unless_file(self, path: Path) -> None:
        """Remove a folder or link that stands in a file's place; a rename could not replace a folder."""
        if path.is_symlink() or path.is_dir():
            self.remove(path)

    def survey(self, *, payloads: bool = False) -> Survey:
        """Read all records; with ``payloads`` also compare every payload with its digest.

        Raises:
            StorageError: if the file system refuses.
        """
        entries: list[Entry] = []
        problems: list[Problem] = []
        for name in self._list(self.entries):
            digest = name.removesuffix(".json")
            if not (name.endswith(".json") and _DIGEST.fullmatch(digest)):
                problems.append(self._stray(self.entries / name))
                continue
            try:
                entry = self._entry(digest, payloads=payloads)
            except Damaged as damage:
                path = self.record_path(digest)
                problems.append(Problem("damaged", path, str(damage), self._size(path) or 0))
            else:
                entries += [entry] if entry else []
        problems += self._payload_problems({entry.payload_sha256 for entry in entries})
        entries.sort(key=lambda entry: (entry.last_used, entry.created, entry.digest))
        return Survey(tuple(entries), tuple(problems))

    def lock_digests(self) -> list[str]:
        """Key digests that have a lock file."""
        names = [name.removesuffix(".lock") for name in self._list(self.locks) if name.endswith(".lock")]
        return [name for name in names if _DIGEST.fullmatch(name)]

    def _entry(self, digest: str, *, payloads: bool) -> Entry | None:
        record, path = self.read_record(digest), self.record_path(digest)
        if record is None:
            return None
        if payloads:
            self.read_payload(record)
        elif self._size(self.payloads / record.payload_sha256) != record.payload_bytes:
            raise Damaged("its payload is missing or has another size")
        size = self._size(path)
        with storage_errors(path, "read the compile cache"):
            try:
                last_used = self.fs.modified(path)
            except FileNotFoundError:
                return None
        fields = {name: getattr(record, name) for name in ("program", "parts", "meta", "created")}
        return Entry(
            digest=digest,
            payload_sha256=record.payload_sha256,
            payload_bytes=record.payload_bytes,
            record_bytes=size or 0,
            last_used=last_used,
            **fields,
        )

    def _payload_problems(self, used: set[str]) -> Iterator[Problem]:
        for name in self._list(self.payloads):
            path = self.payloads / name
            if not _DIGEST.fullmatch(name):
                yield self._stray(path)
            elif name not in used:
                yield Problem("debris", path, "a payload that no good entry refers to", self._size(path) or 0)

    def _stray(self, path: Path) -> Problem:
        if path.name.endswith(".partial"):
            return Problem("debris", path, "half a file, left by a killed writer", self._size(path) or 0)
        return Problem("foreign", path, "a file that the cache did not write", self._size(path) or 0)

    def _list(self, folder: Path) -> list[str]:
        with storage_errors(folder, "read the compile cache"):
            return self.fs.list(folder)

    def _size(self, path: Path) -> int | None:
        with storage_errors(path, "read the compile cache"):
            try:
                return self.fs.size(path)
            except FileNotFoundError:
                return None

    def _read(self, path: Path, limit: int) -> bytes | None:
        """Content of a file of at most ``limit`` bytes; ``None`` where there is none."""
        with storage_errors(path, "read the compile cache"):
            try:
                inside(self.root, path.relative_to(self.root).as_posix())
                if self.fs.size(path) > limit:
                    raise Damaged(f"{path.name} is larger than what was written")
                return self.fs.read_bytes(path)
            except FileNotFoundError:
                return None
            except IsADirectoryError:
                raise Damaged(f"{path.name} is a folder") from None
            except (StorageError, RuntimeError):  # of the second kind is a loop of links
                raise Damaged(f"{path.name} is a link that leads out of the cache") from None
