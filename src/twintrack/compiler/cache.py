"""Compiled programs kept between processes, so that a warm start captures nothing.

A program is bytes that the caller validates: nothing from the cache is executed or unpickled here. It is kept under
a ``CacheKey`` of named parts; a miss says which part differs from the nearest entry. Whoever asks for a program that
may have to be compiled holds ``lock(key)`` around ``get`` and ``put``, so that one process compiles and the others
wait and then hit::

    with cache.lock(key):
        found = cache.get(key)
        if isinstance(found, Miss):
            cache.put(key, compile_it(), {})

Nothing is written before a compilation has succeeded, so one that failed or was killed is never an answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twintrack.clock import Clock
from twintrack.compiler.cachechoice import choose_victims, closest, explain_entries
from twintrack.compiler.cachefiles import CacheFiles
from twintrack.compiler.cachekey import CacheKey, differing_parts, explain_difference
from twintrack.compiler.cacherecords import Damaged, Entry, Explanation, Problem, Pruned, Record
from twintrack.compiler.recompile import RecompileCounter, RecompilePolicy
from twintrack.errors import CacheError
from twintrack.storage import FileLock, FileSystem, digest_bytes, storage_errors

__all__ = [
    "CacheKey",
    "CompileCache",
    "Entry",
    "Explanation",
    "Hit",
    "Miss",
    "Problem",
    "Pruned",
    "RecompileCounter",
    "RecompilePolicy",
    "default_cache_root",
    "programs_folder",
]


@dataclass(frozen=True, slots=True)
class Hit:
    """The program of a key, as it was put."""

    payload: bytes
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Miss:
    """No program for a key."""

    reason: str
    """What differs from the nearest entry of the same program, that there is none, or what was damaged."""
    differing: tuple[str, ...] = ()
    """Names of the parts that differ from the nearest entry."""


def default_cache_root(environ: Mapping[str, str]) -> Path:
    """Where the caches of this user are.

    ``TWINTRACK_CACHE``, else ``twintrack`` in ``XDG_CACHE_HOME``, else ``~/.cache/twintrack``. An
    ``XDG_CACHE_HOME`` that is not absolute is ignored, as the XDG base directory specification asks.
    """
    if own := environ.get("TWINTRACK_CACHE"):
        return Path(own).expanduser()
    shared = Path(environ.get("XDG_CACHE_HOME", ""))
    if shared.is_absolute():
        return shared / "twintrack"
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    return home / ".cache" / "twintrack"


def programs_folder(cache_root: Path) -> Path:
    """The root of the compile cache in a user's cache folder, which holds other things too."""
    return cache_root / "programs"


