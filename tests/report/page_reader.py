"""Reads a rendered page back, as a browser's parser would see it, without a browser."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

_SILENT = ("style", "script", "title")


@dataclass
class Read:
    """What stands on a page."""

    text: list[str] = field(default_factory=list)
    """Visible texts."""
    tips: list[str] = field(default_factory=list)
    charts: list[dict[str, Any]] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    """Those that run."""
    policy: str = ""

    @property
    def prose(self) -> str:
        """All visible texts, a line each."""
        return "\n".join(self.text)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.read = Read()
        self.open: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.read.tags.append((tag, given))
        if given.get("data-tip"):
            self.read.tips.append(given["data-tip"] or "")
        if given.get("http-equiv") == "Content-Security-Policy":
            self.read.policy = given["content"] or ""
        if tag not in ("meta", "link", "br", "img"):
            self.open.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1][0] == tag, f"</{tag}> closes <{self.open[-1][0]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        tag, given = self.open[-1] if self.open else ("", {})
        if tag == "script":
            if given.get("type") == "application/json":
                self.read.charts.append(json.loads(data))
            else:
                self.read.scripts.append(data)
        elif tag not in _SILENT and data.strip():
            self.read.text.append(data)


def read_page(html: str) -> Read:
    """Parse a page; its tags must be closed in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    return reader.read
