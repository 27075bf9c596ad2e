"""From a state to a folder for others, and to the proof that they can use it.

The folder is built beside its place under a name that says so, tried out in another process, marked by ``proof.json``
and then renamed: it is whole or absent, and what failed its proof says that itself.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import twintrack
from twintrack.clock import Clock
from twintrack.errors import StorageError
from twintrack.job.digest import job_digest
from twintrack.pilot.convert.checks import tensor_digests
from twintrack.pilot.convert.layouts import Geometry
from twintrack.pilot.convert.plan import Notes, Plan, Wish, make_plan
from twintrack.pilot.convert.probe import Answers, write_answers, write_probe
from twintrack.pilot.convert.proof import Request
from twintrack.pilot.convert.records import PROOF, Check, Proof
from twintrack.pilot.convert.sources import Source, open_source
from twintrack.pilot.convert.targets import (
    write_adapter,
    write_run,
    write_sharded,
    write_whole_model,
)
from twintrack.pilot.convert.trial import try_out
from twintrack.pilot.watch import Stage
from twintrack.storage import FileSystem, digest_file, storage_errors, write_json_atomic
from twintrack.tracks.base import COMPUTE_DTYPES

__all__ = ["STAGES", "Conversion", "World", "convert"]

STAGES = 7
"""Steps that the display counts."""
_EXACT_LIMIT = 1e-4
"""Relative difference from a recorded loss that another program's float32 may have; bf16 has the job's tolerance."""


@dataclass(frozen=True, slots=True)
class World:
    """What a conversion uses of the world around it."""

    cache_root: Path
    fs: FileSystem
    clock: Clock
    stage: Stage
    trial: Callable[[Request, Path, Callable[[str], None]], tuple[Check, ...]] = try_out
    """Tries a folder out: in a process of its own, unless a test has another way."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What came of it."""

    proof: Proof
    remarks: tuple[str, ...]
    record: Path | None
    """Copy of the proof in the run's folder; none where there is no run, or it cannot be written."""


def convert(wish: Wish, world: World) -> Conversion:
    """Convert and prove.

    Raises:
        UserError: if OUT is in use, the source cannot be read or does not go with its job, or a file system refuses;
            nothing is left behind.
        RunFailed: if the process that tries the folder out died.
    """
    note = Notes(world.stage)
    _require_free(wish.out, world.fs)
    note("reading the source")
    source = open_source(
        wish.source,
        job=wish.job,
        cache_root=world.cache_root,
        fs=world.fs,
        fresh_optimizer=wish.fresh_optimizer,
    )
    plan = make_plan(wish, source, world.cache_root, world.fs, note)
    partial = wish.out.with_name(f".{wish.out.name}.{os.getpid()}.partial")
    try:
        note("writing")
        _write(plan, partial, world)
        files = _digests(partial, world.fs)
        checks = _prove(plan, partial, world, note)
        proof = Proof(
            version=twintrack.__version__,
            job_digest=job_digest(source.job),
            source=source.label,
            step=source.step,
            to=wish.to,
            files=files,
            checks=checks,
        )
        write_json_atomic(world.fs, partial / PROOF, proof.model_dump(mode="json"))
        _publish(partial, wish.out, world.fs)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is told; what stays is debris by its name
            world.fs.remove(partial)
        raise
    record, remarks = _record(source, proof, world.fs)
    return Conversion(proof, (*source.remarks, *_dropout(source), *remarks), record)


def _require_free(out: Path, fs: FileSystem) -> None:
    with storage_errors(out, "look at the folder"):
        taken = fs.exists(out) and (not out.is_dir() or bool(fs.list(out)))
        fs.make_folder(out.parent)
    if taken:
        raise StorageError(
            "a new or empty folder",
            found="a folder with files" if out.is_dir() else "a file",
            where=str(out),
            remedy="choose another folder; nothing is overwritten",
        )


def _write(plan: Plan, folder: Path, world: World) -> None:
    source, fs = plan.source, world.fs
    if plan.wish.to == "peft":
        write_adapter(plan.ours, source, plan.weights, folder, fs)
    elif plan.wish.to == "hf":
        write_whole_model(plan.ours, source, plan.weights, COMPUTE_DTYPES[plan.wish.dtype], folder, fs)
    elif plan.state is not None and plan.wish.layout is not None:
        geometry = Geometry.of(plan.ours.loaded.model.config)
        write_sharded(source, plan.job, plan.state, geometry, plan.wish.layout, folder, fs)
    elif plan.state is not None:
        write_run(source, plan.job, plan.state, folder, world.clock, fs)


