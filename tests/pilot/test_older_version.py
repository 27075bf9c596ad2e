"""A run folder made by twintrack 0.1.0, kept in ``tests/data/run-0.1.0``, is read with the figures of its time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from twintrack.errors import EventError, RunFolderError
from twintrack.job.digest import job_digest
from twintrack.pilot.manifest import read_manifest
from twintrack.pilot.page import build_page
from twintrack.pilot.summary import read_summary
from twintrack.report.records import Callout
from twintrack.storage import LocalFileSystem

OLD = Path(__file__).parents[1] / "data" / "run-0.1.0"
FS = LocalFileSystem()


def _copy(tmp_path: Path, name: str, **changes: object) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(OLD, folder)
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def test_its_figures_are_those_that_its_own_version_gave():
    """``figures.json`` was taken from the ``summary.json`` that 0.1.0 wrote beside these events."""
    wanted = json.loads((OLD / "figures.json").read_text())
    summary = read_summary(OLD, FS)

    assert (summary.to_the_bit, summary.job_digest) == (wanted["to_the_bit"], wanted["job_digest"])
    assert summary.comparisons[0].largest.value == wanted["largest difference"]
    found = {
        f"{run.track} {run.run}": {
            "loss": list(run.loss.values),
            "gradient_norm": list(run.gradient_norm.values),
            "evaluation": [one.loss.value for one in run.evaluations],
            "tokens_per_second": run.tokens_per_second.value,
            "restarts": run.restarts.value,
            "legs": [leg.ended.value for leg in run.legs],
            "state_digest": run.end.state_digest if run.end else None,
        }
        for track in summary.tracks
        for run in track.runs
    }
    assert found == wanted["runs"]


def test_its_job_keeps_its_digest_and_new_keys_have_their_defaults():
    manifest = read_manifest(OLD, FS)

    assert job_digest(manifest.job) == json.loads((OLD / "pilot.json").read_text())["job_digest"]
    assert "costs" not in json.loads((OLD / "job.json").read_text())
    assert manifest.job.costs == type(manifest.job.costs)()


def test_the_report_says_that_another_version_made_the_run():
    summary = read_summary(OLD, FS)

    remarks = [one for one in build_page(summary, version="7.7.7").head if isinstance(one, Callout)][1:]
    assert [one.title for one in remarks] == ["Reported by twintrack 7.7.7"]
    assert remarks[0].items == ("The run folder was made by twintrack 0.1.0.",)
    assert len([one for one in build_page(summary, version="0.1.0").head if isinstance(one, Callout)]) == 1


@pytest.mark.parametrize(
    ("name", "changes", "found"),
    [
        (
            "pilot.json",
            {"format": 2, "version": "9.8.7"},
            r"Input should be 1 format \(made by twintrack 9\.8\.7",
        ),
        (
            "pilot.json",
            {"owner": 1, "mood": 2, "version": "9.8.7"},
            r"unknown keys owner, mood \(made by twintrack 9",
        ),
        ("job.json", {"temper": 1}, r"job\.json: .*unknown keys temper"),
    ],
)
def test_a_newer_or_unknown_format_is_one_line_that_names_it(tmp_path, name, changes, found):
    with pytest.raises(RunFolderError, match=found) as caught:
        read_summary(_copy(tmp_path, name, **changes), FS)
    assert "\n" not in str(caught.value)


def test_a_newer_job_names_its_keys_and_the_version_that_wrote_it(tmp_path):
    folder = _copy(tmp_path, "pilot.json", version="9.8.7")
    job = json.loads((folder / "job.json").read_text())
    job["model"]["shape"] = "round"
    (folder / "job.json").write_text(json.dumps(job))

    with pytest.raises(RunFolderError, match=r"unknown keys model\.shape \(made by twintrack 9\.8\.7"):
        read_summary(folder, FS)


def test_an_event_of_a_newer_version_is_one_line_that_names_kind_and_version(tmp_path):
    folder = _copy(tmp_path, "pilot.json")
    path = folder / "tracks" / "cpu" / "reference" / "events.jsonl"
    text = path.read_text().replace('"twintrack": "0.1.0"', '"twintrack": "9.8.7"')
    path.write_text(text + '{"time": 1.0, "leg": 0, "kind": "dream"}\n')

    with pytest.raises(EventError, match=r"'dream'.*written by twintrack 9\.8\.7") as caught:
        read_summary(folder, FS)
    assert "\n" not in str(caught.value)
