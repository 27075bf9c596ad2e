"""Folders spoiled in every way that we know of: the right check fails, and none that should not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors
import torch
from convert_cases import Kept, convert_here, failed_names, job_of
from safetensors.torch import load_file, save_file
from torch import Tensor

from small_pilot import make_run, world, write_inputs
from twintrack.errors import CheckpointError, ModelError, UserError
from twintrack.pilot.convert.layouts import permute_rows
from twintrack.pilot.convert.sources import open_source
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.worker import run_leg
from twintrack.storage import LocalFileSystem

FS = LocalFileSystem()
ADAPTER, WHOLE, OPTIMIZER = "adapter_model.safetensors", "model.safetensors", "optimizer.safetensors"
Spoil = Callable[[Path], None]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, inputs: Path, cache: Path) -> dict[str, TrackRun]:
    """A run with adapters and one of the whole model, both of six steps on the processor."""
    found = {}
    for kind in ("lora", "full"):
        found[kind] = make_run(tmp_path_factory.mktemp(kind), inputs, job_of(kind), "cpu")
        run_leg(found[kind], world(cache))
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, runs: dict[str, TrackRun], cache: Path) -> dict[str, Kept]:
    """Each run converted for others, proven."""
    root = tmp_path_factory.mktemp("kept")
    found = {
        to: convert_here(cache, root / f"keep-{to}", f"{runs[kind].root}:cpu@4", to, root / to)
        for kind, to in (("lora", "peft"), ("full", "hf"))
    }
    assert all(kept.conversion.proof.passed for kept in found.values())
    return found


def rewrite(change: Callable[[dict[str, Tensor]], dict[str, Tensor]], file: str) -> Spoil:
    """Change the tensors of a file; its metadata stays."""

    def spoil(folder: Path) -> None:
        with safetensors.safe_open(folder / file, framework="pt") as opened:
            metadata = opened.metadata()
        changed = {name: tensor.contiguous() for name, tensor in change(load_file(folder / file)).items()}
        save_file(changed, folder / file, metadata=metadata)

    return spoil


def renamed(old: str, new: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda tensors: {name.replace(old, new): tensor for name, tensor in tensors.items()}


def of_rows(ending: str, change: Callable[[Tensor], Tensor]) -> Callable[[dict], dict]:
    return lambda tensors: {n: change(t) if n.endswith(ending) else t for n, t in tensors.items()}


def without(ending: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    def drop(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        gone = next(name for name in tensors if name.endswith(ending))
        return {name: tensor for name, tensor in tensors.items() if name != gone}

    return drop


def swapped_heads(tensor: Tensor) -> Tensor:
    """The two KV heads, 16 rows each, in each other's place."""
    return torch.cat([tensor[16:], tensor[:16]])


def padded(folder: Path) -> None:
    """Eight rows of padding left in embedding and head; config.json agrees with them."""
    rewrite(
        lambda tensors: {
            name: torch.cat([t, torch.zeros(8, 64)]) if t.shape[0] == 512 else t
            for name, t in tensors.items()
        },
        WHOLE,
    )(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 520}))


def other_alpha(folder: Path) -> None:
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 64.0}))


def other_step(folder: Path) -> None:
    with safetensors.safe_open(folder / OPTIMIZER, framework="pt") as opened:
        metadata = opened.metadata()
    save_file(load_file(folder / OPTIMIZER), folder / OPTIMIZER, metadata=metadata | {"step": "3"})


def zeros(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n: torch.zeros_like(t) if n.startswith("exp_avg") else t for n, t in tensors.items()}


