"""The process that tries a converted folder out: ``python -m twintrack.pilot.convert.proof REQUEST RESULT``.

It is a process of its own so that nothing is left over from the conversion but the folder, and, of our side's
answers, a file. A PEFT or Hugging Face folder is loaded by ``plain`` alone. Standard output says what it is doing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import safetensors
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from twintrack.errors import TwintrackError
from twintrack.job.digest import training_digest
from twintrack.job.records import Job
from twintrack.pilot.convert.checks import (
    LARGEST_REORDERED,
    check_effect,
    check_logits,
    check_losses,
    check_merge,
    check_optimizer,
    check_position,
    check_recorded,
    check_same_bits,
    check_tensors,
    failed,
)
from twintrack.pilot.convert.foreign import ADAPTER, read_tensors
from twintrack.pilot.convert.layouts import (
    OPTIMIZER,
    Geometry,
    OptimizerState,
    expected_keys,
    expected_names,
    read_shards,
    split,
)
from twintrack.pilot.convert.ours import Ours, hub_name, open_ours
from twintrack.pilot.convert.probe import Answers, Batch, Probe, next_steps, read_answers, read_probe
from twintrack.pilot.convert.records import Check
from twintrack.pilot.convert.sources import open_source, state_groups, whole_state
from twintrack.pilot.folders import TrackRun
from twintrack.storage import LocalFileSystem
from twintrack.tracks.base import COMPUTE_DTYPES
from twintrack.training.checkpoint import TrainingState, read_checkpoint
from twintrack.training.data import prepare
from twintrack.training.weights import read_config, weight_files

__all__ = ["Request", "main", "prove"]

Layouts = Literal["peft", "hf", "run", "shards"]


class Request(BaseModel):
    """What is to be tried."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    layout: Layouts
    folder: Path
    model: Path
    """Folder of the base model."""
    job: Job
    base: Path
    """Folder of the job file."""
    cache_root: Path
    probe: Path
    answers: Path
    """Ours."""
    types: tuple[Literal["bf16", "fp32"], ...]
    """Types that the folder's weights may have."""
    step: int
    optimizer: bool
    """Whether the folder must hold optimizer state, so that a step can be continued."""
    digests: dict[str, str] = {}
    """Of every tensor of the state, for our own layouts."""
    recorded: float | None = None
    """Loss that the run recorded for the next step."""
    recorded_limit: float = 0.0


Say = Callable[[str], None]


class _Checks(BaseModel):
    checks: tuple[Check, ...]


def prove(request: Request, say: Say) -> tuple[Check, ...]:
    """Try a folder out.

    Args:
        request: what is to be tried.
        say: told what is being done.
    """
    probe, ours = read_probe(request.probe), read_answers(request.answers)
    if request.layout in ("peft", "hf"):
        return tuple(_prove_plain(request, probe, ours, say))
    return tuple(_prove_own(request, probe, ours, say))


def _prove_plain(request: Request, probe: Probe, ours: Answers, say: Say) -> list[Check]:
    from twintrack.pilot.convert.plain import load_full, load_peft

    adapter = request.layout == "peft"
    say("reading the tensors")
    checks = _keys_and_shapes(request)
    state: Mapping[str, Mapping[str, Tensor]] | None = None
    if request.optimizer:
        check, state = _optimizer(request)
        checks.append(check)
    say("loading with plain peft" if adapter else "loading with plain transformers")
    try:
        load = load_peft if adapter else load_full
        side = load(request.folder, request.model, probe)
        say("logits and a continued step")
        theirs = side.ask(probe, state)
    except Exception as error:  # noqa: BLE001  (the libraries raise what they like; each is a finding)
        return [*checks, failed("load", f"{type(error).__name__}: {error}")]
    checks.append(Check(name="load", passed=True, found="the libraries' own calls load it"))
    checks += [
        check_logits(ours.logits, theirs.logits),
        check_effect(theirs, adapter=request.job.lora is not None),
    ]
    checks += check_merge(ours, theirs, rounded="fp32" not in request.types)
    if request.optimizer and state is None:
        theirs = Answers(theirs.logits, theirs.base_logits, ())
    return checks + _losses(request, ours, theirs)


def _losses(request: Request, ours: Answers, theirs: Answers) -> list[Check]:
    checks = check_losses(ours, theirs) if ours.losses else []
    if request.recorded is not None:
        checks.append(check_recorded(request.recorded, theirs, request.recorded_limit))
    return checks


