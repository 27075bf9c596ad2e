"""What a run cost, line by line, as frozen records; money stands here and nowhere else, made when it is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twintrack.quantity import Quantity

__all__ = ["LINES", "Input", "Line", "LineName", "PilotLedger", "TrackLedger"]

LineName = Literal[
    "reserved resource",
    "compilation",
    "cache storage",
    "data transfer and loading",
    "resume",
    "abandoned trials",
    "operating time",
]
LINES: tuple[LineName, ...] = (
    "reserved resource",
    "compilation",
    "cache storage",
    "data transfer and loading",
    "resume",
    "abandoned trials",
    "operating time",
)


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a line, by the name that its formula uses."""

    name: str
    value: Quantity


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a ledger."""

    name: LineName
    amount: Quantity
    """In the ledger's currency; unknown with the reason."""
    without_faults: Quantity
    """What the same run would have cost without its stops, kills and repeated steps."""
    formula: str
    inputs: tuple[Input, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class TrackLedger:
    """What one track's run cost."""

    run: str
    """The run, as ``FOLDER:TRACK/KIND``; ``FOLDER`` alone where the track did not run."""
    track: str
    machine: str | None
    """Instance whose price is used, and how many of them."""
    currency: str
    time: Quantity
    """Seconds for which machines of this kind are needed: measured on one, simulated, or published and scaled to the
    job; never those of an emulation, never a bound."""
    lines: tuple[Line, ...]
    """One of each name, in the order of ``LINES``."""
    total: Quantity
    """Sum of all lines but those ``left_out``; unknown as soon as one of them is."""
    total_without_faults: Quantity
    per_million_tokens: Quantity
    """``total`` over the training tokens of the run, in currency per 10^6 tokens."""
    stale: tuple[str, ...] = ()
    """Prices that are too old to decide anything, each with its date and age."""
    remarks: tuple[str, ...] = ()
    """What else a reader must know, such as that a published figure was scaled to the job, and how."""
    left_out: tuple[LineName, ...] = ()
    """Lines whose quantity nobody recorded or stated (start-up beside a published speed, hours of people that the job
    does not give): not in the total. Two totals are alike only without what either leaves out, see ``like_totals``."""


@dataclass(frozen=True, slots=True)
class PilotLedger:
    """The ledgers of all tracks of a run folder, on one day."""

    on: str
    """Day to which prices are looked up and ages counted, ``YYYY-MM-DD``."""
    tracks: tuple[TrackLedger, ...]

    def of(self, track: str) -> TrackLedger | None:
        """The ledger of a track, if it ran."""
        return next((one for one in self.tracks if one.track == track), None)
