"""A qualification as tables for the terminal: the verdict first, then what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from twintrack.pilot.qualify.published import PublishedCheck
from twintrack.pilot.qualify.records import DeviceMemory, Place, Qualification, Verdict
from twintrack.pilot.qualify.spread import count_of
from twintrack.quantity import Quantity
from twintrack.report.records import Cell, Column, Status, Table, Tone

__all__ = [
    "detail_tables",
    "gib",
    "main_tables",
    "published_table",
    "status_of",
    "verdict_lines",
]

_TONES: dict[Verdict, Tone] = {
    Verdict.FITS: "good",
    Verdict.TOO_CLOSE: "warn",
    Verdict.DOES_NOT_FIT: "bad",
    Verdict.UNKNOWN: "warn",
}
_GIB = 2**30
_NONE = "–"


def status_of(verdict: Verdict) -> Status:
    """The verdict with its tone."""
    return Status(str(verdict), _TONES[verdict])


def gib(quantity: Quantity) -> Quantity:
    """The same figure in GiB, the unit in which devices state their memory, to four digits."""
    if quantity.value is None:
        return replace(quantity, unit="GiB")
    return replace(quantity, value=float(f"{quantity.value / _GIB:.4g}"), unit="GiB")


def verdict_lines(found: Qualification) -> Iterator[tuple[Tone, str]]:
    """The job and its plan; one line a place, and under it the smallest change that would make it fit."""
    plan = found.plan
    product = f"data {plan.data} x tensor {plan.tensor} x pipeline {plan.pipeline}"
    yield "plain", f"{found.job}: {found.model}, {product} = {count_of(plan.devices, 'device')}"
    for place in found.places:
        where = f"{place.track} ({place.instance or place.device}, {place.compute})"
        yield _TONES[place.verdict], f"{where} {place.sentence}"
        if place.verdict in (Verdict.FITS, Verdict.UNKNOWN):
            continue
        if place.change is None:
            yield "plain", "  nothing that was tried makes it fit: rank, micro-batch, recomputation, plan"
            continue
        peak = place.change.peak.require() / _GIB
        spread = f"; {place.change.spread.text}" if place.change.spread else ""
        yield "plain", f"  it would with {', and '.join(place.change.settings)}: {peak:,.1f} GiB{spread}"
        if place.recomputed is not None and not any("recomputation" in one for one in place.change.settings):
            peak, highest = (
                place.recomputed.peak.total.require() / _GIB,
                place.recomputed.peak.total.interval[1],
            )
            if highest <= place.capacity.require():
                yield (
                    "plain",
                    f"  or with every decoder layer computed again (no key of the job): {peak:,.1f} GiB",
                )


def main_tables(found: Qualification) -> Iterator[Table]:
    """Memory at the peak, the plan, sizes of files, programs."""
    yield from _memory(found.places)
    yield _sizes(found)
    if found.plan.findings:
        rows = tuple((one.subject, _finding(one.blocks, one.text)) for one in found.plan.findings)
        yield Table("parallel plan", (Column("part"), Column("what the plan does to it")), rows)
    if found.shapes is not None:
        yield _programs(found)


def _finding(blocks: bool, text: str) -> Cell:
    return Status(text, "bad") if blocks else text


def _memory(places: Sequence[Place]) -> Iterator[Table]:
    """Kinds of memory as rows; a column per place of another need."""
    distinct: dict[tuple[str, str], Place] = {}
    for place in places:
        if place.memory is not None:
            distinct.setdefault((place.track, place.compute), place)
    if not distinct:
        return
    shown = list(distinct.values())
    kinds = list(dict.fromkeys(part.kind for one in shown if one.memory for part in one.memory.peak.parts))
    rows: list[tuple[Cell, ...]] = [(kind, *(_part(one.memory, kind) for one in shown)) for kind in kinds]
    rows.append(("peak", *(gib(one.memory.peak.total) if one.memory else _NONE for one in shown)))
    rows.append(("  at", *(_when(one.memory) for one in shown)))
    rows.append(
        ("  if recomputed", *(gib(one.recomputed.peak.total) if one.recomputed else _NONE for one in shown))
    )
    rows.append(("host, loading", *(gib(one.host.loading) if one.host else _NONE for one in shown)))
    rows.append(("host, saving", *(gib(one.host.saving) if one.host else _NONE for one in shown)))
    columns = (Column("kind"), *(Column(f"{one.track}, {one.compute}", numeric=True) for one in shown))
    yield Table(
        "memory of the device that needs most, and of one host",
        columns,
        tuple(rows),
        note=_memory_note(kinds),
    )


def _memory_note(kinds: Sequence[str]) -> str:
    """What the rows' names do not say."""
    note = "if recomputed: with every decoder layer computed again, which the training step has no key for"
    if "LoRA" not in kinds:
        return note
    return (
        "LoRA: the adapters in the compute type, those in use and as they were made; master weights: the same adapters"
        f" in float32, which the optimizer updates. {note[0].upper()}{note[1:]}"
    )


