"""Checkpoints, stops and resumes: when they were, what they cost, and whether the bits came out the same."""

from __future__ import annotations

from twintrack.pilot.page_overview import NONE, bit_status
from twintrack.pilot.summary_parts import CheckpointSummary, LegSummary
from twintrack.pilot.summary_records import RunSummary, Summary, TrackSummary
from twintrack.quantity import Provenance
from twintrack.report.records import (
    Block,
    Callout,
    Cell,
    Column,
    Lane,
    LineChart,
    Mark,
    Section,
    Series,
    Span,
    Status,
    Table,
    Timeline,
    Tone,
)

__all__ = ["resume"]

_ENDS: dict[str, Status] = {
    "done": Status("done", "good"),
    "polite": Status("polite stop"),
    "signal": Status("stopped by a signal"),
    "error": Status("error", "bad"),
    "killed": Status("killed"),
    "lost": Status("lost", "warn"),
    "untold": Status("not told", "warn"),
}


def resume(summary: Summary) -> Section:
    """Timelines, the check to the bit, processes and checkpoints."""
    blocks: list[Block] = []
    runs = [run for track in summary.tracks for run in track.runs]
    if not runs:
        return Section("Checkpoints and resume", (Callout("warn", "No run is on record"),))
    if any(run.legs and run.legs[0].started.known for run in runs):
        blocks.append(_by_time(runs))
    interrupted = [track.interrupted for track in summary.tracks if track.interrupted is not None]
    if interrupted:
        blocks.append(_by_step(interrupted))
    blocks += _checks(summary.tracks)
    blocks += [_processes(runs), _cost(summary.tracks), _checkpoints(runs), _step_times(summary)]
    lead = "The interrupted run is stopped and killed as the job says, and must end in the same bits."
    return Section("Checkpoints and resume", tuple(blocks), lead)


def _sources(runs: list[RunSummary]) -> str:
    return ", ".join(run.events for run in runs)


def _by_time(runs: list[RunSummary]) -> Timeline:
    timed = [run for run in runs if run.legs and run.legs[0].started.known]
    lanes = tuple(Lane(f"{run.track} · {run.run}", _time_spans(run), _time_marks(run)) for run in timed)
    return Timeline(
        "Runs over time",
        "seconds since the run began",
        lanes,
        Provenance.MEASURED,
        _sources(runs),
        (
            ("start", "before the first step"),
            ("work", "steps, evaluation, answers"),
            ("save", "checkpoint being written"),
            ("checkpoint", "checkpoint complete"),
            ("stop", "stop or kill"),
            ("resume", "resumed"),
            ("lost", "checkpoint not completed"),
        ),
    )


def _time_spans(run: RunSummary) -> tuple[Span, ...]:
    spans = []
    for leg in run.legs:
        if leg.started.value is None or leg.ended.value is None:
            continue
        start, end = leg.started.value, leg.ended.value
        ready = end if leg.first_step_done.value is None else leg.first_step_done.value
        label = f"{run.track} · {run.run}, process {leg.number}"
        spans.append(Span(start, ready, f"{label}: before the first step", "start"))
        if end > ready:
            spans.append(Span(ready, end, f"{label}: steps {_steps(leg)}", "work"))
    for one in run.checkpoints:
        if one.outcome == "saved" and one.started.value is not None:
            begin = one.started.value
            spans.append(Span(begin, begin + one.seconds.require(), f"checkpoint of step {one.step}", "save"))
    return tuple(spans)


def _steps(leg: LegSummary) -> str:
    return f"{leg.first_step} to {leg.last_step}" if leg.first_step is not None else "none"


def _ending(leg: LegSummary) -> Status:
    known = _ENDS[leg.how]
    return Status(f"{known.text}: {leg.message}" if leg.message else known.text, known.tone)


def _time_marks(run: RunSummary) -> tuple[Mark, ...]:
    marks = [
        Mark(stop.at.value, f"{stop.kind} after step {stop.step}", "stop")
        for stop in run.stops
        if stop.at.value is not None
    ]
    marks += [
        Mark(leg.started.value, f"process {leg.number} resumes from step {leg.resumed_from}", "resume")
        for leg in run.legs
        if leg.resumed_from is not None and leg.started.value is not None
    ]
    for one in run.checkpoints:
        if one.started.value is None:
            continue
        if one.outcome == "saved":
            at = one.started.value + one.seconds.require()
            marks.append(Mark(at, f"checkpoint of step {one.step} complete", "checkpoint"))
        else:
            marks.append(Mark(one.started.value, f"checkpoint of step {one.step}: {one.outcome}", "lost"))
    return tuple(marks)


def _by_step(runs: list[RunSummary]) -> Timeline:
    lanes = []
    for run in runs:
        for leg in run.legs:
            if leg.first_step is None or leg.last_step is None:
                continue
            span = Span(leg.first_step - 1, leg.last_step, f"{run.track}: steps {_steps(leg)}", "work")
            lanes.append(Lane(f"{run.track} · process {leg.number}", (span,), _step_marks(run, leg)))
    return Timeline(
        "Steps of each process of the interrupted runs",
        "steps done; where two processes overlap, the later one did the steps again",
        tuple(lanes),
        Provenance.MEASURED,
        _sources(runs),
        (
            ("work", "steps"),
            ("checkpoint", "checkpoint complete"),
            ("stop", "stop or kill"),
            ("resume", "resumed from"),
            ("lost", "checkpoint not completed"),
        ),
    )


