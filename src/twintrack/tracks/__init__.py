"""The tracks, by name, and how a job's places are filled with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twintrack.errors import TrackError
from twintrack.job.records import Job, TrackSlot
from twintrack.tracks.base import Executable, NumberRules, OpenTrack, Services, Settings, Track
from twintrack.tracks.cpu import CpuTrack
from twintrack.tracks.cuda import CudaTrack
from twintrack.tracks.neuron import NeuronTrack
from twintrack.tracks.trn2 import Trn2Track

__all__ = [
    "TRACKS",
    "Choice",
    "Executable",
    "NumberRules",
    "OpenTrack",
    "Services",
    "Settings",
    "Track",
    "choose",
]

TRACKS: Mapping[str, Track] = MappingProxyType(
    {track.name: track for track in (CpuTrack(), CudaTrack(), NeuronTrack(), Trn2Track())}
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which track fills a place, or why none does."""

    slot: TrackSlot
    track: str | None
    reason: str
    """Why the tracks preferred to this one, or all of them, are absent; empty where the first one is there."""


def choose(job: Job, tracks: Mapping[str, Track] = TRACKS) -> tuple[Choice, ...]:
    """Fill the places of a job with the tracks that this machine has.

    Raises:
        TrackError: if a place stays empty and the job says to fail, if nothing would run at all, or if one track
            would fill two places.
    """
    choices: list[Choice] = []
    for slot in job.tracks:
        reasons: list[str] = []
        for name in slot.use:
            absence = tracks[name].absence()
            if absence is None:
                choices.append(Choice(slot, name, "; ".join(reasons)))
                break
            reasons.append(absence)
        else:
            if slot.if_absent == "fail":
                raise TrackError(
                    f"one of the tracks {', '.join(slot.use)}",
                    found="; ".join(reasons),
                    where="tracks",
                    remedy='run on a machine that has one, add a track, or set if_absent = "skip"',
                )
            choices.append(Choice(slot, None, "; ".join(reasons)))
    names = [c.track for c in choices if c.track is not None]
    if not names or len(set(names)) != len(names):
        raise TrackError(
            "places filled by different tracks",
            found=", ".join(names) or "no track at all",
            where="tracks",
            remedy="list other tracks",
        )
    return tuple(choices)
