"""What is converted: a run's checkpoint, a folder of PEFT or Hugging Face, or a sharded folder, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from twintrack.errors import CheckpointError, ModelError, RunFolderError, UserError
from twintrack.events import StepDone, read_events
from twintrack.job.digest import training_digest
from twintrack.job.records import Job
from twintrack.pilot.convert.foreign import read_adapter, read_state_file, read_whole_model
from twintrack.pilot.convert.layouts import (
    SHARDS,
    Geometry,
    OptimizerState,
    check_keys,
    expected_names,
    join,
    read_shards,
    with_groups,
)
from twintrack.pilot.convert.sharded import decode_values
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.manifest import read_manifest
from twintrack.pilot.runs import find_run, split_step
from twintrack.storage import FileSystem
from twintrack.tracks import Settings
from twintrack.training.checkpoint import Status, TrainingState, read_checkpoint, scan
from twintrack.training.model import model_folder
from twintrack.training.weights import read_config

__all__ = ["Source", "SourceKind", "open_source", "state_groups", "whole_state"]

SourceKind = Literal["run", "peft", "hf", "shards"]
_GROUPS = ("weights", "master", "moment1", "moment2")
_NEW_RUN = "give --job JOB, the job that the folder belongs to"


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A state to convert. Tensors are by our names."""

    label: str
    """``TRACK/KIND@STEP``, or the folder's name."""
    kind: SourceKind
    folder: Path
    job: Job
    base: Path
    """Folder of the job file."""
    model: Path
    """Folder of the base model, for every program to load."""
    step: int
    weights: Mapping[str, Tensor]
    """Trained weights as they are used: in the compute type of a run, in the type of a folder's file."""
    optimizer: OptimizerState | None
    """float32 masters and moments; none where a folder has none."""
    values: Mapping[str, Any] | None
    """Everything else of a run's checkpoint; none where a folder comes from elsewhere."""
    rng: Mapping[str, Tensor]
    """Random generators of a run's checkpoint, by ``rng/NAME``."""
    run: TrackRun | None
    recorded_loss: float | None
    """Loss that the run itself recorded for the next step, where it went on."""
    compute: Literal["bf16", "fp32"] | None
    """Compute type of the run."""
    remarks: tuple[str, ...] = ()

    @property
    def is_foreign(self) -> bool:
        """Whether it comes from a folder that another program may have written."""
        return self.kind in ("peft", "hf")


def open_source(
    word: str,
    *,
    job: tuple[Job, Path] | None,
    cache_root: Path,
    fs: FileSystem,
    fresh_optimizer: bool = False,
) -> Source:
    """Read what a word names, and check it against the job's model.

    Args:
        word: ``RUN[@STEP]`` as ``pilot.runs`` reads it, or a folder of PEFT, Hugging Face or shards.
        job: job and folder of its file, for folders that do not say it themselves.
        cache_root: of converted weights.
        fs: file system.
        fresh_optimizer: a folder without optimizer state starts anew at step 0 with its weights.

    Raises:
        UserError: the word names nothing, the source is incomplete, or does not go with the job's model; one line
            names tensor, file or key.
    """
    folder = Path(word)
    if fs.exists(folder / SHARDS):
        return _from_shards(folder, job, cache_root, fs)
    if fs.exists(folder / "adapter_config.json"):
        return _from_folder(folder, "peft", _require_job(folder, job), cache_root, fs, fresh_optimizer)
    if fs.exists(folder / "config.json"):
        return _from_folder(folder, "hf", _require_job(folder, job), cache_root, fs, fresh_optimizer)
    if job is not None:
        raise RunFolderError(
            "a run's own job",
            found="--job beside a run",
            where=word,
            remedy="leave --job away: a run folder has its job",
        )
    return _from_run(word, cache_root, fs)


def state_groups(state: TrainingState) -> dict[str, dict[str, Tensor]]:
    """Tensors of a state by group and name."""
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in state.tensors.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = tensor
    return groups


def whole_state(source: Source) -> TrainingState:
    """The training state that a run's or a sharded source was made from.

    Raises:
        CheckpointError: if the source is no state of ours.
    """
    optimizer = source.optimizer
    if optimizer is None or source.values is None:
        raise CheckpointError(
            "a state with optimizer and values",
            found=f"a source of kind {source.kind}",
            where=source.label,
            remedy="convert from a run",
        )
    groups = {
        "weights": source.weights,
        "master": optimizer.master,
        "moment1": optimizer.moment1,
        "moment2": optimizer.moment2,
    }
    tensors = {f"{group}/{name}": t for group, named in groups.items() for name, t in named.items()}
    return TrainingState(source.step, {**tensors, **source.rng}, source.values)


def _from_run(word: str, cache_root: Path, fs: FileSystem) -> Source:
    name, step = split_step(word)
    run = find_run(name, fs)
    manifest = read_manifest(run.root, fs)
    job, base = manifest.job, Path(manifest.base)
    state, remarks = _read_state(run, step, training_digest(job), fs)
    settings = Settings.of(job, manifest.slot_of(run.track))
    label = f"{run.track}/{run.kind}@{state.step}"
    source = _of_state(state, label, "run", run.checkpoints, job, base, cache_root, fs)
    later = [event for event in read_events(run.events) if isinstance(event, StepDone)]
    recorded = next((event.loss for event in reversed(later) if event.step == state.step + 1), None)
    compute: Literal["bf16", "fp32"] = "fp32" if settings.compute == "fp32" else "bf16"
    return replace(source, run=run, recorded_loss=recorded, compute=compute, remarks=remarks)


