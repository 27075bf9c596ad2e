"""The places of a job's comparison: which device each track has, and whether the job fits it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from twintrack.errors import TrackError, nearest
from twintrack.hardware import Catalogue, Chip, Instance
from twintrack.hardware.units import in_base_unit
from twintrack.job.records import Job, TrackName, TrackSlot
from twintrack.pilot.qualify.architecture import ModelShape
from twintrack.pilot.qualify.changes import smallest_change
from twintrack.pilot.qualify.host import host_memory
from twintrack.pilot.qualify.memory import Need, device_memory, peak_bytes
from twintrack.pilot.qualify.parameters import targets_of
from twintrack.pilot.qualify.records import (
    Change,
    Comparison,
    DeviceMemory,
    HostMemory,
    Place,
    PlanReport,
    Verdict,
)
from twintrack.pilot.qualify.spread import Spread, spread_of
from twintrack.quantity import Error, Quantity, combine

__all__ = ["Judge", "check_names", "compare_devices", "need_of", "places_of", "sentence_of", "spare_of"]

_BYTES = {"bf16": 2, "fp32": 4}
_EAGER = frozenset({"trn2", "neuron"})
"""Tracks whose attention keeps its scores (``NumberRules.attention``)."""
_DEFAULT_INSTANCE = "trn2.48xlarge"
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class _Device:
    """What one process has."""

    text: str
    capacity: Quantity
    per_instance: int | None


def need_of(job: Job, slot: TrackSlot, track: str, shape: ModelShape) -> Need:
    """What a job needs on a track.

    Raises:
        ModelError: if a LoRA target names no linear module.
    """
    return Need(
        shape=shape,
        targets=targets_of(shape, job.lora),
        rank=job.lora.rank if job.lora else None,
        dropout=bool(job.lora and job.lora.dropout > 0.0),
        plan=job.parallel,
        micro=job.batch.micro,
        accumulation=job.batch.accumulation,
        length=job.data.sequence_length,
        compute=_BYTES[job.compute_of(slot)],
        eager=track in _EAGER,
        recompute=False,
        asynchronous=job.checkpoint.asynchronous,
    )


@dataclass(frozen=True, slots=True)
class Judge:
    """Whether a need fits.

    Args:
        basis: what every figure rests on.
        error: how far off estimates may be.
    """

    basis: tuple[Quantity, ...]
    error: Error | None

    def memory(self, need: Need) -> DeviceMemory:
        """The figures of a need."""
        return device_memory(need, self.basis, self.error)

    def verdict(self, memory: DeviceMemory, capacity: Quantity, copies: int = 1) -> Verdict:
        """By the interval of the need of ``copies`` devices against a capacity that they share."""
        if not capacity.known:
            return Verdict.UNKNOWN
        intervals = [moment.total.interval for moment in memory.moments]
        if copies * max(high for _, high in intervals) <= capacity.require():
            return Verdict.FITS
        low = copies * max(low for low, _ in intervals)
        return Verdict.DOES_NOT_FIT if low > capacity.require() else Verdict.TOO_CLOSE

    def surely_fits(self, need: Need, capacity: Quantity) -> bool:
        """Whether a need fits with every estimate at the upper end of its error."""
        high = 1.0 + (self.error.high if self.error else 0.0)
        return peak_bytes(need, estimates=high) <= capacity.require()


def spare_of(peak: Quantity, capacity: Quantity) -> Quantity:
    """Capacity less peak."""
    return combine("memory of the device - peak", "byte", [capacity, peak], lambda has, needs: has - needs)


def places_of(
    job: Job,
    catalogue: Catalogue,
    shape: ModelShape,
    plan: PlanReport,
    judge: Judge,
    *,
    track: str | None,
    instance: str | None,
) -> tuple[Place, ...]:
    """Every track of every place, or the one asked for; a place without an instance is held against every GPU.

    Raises:
        CatalogueError: if an instance is unknown.
        TrackError: if an instance does not go with a track.
    """
    return tuple(
        place
        for index, slot, name in _slots(job, track)
        for place in _places(job, catalogue, shape, plan, judge, index, slot, name, instance)
    )


def check_names(job: Job, catalogue: Catalogue, track: str | None, instance: str | None) -> None:
    """Refuse wrong names of tracks and instances, from job and catalogue alone.

    Raises:
        CatalogueError: if an instance is unknown.
        TrackError: if a track is unknown, or an instance does not go with a track.
    """
    slots = _slots(job, track)
    _check_instance(catalogue, [name for _, _, name in slots], instance)
    for _, slot, name in slots:
        for _ in _devices(catalogue, slot, name, _chosen(catalogue, slot, name, instance)):
            pass


def _slots(job: Job, track: str | None) -> list[tuple[int, TrackSlot, str]]:
    """The tracks asked about: index of the place, its settings, name of the track."""
    slots = [(index, slot, str(name)) for index, slot in enumerate(job.tracks) for name in slot.use]
    if track is None:
        return slots
    return [one for one in slots if one[2] == track] or [(-1, _slot(track), track)]


def _slot(track: str) -> TrackSlot:
    """A place for a track that the job does not list, with every setting at its default."""
    known = get_args(TrackName.__value__ if hasattr(TrackName, "__value__") else TrackName)
    if track not in known:
        raise TrackError(
            f"one of the tracks {', '.join(known)}",
            found=repr(track),
            where="track",
            remedy=nearest(track, known) or "choose one of those",
        )
    return TrackSlot.model_validate({"use": (track,)})


def _places(
    job: Job,
    catalogue: Catalogue,
    shape: ModelShape,
    plan: PlanReport,
    judge: Judge,
    index: int,
    slot: TrackSlot,
    track: str,
    instance: str | None,
) -> Iterator[Place]:
    need = need_of(job, slot, track, shape)
    for machine, device in _devices(catalogue, slot, track, _chosen(catalogue, slot, track, instance)):
        yield _place(job, need, plan, judge, index, slot, track, machine, device)


def _chosen(catalogue: Catalogue, slot: TrackSlot, track: str, instance: str | None) -> str | None:
    """The instance of the command line for the tracks of its kind, else the job's."""
    return instance if _takes(catalogue, track, instance) else slot.instance


