"""Where an imported run is put: a new folder or a place more, never over what is there, and never gone on with here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from imported import FS, bring, csv_log, job_file

from twintrack.errors import CatalogueError, EventError, RunFolderError, StorageError, TrackError
from twintrack.pilot.manifest import read_manifest, read_pilot_file
from twintrack.pilot.protocol import Pilot
from twintrack.pilot.summary import read_summary
from twintrack.storage import FileLock, FullFileSystem, LocalFileSystem

LOG = csv_log([(step, 3 - step / 10, 2e-4) for step in range(1, 7)])


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_folder_is_a_run_folder_of_the_job(tmp_path):
    made = bring(tmp_path, LOG)

    manifest = read_manifest(made.run.root, FS)
    assert manifest.job == job_file(tmp_path).job
    assert manifest.tracks == ("cuda",)
    assert manifest.slots[0].reason == "imported from the.log"
    assert manifest.slots[1].track is None


def test_a_second_track_fills_its_place_and_a_third_stands_beside(tmp_path):
    bring(tmp_path, LOG)
    bring(tmp_path, LOG, track="neuron", job=None)
    bring(tmp_path, LOG, track="cpu", job=None)

    manifest = read_manifest(tmp_path / "run", FS)
    assert manifest.tracks == ("cuda", "neuron", "cpu")
    assert len(manifest.slots) == 3
    assert manifest.slot_of("neuron").use == ("neuron", "trn2")
    assert [track.track for track in read_summary(tmp_path / "run", FS).tracks] == ["cuda", "neuron", "cpu"]


def test_an_interrupted_run_goes_beside_its_reference(tmp_path):
    bring(tmp_path, LOG)
    bring(tmp_path, LOG, job=None, kind="interrupted")

    track = read_summary(tmp_path / "run", FS).tracks[0]
    assert [run.run for run in track.runs] == ["reference", "interrupted"]
    assert track.resume.to_the_bit is None


def test_a_run_that_is_there_is_never_overwritten(tmp_path):
    bring(tmp_path, LOG)
    before = _tree(tmp_path / "run")

    with pytest.raises(RunFolderError, match="not there yet"):
        bring(tmp_path, LOG.replace("2.9", "1.9"))
    assert _tree(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"track": "trn2", "job": None}, RunFolderError, "--job FILE"),
        ({"instance": "p5.48xlargee"}, CatalogueError, "p5.48xlarge"),
    ],
)
def test_what_cannot_be_imported_leaves_no_folder(tmp_path, settings, error, text):
    with pytest.raises(error, match=text):
        bring(tmp_path, LOG, **settings)
    assert not (tmp_path / "run").exists()


def test_a_log_that_is_none_leaves_no_folder(tmp_path):
    with pytest.raises(EventError, match="none of events, trainer"):
        bring(tmp_path, "hello\n")
    assert not (tmp_path / "run").exists()


def test_a_track_that_the_job_does_not_name_is_refused_with_what_to_write(tmp_path):
    path = tmp_path / "one.toml"
    path.write_text(job_file(tmp_path).path.read_text().replace('use = ["neuron", "trn2"]', 'use = ["trn2"]'))
    from twintrack.job.load import load_job

    with pytest.raises(TrackError, match=r'use = \["neuron", \.\.\.\]'):
        bring(tmp_path, LOG, track="neuron", job=load_job(path))


def test_another_job_is_refused_by_what_differs(tmp_path):
    bring(tmp_path, LOG)

    with pytest.raises(RunFolderError, match="another: training differ"):
        bring(tmp_path, LOG, track="neuron", steps=7)


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")

    with pytest.raises(RunFolderError, match="other files"):
        bring(tmp_path, LOG)
    assert _tree(tmp_path / "run") == {"thesis.txt": b"mine"}


def test_a_folder_that_a_process_works_on_is_left_alone(tmp_path):
    bring(tmp_path, LOG)
    with FileLock(tmp_path / "run" / "lock"), pytest.raises(RunFolderError, match="no process works on"):
        bring(tmp_path, LOG, track="neuron", job=None)


def test_a_full_disk_leaves_no_half_folder(tmp_path):
    from twintrack.pilot.imports import ImportRequest, import_run

    (tmp_path / "the.log").write_text(LOG)
    request = ImportRequest(tmp_path / "the.log", tmp_path / "run", "cuda", job_file(tmp_path))

    with pytest.raises(StorageError, match="space left"):
        import_run(request, FullFileSystem(LocalFileSystem(), free_bytes=1500))
    assert not (tmp_path / "run").exists()


def test_pilot_leaves_an_imported_track_as_it_is(tmp_path):
    """A process that went on with it here would mix two machines in one record."""
    bring(tmp_path, csv_log([(1, 3.0, 0.1)]))
    before = _tree(tmp_path / "run")
    said: list[str] = []

    class Display:
        def say(self, text: str) -> None:
            said.append(text)

    Pilot(tmp_path / "run", tmp_path, Display(), FS, clock=None, start=None).run()  # type: ignore[arg-type]

    assert said == ["cuda: imported from elsewhere, left as it is"]
    assert {name: data for name, data in _tree(tmp_path / "run").items() if name != "lock"} == before


def test_nothing_of_the_machine_that_imports_is_in_the_events(tmp_path):
    made = bring(tmp_path, LOG)

    text = made.run.events.read_text()
    assert str(tmp_path) not in text
    assert json.loads(text.splitlines()[1])["environment"].keys() == {"imported from", "job"}
    assert read_pilot_file(made.run.root, FS).slots[0].track == "cuda"