def _read_state(
    run: TrackRun, step: int | None, digest: str, fs: FileSystem
) -> tuple[TrainingState, tuple[str, ...]]:
    """The checkpoint of a step, or the newest that is verified; what was passed over is told."""
    entries = scan(fs, run.checkpoints)
    if step is not None:
        if step not in [entry.step for entry in entries]:
            raise _no_checkpoint(run, f"a checkpoint of step {step}", [entry.step for entry in entries])
        return read_checkpoint(fs, run.checkpoints, step, job_digest=digest).state, ()
    remarks: list[str] = []
    for entry in reversed(entries):
        if entry.status is Status.DEBRIS:
            continue
        try:
            state = read_checkpoint(fs, run.checkpoints, entry.step, job_digest=digest).state
        except UserError as error:
            remarks.append(f"passed over the checkpoint of step {entry.step}: {error}")
            continue
        return state, tuple(remarks)
    raise _no_checkpoint(run, "a checkpoint that is whole", [entry.step for entry in entries])


def _no_checkpoint(run: TrackRun, required: str, steps: list[int]) -> CheckpointError:
    return CheckpointError(
        required,
        found=f"steps {', '.join(map(str, steps))}" if steps else "no checkpoint",
        where=str(run.checkpoints),
        remedy="choose one of these; 'twintrack checkpoint verify' says what is wrong with one",
    )


def _of_state(
    state: TrainingState,
    label: str,
    kind: SourceKind,
    folder: Path,
    job: Job,
    base: Path,
    cache_root: Path,
    fs: FileSystem,
) -> Source:
    model = model_folder(job.model, base, cache_root=cache_root, fs=fs)
    expected = expected_names(read_config(model), job.lora)
    groups = state_groups(state)
    for group in _GROUPS:
        dtypes = frozenset(tensor.dtype for tensor in groups.get(group, {}).values())
        check_keys(groups.get(group, {}), expected, where=f"{label}: {group}", dtypes=dtypes)
    ordered = {group: {name: groups[group][name] for name in expected} for group in _GROUPS}
    return Source(
        label=label,
        kind=kind,
        folder=folder,
        job=job,
        base=base,
        model=model,
        step=state.step,
        weights=ordered["weights"],
        optimizer=OptimizerState(state.step, ordered["master"], ordered["moment1"], ordered["moment2"]),
        values=state.values,
        rng={f"rng/{name}": tensor for name, tensor in groups.get("rng", {}).items()},
        run=None,
        recorded_loss=None,
        compute=None,
    )


def _from_shards(folder: Path, job: tuple[Job, Path] | None, cache_root: Path, fs: FileSystem) -> Source:
    checkpoint = read_shards(fs, folder)
    said = decode_values(checkpoint.values, folder)
    chosen, base = job if job is not None else (said.job, Path(said.base))
    if training_digest(chosen) != training_digest(said.job):
        raise CheckpointError(
            "shards of the job that was given",
            found=f"shards of the job '{said.job.name}', which trains otherwise",
            where=str(folder),
            remedy="leave --job away, or give the job that the shards were made with",
        )
    model = model_folder(chosen.model, base, cache_root=cache_root, fs=fs)
    config = read_config(model)
    expected = with_groups(expected_names(config, chosen.lora))
    tensors = join(checkpoint.shards, Geometry.of(config), checkpoint.layout, expected)
    state = TrainingState(said.step, {**tensors, **said.rng}, said.values)
    return _of_state(state, folder.name, "shards", folder, chosen, base, cache_root, fs)


def _from_folder(
    folder: Path,
    kind: Literal["peft", "hf"],
    job: tuple[Job, Path],
    cache_root: Path,
    fs: FileSystem,
    fresh_optimizer: bool,
) -> Source:
    chosen, base = job
    if (chosen.lora is not None) is not (kind == "peft"):
        raise ModelError(
            "an adapter" if chosen.lora is not None else "a whole model",
            found="a whole model" if kind == "hf" else "an adapter",
            where=str(folder),
            remedy="give the job that the folder belongs to",
        )
    model = model_folder(chosen.model, base, cache_root=cache_root, fs=fs)
    config = read_config(model)
    if chosen.lora is not None:
        weights = read_adapter(folder, config, chosen.lora, fs)
    else:
        weights = read_whole_model(folder, config)
    optimizer = read_state_file(folder, expected_names(config, chosen.lora), weights, fs)
    remarks: tuple[str, ...] = ()
    if optimizer is None and fresh_optimizer:
        remarks = ("no optimizer state: training starts at step 0 with these weights and moments of zero",)
    return Source(
        label=folder.resolve().name,
        kind=kind,
        folder=folder,
        job=chosen,
        base=base,
        model=model,
        step=0 if optimizer is None else optimizer.step,
        weights=weights,
        optimizer=optimizer,
        values=None,
        rng={},
        run=None,
        recorded_loss=None,
        compute=None,
        remarks=remarks,
    )


def _require_job(folder: Path, job: tuple[Job, Path] | None) -> tuple[Job, Path]:
    if job is None:
        raise RunFolderError("the job of this folder", found="none", where=str(folder), remedy=_NEW_RUN)
    return job
