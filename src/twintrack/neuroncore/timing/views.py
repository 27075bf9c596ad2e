"""The tables of a profile, for the terminal and for the page alike."""

from __future__ import annotations

from collections.abc import Iterable

from twintrack.neuroncore.timing.binding import LIMIT_NAMES, REASONS
from twintrack.neuroncore.timing.profile import Profile, Wait, counted, short_line
from twintrack.quantity import Provenance, Quantity
from twintrack.report.records import Cell, Column, Table

__all__ = [
    "error_text",
    "help_table",
    "memory_table",
    "queue_table",
    "summary_table",
    "unpublished_text",
    "use_table",
    "wait_table",
]

_SHOWN_WAITS = 8
_DMA_WAITS = frozenset({"queue", "dma"})


def _share(profile: Profile, value: float, formula: str) -> Quantity:
    return Quantity.derived(100 * value, "%", formula, [profile.time])


def _count(value: int) -> str:
    return f"{value:,}"


def _bytes(value: int, formula: str) -> Quantity:
    return Quantity(
        value,
        "byte",
        Provenance.DERIVED,
        formula,
        rests_on=Provenance.SIMULATED,
        conditions="from shapes and types",
    )


def error_text(profile: Profile) -> str:
    """What the error of a time rests on, or that there is none."""
    if profile.error is None:
        return "error of these times: unknown, the accuracy table has no predicted row"
    low, high = 100 * profile.error.low, 100 * profile.error.high
    return f"error of these times: -{low:.1f} % to +{high:.1f} %, {profile.error.basis}"


def summary_table(profile: Profile) -> Table:
    """Time, rates and bytes."""
    dma = profile.dma
    rows: list[tuple[Cell, Cell, Cell]] = [
        ("time", profile.time, f"{profile.where}; kind of kernel: {profile.kind}"),
    ]
    if profile.flops:
        flops = Quantity.derived(profile.flops, "FLOP", "2 K M N per matrix multiplication", [profile.time])
        rows.append(("Tensor Engine work", flops, "multiplications and additions"))
        rows.append(("MFU", _share(profile, profile.mfu, "FLOP / time / peak"), f"of {profile.peak_name}"))
    read, written = profile.hbm_read_bytes, profile.hbm_written_bytes
    rows += [
        ("HBM read", _bytes(read, "bytes that DMAs read from HBM"), ""),
        ("HBM written", _bytes(written, "bytes that DMAs wrote to HBM"), ""),
        (
            "SBUF accessed",
            _bytes(profile.sbuf_bytes, "bytes of SBUF operands"),
            "read and written by engines and DMAs",
        ),
        (
            "bandwidth",
            _share(profile, profile.bandwidth_share, "HBM bytes / time / DMA peak"),
            f"of {profile.bandwidth_peak:g} GB/s, the DMA peak of a core",
        ),
    ]
    if dma.transfers:
        rate = Quantity.derived(dma.gigabytes_per_second, "GB/s", "bytes / active seconds", [profile.time])
        what = f"while active; {counted(dma.transfers, 'transfer')}, {counted(dma.descriptors, 'descriptor')}"
        rows.append(("DMA rate", rate, what))
    if profile.throttled_seconds > 0:
        lost = profile.quantity(profile.throttled_seconds)
        rows.append(("throttled", lost, "lost by the Tensor Engine to its limit after idleness"))
    columns = (Column(""), Column("figure", numeric=True), Column("what it is"))
    return Table("", columns, tuple(rows))


def use_table(profile: Profile) -> Table:
    """Active time and share of every engine and of DMA."""
    used = [
        (LIMIT_NAMES[name], one.active_seconds, one.share, one.instructions)
        for name, one in profile.engines.items()
    ]
    used.append(("DMA", profile.dma.active_seconds, profile.dma.share, profile.dma.transfers))
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            profile.quantity(seconds) if count else "-",
            _share(profile, share, "active time / time of all cores") if count else "-",
            _count(count),
        )
        for name, seconds, share, count in used
    ]
    columns = (Column(""), *(Column(name, numeric=True) for name in ("active", "share", "instructions")))
    note = "Active excludes waiting. DMA is active while at least one of its engines is busy"
    if profile.dma.transfers:
        note += f"; all its engines together are busy for {profile.dma.busy_share:.1%} of the time"
    return Table("Engines and DMA", columns, tuple(rows), note=note + ".")


