"""What is written where: whole or absent, nothing overwritten, records kept, shards and runs to go on with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from convert_cases import Kept, convert_here, failed_names, job_of
from safetensors.torch import load_file

from small_pilot import make_run, world, write_inputs
from tiny_llama import write_tiny_model
from twintrack.errors import (
    CheckpointError,
    JobError,
    ModelError,
    RunFolderError,
    StorageError,
    TrackError,
    UserError,
)
from twintrack.job.records import Job
from twintrack.pilot.convert import proof as proof_module
from twintrack.pilot.convert.layouts import Layout, Shard, ShardedCheckpoint, permute_rows
from twintrack.pilot.convert.records import PROOF, Proof
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.manifest import read_manifest
from twintrack.pilot.worker import run_leg
from twintrack.storage import FullFileSystem, LocalFileSystem, digest_file
from twintrack.training.checkpoint import read_checkpoint

FS = LocalFileSystem()


def one_track(**changes: Any) -> Job:
    return job_of("lora", tracks=[{"use": ["cpu"], "compute": "fp32"}], **changes)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, inputs: Path, cache: Path) -> TrackRun:
    made = make_run(tmp_path_factory.mktemp("run"), inputs, one_track(), "cpu")
    run_leg(made, world(cache))
    return made


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, run: TrackRun, cache: Path) -> Kept:
    root = tmp_path_factory.mktemp("adapter")
    return convert_here(cache, root / "keep", f"{run.root}@4", "peft", root / "peft")


def test_the_proof_stands_in_the_folder_and_beside_the_run(adapter: Kept, run: TrackRun) -> None:
    proof = adapter.conversion.proof

    assert proof.passed
    assert (proof.source, proof.step, proof.to) == ("cpu/reference@4", 4, "peft")
    assert Proof.model_validate_json((adapter.out / PROOF).read_bytes()) == proof
    record = run.folder / "conversions" / "4-peft.json"
    assert adapter.conversion.record == record
    assert Proof.model_validate_json(record.read_bytes()) == proof
    files = {path.name for path in adapter.out.iterdir()} - {PROOF}
    assert set(proof.files) == files
    assert all(digest_file(adapter.out / name) == digest for name, digest in proof.files.items())


def test_without_a_step_the_newest_whole_checkpoint_is_taken(
    run: TrackRun, cache: Path, tmp_path: Path
) -> None:
    made = convert_here(cache, tmp_path / "k", str(run.folder), "hf", tmp_path / "out")

    assert made.conversion.proof.step == 6
    state = read_checkpoint(FS, run.checkpoints, 6).state
    name = "model.layers.1.self_attn.q_proj"
    a, b = (state.tensors[f"master/base_model.model.{name}.lora_{x}.default.weight"] for x in "AB")
    base = load_file(Path(read_manifest(run.root, FS).base) / "model" / "model.safetensors")
    merged = load_file(tmp_path / "out" / "model.safetensors")
    torch.testing.assert_close(merged[f"{name}.weight"], base[f"{name}.weight"] + 32.0 / 4 * b @ a)
    assert torch.equal(merged["lm_head.weight"], base["lm_head.weight"])


def test_a_damaged_newest_checkpoint_is_passed_over_aloud(inputs: Path, cache: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", inputs, one_track(), "cpu")
    run_leg(run, world(cache))
    (run.checkpoints / "step-00000006" / "master-00001.safetensors").write_bytes(b"no")

    made = convert_here(cache, tmp_path / "k", str(run.folder), "peft", tmp_path / "out")

    assert made.conversion.proof.step == 4
    assert any("passed over the checkpoint of step 6" in remark for remark in made.conversion.remarks)
    with pytest.raises(CheckpointError):
        convert_here(cache, tmp_path / "k", f"{run.folder}@6", "peft", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_nothing_is_overwritten(adapter: Kept, run: TrackRun, cache: Path, tmp_path: Path) -> None:
    before = (adapter.out / PROOF).read_bytes()
    (tmp_path / "file").write_text("mine")

    for out in (adapter.out, tmp_path / "file"):
        with pytest.raises(StorageError, match="new or empty"):
            convert_here(cache, tmp_path / "k", f"{run.root}@4", "peft", out)

    assert (adapter.out / PROOF).read_bytes() == before
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert convert_here(
        cache, tmp_path / "k", f"{run.root}@4", "peft", tmp_path / "empty"
    ).conversion.proof.passed


@pytest.mark.parametrize("space", [0, 2_000, 30_000, 60_000])
def test_a_full_disk_leaves_nothing_behind(space: int, run: TrackRun, cache: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="space"):
        convert_here(
            cache,
            tmp_path / "k",
            f"{run.root}@4",
            "peft",
            tmp_path / "place" / "out",
            fs=FullFileSystem(LocalFileSystem(), free_bytes=space),
        )

    assert not (tmp_path / "place").exists() or not list((tmp_path / "place").iterdir())


def test_what_fails_its_proof_says_so_itself(
    run: TrackRun, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the adapter's B is lost on the way; the folder stays, marked."""
    from twintrack.pilot.convert import convert as module

    original = module.write_adapter

    def lossy(ours, source, weights, folder, fs):
        spoiled = {n: torch.zeros_like(t) if ".lora_B." in n else t for n, t in weights.items()}
        original(ours, source, spoiled, folder, fs)

    monkeypatch.setattr(module, "write_adapter", lossy)
    made = convert_here(cache, tmp_path / "k", f"{run.root}@4", "peft", tmp_path / "out")

    assert not made.conversion.proof.passed
    assert {"adapter effect", "logits"} <= failed_names({c.name: c for c in made.conversion.proof.checks})
    assert not Proof.model_validate_json((tmp_path / "out" / PROOF).read_bytes()).passed


