"""What the tests of comparisons share: made-up runs, edits of their events, jobs changed after the fact."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from synthetic import Story, make_run

from twintrack.job.digest import job_digest
from twintrack.job.records import Job
from twintrack.pilot.compare.compare import compare_tracks_of
from twintrack.pilot.folders import TrackRun
from twintrack.storage import LocalFileSystem

FS = LocalFileSystem()
STORY = Story(stops=())
"""Forty steps on two tracks, never stopped."""


def tracks(tmp_path, edit=STORY.edit, **fields):
    """Both tracks of one folder: the trn2 run judged by the cpu run."""
    folder = make_run(tmp_path / "run", dataclasses.replace(STORY, edit=edit, **fields))
    return compare_tracks_of(TrackRun(folder, "cpu", "reference"), TrackRun(folder, "trn2", "reference"), FS)


def folders(tmp_path, first=STORY, second=STORY, track="cpu", **options):
    """The same track of two folders."""
    runs = [make_run(tmp_path / name, story) for name, story in (("a", first), ("b", second))]
    a, b = (TrackRun(run, track, "reference") for run in runs)
    return compare_tracks_of(a, b, FS, **options)


def changed_job(folder: Path, **changes) -> None:
    """Another job in a folder, with its digest; keys by their path, such as ``batch.micro``."""
    values = json.loads((folder / "job.json").read_text())
    for path, value in changes.items():
        table, _, key = path.partition("__")
        if key:
            values[table][key] = value
        else:
            values[table] = value
    job = Job.model_validate_json(json.dumps(values))
    (folder / "job.json").write_text(json.dumps(values))
    pilot = json.loads((folder / "pilot.json").read_text())
    (folder / "pilot.json").write_text(json.dumps(pilot | {"job_digest": job_digest(job)}))
    for path in folder.rglob("events.jsonl"):
        path.write_text(path.read_text().replace(pilot["job_digest"], job_digest(job)))


def events(kind, change, *, track=None, when=lambda event: True):
    def edit(where, _, event):
        hit = isinstance(event, kind) and track in (None, where) and when(event)
        return event.model_copy(update=change(event)) if hit else event

    return edit


def story(edit, **fields):
    return dataclasses.replace(STORY, edit=edit, **fields)


def chain(*edits):
    def edit(track, run, event):
        for one in edits:
            event = one(track, run, event)
        return event

    return edit
