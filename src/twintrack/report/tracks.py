"""Many spans on several tracks, with a hover text each: a timeline that a reader zooms into.

Spans are written as whole picoseconds, each as its distance from the one before, so that 100,000 of them take about
3 MB of a page. More than that is drawn as blocks of neighbours, and the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from twintrack.quantity import Provenance

__all__ = ["MOST_SPANS", "TrackLane", "TrackSpan", "Tracks", "thinned", "tracks_data"]

MOST_SPANS = 60_000
"""Most spans that a page is given."""


class TrackSpan(NamedTuple):
    """One stretch of a track, in whole picoseconds.

    Attributes:
        start: from the beginning of the axis.
        length: 0 or more.
        label: position in ``Tracks.labels``.
        wait: picoseconds of waiting right before it, drawn as a line; 0 for none.
        instructions: that it stands for.
        active: picoseconds of them, in a block of several.
    """

    start: int
    length: int
    label: int
    wait: int = 0
    instructions: int = 1
    active: int = 0


@dataclass(frozen=True, slots=True)
class TrackLane:
    """Spans of one track in the order of time; they do not overlap.

    Args:
        name: to the left of it.
        spans: of the track.
        slot: its colour in the palette.
    """

    name: str
    spans: tuple[TrackSpan, ...]
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Tracks:
    """Tracks over one axis of time, all from one kind of source.

    Args:
        title: of the figure.
        length: picoseconds of the axis.
        lanes: from the top.
        labels: texts of spans: the first line is drawn in them, all of it shown when a reader points at them.
        kind: of the figures.
        source: likewise.
        note: below it.
    """

    title: str
    length: int
    lanes: tuple[TrackLane, ...]
    labels: tuple[str, ...]
    kind: Provenance
    source: str
    note: str = ""


def thinned(
    lanes: Sequence[TrackLane], length: int, most: int = MOST_SPANS
) -> tuple[tuple[TrackLane, ...], int]:
    """Lanes of at most so many spans: neighbours of one lane that start in one stretch of time become a block.

    Args:
        lanes: any.
        length: picoseconds of the axis.
        most: spans of all lanes; where there are more lanes, one of each.

    Returns:
        The lanes, and the picoseconds of a stretch; 0 where nothing was put together.
    """
    if sum(len(lane.spans) for lane in lanes) <= most:
        return tuple(lanes), 0
    stretch = max(1, length // most)
    while True:
        found = tuple(TrackLane(lane.name, _blocks(lane.spans, stretch), lane.slot) for lane in lanes)
        if sum(len(lane.spans) for lane in found) <= most or stretch > length:
            return found, stretch
        stretch *= 2


def _blocks(spans: Sequence[TrackSpan], stretch: int) -> tuple[TrackSpan, ...]:
    found: list[TrackSpan] = []
    for span in spans:
        if found and found[-1].start // stretch == span.start // stretch:
            last = found[-1]
            active = (last.active if last.instructions > 1 else last.length) + span.length
            found[-1] = TrackSpan(
                last.start,
                span.start + span.length - last.start,
                last.label,
                last.wait,
                last.instructions + 1,
                active,
            )
        else:
            found.append(span)
    return tuple(found)


def tracks_data(tracks: Tracks) -> dict[str, Any]:
    """What the page's script reads.

    Per lane ``spans`` is a flat list of ``[gap, length, label, wait]`` per span and ``blocks`` maps the position of a
    block to ``[count, active]``.
    """
    return {
        "length": tracks.length,
        "labels": list(tracks.labels),
        "lanes": [_lane(lane) for lane in tracks.lanes],
    }


def _lane(lane: TrackLane) -> dict[str, Any]:
    flat: list[int] = []
    blocks: dict[str, list[int]] = {}
    at = 0
    for number, span in enumerate(lane.spans):
        flat += (span.start - at, span.length, span.label, span.wait)
        at = span.start + span.length
        if span.instructions > 1:
            blocks[str(number)] = [span.instructions, span.active]
    return {"name": lane.name, "slot": lane.slot, "spans": flat, "blocks": blocks}
