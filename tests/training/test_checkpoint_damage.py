"""Whatever happens to a file of a checkpoint, it is found before anything of it is used."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from checkpoint_cases import (
    JOB,
    OTHER_JOB,
    Recorder,
    assert_same_bits,
    contents,
    make_checkpointer,
    make_state,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from twintrack.errors import CheckpointError
from twintrack.events import CheckpointPassedOver
from twintrack.storage import LocalFileSystem, digest_bytes
from twintrack.training.checkpoint import FileRecord, Manifest, Status, inspect, read_checkpoint, scan
from twintrack.training.checkpoint.manifest import parse_manifest, render_manifest

LOCAL = LocalFileSystem()
STEP = "step-00000010"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a checkpoint of step 10; not to be changed."""
    folder = tmp_path_factory.mktemp("whole")
    with make_checkpointer(folder) as checkpointer:
        checkpointer.save(make_state(10))
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    """A copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def refusal(folder: Path, step: int = 10, job: str | None = JOB) -> str:
    """The one line that loading ends with; inspecting must find the same."""
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(LOCAL, folder, step, job_digest=job)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.exit_code == 2
    return text


def test_the_whole_one_is_verified_and_loads(whole):
    assert inspect(LOCAL, whole, 10, job_digest=JOB, digests=True).status is Status.VERIFIED
    assert_same_bits(read_checkpoint(LOCAL, whole, 10, job_digest=JOB).state, make_state(10))


def test_every_byte_of_every_file_is_guarded(whole, tmp_path):
    """Every byte of the manifest and of the values, and every eleventh of the tensors, flipped by one bit."""
    folder = Path(shutil.copytree(whole, tmp_path / "copy"))
    flips = 0
    for name, data in contents(folder).items():
        path = folder / name
        for place in range(0, len(data), 11 if path.suffix == ".safetensors" else 1):
            altered = bytearray(data)
            altered[place] ^= 1 << (place % 8)
            path.write_bytes(altered)
            found = inspect(LOCAL, folder, 10, digests=True)
            assert found.status is Status.DAMAGED, (name, place)
            flips += 1
        path.write_bytes(data)
    assert flips > 1000
    assert inspect(LOCAL, folder, 10, digests=True).status is Status.VERIFIED


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_change_to_a_file_is_loaded(whole, tmp_path_factory, data):
    """Flips, cuts, insertions and exchanged files, against loading itself."""
    names = sorted(contents(whole / STEP))
    name = data.draw(st.sampled_from(names))
    original = (whole / STEP / name).read_bytes()
    place = data.draw(st.integers(0, len(original) - 1))
    altered = data.draw(
        st.sampled_from(
            [
                original[:place],
                original[:place] + b"\0" + original[place:],
                original[:place] + bytes([original[place] ^ 0x10]) + original[place + 1 :],
                original + original[place:],
            ]
        )
    )
    folder = tmp_path_factory.mktemp("altered")
    shutil.copytree(whole / STEP, folder / STEP)
    (folder / STEP / name).write_bytes(altered)
    assert refusal(folder)


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: ('{"format": 1, ' + text).encode()))
def test_a_manifest_of_any_bytes_is_refused_in_one_line(data):
    with pytest.raises(CheckpointError) as caught:
        parse_manifest(data, Path("/run") / STEP / "manifest.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 5000, '{"format": 1, "x": ' + "[" * 500 + "]" * 500 + "}", "1e999"])
def test_a_manifest_made_to_hurt_is_refused(text):
    with pytest.raises(CheckpointError):
        parse_manifest(text.encode(), Path("/run") / STEP / "manifest.json")


def test_truncation_names_the_file_and_both_sizes(copy):
    path = copy / STEP / "master-00001.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    assert f"master-00001.safetensors: required {size} bytes, found {size - 1}" in refusal(copy)


def test_an_altered_file_names_both_digests(copy):
    path = copy / STEP / "weights-00001.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert f"weights-00001.safetensors: required SHA-256 {digest_bytes(data)[:16]}" in refusal(copy)


def test_a_missing_file_is_named(copy):
    (copy / STEP / "state.json").unlink()
    assert "state.json: required the file of" in refusal(copy)


def test_a_folder_without_a_manifest_is_debris_and_named_as_such(copy):
    (copy / STEP / "manifest.json").unlink()
    assert "debris" in refusal(copy)
    assert [entry.status for entry in scan(LOCAL, copy)] == [Status.DEBRIS]


def test_a_checkpoint_of_another_job_is_refused_and_named(copy):
    assert inspect(LOCAL, copy, 10, job_digest=OTHER_JOB).status is Status.FOREIGN
    text = refusal(copy, job=OTHER_JOB)
    assert f"required a checkpoint of job {OTHER_JOB[:16]}, found one of job {JOB[:16]}" in text


def test_a_checkpoint_in_the_folder_of_another_step_is_refused(copy):
    (copy / STEP).rename(copy / "step-00000011")
    assert "step 10 in the folder step-00000011" in refusal(copy, 11)


def rewrite_manifest(folder: Path, **changes: object) -> None:
    """A manifest that agrees with itself, made by somebody who knows how."""
    path = folder / STEP / "manifest.json"
    manifest = parse_manifest(path.read_bytes(), path)
    path.write_bytes(render_manifest(manifest.model_copy(update=changes)))


def test_an_unknown_format_says_to_use_the_version_that_wrote_it(copy):
    path = copy / STEP / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    text = refusal(copy)
    assert "required a manifest of format 1, found format 2; read it with the version" in text


@pytest.mark.parametrize("name", ["../../secret.safetensors", "/etc/passwd", "weights-00001.pt", "x.json"])
def test_a_manifest_that_names_anything_else_is_refused(copy, name):
    record = FileRecord(bytes=0, sha256="0" * 64)
    rewrite_manifest(copy, files={"state.json": record, name: record})
    assert "which no file of a checkpoint has" in refusal(copy)


def test_a_link_that_leads_out_of_the_folder_is_refused(copy, tmp_path):
    file = copy / STEP / "state.json"
    file.rename(tmp_path / "outside.json")
    file.symlink_to(tmp_path / "outside.json")
    found = inspect(LOCAL, copy, 10, digests=True)
    assert found.status is Status.DAMAGED
    assert "required a path inside" in str(found.problem)


def test_a_manifest_without_values_is_refused(copy):
    rewrite_manifest(copy, files={})
    assert "no state.json" in refusal(copy)


def replace_file(folder: Path, name: str, data: bytes) -> None:
    """Put another file in, and a manifest that agrees with it."""
    path = folder / STEP / "manifest.json"
    files = parse_manifest(path.read_bytes(), path).files
    (folder / STEP / name).write_bytes(data)
    rewrite_manifest(folder, files=files | {name: FileRecord(bytes=len(data), sha256=digest_bytes(data))})


def test_a_type_that_its_group_may_not_have_is_refused(copy):
    data = save({"master/x": torch.zeros(2, dtype=torch.bfloat16)})
    replace_file(copy, "master-00001.safetensors", data)
    assert "master/x: float32 is required, found torch.bfloat16" in refusal(copy)


def test_a_tensor_in_two_files_is_refused(copy):
    data = save({"weights/layer.0.lora_A": torch.zeros(2)})
    replace_file(copy, "weights-00002.safetensors", data)
    assert "'weights/layer.0.lora_A' in two files" in refusal(copy)


@pytest.mark.parametrize("data", [b"", b"\x80\x04N.", b"\xff" * 100])
def test_tensors_in_another_format_are_refused(copy, data):
    replace_file(copy, "weights-00001.safetensors", data)
    assert "data that safetensors refuses" in refusal(copy)


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", b'{"step": 9, "values": {}}', b'{"step": 10, "values": 1}']
)
def test_values_of_another_form_are_refused(copy, document):
    replace_file(copy, "state.json", document)
    assert "something else than step" in refusal(copy)


def test_resuming_passes_over_damage_and_debris_and_tells(tmp_path):
    events = Recorder()
    with make_checkpointer(tmp_path, keep=5) as checkpointer:
        for step in (10, 20, 30, 40):
            checkpointer.save(make_state(step))
    flipped = tmp_path / "step-00000030" / "moment1-00001.safetensors"
    flipped.write_bytes(flipped.read_bytes()[:-1] + b"\x77")
    (tmp_path / "step-00000040" / "manifest.json").unlink()
    checkpointer = make_checkpointer(tmp_path, emit=events)
    assert checkpointer.latest() == 20
    told = [(event.step, event.reason) for event in events.of(CheckpointPassedOver)]
    assert [step for step, _ in told] == [40, 30]
    assert "debris" in told[0][1]
    assert "SHA-256" in told[1][1]
    loaded = checkpointer.resume()
    assert_same_bits(loaded.state, make_state(20))
    assert len(events.of(CheckpointPassedOver)) == 4
    checkpointer.finish()


def test_with_nothing_that_counts_there_is_no_latest(tmp_path):
    checkpointer = make_checkpointer(tmp_path / "absent")
    assert checkpointer.latest() is None
    assert checkpointer.resume() is None
    with pytest.raises(CheckpointError, match="required a checkpoint of step 5, found no checkpoint"):
        checkpointer.load(5)


def test_a_folder_of_another_job_is_refused_not_passed_over(copy):
    before = contents(copy)
    checkpointer = make_checkpointer(copy, job=OTHER_JOB)
    for look in (checkpointer.latest, checkpointer.resume, lambda: checkpointer.load(10)):
        with pytest.raises(CheckpointError, match="found one of job"):
            look()
    with pytest.raises(CheckpointError, match="found one of job"):
        checkpointer.save(make_state(10), wait=True)
    checkpointer.close()
    assert contents(copy) == before


def test_manifests_have_one_form_only():
    manifest = Manifest(
        step=10,
        job_digest=JOB,
        attempt=0,
        created="2026-01-01T00:00:00+00:00",
        version="0.1.0",
        files={"state.json": FileRecord(bytes=1, sha256="0" * 64)},
    )
    path = Path("/run") / STEP / "manifest.json"
    text = render_manifest(manifest)
    assert parse_manifest(text, path) == manifest
    with pytest.raises(CheckpointError, match="does not agree with the digest"):
        parse_manifest(json.dumps(json.loads(text)).encode(), path)