def _digests(folder: Path, fs: FileSystem, prefix: str = "") -> dict[str, str]:
    """SHA-256 of every file below a folder, by relative path."""
    found: dict[str, str] = {}
    for name in fs.list(folder):
        path = folder / name
        if path.is_dir():
            found |= _digests(path, fs, f"{prefix}{name}/")
        else:
            found[f"{prefix}{name}"] = digest_file(path)
    return found


def _prove(plan: Plan, folder: Path, world: World, note: Notes) -> tuple[Check, ...]:
    wish, source = plan.wish, plan.source
    own: Literal["run", "shards"] = "run" if wish.layout is None else "shards"
    fp32 = source.compute == "fp32"
    with tempfile.TemporaryDirectory(prefix="twintrack-proof-") as name:
        scratch = Path(name)
        write_probe(scratch / "probe.safetensors", plan.probe)
        write_answers(scratch / "answers.safetensors", plan.answers)
        request = Request(
            layout=wish.to if wish.to != "twintrack" else own,
            folder=folder.absolute(),
            model=source.model.absolute(),
            job=plan.job,
            base=source.base.absolute(),
            cache_root=world.cache_root.absolute(),
            probe=scratch / "probe.safetensors",
            answers=scratch / "answers.safetensors",
            types=(wish.dtype,),
            step=source.step,
            optimizer=plan.optimizer,
            digests=tensor_digests(plan.state.tensors) if plan.state is not None else {},
            recorded=source.recorded_loss if _comparable(plan) else None,
            recorded_limit=_EXACT_LIMIT if fp32 else source.job.tolerances.loss,
        )
        checks: tuple[Check, ...] = ()
        if plan.source_answers is not None:
            note("another process tries the source")
            checks = _prove_source(plan, plan.source_answers, request, scratch, world)
        note("another process tries the folder")
        return (*checks, *world.trial(request, scratch, note.detail))


def _comparable(plan: Plan) -> bool:
    """Whether the run's own next loss is that of the same weights without dropout."""
    lora = plan.source.job.lora
    return (lora is None or lora.dropout == 0.0) and plan.wish.dtype == "fp32"


def _dropout(source: Source) -> tuple[str, ...]:
    lora = source.job.lora
    if lora is None or lora.dropout == 0.0:
        return ()
    return (
        f"the job drops {lora.dropout:g} of the adapters' inputs; the continued step was made without, on both sides",
    )


def _prove_source(
    plan: Plan, answers: Answers, request: Request, scratch: Path, world: World
) -> tuple[Check, ...]:
    """What plain libraries make of the source is what we make of it; checks are named ``source: ...``."""
    source, path = plan.source, scratch / "source-answers.safetensors"
    write_answers(path, answers)
    asked = request.model_copy(
        update={
            "layout": source.kind,
            "folder": source.folder.absolute(),
            "answers": path,
            "job": source.job,
            "types": ("fp32", "bf16"),
            "optimizer": len(answers.losses) > 1,
            "recorded": None,
        }
    )
    checks = world.trial(asked, scratch, lambda text: world.stage.update(None, text))
    return tuple(check.model_copy(update={"name": f"source: {check.name}"}) for check in checks)


def _publish(partial: Path, out: Path, fs: FileSystem) -> None:
    with storage_errors(out, "name the converted folder"):
        fs.replace(partial, out)  # also over an empty folder
        fs.sync_folder(out.parent)


def _record(source: Source, proof: Proof, fs: FileSystem) -> tuple[Path | None, tuple[str, ...]]:
    """A copy of the proof beside the run, for whoever decides; a run that cannot be written to is told."""
    if source.run is None:
        return None, ()
    folder = source.run.folder / "conversions"
    path = folder / f"{proof.step}-{proof.to}.json"
    try:
        with storage_errors(folder, "keep the proof beside the run"):
            fs.make_folder(folder)
        write_json_atomic(fs, path, proof.model_dump(mode="json"))
    except StorageError as error:
        return None, (f"no copy of the proof in the run's folder: {error}",)
    return path, ()
