"""Where things are in a run folder; the layout is drawn in ``docs/architecture.md``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twintrack.storage import inside

__all__ = ["RunKind", "TrackRun", "run_label"]

RunKind = Literal["reference", "interrupted"]


@dataclass(frozen=True, slots=True)
class TrackRun:
    """One run of one track inside a run folder."""

    root: Path
    track: str
    kind: RunKind

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return inside(self.root, f"tracks/{self.track}/{self.kind}")

    @property
    def events(self) -> Path:
        """Its events."""
        return self.folder / "events.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Its checkpoints."""
        return self.folder / "checkpoints"

    @property
    def final(self) -> Path:
        """The trained adapter or model, in its usual layout."""
        return self.folder / "final"

    @property
    def lock(self) -> Path:
        """Lock of the process that works on it."""
        return self.folder / "lock"


def run_label(folder: str, run: str) -> str:
    """``FOLDER:RUN``, as the command line takes it; the run alone where no folder is named."""
    return f"{folder}:{run}" if folder else run
