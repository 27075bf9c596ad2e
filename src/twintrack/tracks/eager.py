"""Tracks that run functions as they are, operator by operator, on a PyTorch device."""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from twintrack.errors import TrackError
from twintrack.tracks.base import NumberRules, Settings, refuse_plan

__all__ = ["EagerTrack", "check_eager", "peak_resident_bytes"]


def peak_resident_bytes() -> int:
    """Largest resident set of this process so far, in bytes.

    Linux hands ``ru_maxrss`` on from the process that started this one, so the kernel's own high-water mark of
    this program is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists() and (mark := re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)):
        return int(mark[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def check_eager(name: str, settings: Settings) -> None:
    """Refuse what no eager track can do: a plan for several devices, and a rounding of ``trn2``.

    Raises:
        TrackError: naming the setting.
    """
    refuse_plan(name, settings)
    refuse_rounding(name, settings)


def refuse_rounding(name: str, settings: Settings) -> None:
    """Refuse a rounding that only the software Trainium2 has.

    Raises:
        TrackError: if the settings ask for another one than nearest-even while computing in bfloat16.
    """
    if settings.rounding != "nearest-even" and settings.compute != "fp32":
        raise TrackError(
            f"rounding nearest-even on track '{name}'",
            found=settings.rounding,
            where="precision.rounding",
            remedy='give this track compute = "fp32", or choose nearest-even',
        )


class EagerTrack:
    """A device of PyTorch, used eagerly."""

    def __init__(
        self,
        name: str,
        device: torch.device,
        settings: Settings,
        *,
        attention: str,
        synchronize: Callable[[], None],
        peak_memory: Callable[[], tuple[int, str]],
        facts: Mapping[str, str],
    ) -> None:
        check_eager(name, settings)
        self.name = name
        self.device = device
        self.rules = NumberRules(
            settings.dtype,
            attention,
            f"PyTorch's own {settings.compute} arithmetic on {device.type}, operator by operator",
        )
        self._synchronize = synchronize
        self._peak_memory = peak_memory
        self._facts = dict(facts)

    def compile(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        layers: Sequence[nn.Module] = (),
        key: Mapping[str, str] | None = None,
    ) -> Callable[..., Any]:
        """The function itself."""
        del name, layers, key

        def run(*arguments: Any, invocation: int) -> Any:
            del invocation
            return function(*arguments)

        return run

    def warmed_up(self) -> None:
        """Nothing is compiled, so nothing changes."""

    def synchronize(self) -> None:
        """Return when the device has done all work."""
        self._synchronize()

    def peak_memory(self) -> tuple[int, str]:
        """Peak bytes, and what was measured."""
        return self._peak_memory()

    def facts(self) -> dict[str, str]:
        """Device facts for the report."""
        return dict(self._facts)
