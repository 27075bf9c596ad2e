"""Which run a word on the command line means.

``FOLDER`` is a pilot's run folder, ``FOLDER:TRACK`` the reference run of one of its tracks, ``FOLDER:TRACK/KIND`` one
of its runs; the path of a run's own folder (``FOLDER/tracks/TRACK/KIND``) means the same. ``@STEP`` behind any of
them names a checkpoint of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from twintrack.errors import RunFolderError, nearest
from twintrack.pilot.folders import RunKind, TrackRun
from twintrack.pilot.manifest import read_pilot_file
from twintrack.storage import FileSystem

__all__ = ["RunName", "find_run", "find_runs", "split_step"]

_KINDS: tuple[RunKind, ...] = get_args(RunKind)


@dataclass(frozen=True, slots=True)
class RunName:
    """A run as it was asked for; ``None`` where the word left it open."""

    folder: Path
    track: str | None
    kind: RunKind | None


def find_run(word: str, fs: FileSystem) -> TrackRun:
    """The one run that a word means; a track may be left out where the folder has one only.

    Raises:
        RunFolderError: if it names no run folder, no track or no run of it, or leaves several tracks open.
        StorageError: if a file cannot be read.
    """
    runs = find_runs(word, fs)
    if len(runs) > 1:
        choices = " or ".join(f"{runs[0].root}:{run.track}" for run in runs)
        raise _wrong(word, "one track", f"{len(runs)} tracks", f"say which: {choices}")
    return runs[0]


def find_runs(word: str, fs: FileSystem) -> tuple[TrackRun, ...]:
    """The runs that a word means: of every track where it names none; the reference runs where it names no kind.

    Raises:
        RunFolderError: if it names no run folder, or no track or no run of it.
        StorageError: if a file cannot be read.
    """
    name = _parse(word, fs)
    pilot = read_pilot_file(name.folder, fs)
    known = list(dict.fromkeys(slot.track for slot in pilot.slots if slot.track is not None))
    if name.track is not None and name.track not in known:
        hint = nearest(name.track, known) or "see pilot.json in the folder"
        raise _wrong(word, f"one of the tracks {', '.join(known) or 'none'}", name.track, hint)
    tracks = known if name.track is None else [name.track]
    runs = tuple(TrackRun(name.folder, track, name.kind or "reference") for track in tracks)
    for run in runs:
        if not fs.exists(run.events):
            raise _wrong(
                word, "a run with events", f"no {run.events}", "run the pilot first, or name another run"
            )
    if not runs:
        raise _wrong(word, "a track that ran", "none", "name another run folder")
    return runs


def split_step(word: str) -> tuple[str, int | None]:
    """``RUN@STEP`` as run and step; no step where there is no ``@``.

    Raises:
        RunFolderError: if what stands behind the last ``@`` is not a whole number from 0.
    """
    run, mark, step = word.rpartition("@")
    if not mark or "/" in step:
        return word, None
    if not (step.isascii() and step.isdigit()):
        raise _wrong(word, "RUN@STEP with a whole number", repr(step), "give a step, such as RUN@10")
    return run, int(step)


def _parse(word: str, fs: FileSystem) -> RunName:
    folder = Path(word)
    if fs.exists(folder / "pilot.json"):
        return RunName(folder, None, None)
    parts = folder.parts
    if len(parts) >= 3 and parts[-3] == "tracks" and parts[-1] in _KINDS:
        kind: RunKind = "reference" if parts[-1] == "reference" else "interrupted"
        return RunName(folder.parents[2], parts[-2], kind)
    base, colon, rest = word.rpartition(":")
    if not colon or not fs.exists(Path(base) / "pilot.json"):
        return RunName(folder, None, None)
    track, _, kind_word = rest.partition("/")
    if kind_word and kind_word not in _KINDS:
        raise _wrong(word, f"one of the runs {', '.join(_KINDS)}", kind_word, "write FOLDER:TRACK/reference")
    return RunName(Path(base), track, next((kind for kind in _KINDS if kind == kind_word), None))


def _wrong(word: str, required: str, found: str, remedy: str) -> RunFolderError:
    return RunFolderError(required, found=found, where=word, remedy=remedy)
