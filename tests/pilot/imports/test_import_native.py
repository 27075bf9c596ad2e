"""Our own events from another machine: equal to what was written there, checked one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from imported import FS, defects_of, events_of

from twintrack.errors import EventError
from twintrack.events import Imported, LegStarted
from twintrack.job.load import LoadedJob
from twintrack.job.records import Job
from twintrack.pilot.imports import ImportedRun, ImportRequest, import_run
from twintrack.pilot.summary import read_summary, summary_json

OLD = Path(__file__).parents[2] / "data" / "run-0.1.0"


def _job() -> LoadedJob:
    job = Job.model_validate_json((OLD / "job.json").read_bytes())
    digest = json.loads((OLD / "pilot.json").read_text())["job_digest"]
    return LoadedJob(job, OLD / "job.toml", OLD, {}, digest)


def _bring(
    folder: Path, data: bytes, *, track: str = "cpu", kind: str = "reference", **more: object
) -> ImportedRun:
    log = folder / "events.jsonl"
    log.write_bytes(data)
    request = ImportRequest(log, folder / "run", track, _job(), kind, **more)  # type: ignore[arg-type]
    return import_run(request, FS)


def _events(track: str = "cpu", kind: str = "reference") -> bytes:
    return (OLD / "tracks" / track / kind / "events.jsonl").read_bytes()


def _without_sources(value: object) -> object:
    """A summary without the sources of its figures, which name the log that an imported run came from."""
    if isinstance(value, dict):
        return {k: _without_sources(v) for k, v in value.items() if k not in ("source", "imported", "reason")}
    return [_without_sources(one) for one in value] if isinstance(value, list) else value


def test_every_run_of_a_pilot_imported_gives_the_same_summary(tmp_path):
    """The round trip: the same figures, failures and checks, only their sources name the log."""
    for track in ("cpu", "trn2"):
        for kind in ("reference", "interrupted"):
            _bring(tmp_path, _events(track, kind), track=track, kind=kind)

    ours, theirs = read_summary(tmp_path / "run", FS), read_summary(OLD, FS)

    left, right = summary_json(ours), summary_json(theirs)
    assert _without_sources(left["tracks"]) == _without_sources(right["tracks"])
    assert left["failures"] == right["failures"]
    assert ours.to_the_bit is True
    assert all("imported from events.jsonl" in run.loss.source for track in ours.tracks for run in track.runs)


def test_the_events_are_copied_behind_the_event_of_their_import(tmp_path):
    made = _bring(tmp_path, _events())

    first, *rest = events_of(made)
    assert isinstance(first, Imported)
    assert first.defects == []
    old = [json.loads(line) for line in _events().splitlines()]
    kept = [event.model_dump(mode="json") for event in rest]
    assert [{key: new[key] for key in before} for new, before in zip(kept, old, strict=True)] == old


def test_an_import_can_be_imported_again(tmp_path):
    made = _bring(tmp_path, _events())
    (tmp_path / "again").mkdir()

    again = _bring(tmp_path / "again", made.run.events.read_bytes())

    assert sum(isinstance(event, Imported) for event in events_of(again)) == 2
    assert len(events_of(again)) == len(events_of(made)) + 1


@pytest.mark.parametrize("track", ["trn2"])
def test_events_of_another_track_are_refused(tmp_path, track):
    with pytest.raises(EventError, match="required events of the track trn2, found cpu"):
        _bring(tmp_path, _events(), track=track)


def test_events_of_another_job_are_refused(tmp_path):
    data = _events().replace(_job().digest.encode(), b"0" * 64)
    with pytest.raises(EventError, match="required events of the job, by its digest"):
        _bring(tmp_path, data)


def test_the_instance_is_in_the_environment_and_is_not_contradicted(tmp_path):
    made = _bring(tmp_path, _events(), instance="p5.48xlarge")
    start = next(event for event in events_of(made) if isinstance(event, LegStarted))
    assert start.environment["instance"] == "p5.48xlarge"
    (tmp_path / "again").mkdir()
    with pytest.raises(EventError, match="events of the instance trn2"):
        _bring(tmp_path / "again", made.run.events.read_bytes(), instance="trn2.48xlarge")


def _changed(find: str, **fields: object) -> bytes:
    lines = [json.loads(line) for line in _events().splitlines()]
    for line in lines:
        if line["kind"] == find and line.get("step", 2) == 2:
            line.update(fields)
    return ("\n".join(json.dumps(line) for line in lines) + "\n").encode()


def test_a_loss_that_is_no_number_is_told_and_its_step_left_out(tmp_path):
    made = _bring(tmp_path, _changed("step_done", loss=float("nan")))

    kinds = [(what, step) for what, _, step in defects_of(made)]
    assert kinds[0] == ("not_finite", 2)
    assert ("hole", 2) in kinds


def test_a_damaged_line_is_told_and_half_a_last_line_is_not(tmp_path):
    lines = _events().splitlines()
    lines[2] = lines[2][:20]
    made = _bring(tmp_path, b"\n".join([*lines, b'{"time": 1.0, "le']))

    assert defects_of(made) == [("unreadable", 3, None)]


def test_time_backwards_is_told_and_no_event_keeps_a_time(tmp_path):
    made = _bring(tmp_path, _changed("step_done", time=999_999.0))

    assert defects_of(made)[0][::2] == ("time_backwards", 2)
    assert {event.time for event in events_of(made)} == {None}


def test_a_newer_versions_key_is_refused_with_its_name_and_version(tmp_path):
    data = _changed("step_done", entropy=1.0, temper="good").replace(
        b'"twintrack": "0.1.0"', b'"twintrack": "9.8.7"'
    )
    with pytest.raises(
        EventError, match=r"unknown keys entropy, temper \(written by twintrack 9\.8\.7, this is"
    ):
        _bring(tmp_path, data)
