"""Qualify a job: from its configuration alone, what it needs, whether it fits, and the smallest change that would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from twintrack.hardware import Catalogue
from twintrack.job.digest import job_digest
from twintrack.job.records import Job
from twintrack.pilot.qualify.architecture import find_config, find_tokenizer, shape_of
from twintrack.pilot.qualify.host import checkpoint_sizes
from twintrack.pilot.qualify.parameters import count_parameters
from twintrack.pilot.qualify.places import Judge, check_names, compare_devices, need_of, places_of
from twintrack.pilot.qualify.plan import check_plan
from twintrack.pilot.qualify.published import check_published, estimate_error, published_parameters
from twintrack.pilot.qualify.records import Qualification
from twintrack.quantity import Provenance, Quantity
from twintrack.storage import FileSystem

__all__ = ["qualify"]


def _silent(_: str) -> None:
    """Nobody watches."""


def qualify(
    job: Job,
    base: Path,
    catalogue: Catalogue,
    fs: FileSystem,
    *,
    track: str | None = None,
    instance: str | None = None,
    graph: bool = True,
    progress: Callable[[str], None] = _silent,
) -> Qualification:
    """What a job needs, and whether it fits its tracks; no weight is read.

    Args:
        job: to qualify.
        base: folder of the job file.
        catalogue: of hardware.
        fs: where data and configuration are looked for.
        track: only this track, whether the job lists it or not.
        instance: used instead of the one that the job names, for tracks of its kind.
        graph: also count programs and captured operators, which takes most of the time.
        progress: told what is done next.

    Raises:
        ModelError: if the configuration is missing or of another architecture, a LoRA target names nothing, or the
            job's rows or answers are longer than the model knows positions.
        CatalogueError: if the instance is unknown.
        TrackError: if the instance has none of the track's devices.
        DataError: if data that are there are wrong.
        StorageError: if a file cannot be read.
    """
    del fs  # everything is read by functions of training that know this machine's disk alone
    check_names(job, catalogue, track, instance)  # first: all that follows loads PyTorch, which takes seconds
    progress("reading the model's configuration")
    config, source = find_config(job.model, base)
    check_positions(job, config)
    shape = shape_of(config, source)
    basis = _basis(job, source)
    parameters = replace(count_parameters(shape, job.lora, basis[0]), published=published_parameters(shape))
    plan = check_plan(shape, job.parallel, job.data.sequence_length)
    progress("holding its memory against the devices")
    judge = Judge(basis, estimate_error(check_published()))
    need = need_of(job, job.tracks[0], job.tracks[0].use[0], shape)
    places = places_of(job, catalogue, shape, plan, judge, track=track, instance=instance)
    comparisons = tuple(compare_devices(need, catalogue, judge)) if plan.possible else ()
    found = Qualification(
        job=job.name,
        job_digest=job_digest(job),
        model=job.model.source,
        shape=shape,
        parameters=parameters,
        plan=plan,
        places=places,
        comparisons=comparisons,
        checkpoints=checkpoint_sizes(need, parameters, job.checkpoint.keep),
        remarks=tuple(_remarks(job)),
    )
    if not graph:
        return found
    progress("counting programs and operators of the training step")
    return _with_graph(found, job, base, config)


def check_positions(job: Job, config: Any) -> None:
    """As the pilot would refuse it: rows and answers must lie within the model's positions."""
    from twintrack.training.model import check_fits

    check_fits(job, config)


def _basis(job: Job, source: str) -> tuple[Quantity, Quantity]:
    """What every figure rests on: the model's configuration and the job."""
    return (
        Quantity(1, "configuration", Provenance.PUBLISHED, source),
        Quantity(1, "job", Provenance.ASSUMED, f"job {job.name}: batch, adapters, precision, plan"),
    )


def _with_graph(found: Qualification, job: Job, base: Path, config: Any) -> Qualification:
    """Add the job's programs, its captured work and what is published about its operators."""
    from twintrack.pilot.qualify.capture import model_work
    from twintrack.pilot.qualify.operators import operator_support
    from twintrack.pilot.qualify.shapes import program_shapes

    shapes = program_shapes(job, base, tokenizer=find_tokenizer(job.model, base))
    work = model_work(config, job)
    return replace(found, shapes=shapes, work=work, operators=operator_support(work.operators))


def _remarks(job: Job) -> list[str]:
    """Assumptions, and what is not counted."""
    plan = job.parallel
    remarks = [
        "not counted, as nobody publishes it for a job: the runtime's and the compiler's own memory on the device"
        " (on Neuron code, scratchpad, DMA rings, 96 MB of microcode per core), fragmentation beyond the error",
    ]
    if job.data.padding == "longest":
        remarks.append("rows are taken to be data.sequence_length long; shorter micro-batches need less")
    if plan.devices > 1:
        remarks.append(
            f"the tracks of this version execute one device: the plan of {plan.devices} is what such a run would need,"
            " with tensor parallelism as Megatron-LM cuts it, sequence parallelism, and a 1F1B pipeline"
        )
    if plan.data > 1:
        remarks.append(
            "state is whole on each of the data-parallel copies: the optimizer is not sharded (no ZeRO)"
        )
    return remarks