def _part(memory: DeviceMemory | None, kind: str) -> Cell:
    parts = memory.peak.parts if memory else ()
    return next((gib(part.size) for part in parts if part.kind == kind), _NONE)


def _when(memory: DeviceMemory | None) -> str:
    if memory is None:
        return _NONE
    return memory.peak.name + (f", stage {memory.stage}" if memory.stage else "")


def _sizes(found: Qualification) -> Table:
    numbers, files = found.parameters, found.checkpoints
    rows: list[tuple[Cell, ...]] = [
        ("parameters of the model", numbers.total),
        ("  as its publisher says", numbers.published or "not known here"),
        ("trained parameters", numbers.trainable),
        ("modules with an adapter", str(len(numbers.adapted_modules))),
        ("one checkpoint", files.ours),
        ("checkpoints on disk at most", files.kept),
        ("result of a run", files.result),
        ("whole model for the hub", files.hub),
    ]
    return Table("parameters and files", (Column("what"), Column("figure", numeric=True)), tuple(rows))


def _programs(found: Qualification) -> Table:
    shapes = found.shapes
    if shapes is None:
        raise ValueError("programs were not counted")
    rows: list[tuple[Cell, ...]] = [(one.function, one.programs, one.reason) for one in shapes.functions]
    rows.append(("all", shapes.programs, ""))
    note = ""
    if found.operators:
        answers = Counter(one.answer for one in found.operators)
        listed = ", ".join(f"{count} {answer}" for answer, count in sorted(answers.items()))
        note = f"{len(found.operators)} operators in the step; by published lists: {listed}"
    columns = (Column("function"), Column("programs", numeric=True), Column("why"))
    return Table("programs to compile on a track that compiles", columns, tuple(rows), note=note)


def detail_tables(found: Qualification) -> Iterator[Table]:
    """Every kind of module, every moment of the step, every device of the catalogue, every operator."""
    rows: list[tuple[Cell, ...]] = [
        (one.kind, str(one.modules), one.parameters, str(one.adapted), one.trainable)
        for one in found.parameters.modules
    ]
    names = ("modules", "parameters", "adapted", "trained")
    columns = (Column("kind"), *(Column(name, numeric=True) for name in names))
    yield Table("parameters by kind of module", columns, tuple(rows))
    yield from _moments(found.places)
    rows = [
        (one.title, gib(one.peak), gib(one.capacity), gib(one.spare), status_of(one.verdict))
        for one in found.comparisons
    ]
    heads = [Column(name, numeric=True) for name in ("needs", "has", "left")]
    if rows:
        yield Table(
            "the job's need against the catalogue",
            (Column("device"), *heads, Column("verdict")),
            tuple(rows),
            note="attention keeps its scores on NeuronCores and is fused on GPUs, as the tracks do",
        )
    if found.operators:
        yield _operators(found)


def _moments(places: Sequence[Place]) -> Iterator[Table]:
    for place in places:
        if place.memory is None:
            continue
        rows: list[tuple[Cell, ...]] = []
        for moment in place.memory.moments:
            rows.append((moment.name, "total", gib(moment.total), ""))
            rows += [("", part.kind, gib(part.size), part.size.source) for part in moment.parts]
        columns = (Column("moment"), Column("kind"), Column("size", numeric=True), Column("formula"))
        yield Table(f"moments of the step on {place.track}, {place.device}", columns, tuple(rows))


def _operators(found: Qualification) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            one.name,
            str(one.count),
            one.answer,
            one.rule,
            ", ".join(f"{p.list} ({p.date})" for p in one.published),
        )
        for one in found.operators
    ]
    columns = (
        Column("operator"),
        Column("executions", numeric=True),
        Column("published"),
        Column("software Trainium2"),
        Column("where"),
    )
    return Table("operators of the step", columns, tuple(rows))


def published_table(checks: Sequence[PublishedCheck]) -> Table:
    """Published memory figures beside ours."""
    rows: list[tuple[Cell, ...]] = []
    for one in checks:
        error = "unknown" if one.error is None else f"{one.error:+.1%}"
        rows.append(
            (one.text, gib(one.published), gib(one.ours), error, "yes" if one.judged else "", one.key)
        )
    names = ("published", "ours", "error")
    columns = (
        Column("figure"),
        *(Column(name, numeric=True) for name in names),
        Column("judged by"),
        Column("key"),
    )
    return Table(
        "published memory figures, computed again",
        columns,
        tuple(rows),
        note="error: ours over the published figure, less one. Judged by: the range of these, of programs that run"
        " operator by operator as ours do, is the error of our estimates; weights are taken off on both sides first",
    )
