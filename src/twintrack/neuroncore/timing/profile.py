"""What a kernel's times add up to: the records of a profile. Plain figures in seconds, bytes and shares of 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from twintrack.neuroncore.timing.schedule import Timeline
from twintrack.quantity import Error, Provenance, Quantity

__all__ = ["Binding", "DmaUse", "EngineUse", "Profile", "Spilled", "Wait", "WhatIf", "counted", "short_line"]


@dataclass(frozen=True, slots=True)
class EngineUse:
    """An engine of all cores.

    Args:
        active_seconds: in which it carried out instructions; waiting is not active. Summed over cores.
        share: of the cores' time.
        instructions: that it carried out.
    """

    active_seconds: float
    share: float
    instructions: int


@dataclass(frozen=True, slots=True)
class DmaUse:
    """The DMA engines of all cores.

    Args:
        active_seconds: in which at least one of a core's engines was busy, summed over cores.
        share: of the cores' time.
        transfers: instructions.
        bytes: moved, each counted once.
        descriptors: rows that are contiguous on both sides.
        gigabytes_per_second: bytes per active second and core, in GB/s.
        busy_share: of all DMA engines' time in which they were busy.
    """

    active_seconds: float
    share: float
    transfers: int
    bytes: int
    descriptors: int
    gigabytes_per_second: float
    busy_share: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits of one source line of one reason, added up.

    Args:
        engine: whose queue waited; ``dma`` for a DMA that was ready.
        line: ``file:line`` of what waited.
        cause: ``file:line`` of what it waited for; empty where that is no instruction.
        reason: ``data``, ``place``, ``engine``, ``queue``, ``dma`` or ``barrier``.
        seconds: in total.
        count: how often.
    """

    engine: str
    line: str
    cause: str
    reason: str
    seconds: float
    count: int


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The kernel timed again with one limit lifted.

    Args:
        name: of the limit, a short word.
        text: what was changed.
        seconds: that it would take.
        saved: share of the time that is saved; below 0 where the order of DMAs gets worse by it.
        whole: whether the limit was lifted altogether, not only halved.
    """

    name: str
    text: str
    seconds: float
    saved: float
    whole: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """What bounds the kernel.

    Args:
        resource: the name of a limit (see ``WhatIf``), or ``dependences`` where none alone bounds it.
        why: one sentence.
    """

    resource: str
    why: str


@dataclass(frozen=True, slots=True)
class Spilled:
    """A tile that does not fit in SBUF.

    Args:
        name: as the author gave it, or empty.
        bytes: of all its partitions.
        line: where it was made.
    """

    name: str
    bytes: int
    line: str


@dataclass(frozen=True, slots=True)
class Profile:
    """How long a kernel takes on the modelled chip, and why.

    Args:
        kernel: its name.
        chip: ``trn1`` or ``trn2``.
        cores: that ran it at once: 2 for LNC2.
        programs: of its launch grid; those that are not cores of LNC2 run one after the other.
        seconds: from its first instruction to its last result.
        kind: of kernel, for the error: ``tensor``, ``dma``, ``vector`` or ``mixed``.
        error: of ``seconds``; ``None`` where the accuracy table supports none.
        engines: by name.
        dma: likewise.
        flops: multiplications and additions of the Tensor Engine.
        mfu: ``flops`` per second over the peak of the cores.
        peak_tflops: of one core.
        peak_name: of that peak.
        hbm_read_bytes: from HBM.
        hbm_written_bytes: to HBM.
        sbuf_bytes: read and written in SBUF by engines and DMAs.
        bandwidth_share: HBM bytes per second over the DMA peak of the cores.
        bandwidth_peak: of one core, in GB/s.
        sbuf_peak: bytes per partition that were live at once, the most of all cores.
        sbuf_room: bytes per partition that there are.
        psum_peak: likewise, in PSUM.
        psum_room: likewise.
        spills: tiles that the compiler would have to spill.
        throttled_seconds: lost by the Tensor Engine to the limit after idleness, summed over cores.
        binding: what bounds it.
        waits: the longest first.
        unpublished: instructions whose cost nobody published, by opcode, with how often they were used.
        what_if: the most helpful first.
        notes: what a reader must know about these figures.
        timelines: of every core or program, each from its own start.
        starts: seconds at which each of them starts.
    """

    kernel: str
    chip: str
    cores: int
    programs: int
    seconds: float
    kind: str
    error: Error | None
    engines: Mapping[str, EngineUse]
    dma: DmaUse
    flops: int
    mfu: float
    peak_tflops: float
    peak_name: str
    hbm_read_bytes: int
    hbm_written_bytes: int
    sbuf_bytes: int
    bandwidth_share: float
    bandwidth_peak: float
    sbuf_peak: int
    sbuf_room: int
    psum_peak: int
    psum_room: int
    spills: tuple[Spilled, ...]
    throttled_seconds: float
    binding: Binding
    waits: tuple[Wait, ...]
    unpublished: Mapping[str, int]
    what_if: tuple[WhatIf, ...]
    notes: tuple[str, ...]
    timelines: tuple[Timeline, ...] = field(repr=False, compare=False)
    starts: tuple[float, ...] = field(repr=False, compare=False)

    @property
    def time(self) -> Quantity:
        """``seconds`` as a simulated figure, with the error that the accuracy table supports."""
        return self.quantity(self.seconds)

    def quantity(self, seconds: float) -> Quantity:
        """Some time of this profile as a simulated figure, with the same error."""
        source = f"twintrack's timing model of a NeuronCore of {self.chip}"
        found = Quantity(seconds, "s", Provenance.SIMULATED, source, conditions=f"kernel alone, {self.where}")
        return found if self.error is None else found.within(self.error)

    @property
    def where(self) -> str:
        """Chip and cores, for people."""
        return f"{self.chip}, {'two cores (LNC2)' if self.cores > 1 else 'one core'}"

    @property
    def hbm_bytes(self) -> int:
        """Read and written."""
        return self.hbm_read_bytes + self.hbm_written_bytes

    @property
    def instructions(self) -> int:
        """Of all engines, DMAs among them."""
        return self.dma.transfers + sum(one.instructions for one in self.engines.values())

    @property
    def intensity(self) -> float | None:
        """Floating-point operations per byte of HBM; ``None`` where there is no such byte."""
        return self.flops / self.hbm_bytes if self.hbm_bytes else None


def short_line(line: str) -> str:
    """``file:line`` without folders, for tables."""
    return PurePath(line).name if line else line


def counted(count: int, what: str) -> str:
    """``1 instruction``, ``2 instructions``: a count with its noun, for people."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
