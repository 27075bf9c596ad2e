"""On which machine a track is priced, how many of them it takes, and whether its seconds are that machine's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twintrack.errors import CatalogueError
from twintrack.events import AnyEvent, LegStarted
from twintrack.hardware import Catalogue, Chip
from twintrack.job.records import Parallel, TrackSlot
from twintrack.pilot.summary_figures import of_kind
from twintrack.quantity import Quantity

__all__ = ["EMULATED", "Machine", "machine_of", "own_time_problem"]

EMULATED = (
    "the seconds of an emulation are not a Trainium2's: a simulated time gives them, or a run imported from an"
    " instance"
)
_DEFAULT_INSTANCE = "trn2.48xlarge"


@dataclass(frozen=True, slots=True)
class Machine:
    """What is paid for.

    Args:
        name: instance; ``None`` where nobody names one.
        chip: of the instance; ``None`` where the catalogue does not know it.
        count: how many instances, unit ``machines``; unknown with the reason.
        remarks: what a reader must know.
    """

    name: str | None
    chip: Chip | None
    count: Quantity
    remarks: tuple[str, ...] = ()

    @property
    def text(self) -> str | None:
        """Such as ``2 × trn2.48xlarge``."""
        if self.name is None:
            return None
        return f"{self.count.value} × {self.name}" if self.count.known else self.name


def machine_of(
    track: str, slot: TrackSlot, plan: Parallel, events: Sequence[AnyEvent], catalogue: Catalogue
) -> Machine:
    """The machine of a track: where the run says that it ran, else the one that the job names for its place.

    Args:
        track: name of the track.
        slot: the job's place that it fills.
        plan: of the job; its devices are a track's chips or logical NeuronCores.
        events: of the run; an imported one may say its ``instance`` and how many ``instances`` there were.
        catalogue: of instances and chips.
    """
    told = _environment(events)
    name = told.get("instance") or slot.instance or (_DEFAULT_INSTANCE if track == "trn2" else None)
    if name is None:
        reason = "the job names no instance for this place (tracks.instance)"
        return Machine(None, None, Quantity.unknown("machines", reason))
    try:
        instance = catalogue.instance(name)
    except CatalogueError:
        return Machine(name, None, _stated(told) or _single(name, plan))
    chip = catalogue.chip(instance.chip)
    remarks = []
    if slot.instance and instance.name != slot.instance.lower():
        remarks.append(f"the run was made on {instance.name}, the job's place names {slot.instance}")
    stated = _stated(told)
    if stated is not None:
        return Machine(instance.name, chip, stated, tuple(remarks))
    devices, unit = _devices(chip, int(instance.chip_count.require()), slot)
    count = math.ceil(plan.devices / devices)
    if plan.devices < count * devices:
        remarks.append(
            f"{plan.devices} of {count * devices} {unit} of {count} × {instance.name} are used, and all are paid for"
        )
    source = f"ceil({plan.devices} devices of the parallel plan / {devices} {unit} of {instance.name})"
    return Machine(instance.name, chip, Quantity.measured(count, "machines", source), tuple(remarks))


def _environment(events: Sequence[AnyEvent]) -> Mapping[str, str]:
    started = of_kind(events, LegStarted)
    return started[-1].environment if started else {}


def _stated(told: Mapping[str, str]) -> Quantity | None:
    """How many instances a run says that it had."""
    text = told.get("instances")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        return Quantity.unknown(
            "machines", f"the run says that it had {text[:40]!r} instances, which is no number of them"
        )
    return Quantity.measured(int(text), "machines", "instances, as the run says of itself")


def _single(name: str, plan: Parallel) -> Quantity:
    if plan.devices == 1:
        return Quantity.measured(1, "machines", "one device in the parallel plan")
    reason = f"the catalogue does not know how many of the plan's {plan.devices} devices one {name} has"
    return Quantity.unknown("machines", reason)


def _devices(chip: Chip, chips: int, slot: TrackSlot) -> tuple[int, str]:
    """Devices of one instance: logical NeuronCores, or chips."""
    if chip.cores is None:
        return chips, "chips"
    return chips * int(chip.cores.require()) // slot.logical_cores, "logical NeuronCores"


def own_time_problem(track: str, machine: Machine, events: Sequence[AnyEvent]) -> str:
    """Why the run's seconds are not those of the machine that is priced; empty where they are.

    A run that was imported is taken to have been made where it says, unless it says that it is an emulation or ran on
    a processor. A machine that the catalogue does not know, with no accelerator to be wrong about, is the job's word.
    """
    told, name = _environment(events), machine.name
    if track == "trn2":
        return EMULATED
    if "emulates" in told:
        return f"the run is on track {track}, and says of itself that it emulates {told['emulates']}"
    if machine.chip is None:
        return ""
    if track == "cpu":
        return f"the seconds were measured on a processor, not on the {machine.chip.title} of {name}"
    if "instance" in told:
        return ""
    trainium = machine.chip.name.startswith("trainium")
    if trainium != (track == "neuron"):
        return f"track {track} does not run on the {machine.chip.title} of {name}"
    gpu = _environment(events).get("gpu")
    if gpu is not None and not _same_gpu(machine.chip.name, gpu):
        return f"the seconds were measured on {gpu}, not on the {machine.chip.title} of {name}"
    return ""


def _same_gpu(chip: str, device: str) -> bool:
    """Whether a device's own name (``NVIDIA A100-SXM4-40GB``) is of a chip of the catalogue (``a100-40gb``)."""
    words = device.lower().replace("-", " ").split()
    return all(part in words for part in chip.split("-"))
