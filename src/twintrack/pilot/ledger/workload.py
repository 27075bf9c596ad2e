"""What a job asks of whatever trains it, as its run folder and its model's configuration tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from twintrack.errors import CompileError, ModelError, StorageError
from twintrack.events import AnyEvent, DataPrepared, EvaluationDone, ModelLoaded, RunDone
from twintrack.hardware import Chip
from twintrack.hardware.throughputs import Method, Throughput
from twintrack.job.records import Job, TrackSlot
from twintrack.pilot.ledger.likeness import Scaled, Workload, differences, scale
from twintrack.pilot.summary_figures import Ledger, of_kind
from twintrack.quantity import Quantity

if TYPE_CHECKING:
    from transformers import LlamaConfig

__all__ = ["published_time"]

Runs = Mapping[str, Sequence[AnyEvent]]
"""Events of every run of the folder, by path."""


def published_time(
    job: Job, slot: TrackSlot, chip: Chip, runs: Runs, base: Path | None, rows: Sequence[Throughput]
) -> Scaled:
    """The time that published speeds of like jobs give for this one on a chip; unknown with the reason.

    Args:
        job: the job.
        slot: place whose number format counts.
        chip: that is priced.
        runs: of the run folder; they tell steps, evaluations and parameters.
        base: folder of the job file, where a model that is a folder lies; never fetched from elsewhere.
        rows: published speeds.
    """
    parameters = _parameters(job, runs, base)
    if not parameters.known:
        return Scaled(parameters, None, parameters.source)
    evaluations = _evaluation_positions(job, runs)
    unread = Quantity.unknown("FLOP/token", "no published speed is like the job, so nothing was captured")
    workload = Workload(
        chip=chip.name,
        method=Method.FULL if job.lora is None else Method.LORA,
        precision=job.compute_of(slot),
        parameters=int(parameters.require()),
        sequence_length=job.data.sequence_length,
        chips=job.parallel.devices,
        positions=_positions(job, runs),
        evaluation_positions=evaluations,
        flops=unread,
    )
    if any(not differences(workload, row) for row in rows):
        workload = replace(workload, flops=_flops(job, base))
    return scale(workload, rows)


def _finished(runs: Runs) -> tuple[str, Sequence[AnyEvent]] | None:
    return next(((path, events) for path, events in runs.items() if of_kind(events, RunDone)), None)


def _rows_per_step(job: Job) -> int:
    return job.batch.micro * job.batch.accumulation * job.parallel.data


def _positions(job: Job, runs: Runs) -> Quantity:
    """Positions that training computes, padding included: known where every row has the full length."""
    if job.data.padding != "full":
        reason = "micro-batches are padded to their longest row, so how many positions are trained on is not recorded"
        return Quantity.unknown("token", reason)
    per_step = _rows_per_step(job) * job.data.sequence_length
    done = _finished(runs)
    if done is not None:
        steps, figures = of_kind(done[1], RunDone)[-1].step, Ledger.of(*done)
        return figures.derived(steps * per_step, "token", f"{steps} steps × {per_step:,} positions of a step")
    if job.stop.evaluation_loss_below is not None:
        return Quantity.unknown("token", "no run of the job ended, and it may stop before its last step")
    formula = f"{job.stop.steps} steps of the job × {per_step:,} positions of a step"
    return Quantity.measured(job.stop.steps * per_step, "token", formula)


def _evaluation_positions(job: Job, runs: Runs) -> Quantity:
    done = _finished(runs)
    data = [] if done is None else of_kind(done[1], DataPrepared)
    if done is None or not data:
        return Quantity.unknown("token", "no run of the folder tells how many rows an evaluation has")
    count = len({event.step for event in of_kind(done[1], EvaluationDone)})
    value = count * data[-1].evaluation_rows * job.data.sequence_length
    formula = f"{count} evaluations × {data[-1].evaluation_rows} rows × {job.data.sequence_length} positions"
    return Ledger.of(*done).derived(value, "token", formula)


def _parameters(job: Job, runs: Runs, base: Path | None) -> Quantity:
    """Of the model: as a run tells (adapters included), else of its configuration."""
    for path, events in runs.items():
        loaded = of_kind(events, ModelLoaded)
        if loaded:
            return Ledger.of(path, events).measured(loaded[-1].parameters, "", "ModelLoaded")
    config = _config(job, base)
    if isinstance(config, str):
        return Quantity.unknown("", f"no run tells how many parameters the model has, and {config}")
    from twintrack.pilot.qualify.architecture import shape_of
    from twintrack.pilot.qualify.parameters import count_parameters

    rests_on = Quantity.measured(1, "", f"configuration of {job.model.source}")
    return count_parameters(shape_of(config, job.model.source), None, rests_on).total


def _flops(job: Job, base: Path | None) -> Quantity:
    config = _config(job, base)
    if isinstance(config, str):
        return Quantity.unknown("FLOP/token", f"FLOPs per position are not known: {config}")
    from twintrack.pilot.qualify.capture import flops_per_token

    try:
        return flops_per_token(config, job)
    except (ModelError, CompileError) as error:
        return Quantity.unknown("FLOP/token", f"FLOPs per position are not known: {error}")


def _config(job: Job, base: Path | None) -> LlamaConfig | str:
    """The model's configuration, or why it is not at hand; a name on the hub is not fetched."""
    from twintrack.training.gguf_llama import read_gguf_config
    from twintrack.training.packaged import PREFIX, package_file
    from twintrack.training.weights import read_config

    source = job.model.source
    try:
        if source.startswith(PREFIX):
            return read_gguf_config(package_file(source))
        if base is not None and (base / source).is_dir():
            return read_config(base / source)
    except (ModelError, StorageError) as error:
        return str(error)
    return f"its configuration is not here ({source})"
