"""A profile as one page: the timeline, the roofline, the tables, what would help most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twintrack.neuroncore.timing.binding import LIMIT_NAMES, REASONS
from twintrack.neuroncore.timing.chrome_trace import Track, tracks_of
from twintrack.neuroncore.timing.profile import Profile, counted, short_line
from twintrack.neuroncore.timing.schedule import DMA, Span, Timeline
from twintrack.neuroncore.timing.trace import Step
from twintrack.neuroncore.timing.views import (
    error_text,
    help_table,
    memory_table,
    queue_table,
    summary_table,
    unpublished_text,
    use_table,
    wait_table,
)
from twintrack.quantity import Provenance
from twintrack.report.records import (
    BarChart,
    BarSeries,
    Block,
    Callout,
    LineChart,
    Page,
    Section,
    Series,
)
from twintrack.report.tracks import MOST_SPANS, TrackLane, Tracks, TrackSpan, thinned

__all__ = ["page_of", "roofline", "timeline_of"]

_SLOTS = {"Tensor": 0, "Vector": 2, "Scalar": 4, "GpSimd": 3, "Sync": 7}
_DMA_SLOT = 5
_MOST_LANES = 24
_LONGEST_WAITS = 30


def page_of(profile: Profile) -> Page:
    """The whole page."""
    head: list[Block] = [
        Callout(
            "plain", f"What bounds it: {LIMIT_NAMES[profile.binding.resource]}", profile.binding.why + "."
        ),
        summary_table(profile),
    ]
    items = [error_text(profile), *profile.notes]
    if text := unpublished_text(profile):
        items.append(text)
    head.append(
        Callout(
            "warn" if profile.error is None or len(items) > 1 else "plain",
            "Read this with the figures",
            items=tuple(items),
        )
    )
    waits = (wait_table(profile, _LONGEST_WAITS), queue_table(profile, _LONGEST_WAITS))
    sections = (
        Section("Timeline", (timeline_of(profile),)),
        Section("Engines and memory", (use_table(profile), memory_table(profile))),
        Section(
            "What would help most", _help(profile), "The kernel timed again with one limit lifted at a time."
        ),
        Section("Roofline", (_roofline_block(profile),)),
        Section("Waits", tuple(one for one in waits if one.rows) or (Callout("good", "Nothing waited."),)),
    )
    programs = "" if profile.cores > 1 or profile.programs == 1 else f", {profile.programs} programs"
    return Page(
        title=f"Profile of {profile.kernel}",
        subtitle=f"{profile.where}{programs}, {counted(profile.instructions, 'instruction')}; simulated, not measured",
        head=tuple(head),
        sections=sections,
        footer="Made by twintrack's timing model of the NeuronCore from shapes and types; no device took part.",
    )


def _help(profile: Profile) -> tuple[Block, ...]:
    if not profile.what_if:
        return (Callout("plain", "The kernel was not timed again."),)
    shown = profile.what_if[:10]
    bars = ("as it is", *(one.text for one in shown))
    times = (profile.time, *(profile.quantity(one.seconds) for one in shown))
    chart = BarChart("time with one limit lifted", "s", bars, (BarSeries("time", times),))
    return (chart, replace(help_table(profile), title="What each would save"))


def _roofline_block(profile: Profile) -> Block:
    chart = roofline(profile)
    if chart is None:
        return Callout(
            "plain",
            "No place on a roofline",
            "The roofline is that of the Tensor Engine over HBM bytes, and this kernel has no matrix multiplication "
            "or moves nothing.",
        )
    return chart


def roofline(profile: Profile) -> LineChart | None:
    """Operations per HBM byte against TFLOPS, under the peaks of the cores; ``None`` without either."""
    intensity = profile.intensity
    if not intensity or not profile.flops:
        return None
    top = profile.peak_tflops * profile.cores
    slope = profile.bandwidth_peak * profile.cores * 1e-3  # TFLOPS per FLOP/byte
    ridge = top / slope
    low, high = min(intensity, ridge) / 30, max(intensity, ridge) * 10
    reached = profile.flops / profile.seconds * 1e-12
    formula = f"min({top:g} TFLOPS, {profile.bandwidth_peak * profile.cores:g} GB/s x FLOP per byte)"
    ends = (
        ()
        if profile.error is None
        else (reached / (1 + profile.error.high), reached / (1 - profile.error.low))
    )
    series = [
        Series("roof", (low, ridge, high), (low * slope, top, top), Provenance.BOUND, formula, 0),
        Series(
            profile.kernel,
            (intensity,),
            (reached,),
            Provenance.SIMULATED,
            "FLOP / simulated time",
            1,
            line=False,
        ),
    ]
    if ends:
        series.append(
            Series("its error", (intensity, intensity), ends, Provenance.SIMULATED, error_text(profile), 1)
        )
    share = reached / min(top, intensity * slope)
    return LineChart(
        "Tensor Engine against HBM",
        "FLOP per HBM byte",
        "TFLOPS",
        tuple(series),
        log_x=True,
        log_y=True,
        note=f"{reached:.4g} TFLOPS at {intensity:.4g} FLOP per byte: {share:.1%} of the roof there. "
        f"The flat part is {profile.peak_name}; the slope is {profile.bandwidth_peak:g} GB/s per core.",
    )


def timeline_of(profile: Profile, most: int = MOST_SPANS) -> Tracks:
    """Every engine and DMA queue of every core over time; of an extrapolated kernel over the traced stretch alone."""
    labels: dict[str, int] = {}
    lanes: list[TrackLane] = []
    hidden = 0
    for core, (timeline, start) in enumerate(zip(profile.timelines, profile.starts, strict=True)):
        tracks = tracks_of(timeline)
        hidden += max(0, len(tracks) - _MOST_LANES)
        prefix = "" if len(profile.timelines) == 1 else f"{core} "
        lanes += [_lane(prefix, track, timeline, start * 1e9, labels) for track in tracks[:_MOST_LANES]]
    if len(profile.timelines) > 1 and profile.cores == 1:
        lanes = _joined(lanes)
    traced = _traced_seconds(profile)
    length = round((profile.seconds if traced is None else traced) * 1e12)
    drawn, stretch = thinned(lanes, length, most)
    note = "Drag to move, Ctrl and wheel or double click to zoom; + - 0 and the arrow keys work too. "
    note += "A thin line before a bar is the engine's wait for it."
    if traced is not None:
        note += (
            f" It shows the part that was traced, {traced * 1e6:.4g} µs of {profile.seconds * 1e6:.4g} µs; "
            "iterations that were left out are not drawn."
        )
    if stretch:
        count = sum(len(lane.spans) for lane in lanes)
        note += (
            f" {count:,} instructions are more than a page holds: neighbours that start within {stretch / 1e3:.4g} ns "
            "are drawn as one block, its shade their active share. trace.json has all of them."
        )
    if hidden:
        note += f" {hidden} tracks of DMAs in flight beyond {_MOST_LANES} per core are only in trace.json."
    source = f"twintrack's timing model of a NeuronCore of {profile.chip}; {error_text(profile)}"
    return Tracks(
        f"engines and DMA queues on {profile.where}",
        length,
        drawn,
        tuple(labels),
        Provenance.SIMULATED,
        source,
        note,
    )


def _traced_seconds(profile: Profile) -> float | None:
    """Seconds that the timelines show, where the profile goes beyond them; ``None`` where they show all of it."""
    ends = [start + one.seconds for start, one in zip(profile.starts, profile.timelines, strict=True)]
    traced = max(ends, default=profile.seconds)
    return traced if traced < profile.seconds * (1 - 1e-9) else None


def _joined(lanes: Sequence[TrackLane]) -> list[TrackLane]:
    """Lanes of programs that run one after the other, those of one track together."""
    found: dict[str, list[TrackSpan]] = {}
    slots: dict[str, int] = {}
    for lane in lanes:
        name = lane.name.split(" ", 1)[1]
        found.setdefault(name, []).extend(lane.spans)
        slots[name] = lane.slot
    return [TrackLane(name, tuple(spans), slots[name]) for name, spans in found.items()]


def _lane(prefix: str, track: Track, timeline: Timeline, offset: float, labels: dict[str, int]) -> TrackLane:
    steps, spans = timeline.trace.steps, timeline.spans
    made = []
    end = 0
    for at in track.items:
        step, span = steps[at], spans[at]
        start = max(end, round((span.start + offset) * 1e3))
        end = max(start, round((span.end + offset) * 1e3))
        label = labels.setdefault(_label(step, span, timeline), len(labels))
        wait = 0 if step.engine == DMA else round(span.wait * 1e3)
        made.append(TrackSpan(start, end - start, label, wait))
    return TrackLane(prefix + track.name, tuple(made), _SLOTS.get(track.name, _DMA_SLOT))


def _label(step: Step, span: Span, timeline: Timeline) -> str:
    lines = timeline.trace.lines
    text = f"{step.opcode}\n{short_line(lines[step.line])}"
    if step.engine == DMA:
        size, rows = getattr(step.work, "bytes", 0), getattr(step.work, "rows", 0)
        text += f"\n{counted(size, 'byte')}, {counted(rows, 'descriptor')}"
    if span.cause >= 0:
        cause = timeline.trace.steps[span.cause]
        text += f"\nwaited for {REASONS[span.reason]}: {cause.opcode} at {short_line(lines[cause.line])}"
    elif span.wait > 0:
        text += f"\nwaited for {REASONS[span.reason]}"
    return text
