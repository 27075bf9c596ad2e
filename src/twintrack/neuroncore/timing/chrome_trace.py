"""A profile as a trace that Perfetto and chrome://tracing open: one track per engine and per DMA queue.

Format: "Trace Event Format" (JSON object form): complete events (``ph`` X) with times in microseconds, metadata events
(``ph`` M) that name processes and threads. A core is a process. Transfers of one queue that are in flight at once lie
on tracks beside each other, because complete events of one track must not overlap.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from twintrack.neuroncore.timing.profile import Profile
from twintrack.neuroncore.timing.schedule import DMA, Span, Timeline
from twintrack.neuroncore.timing.trace import ENGINES, Step
from twintrack.neuroncore.timing.views import error_text

__all__ = ["Track", "chrome_trace", "tracks_of"]

_TITLES = {"tensor": "Tensor", "vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd", "sync": "Sync"}
_FIRST_DMA_TRACK = 100


class Track:
    """Spans that do not overlap, in the order of time.

    Args:
        name: such as ``Tensor`` or ``DMA sync queue 2``.
        number: of the track on its core; engines keep their own.
    """

    __slots__ = ("items", "name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.items: list[int] = []
        """Positions of steps."""


def tracks_of(timeline: Timeline) -> list[Track]:
    """Tracks of one core: engines that carried out something, then DMA queues."""
    engines = [Track(_TITLES[name], at) for at, name in enumerate(ENGINES)]
    queues: dict[str, list[int]] = {}
    for at, step in enumerate(timeline.trace.steps):
        if timeline.spans[at].reason == "dropped":
            continue
        if step.engine == DMA:
            queues.setdefault(step.queue, []).append(at)
        else:
            engines[step.engine].items.append(at)
    found = [one for one in engines if one.items]
    number = _FIRST_DMA_TRACK
    for queue in sorted(queues):
        name = "DMA" if queue in ("", "unknown") else f"DMA by {_TITLES.get(queue, queue)}"
        lanes = _lanes(queues[queue], timeline.spans)
        for at, lane in enumerate(lanes):
            track = Track(name if len(lanes) == 1 else f"{name} {at + 1}", number)
            track.items = lane
            found.append(track)
            number += 1
    return found


def _lanes(items: Sequence[int], spans: Sequence[Span]) -> list[list[int]]:
    """As few lanes as possible on which no two spans overlap: the first that is free, in the order of starts."""
    lanes: list[list[int]] = []
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for at in sorted(items, key=lambda one: (spans[one].start, one)):
        start, end = spans[at].start, spans[at].end
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(lanes)
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append(at)
        heapq.heappush(busy, (end, lane))
    return lanes


def chrome_trace(profile: Profile) -> dict[str, Any]:
    """The trace as a JSON value; times are whole picoseconds, written in microseconds."""
    events: list[dict[str, Any]] = []
    for core, (timeline, start) in enumerate(zip(profile.timelines, profile.starts, strict=True)):
        kind = "core" if profile.cores > 1 or profile.programs == 1 else "program"
        events.append(_meta(core, None, "process_name", {"name": f"{profile.kernel}, {kind} {core}"}))
        for track in tracks_of(timeline):
            events.append(_meta(core, track.number, "thread_name", {"name": track.name}))
            events.append(_meta(core, track.number, "thread_sort_index", {"sort_index": track.number}))
            events.extend(_events(core, track, timeline, start * 1e9))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "kernel": profile.kernel,
            "chip": profile.chip,
            "kind": "simulated",
            "time": str(profile.time),
            "time_seconds": profile.seconds,
            "time_interval_seconds": None if profile.error is None else list(profile.time.interval),
            "time_error": error_text(profile),
        },
    }


def _meta(core: int, track: int | None, name: str, args: dict[str, Any]) -> dict[str, Any]:
    event: dict[str, Any] = {"ph": "M", "pid": core, "name": name, "args": args}
    return event if track is None else event | {"tid": track}


def _events(core: int, track: Track, timeline: Timeline, offset: float) -> Iterator[dict[str, Any]]:
    steps, spans, lines = timeline.trace.steps, timeline.spans, timeline.trace.lines
    for at in track.items:
        step, span = steps[at], spans[at]
        start, end = _picoseconds(span.start + offset), _picoseconds(span.end + offset)
        yield {
            "ph": "X",
            "pid": core,
            "tid": track.number,
            "name": step.opcode,
            "cat": "dma" if step.engine == DMA else ENGINES[step.engine],
            "ts": start / 1e6,
            "dur": (end - start) / 1e6,
            "args": _args(step, span, steps, lines),
        }


def _picoseconds(ns: float) -> int:
    return round(ns * 1e3)


def _args(step: Step, span: Span, steps: Sequence[Step], lines: Sequence[str]) -> dict[str, Any]:
    args: dict[str, Any] = {"opcode": step.opcode, "line": lines[step.line], "instruction": step.number}
    if step.engine == DMA:
        work: Any = step.work
        args |= {"bytes": work.bytes, "descriptors": work.rows, "dma_engines": work.engines}
    if span.wait > 0:
        args |= {"wait_reason": span.reason, "wait_ns": round(span.wait, 3)}
    if span.cause >= 0:
        args |= {"waited_for": f"{steps[span.cause].opcode} at {lines[steps[span.cause].line]}"}
    return args