def _check_instance(catalogue: Catalogue, tracks: Sequence[str], instance: str | None) -> None:
    """An instance of the command line must be of the kind of some track that is asked about."""
    if instance is None or any(_takes(catalogue, track, instance) for track in tracks):
        return
    raise TrackError(
        f"an instance for track {' or '.join(dict.fromkeys(tracks))}",
        found=f"{instance}, which has {catalogue.instance(instance).chip} chips",
        where="--instance",
        remedy="name an instance of the track's kind, or another --track; 'twintrack hardware list' shows them",
    )


def _takes(catalogue: Catalogue, track: str, instance: str | None) -> bool:
    """Whether an instance that was asked for on the command line is of the track's kind."""
    if instance is None or track == "cpu":
        return False
    return catalogue.instance(instance).chip.startswith("trainium") == (track in _EAGER)


def _devices(
    catalogue: Catalogue, slot: TrackSlot, track: str, instance: str | None
) -> Iterator[tuple[Instance | None, _Device]]:
    if track == "cpu":
        reason = "a CPU track uses the memory of the machine that it runs on, which is no device's limit"
        yield None, _Device("CPU", Quantity.unknown("byte", reason), None)
    elif track in _EAGER:
        machine = catalogue.instance(instance or _DEFAULT_INSTANCE)
        yield machine, _core(catalogue.chip(machine.chip), machine, slot.logical_cores)
    elif instance is not None:
        machine = catalogue.instance(instance)
        yield machine, _gpu(catalogue.chip(machine.chip), machine)
    else:
        for chip in catalogue.chips.values():
            if chip.cores is None:
                yield None, _gpu(chip, None)


def _core(chip: Chip, machine: Instance, lnc: int) -> _Device:
    if chip.cores is None:
        raise TrackError(
            "an instance with Trainium chips for this track",
            found=f"{machine.name} with {chip.name}",
            where="tracks.instance",
            remedy="choose one, such as trn2.48xlarge",
        )
    lnc = lnc if lnc in chip.lnc else chip.lnc[-1]
    core = chip.logical_core(lnc)
    per_chip = int(chip.cores.require()) // lnc
    count = int(machine.chip_count.require()) * per_chip if machine.chip_count.known else None
    return _Device(f"logical NeuronCore of {chip.title}, LNC {lnc}", core.hbm_capacity_byte, count)


def _gpu(chip: Chip, machine: Instance | None) -> _Device:
    if chip.cores is not None:
        raise TrackError(
            "an instance with GPUs for track 'cuda'",
            found=f"{machine.name if machine else chip.name} with {chip.name}",
            where="tracks.instance",
            remedy="choose one, such as p5.48xlarge",
        )
    count = int(machine.chip_count.require()) if machine is not None and machine.chip_count.known else None
    return _Device(chip.title, in_base_unit(chip.hbm_capacity_gib), count)


