"""Time before the first step, cold and warm, and what was compiled for which reason."""

from __future__ import annotations

from twintrack.pilot.page_overview import NONE
from twintrack.pilot.summary_parts import StartSummary
from twintrack.pilot.summary_records import Summary, TrackSummary
from twintrack.pilot.summary_start import PARTS
from twintrack.report.records import BarSeries, Block, Callout, Cell, Column, Section, StackedBars, Table

__all__ = ["compilation", "starts"]

_NAMES = {"first_step": "first step"}
_DURING = {
    "warmup": "before the end of the first step",
    "first_use": "first use, later",
    "later": "again: a recompile",
}
# matching colours for parts of one kind: reading in, compiling, executing
_SLOTS = {"import": 6, "data": 5, "model": 0, "resume": 3, "capture": 1, "compile": 4, "first_step": 2}


def starts(summary: Summary) -> Section:
    """Stacked bars, cold and warm beside each other, and every start as a table."""
    bars: list[tuple[str, StartSummary]] = []
    for track in summary.tracks:
        bars += [(f"{track.track} · cold", track.cold)] if track.cold else []
        bars += [(f"{track.track} · warm", track.warm)] if track.warm else []
    if not bars:
        return Section("Time before the first step", (Callout("warn", "No start is on record"),))
    parts = tuple(
        BarSeries(_NAMES.get(name, name), tuple(start.part(name) for _, start in bars), _SLOTS[name])
        for name in PARTS
        if any(start.part(name) is not None for _, start in bars)
    )
    notes = [_note(track) for track in summary.tracks]
    chart = StackedBars(
        "Time before the first step is done",
        "s",
        tuple(name for name, _ in bars),
        parts,
        tuple(start.total for _, start in bars),
        " ".join(note for note in notes if note),
    )
    lead = "Cold: the compile cache is empty and programs are captured. Warm: programs come from the cache."
    return Section("Time before the first step", (chart, _shown(bars), _table(summary)), lead)


def _note(track: TrackSummary) -> str:
    if track.cold is not None and track.cold.programs == "none":
        return (
            f"{track.track} compiles no program: its two bars are two plain starts. The first may convert "
            "weights that are kept after it, and read files that the system did not yet have in memory."
        )
    if track.cold is not None and track.cold.note:
        return f"{track.track}, cold: {track.cold.note}; writing the entries is not on record."
    return ""


def _row(head: tuple[Cell, ...], start: StartSummary) -> tuple[Cell, ...]:
    seconds = [start.part(name) for name in PARTS]
    return (*head, *(NONE if one is None else one for one in seconds), start.total)


def _columns(*heads: Column) -> tuple[Column, ...]:
    parts = tuple(Column(_NAMES.get(name, name), numeric=True) for name in PARTS)
    return (*heads, *parts, Column("total", numeric=True))


def _shown(bars: list[tuple[str, StartSummary]]) -> Table:
    rows = tuple(_row((name,), start) for name, start in bars)
    return Table("Cold and warm", _columns(Column("start")), rows)


def _table(summary: Summary) -> Table:
    rows = tuple(
        _row((f"{track.track} · {start.run}", str(start.leg), start.captured, start.loaded), start)
        for track in summary.tracks
        for run in track.runs
        for start in run.starts
    )
    heads = (
        Column("run"),
        Column("process", numeric=True),
        Column("captured", numeric=True, note="programs captured before the first step"),
        Column("loaded", numeric=True, note="programs loaded from the cache before the first step"),
    )
    return Table("every start", _columns(*heads), rows, folded=True)


def compilation(summary: Summary) -> Section:
    """Compilations by reason, warm-up apart from later ones, and one by one."""
    blocks: list[Block] = []
    for track in summary.tracks:
        if not track.compile_reasons:
            continue
        reasons = tuple(
            (
                _DURING[one.during],
                "loaded" if one.warm else "captured",
                one.reason,
                ", ".join(one.programs),
                one.count,
                one.seconds,
            )
            for one in track.compile_reasons
        )
        heads = ("when", "how", "reason", "programs")
        columns = (*map(Column, heads), Column("times", numeric=True), Column("time spent", numeric=True))
        blocks.append(Table(f"{track.track}: compilations by reason, both runs", columns, reasons))
        blocks.append(_each(track))
    if not blocks:
        blocks.append(Callout("plain", "No track that ran compiles programs"))
    return Section("Compilation", tuple(blocks))


def _each(track: TrackSummary) -> Table:
    rows = tuple(
        (
            one.run,
            str(one.leg),
            one.program,
            one.key[:12],
            "loaded" if one.warm else "captured",
            one.reason,
            one.operators,
            one.capture_seconds,
            one.load_seconds,
        )
        for run in track.runs
        for one in run.compiles
    )
    columns = (
        Column("run"),
        Column("process", numeric=True),
        Column("program"),
        Column("key"),
        Column("how"),
        Column("reason"),
        Column("operators", numeric=True),
        Column("capture", numeric=True, note="of a loaded program: when its entry was made"),
        Column("load or store", numeric=True),
    )
    return Table(f"{track.track}: every program of every process", columns, rows, folded=True)
