"""What a track is: a device, number rules, one way to make a function ready to run, and a memory meter.

Training logic never asks which track it is on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from twintrack.clock import Clock
from twintrack.errors import TrackError
from twintrack.events import Event
from twintrack.job.records import Job, Parallel, TrackSlot
from twintrack.storage import FileSystem

__all__ = [
    "COMPUTE_DTYPES",
    "Executable",
    "NumberRules",
    "OpenTrack",
    "Services",
    "Settings",
    "Track",
    "refuse_plan",
]

COMPUTE_DTYPES: Mapping[str, torch.dtype] = {"bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a job says about one track."""

    compute: str
    """``bf16`` or ``fp32``: type of weights in use and of activations."""
    rounding: str
    seed: int
    instance: str
    logical_cores: int
    allow_host: bool
    parallel: Parallel

    @classmethod
    def of(cls, job: Job, slot: TrackSlot) -> Settings:
        """Settings for one place in a job's comparison."""
        return cls(
            compute=slot.compute or job.precision.compute,
            rounding=job.precision.rounding,
            seed=job.seed,
            instance=slot.instance or "trn2.48xlarge",
            logical_cores=slot.logical_cores,
            allow_host=slot.allow_host,
            parallel=job.parallel,
        )

    @property
    def dtype(self) -> torch.dtype:
        """``compute`` as PyTorch names it."""
        return COMPUTE_DTYPES[self.compute]


@dataclass(frozen=True, slots=True)
class Services:
    """What a track uses of the world around it."""

    emit: Callable[[Event], None]
    clock: Clock
    fs: FileSystem
    cache_root: Path


@dataclass(frozen=True, slots=True)
class NumberRules:
    """How a track computes."""

    compute: torch.dtype
    attention: str
    """Attention implementation by the name that ``transformers`` gives it."""
    description: str
    """One sentence for the report."""


class Executable(Protocol):
    """A function made ready to run."""

    def __call__(self, *arguments: Any, invocation: int) -> Any:
        """Run it on nested dicts and lists of tensors.

        Args:
            arguments: as the function's own.
            invocation: number of this call in the run, which random rounding may depend on; equal numbers give equal
                bits, in whichever process.
        """
        ...


class OpenTrack(Protocol):
    """A track in use by one process."""

    @property
    def name(self) -> str:
        """Name, such as ``cpu``."""
        ...

    @property
    def device(self) -> torch.device:
        """Where tensors live."""
        ...

    @property
    def rules(self) -> NumberRules:
        """How it computes."""
        ...

    def compile(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        layers: Sequence[nn.Module] = (),
        key: Mapping[str, str] | None = None,
    ) -> Executable:
        """Make a pure function of tensors ready to run.

        Args:
            name: of the program.
            function: from nested dicts and lists of tensors to the same.
            layers: modules in it that repeat.
            key: named parts that, beside shapes and versions, decide what the function computes.
        """
        ...

    def warmed_up(self) -> None:
        """The first step is done: programs needed from now on are recompiles."""
        ...

    def synchronize(self) -> None:
        """Return when all work given to the device is done."""
        ...

    def peak_memory(self) -> tuple[int, str]:
        """Peak bytes so far, and what was measured."""
        ...

    def facts(self) -> dict[str, str]:
        """What a reader needs to judge its figures."""
        ...


class Track(Protocol):
    """A kind of track."""

    @property
    def name(self) -> str:
        """Name, such as ``cpu``."""
        ...

    def absence(self) -> str | None:
        """Why this machine does not have it, in one line; ``None`` where it does."""
        ...

    def check(self, settings: Settings) -> None:
        """Refuse what it cannot do, before anything is done.

        Raises:
            TrackError: naming the setting.
            CatalogueError: if the settings name something that the catalogue does not have.
        """
        ...

    def open(self, settings: Settings, services: Services) -> OpenTrack:
        """Begin to use it; settings are checked again.

        Raises:
            TrackError: if it cannot do what the settings ask.
        """
        ...


def refuse_plan(name: str, settings: Settings) -> None:
    """Refuse a parallel plan on a track that uses one device.

    Raises:
        TrackError: if the plan needs more than one.
    """
    if settings.parallel.devices != 1:
        plan = settings.parallel
        raise TrackError(
            f"a parallel plan for the one device that track '{name}' executes on",
            found=f"data {plan.data} x tensor {plan.tensor} x pipeline {plan.pipeline} = {plan.devices} devices",
            where="parallel",
            remedy="set the degrees to 1",
        )