def _place(
    job: Job,
    need: Need,
    plan: PlanReport,
    judge: Judge,
    index: int,
    slot: TrackSlot,
    track: str,
    machine: Instance | None,
    device: _Device,
) -> Place:
    memory, recomputed, host = None, None, None
    verdict, spare = Verdict.DOES_NOT_FIT, Quantity.unknown("byte", "the plan is impossible")
    if plan.possible:
        memory, recomputed = judge.memory(need), judge.memory(replace(need, recompute=True))
        verdict, spare = judge.verdict(memory, device.capacity), spare_of(memory.peak.total, device.capacity)
        host = _host(need, machine, device, judge)
        if host is not None and host.verdict is Verdict.DOES_NOT_FIT and verdict is not Verdict.UNKNOWN:
            verdict = Verdict.DOES_NOT_FIT
    change, spread = None, _spread(need, machine, device)
    if verdict in (Verdict.DOES_NOT_FIT, Verdict.TOO_CLOSE) and device.capacity.known:
        change = _change(need, machine, device, judge)
    return Place(
        slot=index,
        track=track,
        instance=machine.name if machine else None,
        compute=job.compute_of(slot),
        device=device.text,
        verdict=verdict,
        sentence=sentence_of(plan, memory, device.capacity, verdict, host)
        + (f"; {spread.text}" if spread else ""),
        memory=memory,
        recomputed=recomputed,
        capacity=device.capacity,
        spare=spare,
        host=host,
        instances=spread.instances if spread else None,
        tensor_crosses=spread.crosses if spread else None,
        change=change,
    )


def _change(need: Need, machine: Instance | None, device: _Device, judge: Judge) -> Change | None:
    def fits(tried: Need) -> bool:
        if not judge.surely_fits(tried, device.capacity):
            return False
        host = _host(tried, machine, device, judge)
        return host is None or host.verdict is not Verdict.DOES_NOT_FIT

    found = smallest_change(need, fits)
    if found is None:
        return None
    settings, changed = found
    return Change(settings, judge.memory(changed).peak.total, _spread(changed, machine, device))


def _spread(need: Need, machine: Instance | None, device: _Device) -> Spread | None:
    efa = machine is not None and machine.efa_gbps.known
    return spread_of(need.plan, device.per_instance, efa=efa)


def _host(need: Need, machine: Instance | None, device: _Device, judge: Judge) -> HostMemory | None:
    if machine is None:
        return None
    processes = min(need.plan.devices, device.per_instance or need.plan.devices)
    return host_memory(need, processes, in_base_unit(machine.host_memory_gib), judge.basis)


def sentence_of(
    plan: PlanReport,
    memory: DeviceMemory | None,
    capacity: Quantity,
    verdict: Verdict,
    host: HostMemory | None,
) -> str:
    """The verdict with its figures."""
    if memory is None:
        blocking = "; ".join(one.text for one in plan.findings if one.blocks)
        return f"{verdict}: the plan is impossible, {blocking}"
    need = _gib(memory.peak.total)
    if not capacity.known:
        return f"{verdict}: needs {need}; {capacity.source}"
    has, left = _gib(capacity), capacity.require() - memory.peak.total.require()
    if host is not None and host.verdict is Verdict.DOES_NOT_FIT:
        most = max(host.loading, host.saving, key=lambda one: one.require())
        return f"{verdict}: the host needs {_gib(most)} for {host.processes} processes and has {_gib(host.capacity)}"
    match verdict:
        case Verdict.FITS:
            return f"{verdict}: needs {need} of {has}, {left / _GIB:,.1f} GiB are left"
        case Verdict.DOES_NOT_FIT:
            return f"{verdict}: needs {need} and has {has}, {-left / _GIB:,.1f} GiB too much"
        case _:
            low, high = memory.peak.total.interval
            return f"{verdict}: needs {need} ({low / _GIB:,.1f} to {high / _GIB:,.1f}) and has {has}"


def _gib(quantity: Quantity) -> str:
    return f"{quantity.require() / _GIB:,.1f} GiB"


def compare_devices(need: Need, catalogue: Catalogue, judge: Judge) -> Iterator[Comparison]:
    """A possible need against every chip of the catalogue: its logical cores and all of it, or the GPU.

    Attention keeps its scores on NeuronCores and is fused on GPUs, as the tracks do.
    """
    eager, fused = judge.memory(replace(need, eager=True)), judge.memory(replace(need, eager=False))
    for chip in catalogue.chips.values():
        whole = in_base_unit(chip.hbm_capacity_gib)
        if chip.cores is None:
            yield _compared(chip.name, chip.title, "GPU", fused, whole, judge, 1)
            continue
        for lnc in chip.lnc:
            core = chip.logical_core(lnc)
            title = f"{chip.title}, logical core LNC {lnc}"
            yield _compared(chip.name, title, "logical core", eager, core.hbm_capacity_byte, judge, 1)
        ranks = min(need.plan.devices, int(chip.cores.require()) // chip.lnc[-1])
        title = f"{chip.title}, chip with {ranks} of the plan's devices"
        yield _compared(chip.name, title, "chip", eager, whole, judge, ranks)


def _compared(
    name: str,
    title: str,
    kind: Literal["logical core", "chip", "GPU"],
    memory: DeviceMemory,
    capacity: Quantity,
    judge: Judge,
    copies: int,
) -> Comparison:
    peak = memory.peak.total
    if copies > 1:
        peak = combine(f"{copies} devices x peak", "byte", [peak], lambda one: copies * one)
    verdict = judge.verdict(memory, capacity, copies)
    return Comparison(name, title, kind, peak, capacity, spare_of(peak, capacity), verdict)
