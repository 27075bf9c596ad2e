"""Track ``cpu``: PyTorch on this machine's processor."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from twintrack.tracks.base import Services, Settings
from twintrack.tracks.eager import EagerTrack, check_eager, peak_resident_bytes

__all__ = ["CpuTrack", "processor_facts"]


def processor_facts() -> dict[str, str]:
    """Model, cores in use and vector extensions of the processor, as far as the system tells."""
    facts = {"machine": platform.machine(), "cores": str(len(os.sched_getaffinity(0)))}
    facts["threads"] = str(torch.get_num_threads())
    facts["vector extensions"] = torch.backends.cpu.get_cpu_capability()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        facts["processor"] = next(
            (x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "unknown"
        )
    return facts


class CpuTrack:
    """The processor; every machine has one."""

    name = "cpu"

    def absence(self) -> str | None:
        """Never absent."""
        return None

    def check(self, settings: Settings) -> None:
        """Refuse what it cannot do.

        Raises:
            TrackError: naming the setting.
        """
        check_eager(self.name, settings)

    def open(self, settings: Settings, services: Services) -> EagerTrack:
        """Begin to use it.

        Raises:
            TrackError: if the parallel plan needs more than one device, or a rounding it has not.
        """
        del services
        return EagerTrack(
            self.name,
            torch.device("cpu"),
            settings,
            attention="sdpa",
            synchronize=lambda: None,
            peak_memory=lambda: (peak_resident_bytes(), "largest resident set of the process"),
            facts=processor_facts(),
        )