class CompileCache:
    """Programs under ``root``, shared by processes, at most ``max_bytes`` of them.

    Where more would be kept, the least recently used go; a use is recorded as the modification time of the
    entry's file, so recording it neither rewrites the entry nor needs space. The folder must be writable, for
    locks and uses.

    Args:
        root: created when it is first needed.
        fs: all files but locks go through it.
        clock: for creation and last use.
        max_bytes: of records, programs, and of debris until it is removed.
    """

    def __init__(self, root: Path, fs: FileSystem, clock: Clock, *, max_bytes: int) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self._fs = fs
        self._clock = clock
        self._files = CacheFiles(root, fs)

    @contextlib.contextmanager
    def lock(self, key: CacheKey) -> Iterator[None]:
        """Wait until no other process has this key, and keep it; a process that dies lets go of it.

        Raises:
            StorageError: if the lock file cannot be written.
        """
        self._make_folder(self._files.locks)
        lock = FileLock(self._files.lock_path(key.digest))
        try:
            while not lock.current:  # false, too, once it was had for a file that was pruned meanwhile
                lock.release()
                lock.acquire()
            yield
        finally:
            lock.release()

    def get(self, key: CacheKey) -> Hit | Miss:
        """The program of a key. A damaged entry is removed and named, never used.

        Raises:
            StorageError: if the file system refuses.
        """
        digest = key.digest
        try:
            found = self._load(digest)
        except Damaged:
            with self._store():  # no writer is at work now, so what is damaged still is so for good
                try:
                    found = self._load(digest)
                except Damaged as damage:
                    self._files.remove(self._files.record_path(digest))
                    return Miss(f"an entry of program '{key.program}' was damaged and is removed: {damage}")
        if found is None:
            return self._explain_miss(key)
        self._files.set_last_used(digest, self._clock.now())
        return found

    def put(self, key: CacheKey, payload: bytes, meta: Mapping[str, Any]) -> None:
        """Keep a program, and let go of the least recently used ones that have no more room.

        Args:
            key: an entry of the same key is replaced.
            payload: kept once, however many keys have it.
            meta: JSON that comes back with a hit.

        Raises:
            CacheError: if the entry alone is larger than the cache may be; nothing is written.
            StorageError: if the file system refuses; the cache is what it was.
            ValueError, TypeError: if ``meta`` is not JSON.
        """
        record = Record(
            program=key.program,
            parts=dict(key.parts),
            meta=dict(meta),
            payload_sha256=digest_bytes(payload),
            payload_bytes=len(payload),
            created=float(self._clock.now()),
        ).sealed()
        needed = len(payload) + len(record.to_bytes())
        if needed > self.max_bytes:
            raise CacheError(
                f"a program that fits into a compile cache of {self.max_bytes} bytes",
                found=f"'{key.program}' of {needed} bytes",
                where=str(self.root),
                remedy="allow the cache more bytes",
            )
        with self._store():
            self._files.write(key.digest, record, payload)
            self._files.set_last_used(key.digest, self._clock.now())
            survey = self._files.survey()
            if survey.bytes > self.max_bytes:
                self._remove(choose_victims(survey.entries, self.max_bytes, keep=key.digest), survey.problems)

    def entries(self) -> list[Entry]:
        """All entries, least recently used first; payloads are not read.

        Raises:
            StorageError: if the file system refuses.
        """
        return list(self._files.survey().entries)

    def verify(self) -> list[Problem]:
        """Read everything and compare digests; returns what is damaged, debris or foreign. Nothing is changed.

        Raises:
            StorageError: if the file system refuses.
        """
        if not self._fs.exists(self.root):
            return []
        with self._store():
            return list(self._files.survey(payloads=True).problems)

    def prune(
        self, *, max_bytes: int | None = None, older_than: float | None = None, everything: bool = False
    ) -> Pruned:
        """Remove damage and debris, and the entries that are asked for; foreign files stay.

        Args:
            max_bytes: least recently used entries go until no more than this is left.
            older_than: entries go that were last used more than this many seconds ago.
            everything: all entries go.

        Raises:
            StorageError: if the file system refuses.
        """
        if not self._fs.exists(self.root):
            return Pruned((), (), 0)
        now = self._clock.now()
        with self._store():
            survey = self._files.survey(payloads=True)
            gone = [
                entry
                for entry in survey.entries
                if everything or (older_than is not None and now - entry.last_used > older_than)
            ]
            if max_bytes is not None:
                left = [entry for entry in survey.entries if entry not in gone]
                gone += choose_victims(left, max_bytes)
            self._remove(gone, survey.problems)
            after = self._files.survey()
            self._remove_spare_locks({entry.digest for entry in after.entries})
        removed = tuple(problem for problem in survey.problems if problem.kind != "foreign")
        return Pruned(tuple(gone), removed, survey.bytes - after.bytes)

    def explain(self, name: str) -> Explanation:
        """Why there are the entries that there are.

        Args:
            name: of a program, or at least six characters of the beginning of a key digest.

        Raises:
            CacheError: if nothing, or more than one digest, goes by that name.
            StorageError: if the file system refuses.
        """
        return explain_entries(self.entries(), name, self.root)

    def _load(self, digest: str) -> Hit | None:
        record = self._files.read_record(digest)
        return None if record is None else Hit(self._files.read_payload(record), record.meta)

    def _explain_miss(self, key: CacheKey) -> Miss:
        siblings = [entry for entry in self.entries() if entry.program == key.program]
        if not siblings:
            return Miss(f"no entry for program '{key.program}'")
        near = closest(siblings, key.parts)
        differing = differing_parts(near.parts, key.parts)
        if not differing:  # put by another process since we looked
            return Miss(f"no entry for program '{key.program}' at that moment")
        return Miss(explain_difference(near.parts, key.parts), differing)

    @contextlib.contextmanager
    def _store(self) -> Iterator[None]:
        """Hold off all other writers; readers need not wait."""
        self._make_folder(self.root)
        with FileLock(self._files.store_lock):
            yield

    def _make_folder(self, folder: Path) -> None:
        with storage_errors(folder, "make the folder of the compile cache"):
            self._fs.make_folder(folder)

    def _remove(self, entries: Sequence[Entry], problems: Sequence[Problem]) -> None:
        """Remove entries and what is damaged or debris: records, after which they are none, then the rest."""
        paths = [self._files.record_path(entry.digest) for entry in entries]
        for path in paths + [problem.path for problem in problems if problem.kind != "foreign"]:
            self._files.remove(path)
        for problem in self._files.survey().problems:
            if problem.kind == "debris":
                self._files.remove(problem.path)
        for entry in entries:
            self._remove_lock(entry.digest)

    def _remove_spare_locks(self, used: set[str]) -> None:
        for digest in self._files.lock_digests():
            if digest not in used:
                self._remove_lock(digest)

    def _remove_lock(self, digest: str) -> None:
        """Remove a lock file that nobody holds."""
        path = self._files.lock_path(digest)
        if self._fs.exists(path):
            lock = FileLock(path)
            if lock.acquire(wait=False):
                try:
                    self._files.remove(path)
                finally:
                    lock.release()
