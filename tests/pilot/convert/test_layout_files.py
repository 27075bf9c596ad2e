"""Sharded checkpoints on disk: whole or refused, whatever was done to them."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_cases import LORA, config_of, random_tensors
from safetensors.torch import load_file

from twintrack.errors import CheckpointError, StorageError
from twintrack.pilot.convert.layouts import (
    SHARDS,
    Geometry,
    Layout,
    expected_names,
    join,
    read_shards,
    same_bits,
    split,
    with_groups,
    write_shards,
)
from twintrack.storage import FullFileSystem, LocalFileSystem

CONFIG = config_of(heads=4, kv_heads=2)
LAYOUT = Layout(tensor=4, pipeline=2, pad_to=8)
EXPECTED = with_groups(expected_names(CONFIG, LORA))
FS = LocalFileSystem()


def _write(folder):
    tensors = random_tensors(EXPECTED)
    tensors = {n: t.bfloat16() if n.startswith("weights/") else t for n, t in tensors.items()}
    shards = split(tensors, Geometry.of(CONFIG), LAYOUT)
    return tensors, write_shards(FS, folder, LAYOUT, shards, {"step": 12})


def test_a_training_state_comes_back_from_disk_to_the_bit(tmp_path):
    tensors, files = _write(tmp_path / "shards")

    assert [path.name for path in files] == [
        *(f"tp-{rank:02d}-pp-{stage:02d}.safetensors" for stage in range(2) for rank in range(4)),
        SHARDS,
    ]
    read = read_shards(FS, tmp_path / "shards")
    whole = join(read.shards, Geometry.of(CONFIG), read.layout, EXPECTED)
    assert (read.layout, read.values) == (LAYOUT, {"step": 12})
    assert all(same_bits(whole[name], tensors[name]) for name in EXPECTED)
    theirs = load_file(files[0])  # what safetensors itself reads
    assert all(torch.equal(theirs[name], tensor) for name, tensor in next(iter(read.shards.values())).items())


def test_the_same_state_gives_the_same_bytes(tmp_path):
    _write(tmp_path / "a")
    _write(tmp_path / "b")

    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def _altered(folder):
    path = folder / "tp-01-pp-00.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _document(folder, **changes):
    document = json.loads((folder / SHARDS).read_text()) | changes
    (folder / SHARDS).write_text(json.dumps(document))


SPOILS = {
    "one bit": (_altered, "tp-01-pp-00.*SHA-256"),
    "a file cut short": (
        lambda f: (f / "tp-00-pp-00.safetensors").write_bytes(b"12345678"),
        "tp-00-pp-00.*SHA-256",
    ),
    "a file is missing": (lambda f: (f / "tp-03-pp-01.safetensors").unlink(), "found no tp-03-pp-01"),
    "a file of another checkpoint": (
        lambda f: (f / "tp-04-pp-00.safetensors").write_bytes(b""),
        "found also tp-04-pp-00",
    ),
    "the marker is missing": (lambda f: (f / SHARDS).unlink(), "written last, found none"),
    "the marker is cut short": (lambda f: (f / SHARDS).write_text('{"format": 1,'), "JSON"),
    "the marker is nested without end": (lambda f: (f / SHARDS).write_text("[" * 100_000), "required"),
    "another format": (lambda f: _document(f, format=2), "format"),
    "another layout": (lambda f: _document(f, layout={"tensor": 2, "pipeline": 2}), "found also tp-02-pp-00"),
    "an unknown layout": (lambda f: _document(f, layout={"expert": 2}), "layout.expert"),
    "a file outside": (lambda f: _document(f, files={"../x.safetensors": "0"}), "8 shards of the layout"),
    "a list": (lambda f: (f / SHARDS).write_text("[1]"), "a layout of this version"),
}


@pytest.mark.parametrize("spoil", SPOILS, ids=str)
def test_a_damaged_checkpoint_is_refused(tmp_path, spoil):
    _write(tmp_path)
    change, said = SPOILS[spoil]
    change(tmp_path)

    with pytest.raises(CheckpointError, match=said):
        read_shards(FS, tmp_path)


def test_a_full_disk_leaves_no_marker_not_even_an_old_one(tmp_path):
    _write(tmp_path)
    shards = split(random_tensors(EXPECTED, 1), Geometry.of(CONFIG), LAYOUT)

    with pytest.raises(StorageError, match="space"):
        write_shards(FullFileSystem(FS, free_bytes=20_000), tmp_path, LAYOUT, shards)

    assert not (tmp_path / SHARDS).exists()
    with pytest.raises(CheckpointError, match="written last"):
        read_shards(FS, tmp_path)


def test_shards_of_another_layout_are_not_written(tmp_path):
    shards = split(random_tensors(EXPECTED), Geometry.of(CONFIG), LAYOUT)
    with pytest.raises(ValueError, match="4 shards of the layout are required, found 8"):
        write_shards(FS, tmp_path, Layout(tensor=4), shards)
    assert not list(tmp_path.iterdir())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda x: (
        st.lists(x)
        | st.dictionaries(st.sampled_from(["format", "layout", "files", "values", "tensor", "pipeline"]), x)
    ),
)


@settings(max_examples=60)
@given(content=st.binary(max_size=40) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_no_marker_whatever_it_holds_ends_in_anything_but_a_refusal(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / SHARDS).write_bytes(content)

    with pytest.raises(CheckpointError):
        read_shards(FS, folder)
