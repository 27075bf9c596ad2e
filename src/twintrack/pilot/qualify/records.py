"""What a job will need and whether it fits, as frozen records; every figure is a quantity with its formula."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from twintrack.pilot.qualify.architecture import ModelShape
from twintrack.pilot.qualify.shapes_records import ModelWork, OperatorAnswer, Shapes
from twintrack.pilot.qualify.spread import Spread
from twintrack.quantity import Quantity

__all__ = [
    "Change",
    "CheckpointSizes",
    "Comparison",
    "DeviceMemory",
    "Finding",
    "HostMemory",
    "ModuleCount",
    "Moment",
    "Parameters",
    "Part",
    "Place",
    "PlanReport",
    "Qualification",
    "Verdict",
]


class Verdict(StrEnum):
    """Whether the job fits a device."""

    FITS = "fits"
    """Also with every estimate at the upper end of its error."""
    TOO_CLOSE = "too close to tell"
    """The device's memory lies within the error of the figure."""
    DOES_NOT_FIT = "does not fit"
    """Not even with every estimate at the lower end of its error; or the plan is impossible."""
    UNKNOWN = "unknown"
    """No limit is known."""


@dataclass(frozen=True, slots=True)
class ModuleCount:
    """Parameters of all modules of one kind."""

    kind: str
    modules: int
    parameters: Quantity
    adapted: int
    """Modules that get an adapter."""
    trainable: Quantity
    """Trained parameters: of the modules themselves, or of their adapters."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of the model and of the job."""

    modules: tuple[ModuleCount, ...]
    total: Quantity
    """Of the model without adapters; tied weights once."""
    adapters: Quantity
    trainable: Quantity
    adapted_modules: tuple[str, ...]
    """Full names, in the model's order."""
    published: Quantity | None
    """What the publisher of the model says it has, where that is known here."""


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of memory."""

    kind: str
    size: Quantity
    """Bytes; its source is the formula with the numbers put in."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What lies in a device's memory at one moment of the step."""

    name: str
    parts: tuple[Part, ...]
    total: Quantity


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of the device that needs most of it."""

    stage: int
    """Its pipeline stage, from 0."""
    moments: tuple[Moment, ...]
    peak: Moment
    """The moment with the largest total."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the parallel plan does to the model."""

    subject: str
    """Such as ``KV heads``."""
    blocks: bool
    """The plan is impossible."""
    text: str


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The parallel plan against the model's sizes."""

    data: int
    tensor: int
    pipeline: int
    findings: tuple[Finding, ...]

    @property
    def devices(self) -> int:
        """Devices that the plan needs."""
        return self.data * self.tensor * self.pipeline

    @property
    def possible(self) -> bool:
        """Whether the model's sizes allow it."""
        return not any(finding.blocks for finding in self.findings)


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Memory of one host."""

    processes: int
    """Processes on a host: one per device of the plan on it."""
    loading: Quantity
    """Bytes while the weights are loaded."""
    saving: Quantity
    """Bytes that saving a checkpoint takes beside training."""
    capacity: Quantity
    """Bytes of the host; unknown with the reason."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class CheckpointSizes:
    """Bytes on disk."""

    ours: Quantity
    """Trained weights in the compute type, masters and both moments."""
    result: Quantity
    """What a finished run exports: PEFT adapter or whole model, from the float32 masters."""
    hub: Quantity
    """The whole model in the layout of the hub, in the compute type."""
    kept: Quantity
    """``checkpoint.keep`` of ours, and the one being written."""


@dataclass(frozen=True, slots=True)
class Change:
    """The smallest change that makes the job fit, in the stated order."""

    settings: tuple[str, ...]
    """Keys and values to set, such as ``batch.micro = 1``; what is no key of a job says so."""
    peak: Quantity
    """Bytes on the device that needs most, with the change."""
    spread: Spread | None = None
    """The changed plan on instances; ``None`` where no instance is named."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The job's need on one kind of device."""

    device: str
    """Name of the chip or logical core."""
    title: str
    kind: Literal["logical core", "chip", "GPU"]
    peak: Quantity
    """Bytes needed on the device that needs most."""
    capacity: Quantity
    """Bytes of HBM."""
    spare: Quantity
    """Capacity less peak; negative where it does not fit."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Place:
    """One track of one place of the job's comparison, on one machine."""

    slot: int
    """Index in ``job.tracks``."""
    track: str
    instance: str | None
    compute: str
    device: str
    """What a process has: a logical core or a GPU."""
    verdict: Verdict
    sentence: str
    """The verdict with its figures, in one sentence."""
    memory: DeviceMemory | None
    """``None`` where the plan is impossible."""
    recomputed: DeviceMemory | None
    """The same with every decoder layer computed again in the backward pass."""
    capacity: Quantity
    spare: Quantity
    host: HostMemory | None
    instances: int | None
    """Instances that the plan takes; ``None`` where no instance is named."""
    tensor_crosses: bool | None
    """Whether a tensor group does not fit into one instance; ``None`` where no instance is named."""
    change: Change | None
    """Only where it does not fit; ``None`` there: nothing in the search makes it fit."""


@dataclass(frozen=True, slots=True)
class Qualification:
    """What a job needs, before anything is reserved."""

    job: str
    job_digest: str
    model: str
    shape: ModelShape
    parameters: Parameters
    plan: PlanReport
    places: tuple[Place, ...]
    comparisons: tuple[Comparison, ...]
    """The need against logical cores, chips and GPUs of the catalogue."""
    checkpoints: CheckpointSizes
    remarks: tuple[str, ...]
    """Assumptions, and what is not counted."""
    shapes: Shapes | None = None
    """Distinct shapes and programs; ``None`` where they were not asked for."""
    work: ModelWork | None = None
    """Work and operators of the step; ``None`` where they were not asked for."""
    operators: tuple[OperatorAnswer, ...] = ()
    """Operators against what is published about their support."""