def _step_marks(run: RunSummary, leg: LegSummary) -> tuple[Mark, ...]:
    marks = [
        Mark(stop.step, f"{stop.kind} after step {stop.step}", "stop")
        for stop in run.stops
        if stop.leg == leg.number
    ]
    if leg.resumed_from is not None:
        marks.append(Mark(leg.resumed_from, f"resumed from step {leg.resumed_from}", "resume"))
    for one in run.checkpoints:
        if one.leg == leg.number:
            saved = one.outcome == "saved"
            text = f"checkpoint of step {one.step}: {one.outcome}"
            marks.append(Mark(one.step, text, "checkpoint" if saved else "lost"))
    return tuple(marks)


def _checks(tracks: tuple[TrackSummary, ...]) -> list[Block]:
    """A row per thing compared, two columns per track; differences stand in full below."""
    names = dict.fromkeys(check.name for track in tracks for check in track.resume.checks)
    found = [{check.name: check for check in track.resume.checks} for track in tracks]
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        row: list[Cell] = [name]
        for checks in found:
            check = checks.get(name)
            row += [NONE, NONE] if check is None else [bit_status(check.identical), check.compared]
        rows.append(tuple(row))
    last: list[Cell] = ["everything"]
    for track in tracks:
        last += [bit_status(track.resume.to_the_bit), NONE]
    columns = [Column("compared")]
    for track in tracks:
        columns += [Column(f"{track.track}: equal to the bit"), Column("entries", numeric=True)]
    title = "The interrupted run against the uninterrupted one"
    items = tuple(f"{track.track}: {track.resume.reason}" for track in tracks if track.resume.reason)
    tone: Tone = "bad" if any(track.resume.to_the_bit is False for track in tracks) else "warn"
    table = Table(title, tuple(columns), (*rows, tuple(last)))
    return [table, Callout(tone, "Not equal, or not known to be", items=items)] if items else [table]


def _processes(runs: list[RunSummary]) -> Table:
    rows = tuple(
        (
            f"{run.track} · {run.run}",
            str(leg.number),
            NONE if leg.resumed_from is None else str(leg.resumed_from),
            _steps(leg),
            _ending(leg),
            leg.bytes_read if leg.resumed_from is not None else NONE,
            leg.resume_seconds if leg.resumed_from is not None else NONE,
            leg.repeated_steps if leg.resumed_from is not None else NONE,
            leg.ended,
        )
        for run in runs
        for leg in run.legs
    )
    columns = (
        Column("run"),
        Column("process", numeric=True),
        Column("from step", numeric=True),
        Column("steps done"),
        Column("ended"),
        Column("read", numeric=True, note="bytes of the checkpoint, read to resume"),
        Column("resume", numeric=True),
        Column("steps again", numeric=True),
        Column("ended at", numeric=True, note="time since the run began"),
    )
    return Table("Processes", columns, rows)


def _cost(tracks: tuple[TrackSummary, ...]) -> Table:
    rows = tuple(
        (
            f"{track.track} · {run.run}",
            run.failures,
            run.restarts,
            run.bytes_reread,
            run.repeated_steps,
            track.stall,
            track.slowdown,
        )
        for track in tracks
        for run in track.runs
    )
    columns = (
        Column("run"),
        Column("ended out of order", numeric=True),
        Column("restarts", numeric=True),
        Column("read again", numeric=True),
        Column("steps again", numeric=True),
        Column("median stall", numeric=True, note="over both runs of the track"),
        Column(
            "step while saving", numeric=True, note="relative to other steps, over both runs of the track"
        ),
    )
    return Table("What faults and checkpoints cost", columns, rows)


def _checkpoints(runs: list[RunSummary]) -> Table:
    rows = tuple(
        (
            f"{run.track} · {run.run}",
            str(one.leg),
            str(one.step),
            _outcome(one),
            one.bytes,
            one.stall,
            one.seconds,
            {True: "background", False: "in the step", None: NONE}[one.asynchronous],
            one.removed or NONE,
        )
        for run in runs
        for one in run.checkpoints
    )
    columns = (
        Column("run"),
        Column("process", numeric=True),
        Column("step", numeric=True),
        Column("outcome"),
        Column("size", numeric=True),
        Column("stall", numeric=True, note="training was held up"),
        Column("to complete", numeric=True, note="from the snapshot to the manifest on disk"),
        Column("written"),
        Column("removed later because"),
    )
    return Table("every checkpoint", columns, rows, folded=True)


def _outcome(one: CheckpointSummary) -> Status:
    match one.outcome:
        case "saved":
            return Status("complete", "good")
        case "failed":
            return Status(f"failed: {one.detail}", "bad")
        case _:
            return Status("not completed", "warn")


def _step_times(summary: Summary) -> LineChart:
    runs = [(slot, track.reference) for slot, track in enumerate(summary.tracks)]
    series = tuple(_settled(run, slot) for slot, run in runs if run is not None)
    note = "The first step of each process is left out: it pays for everything that happens once."
    return LineChart("Time per step, uninterrupted runs", "step", "seconds", series, note=note)


def _settled(run: RunSummary, slot: int) -> Series:
    curve, firsts = run.step_seconds, {leg.first_step for leg in run.legs}
    kept = [(s, y) for s, y in zip(curve.steps, curve.values, strict=True) if s not in firsts]
    return Series(
        run.track, tuple(s for s, _ in kept), tuple(y for _, y in kept), curve.kind, curve.source, slot
    )
