"""Logs and jobs for the tests of imports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from twintrack.events import AnyEvent, Event, Imported, StepDone, read_events
from twintrack.job.load import LoadedJob, load_job
from twintrack.pilot.folders import RunKind
from twintrack.pilot.imports import ImportedRun, ImportRequest, import_run
from twintrack.storage import LocalFileSystem

__all__ = ["FS", "bring", "csv_log", "defects_of", "events_of", "job_file", "json_lines", "steps_of"]

FS = LocalFileSystem()


def job_file(folder: Path, *, steps: int = 6, name: str = "elsewhere", extra: str = "") -> LoadedJob:
    """A job of two places, ``cuda`` or ``cpu`` and ``neuron`` or ``trn2``."""
    path = folder / f"{name}.toml"
    path.write_text(
        f'name = "{name}"\n[model]\nsource = "model"\n[data]\nfiles = ["data.jsonl"]\n'
        f'[stop]\nsteps = {steps}\n{extra}\n[[tracks]]\nuse = ["cuda", "cpu"]\n[[tracks]]\nuse = ["neuron", "trn2"]\n'
    )
    return load_job(path)


def bring(
    folder: Path,
    log: str | bytes | Path,
    *,
    steps: int = 6,
    kind: RunKind = "reference",
    columns: Mapping[str, str] | None = None,
    **request: object,
) -> ImportedRun:
    """Import a log into ``folder/run`` as a run of ``cuda``."""
    path = log if isinstance(log, Path) else folder / "the.log"
    if not isinstance(log, Path):
        path.write_bytes(log.encode() if isinstance(log, str) else log)
    settings: dict[str, object] = {"track": "cuda", "job": job_file(folder, steps=steps), **request}
    asked = ImportRequest(path, folder / "run", kind=kind, columns=columns or {}, **settings)  # type: ignore[arg-type]
    return import_run(asked, FS)


def events_of(made: ImportedRun) -> list[AnyEvent]:
    """Every event that the import wrote."""
    return list(read_events(made.run.events))


def steps_of(made: ImportedRun) -> list[StepDone]:
    """Its steps."""
    return [event for event in events_of(made) if isinstance(event, StepDone)]


def defects_of(made: ImportedRun) -> list[tuple[str, int, int | None]]:
    """Kind, line and step of each defect."""
    first = events_of(made)[0]
    assert isinstance(first, Imported)
    return [(one.what, one.line, one.step) for one in first.defects]


def csv_log(rows: Iterable[Sequence[object]], head: str = "step,loss,lr") -> str:
    """A table of metrics."""
    return "\n".join([head, *(",".join(str(cell) for cell in row) for row in rows)]) + "\n"


def json_lines(values: Iterable[Event | Mapping[str, object]]) -> str:
    """One JSON object a line."""
    plain = (one.model_dump(mode="json") if isinstance(one, Event) else one for one in values)
    return "".join(json.dumps(one) + "\n" for one in plain)
