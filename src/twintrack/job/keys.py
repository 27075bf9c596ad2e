"""Paths of keys in a job file, such as ``tracks[0].use``."""

from __future__ import annotations

import re

__all__ = ["KeyPath", "dotted", "shown", "table_header"]

KeyPath = tuple[str | int, ...]
"""Names of keys and, counted from 0, positions in lists."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 60


def dotted(path: KeyPath) -> str:
    """The path as one reads it; names that are not bare TOML keys are quoted.

    >>> dotted(("tracks", 0, "use"))
    'tracks[0].use'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else shown(part)
            text += f".{name}" if text else name
    return text


def table_header(path: KeyPath) -> str:
    """How a table is opened in TOML: ``[optimizer]``, or ``[[tracks]]`` for one of several."""
    name = dotted(tuple(part for part in path if isinstance(part, str)))
    return f"[[{name}]]" if path and isinstance(path[-1], int) else f"[{name}]"


def shown(text: str) -> str:
    """A text for a message: quoted, control characters escaped, cut where it is long."""
    return repr(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...")