def test_a_run_that_cannot_be_written_to_costs_a_remark_only(
    run: TrackRun, cache: Path, tmp_path: Path
) -> None:
    class NoConversions(LocalFileSystem):
        def make_folder(self, path: Path) -> None:
            if path.name == "conversions":
                raise OSError(30, "Read-only file system", str(path))
            super().make_folder(path)

    made = convert_here(cache, tmp_path / "k", f"{run.root}@2", "peft", tmp_path / "out", fs=NoConversions())

    assert made.conversion.record is None
    assert made.conversion.proof.passed
    assert any("no copy of the proof" in remark for remark in made.conversion.remarks)


def test_dropout_is_off_on_both_sides_and_that_is_said(inputs: Path, cache: Path, tmp_path: Path) -> None:
    job = one_track(lora={"targets": ["q_proj", "down_proj"], "rank": 4, "dropout": 0.3})
    run = make_run(tmp_path / "run", inputs, job, "cpu")
    run_leg(run, world(cache))

    made = convert_here(cache, tmp_path / "k", f"{run.root}@4", "peft", tmp_path / "out")

    assert made.conversion.proof.passed, made.conversion.proof.checks
    assert any("drops 0.3" in remark for remark in made.conversion.remarks)


def test_a_merge_at_another_scale_is_caught_though_the_folder_holds_what_was_merged(
    run: TrackRun, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twintrack.pilot.convert import plan as module

    original = module.merged_weights

    def doubled(ours, weights, dtype):
        return original(ours, {n: t * 2 if ".lora_B." in n else t for n, t in weights.items()}, dtype)

    monkeypatch.setattr(module, "merged_weights", doubled)
    for dtype in ("fp32", "bf16"):
        made = convert_here(
            cache, tmp_path / dtype, f"{run.root}@4", "hf", tmp_path / f"{dtype}-out", dtype=dtype
        )
        assert failed_names({c.name: c for c in made.conversion.proof.checks}) >= {"merge"}


def test_rounded_weights_are_the_masters_rounded_and_are_proven(
    run: TrackRun, cache: Path, tmp_path: Path
) -> None:
    for to in ("peft", "hf"):
        made = convert_here(cache, tmp_path / to, f"{run.root}@4", to, tmp_path / f"{to}-out", dtype="bf16")
        assert made.conversion.proof.passed, made.conversion.proof.checks
    tensors = load_file(tmp_path / "peft-out" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    config = json.loads((tmp_path / "hf-out" / "config.json").read_text())
    assert config["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    "layout",
    [
        Layout(tensor=2, pipeline=2, rotary="interleaved", pad_to=100),
        Layout(tensor=4, pipeline=1),
        Layout(tensor=1, pipeline=2, rotary="interleaved"),
    ],
    ids=["2x2 interleaved padded", "more ranks than KV heads", "stages only"],
)
def test_shards_come_back_as_the_state_they_were(
    layout: Layout, run: TrackRun, cache: Path, tmp_path: Path
) -> None:
    made = convert_here(
        cache, tmp_path / "k", f"{run.root}@4", "twintrack", tmp_path / "shards", layout=layout
    )
    back = convert_here(cache, tmp_path / "k2", str(tmp_path / "shards"), "twintrack", tmp_path / "home")

    assert made.conversion.proof.passed, made.conversion.proof.checks
    assert "shards run" in {check.name for check in made.conversion.proof.checks}
    assert back.conversion.proof.passed, back.conversion.proof.checks
    one = read_checkpoint(FS, run.checkpoints, 4).state
    other = read_checkpoint(FS, TrackRun(tmp_path / "home", "cpu", "reference").checkpoints, 4).state
    assert list(one.tensors) == list(other.tensors)
    assert all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())
    assert one.values == other.values


@pytest.mark.parametrize("what", ["rotary rows", "ranks in another order"])
def test_shards_that_join_to_the_right_state_and_run_to_a_wrong_one_are_caught(
    what: str, run: TrackRun, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two mistakes that undo each other leave the joined state right; what devices compute from shards is not."""
    layout = Layout(tensor=2, pipeline=1, rotary="interleaved")
    made = convert_here(
        cache, tmp_path / "k", f"{run.root}@4", "twintrack", tmp_path / "shards", layout=layout
    )
    original = proof_module.read_shards

    def spoiled(*arguments: Any) -> Any:
        read = original(*arguments)
        shards = {shard: dict(tensors) for shard, tensors in read.shards.items()}
        if what == "rotary rows":
            for tensors in shards.values():
                for name, tensor in tensors.items():
                    if "q_proj.lora_B" in name:
                        tensors[name] = permute_rows(tensor, 2, "half_split")
        else:
            shards[Shard(0, 0)], shards[Shard(1, 0)] = shards[Shard(1, 0)], shards[Shard(0, 0)]
        return ShardedCheckpoint(read.layout, shards, read.values)

    monkeypatch.setattr(proof_module, "read_shards", spoiled)

    assert failed_names(made.prove(tmp_path / "shards")) == {"shards run"}


def test_a_run_folder_goes_on_to_the_end_of_the_run_that_it_came_from(
    run: TrackRun, cache: Path, tmp_path: Path
) -> None:
    convert_here(cache, tmp_path / "k", f"{run.root}@4", "twintrack", tmp_path / "out")
    home = TrackRun(tmp_path / "out", "cpu", "reference")
    run_leg(home, world(cache))

    one, other = (read_checkpoint(FS, place.checkpoints, 6).state for place in (run, home))
    assert all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())


@pytest.mark.slow
def test_a_whole_tied_model_goes_to_the_hub_and_to_shards_and_comes_back(tmp_path: Path, cache: Path) -> None:
    """Its head stands in the files once, its true vocabulary is that of the base, its state is the same to the bit."""
    write_inputs(tmp_path)
    write_tiny_model(tmp_path / "model", tied=True)
    job = job_of("full", tracks=[{"use": ["cpu"], "compute": "fp32"}])
    run = make_run(tmp_path / "run", tmp_path, job, "cpu")
    run_leg(run, world(cache))
    layout = Layout(tensor=2, pipeline=2, rotary="interleaved", pad_to=100)
    word, ways = f"{run.root}@4", {"hub": ("hf", {}), "shards": ("twintrack", {"layout": layout})}

    for name, (to, wish) in ways.items():
        there = convert_here(cache, tmp_path / f"k-{name}", word, to, tmp_path / name, **wish)
        back = convert_here(
            cache,
            tmp_path / f"b-{name}",
            str(tmp_path / name),
            "twintrack",
            tmp_path / f"{name}-home",
            job=(job, tmp_path),
            track="cpu",
        )
        assert there.conversion.proof.passed, there.conversion.proof.checks
        assert back.conversion.proof.passed, back.conversion.proof.checks
        home = TrackRun(tmp_path / f"{name}-home", "cpu", "reference")
        one, other = (read_checkpoint(FS, place.checkpoints, 4).state for place in (run, home))
        assert all(torch.equal(t, other.tensors[n]) for n, t in one.tensors.items() if "rng" not in n)

    assert "lm_head.weight" not in load_file(tmp_path / "hub" / "model.safetensors")


def test_a_final_adapter_begins_anew_only_if_asked(
    run: TrackRun, inputs: Path, cache: Path, tmp_path: Path
) -> None:
    wish = {"job": (one_track(), inputs), "track": "cpu"}
    with pytest.raises(CheckpointError, match="--fresh-optimizer"):
        convert_here(cache, tmp_path / "k", str(run.final), "twintrack", tmp_path / "out", **wish)
    assert not (tmp_path / "out").exists()

    made = convert_here(
        cache, tmp_path / "k", str(run.final), "twintrack", tmp_path / "out", fresh_optimizer=True, **wish
    )

    assert made.conversion.proof.passed, made.conversion.proof.checks
    assert made.conversion.proof.step == 0
    assert any("step 0" in remark for remark in made.conversion.remarks)


def test_mistakes_of_the_caller_are_one_line(
    adapter: Kept, run: TrackRun, inputs: Path, cache: Path, tmp_path: Path
) -> None:
    short = one_track(stop={"steps": 3})
    cases: list[tuple[type[UserError], str, dict]] = [
        (RunFolderError, str(tmp_path / "none"), {"to": "peft"}),
        (RunFolderError, f"{run.root}@x", {"to": "peft"}),
        (CheckpointError, f"{run.root}@5", {"to": "peft"}),
        (RunFolderError, str(adapter.out), {"to": "hf"}),
        (JobError, str(adapter.out), {"to": "twintrack", "job": (short, inputs)}),
        (TrackError, str(adapter.out), {"to": "twintrack", "job": (one_track(), inputs), "track": "cuda"}),
        (RunFolderError, f"{run.root}@4", {"to": "peft", "job": (one_track(), inputs)}),
        (ModelError, f"{run.root}@4", {"to": "twintrack", "layout": Layout(tensor=3)}),
    ]
    for kind, source, wish in cases:
        with pytest.raises(kind) as caught:
            convert_here(cache, tmp_path / "k", source, out=tmp_path / "out", **wish)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "out").exists()
    assert [name for name in os.listdir(tmp_path) if name.startswith(".out")] == []


def test_a_state_that_would_see_other_batches_next_is_caught(
    run: TrackRun, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = convert_here(cache, tmp_path / "k", f"{run.root}@4", "twintrack", tmp_path / "out")
    original = proof_module.read_checkpoint

    def shifted(*arguments, **named):
        loaded = original(*arguments, **named)
        sampler = loaded.state.values["sampler"]
        sampler["position"] = (sampler["position"] + 1) % sampler["num_rows"]
        return loaded

    monkeypatch.setattr(proof_module, "read_checkpoint", shifted)

    assert failed_names(made.prove(tmp_path / "out")) == {"data position"}
