"""Under what a compiled program is kept: named parts, so that a miss can say which of them differ."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twintrack.storage import digest_bytes, digest_json

__all__ = ["CacheKey", "differing_parts", "explain_difference"]

_LONGEST_PART = 400
"""Characters; a longer part is kept as its digest and its beginning."""
_BEGINNING = 60
_DIGESTED = "sha256:"
_LONGEST_IN_MESSAGE = 80
_CONTEXT = 12
"""Characters that both sides share and that a message keeps, so that a reader finds the place."""


@dataclass(frozen=True, slots=True, eq=False)
class CacheKey:
    """All that a compiled program depends on.

    Args:
        program: name of the function that is compiled.
        parts: named texts, such as "shapes" or "versions". A part longer than 400 characters is replaced by
            its SHA-256 and its beginning; the key is the same whether it is given long or so replaced.

    Raises:
        ValueError: if the program, or the name of a part, is empty, or a text is no valid Unicode.
    """

    program: str
    parts: Mapping[str, str]

    def __post_init__(self) -> None:
        if not self.program or not all(self.parts):
            raise ValueError("a cache key needs a program and names for its parts")
        self.program.encode()
        short = {name: _condense(text) for name, text in self.parts.items()}
        object.__setattr__(self, "parts", MappingProxyType(short))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of program and parts; the order of parts does not matter."""
        return digest_json({"program": self.program, "parts": dict(self.parts)})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheKey) and (self.program, self.parts) == (other.program, other.parts)

    def __hash__(self) -> int:
        return hash(self.digest)


def differing_parts(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the parts that differ or that one side lacks, in the order of ``now``, then of ``was``."""
    names = [*now, *(name for name in was if name not in now)]
    return tuple(name for name in names if was.get(name) != now.get(name))


def explain_difference(was: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What differs, such as ``shapes: was 2x128, is 2x256; flags: was absent, is allow_host=True``."""
    return "; ".join(
        "{}: was {}, is {}".format(name, *_show(was.get(name), now.get(name)))
        for name in differing_parts(was, now)
    )


def _condense(text: str) -> str:
    encoded = text.encode()
    if len(text) <= _LONGEST_PART:
        return text
    beginning = " ".join(text[:_BEGINNING].split())
    return f"{_DIGESTED}{digest_bytes(encoded)} ({len(text)} characters: {beginning}…)"


def _show(was: str | None, now: str | None) -> tuple[str, str]:
    """Both sides for a message; of long texts the place where they begin to differ."""
    texts = [("absent" if text is None else " ".join(text.split()) or "empty") for text in (was, now)]
    if max(map(len, texts)) <= _LONGEST_IN_MESSAGE:
        return texts[0], texts[1]
    shared = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))
    start = max(0, sum(1 for _ in shared) - _CONTEXT)
    cut = [_cut(text, start) for text in texts]
    return cut[0], cut[1]


def _cut(text: str, start: int) -> str:
    piece = text[start : start + _LONGEST_IN_MESSAGE]
    return f"{'…' if start else ''}{piece}{'…' if start + _LONGEST_IN_MESSAGE < len(text) else ''}"
