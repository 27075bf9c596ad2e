"""Choices over the entries of a compile cache, as pure functions: which go, which is nearest, why each is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from twintrack.compiler.cachekey import differing_parts, explain_difference
from twintrack.compiler.cacherecords import Entry, Explanation
from twintrack.errors import CacheError, nearest

__all__ = ["choose_victims", "closest", "explain_entries"]

_SHORTEST_PREFIX = 6


def choose_victims(entries: Sequence[Entry], max_bytes: int, *, keep: str | None = None) -> list[Entry]:
    """The first of ``entries`` that must go, ``keep`` left out, until the others take at most ``max_bytes``.

    A payload that several entries share takes its bytes until the last of them goes.
    """
    users = Counter(entry.payload_sha256 for entry in entries)
    sizes = {entry.payload_sha256: entry.payload_bytes for entry in entries}
    total = sum(sizes.values()) + sum(entry.record_bytes for entry in entries)
    victims = []
    for entry in entries:
        if total <= max_bytes:
            break
        if entry.digest == keep:
            continue
        victims.append(entry)
        users[entry.payload_sha256] -= 1
        total -= entry.record_bytes + (0 if users[entry.payload_sha256] else entry.payload_bytes)
    return victims


def closest(entries: Sequence[Entry], parts: Mapping[str, str]) -> Entry:
    """The entry with the fewest differing parts; of equals the most recently used."""
    return min(entries, key=lambda entry: (len(differing_parts(entry.parts, parts)), -entry.last_used))


def explain_entries(entries: Sequence[Entry], name: str, where: Path) -> Explanation:
    """Why there are the entries that go by ``name``: a program, or the beginning of a key digest.

    Raises:
        CacheError: if nothing, or more than one digest, goes by that name.
    """
    oldest_first = sorted(entries, key=lambda entry: (entry.created, entry.digest))
    chosen = [entry for entry in oldest_first if entry.program == name]
    if not chosen and len(name) >= _SHORTEST_PREFIX:
        chosen = [entry for entry in oldest_first if entry.digest.startswith(name.lower())]
        if len(chosen) > 1:
            found = f"{len(chosen)} with that beginning: {', '.join(entry.digest[:16] for entry in chosen)}"
            raise _unknown(name, found, where, "give more of it")
    if not chosen:
        known = sorted({entry.program for entry in entries})
        found = f"programs {', '.join(known)}" if known else "an empty cache"
        raise _unknown(
            name, found, where, nearest(name, known) or "'twintrack cache list' shows what there is"
        )
    return Explanation(tuple(chosen), {entry.digest: _reason(entry, oldest_first) for entry in chosen})


def _reason(entry: Entry, oldest_first: Sequence[Entry]) -> str:
    older = [one for one in oldest_first[: oldest_first.index(entry)] if one.program == entry.program]
    if not older:
        return "the oldest entry of its program"
    near = closest(older, entry.parts)
    return f"beside {near.digest[:12]}: {explain_difference(near.parts, entry.parts)}"


def _unknown(name: str, found: str, where: Path, remedy: str) -> CacheError:
    return CacheError(
        f"one program or key digest '{name}' in the compile cache",
        found=found,
        where=str(where),
        remedy=remedy,
    )