SPOILED: dict[str, tuple[str, Spoil, set[str]]] = {
    "wrong prefix": ("peft", rewrite(renamed("base_model.model.", "model."), ADAPTER), {"keys"}),
    "extra level": ("peft", rewrite(renamed(".lora_A.", ".lora_A.default."), ADAPTER), {"keys"}),
    "missing level": ("peft", rewrite(renamed("model.model.", "model."), ADAPTER), {"keys"}),
    "missing tensor": ("peft", rewrite(without("lora_B.weight"), ADAPTER), {"keys", "load"}),
    "zero-sized tensor": ("peft", rewrite(of_rows("lora_B.weight", lambda t: t[:0]), ADAPTER), {"shapes"}),
    "another type": ("peft", rewrite(lambda ts: {n: t.half() for n, t in ts.items()}, ADAPTER), {"shapes"}),
    "B is zero": (
        "peft",
        rewrite(of_rows("lora_B.weight", torch.zeros_like), ADAPTER),
        {"adapter effect", "logits"},
    ),
    "another alpha": ("peft", other_alpha, {"logits", "continued step"}),
    "rotary rows of an adapter": (
        "peft",
        rewrite(of_rows("q_proj.lora_B.weight", lambda t: permute_rows(t, 4, "interleaved")), ADAPTER),
        {"logits"},
    ),
    "a moment missing": (
        "peft",
        rewrite(without("lora_A.default.weight"), OPTIMIZER),
        {"optimizer state", "continued step", "step after"},
    ),
    "no optimizer state": (
        "peft",
        lambda folder: (folder / OPTIMIZER).unlink(),
        {"optimizer state", "continued step", "step after"},
    ),
    "moments of zero": ("peft", rewrite(zeros, OPTIMIZER), {"step after"}),
    "another step": ("peft", other_step, {"optimizer state"}),
    "rotary rows of a model": (
        "hf",
        rewrite(
            lambda ts: of_rows("k_proj.weight", lambda t: permute_rows(t, 2, "interleaved"))(
                of_rows("q_proj.weight", lambda t: permute_rows(t, 4, "interleaved"))(ts)
            ),
            WHOLE,
        ),
        {"logits"},
    ),
    "swapped key heads": ("hf", rewrite(of_rows("k_proj.weight", swapped_heads), WHOLE), {"logits"}),
    "swapped value heads": ("hf", rewrite(of_rows("v_proj.weight", swapped_heads), WHOLE), {"logits"}),
    "padding left in": ("hf", padded, {"shapes"}),
    "a missing layer norm": ("hf", rewrite(without("input_layernorm.weight"), WHOLE), {"keys"}),
    "no weights": ("hf", lambda folder: (folder / WHOLE).unlink(), {"keys", "load"}),
    "a truncated file": (
        "hf",
        lambda folder: (folder / WHOLE).write_bytes((folder / WHOLE).read_bytes()[:5000]),
        {"keys", "load"},
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_folder_fails_the_check_that_names_what_is_wrong(
    name: str, kept: dict[str, Kept], tmp_path: Path
) -> None:
    to, spoil, expected = SPOILED[name]
    shutil.copytree(kept[to].out, tmp_path / "spoiled")
    spoil(tmp_path / "spoiled")

    checks = kept[to].prove(tmp_path / "spoiled")

    assert expected <= failed_names(checks), {n: c.found for n, c in checks.items() if not c.passed}
    for check in checks.values():
        assert check.found


def test_an_untouched_folder_passes_every_check(kept: dict[str, Kept]) -> None:
    for to, trained in (("peft", "adapter effect"), ("hf", "training effect")):
        checks = kept[to].prove(kept[to].out)
        assert not failed_names(checks)
        assert set(checks) == {
            "keys",
            "shapes",
            "optimizer state",
            "load",
            "logits",
            trained,
            "continued step",
            "step after",
            "recorded step",
        }


def test_keys_say_which_and_what_was_meant(kept: dict[str, Kept], tmp_path: Path) -> None:
    shutil.copytree(kept["peft"].out, tmp_path / "spoiled")
    rewrite(renamed(".lora_A.", ".lora_A.default."), ADAPTER)(tmp_path / "spoiled")

    check = kept["peft"].prove(tmp_path / "spoiled")["keys"]

    assert "lora_A.default.weight" in check.found
    assert "did you mean base_model.model.model.layers.0." in check.found


REFUSED: dict[str, tuple[str, Spoil, str]] = {
    "wrong prefix": ("peft", SPOILED["wrong prefix"][1], "lora_A"),
    "extra level": ("peft", SPOILED["extra level"][1], "lora_A.default"),
    "zero-sized tensor": ("peft", SPOILED["zero-sized tensor"][1], "lora_B"),
    "another alpha": ("peft", other_alpha, "lora_alpha = 32"),
    "a moment missing": ("peft", SPOILED["a moment missing"][1], "lora_A.default.weight"),
    "weights without their optimizer": (
        "peft",
        rewrite(of_rows("lora_B.weight", lambda t: t * 1.5), ADAPTER),
        "master weights of the folder's own",
    ),
    "padding left in": ("hf", padded, "embed_tokens"),
    "a truncated file": ("hf", SPOILED["a truncated file"][1], "safetensors"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_spoiled_source_is_refused_in_one_line_that_names_it(
    name: str, kept: dict[str, Kept], tmp_path: Path, inputs: Path, cache: Path
) -> None:
    to, spoil, said = REFUSED[name]
    shutil.copytree(kept[to].out, tmp_path / "spoiled")
    spoil(tmp_path / "spoiled")
    job = job_of("lora" if to == "peft" else "full")

    with pytest.raises((ModelError, CheckpointError)) as caught:
        open_source(str(tmp_path / "spoiled"), job=(job, inputs), cache_root=cache, fs=FS)

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_source_of_another_job_is_refused(kept: dict[str, Kept], inputs: Path, cache: Path) -> None:
    others = job_of("lora", lora={"targets": ["v_proj"], "rank": 4}), job_of("full"), None
    for job in others:
        with pytest.raises(UserError):
            open_source(str(kept["peft"].out), job=job and (job, inputs), cache_root=cache, fs=FS)
