"""Find the line of every key in a TOML text, which ``tomllib`` does not tell.

The text has been accepted by ``tomllib`` before, so what is scanned here is known to be TOML: the scanner
looks only for where names and values begin and end, and leaves their meaning to ``tomllib``.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

from twintrack.job.keys import KeyPath

__all__ = ["key_lines"]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
# up to two quotes may stand right before the three that close
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}", re.DOTALL)
_PLAIN = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Line, counted from 1, at which each table, key and list entry of a valid TOML text begins.

    A table that several headers open has the line of the first one that names it.

    Args:
        text: TOML that ``tomllib.loads`` has accepted, nested no deeper than Python can recurse.
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.lines


class _Scanner:
    """One pass over a text; ``at`` is where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._entries: dict[KeyPath, int] = {}
        """Entries so far of each list of tables that ``[[...]]`` headers make."""

    def document(self) -> None:
        """Headers and ``key = value`` lines until the end."""
        table: KeyPath = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        """Step over a match at the present place, and return it."""
        match = pattern.match(self.text, self.at)
        if match is None:
            raise AssertionError(f"tomllib accepted what is no TOML here, at offset {self.at}")
        self.at = match.end()
        return match.group()

    def _note(self, path: KeyPath, line: int) -> None:
        self.lines.setdefault(path, line)

    def _line(self) -> int:
        return bisect_right(self._starts, self.at)

    def _header(self) -> KeyPath:
        line = self._line()
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        names = self._key()
        self.at += 2 if many else 1
        path: KeyPath = ()
        for last, name in zip([False] * (len(names) - 1) + [True], names, strict=True):
            path = (*path, name)
            self._note(path, line)
            if last and many:
                self._entries[path] = self._entries.get(path, 0) + 1
            if path in self._entries:
                path = (*path, self._entries[path] - 1)
                self._note(path, line)
        return path

    def _pair(self, table: KeyPath) -> None:
        """``key = value``, on a line of its own or in an inline table."""
        line = self._line()
        path = table
        for name in self._key():
            path = (*path, name)
            self._note(path, line)
        self.at += 1
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> list[str]:
        """The names of a dotted key, and the place after it and the space that follows."""
        names: list[str] = []
        while True:
            self._skip(_SPACE)
            mark = self.text[self.at]
            if mark == '"':
                names.append(tomllib.loads(f"name = {self._skip(_BASIC)}")["name"])
            elif mark == "'":
                names.append(self._skip(_LITERAL)[1:-1])
            else:
                names.append(self._skip(_BARE_KEY))
            self._skip(_SPACE)
            if self.text[self.at] != ".":
                return names
            self.at += 1

    def _value(self, path: KeyPath) -> None:
        mark = self.text[self.at]
        if mark == "[":
            self._list(path)
        elif mark == "{":
            self._inline_table(path)
        elif mark == '"':
            self._skip(_LONG_BASIC if self.text.startswith('"""', self.at) else _BASIC)
        elif mark == "'":
            self._skip(_LONG_LITERAL if self.text.startswith("'''", self.at) else _LITERAL)
        else:
            self._skip(_PLAIN)

    def _list(self, path: KeyPath) -> None:
        self.at += 1
        self._skip(_BLANK)
        index = 0
        while self.text[self.at] != "]":
            entry = (*path, index)
            self._note(entry, self._line())
            self._value(entry)
            self._to_next()
            index += 1
        self.at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.at += 1
        self._skip(_BLANK)
        while self.text[self.at] != "}":
            self._pair(path)
            self._to_next()
        self.at += 1

    def _to_next(self) -> None:
        """To the next entry, or to what closes the list or inline table."""
        self._skip(_BLANK)
        if self.text[self.at] == ",":
            self.at += 1
            self._skip(_BLANK)