def memory_table(profile: Profile) -> Table:
    """Peaks on chip and spills."""
    rows: list[tuple[Cell, ...]] = [
        (name, _count(peak), _count(room), f"{peak / room:.1%}")
        for name, peak, room in (
            ("SBUF", profile.sbuf_peak, profile.sbuf_room),
            ("PSUM", profile.psum_peak, profile.psum_room),
        )
    ]
    columns = (Column(""), *(Column(name, numeric=True) for name in ("peak", "there is", "share")))
    spilled = sum(one.bytes for one in profile.spills)
    note = "Bytes per partition that live at once. No tile must be spilled."
    if profile.spills:
        first = profile.spills[0]
        note = (
            "Bytes per partition that live at once. The compiler would have to spill "
            f"{counted(len(profile.spills), 'tile')}, {spilled:,} bytes, the first of them made at "
            f"{short_line(first.line)}."
        )
    return Table("On chip", columns, tuple(rows), note=note)


def help_table(profile: Profile) -> Table:
    """Times with one limit lifted."""
    rows: list[tuple[Cell, ...]] = [
        (one.text, profile.quantity(one.seconds), _share(profile, one.saved, "1 - time / time as it is"))
        for one in profile.what_if
    ]
    columns = (Column("timed again with"), Column("time", numeric=True), Column("saved", numeric=True))
    note = "One limit lifted at a time; a limit that is not listed was never met."
    if any(one.saved < 0 for one in profile.what_if):
        note += " Below 0: DMAs come into an order that is worse."
    return Table("What would help most", columns, tuple(rows), note=note)


def _wait_rows(profile: Profile, waits: Iterable[Wait], most: int) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (
            short_line(one.line),
            LIMIT_NAMES[one.engine].removesuffix(" Engine"),
            f"{REASONS[one.reason]} of {short_line(one.cause)}" if one.cause else REASONS[one.reason],
            profile.quantity(one.seconds),
            _count(one.count),
        )
        for one in list(waits)[:most]
    )


def wait_table(profile: Profile, most: int = _SHOWN_WAITS) -> Table:
    """The longest waits of engines by source line."""
    waits = [one for one in profile.waits if one.reason not in _DMA_WAITS]
    columns = (
        Column("waiting"),
        Column("engine"),
        Column("for"),
        Column("in total", numeric=True),
        Column("times", numeric=True),
    )
    note = "An engine waits when it could have taken the instruction earlier."
    if len(waits) > most:
        note += f" {len(waits) - most} more lines are in profile.json."
    return Table("The longest waits", columns, _wait_rows(profile, waits, most), note=note)


def queue_table(profile: Profile, most: int = _SHOWN_WAITS) -> Table:
    """DMAs that were ready and waited for their queue or engines, on average."""
    waits = [one for one in profile.waits if one.reason in _DMA_WAITS]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            short_line(one.line),
            REASONS[one.reason],
            profile.quantity(one.seconds / one.count),
            _count(one.count),
        )
        for one in waits[:most]
    )
    columns = (
        Column("line"),
        Column("for"),
        Column("each, on average", numeric=True),
        Column("DMAs", numeric=True),
    )
    note = "Operands were there; many DMAs wait at once, so these times overlap."
    return Table("DMAs that waited in line", columns, rows, note=note)


def unpublished_text(profile: Profile) -> str:
    """Which instructions have no published cost; empty for none."""
    if not profile.unpublished:
        return ""
    named = ", ".join(f"{name} ({count:,})" for name, count in profile.unpublished.items())
    return f"no published cost, so the rule of thumb of one element per cycle: {named}"