def _keys_and_shapes(request: Request) -> list[Check]:
    adapter = request.layout == "peft"
    try:
        files = (request.folder / ADAPTER,) if adapter else weight_files(request.folder)
        tensors: dict[str, Tensor] = {}
        for file in files:
            tensors |= read_tensors(file)
        expected = expected_keys(read_config(request.model), request.job.lora if adapter else None)
    except TwintrackError as error:
        return [failed("keys", str(error))]
    return check_tensors(tensors, expected, frozenset(COMPUTE_DTYPES[name] for name in request.types))


def _optimizer(request: Request) -> tuple[Check, Mapping[str, Mapping[str, Tensor]] | None]:
    """The state as the file has it, by kind and parameter name; none where it cannot be gone on with."""
    state: dict[str, dict[str, Tensor]] = {}
    try:
        with safetensors.safe_open(request.folder / OPTIMIZER, framework="pt") as opened:
            for key in opened.keys():  # noqa: SIM118  (safe_open is no mapping)
                kind, _, name = key.partition(".")
                state.setdefault(kind, {})[name] = opened.get_tensor(key)
            step = int((opened.metadata() or {})["step"])
    except (OSError, safetensors.SafetensorError, KeyError, ValueError) as error:
        return failed("optimizer state", f"{type(error).__name__}: {error}"), None
    expected = expected_names(read_config(request.model), request.job.lora)
    check = check_optimizer(state, step, expected, request.step)
    return check, state if check.passed else None


def _prove_own(request: Request, probe: Probe, ours: Answers, say: Say) -> list[Check]:
    fs = LocalFileSystem()
    say("reading the state back")
    try:
        state = _read_own(request, fs)
    except TwintrackError as error:
        return [failed("state", str(error))]
    checks = [check_same_bits(request.digests, state.tensors)]
    groups = state_groups(state)
    say("loading the model")
    side = open_ours(
        request.job,
        request.base,
        cache_root=request.cache_root,
        fs=fs,
        progress=lambda text, _share: say(text),
    )
    say("preparing the next batches")
    checks.append(check_position(probe, _own_steps(request, state, side)))
    say("logits and a continued step")
    optimizer = OptimizerState(state.step, groups["master"], groups["moment1"], groups["moment2"])
    theirs = side.ask(probe, optimizer.master, optimizer)
    checks += [
        check_logits(ours.logits, theirs.logits),
        check_effect(theirs, adapter=request.job.lora is not None),
    ]
    if request.layout == "shards":
        say("running the shards as devices would")
        checks += _run_shards(request, probe, ours, side, fs)
    return checks + _losses(request, ours, theirs)


def _run_shards(
    request: Request, probe: Probe, ours: Answers, side: Ours, fs: LocalFileSystem
) -> list[Check]:
    """``shards run``: each device of the plan computes from its own shard, in the layout's rotary order."""
    from twintrack.pilot.convert.sharded_forward import ShardedModel

    read, config = read_shards(fs, request.folder), read_config(request.model)
    if read.layout.fused_qkv != "none" or read.layout.fused_gate_up:
        return [failed("shards run", "fused modules, which this version cannot run as devices would")]
    parts = [read.shards]
    if request.job.lora is not None:
        named = {hub_name(name): tensor for name, tensor in side.frozen.items()}
        base = {key: named[key] for key in expected_keys(config, None)}
        parts.append(split(base, Geometry.of(config), read.layout))
    model = ShardedModel(parts, read.layout, config, request.job.lora)
    return [check_logits(ours.logits, model.logits(probe.fixed), "shards run", LARGEST_REORDERED)]


def _own_steps(request: Request, state: TrainingState, side: Ours) -> tuple[tuple[Batch, ...], ...]:
    """What a run that goes on from the state would see next."""
    job, loaded = request.job, side.loaded
    data = prepare(job.data, request.base, loaded.tokenizer, seed=job.seed, pad_id=loaded.pad_id)
    try:
        return next_steps(job, data, state.values["sampler"])
    except (TwintrackError, LookupError, TypeError):
        return ()


def _read_own(request: Request, fs: LocalFileSystem) -> TrainingState:
    if request.layout == "run":
        run = TrackRun(request.folder, request.job.tracks[0].use[0], "reference")
        digest = training_digest(request.job)
        return read_checkpoint(fs, run.checkpoints, request.step, job_digest=digest).state
    source = open_source(str(request.folder), job=None, cache_root=request.cache_root, fs=fs)
    return whole_state(source)


def main(arguments: list[str]) -> int:
    """Read the request, write the result; errors made on purpose are one line and an exit code."""
    request_path, result_path = map(Path, arguments)
    try:
        request = Request.model_validate_json(request_path.read_bytes())
        checks = prove(request, lambda text: print(text, flush=True))
    except TwintrackError as error:
        print(f"{error}", file=sys.stderr)
        return error.exit_code
    values = _Checks(checks=checks).model_dump(mode="json")
    result_path.write_text(json.dumps(values, allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
