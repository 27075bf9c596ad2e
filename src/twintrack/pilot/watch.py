"""Follows the events of a run while another process writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Display", "EventTail", "Stage"]


class Stage(Protocol):
    """One stage on the display."""

    def update(self, done: float | None, note: str) -> None:
        """Say how far it is, in steps (``None``: where it was), and what it is doing."""
        ...

    def finish(self, note: str) -> None:
        """Say that it is over."""
        ...


class Display(Protocol):
    """Where progress is shown."""

    def stage(self, name: str, total: float) -> Stage:
        """Begin a stage of ``total`` steps."""
        ...

    def say(self, text: str) -> None:
        """One line that stays."""
        ...


class EventTail:
    """Reads the lines that were added to a file since the last look; half a line waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0

    def new(self) -> list[dict[str, Any]]:
        """Events added since."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
