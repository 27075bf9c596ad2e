"""The head of a pilot's report, and what its figures rest on: tracks, inputs, environment, job, limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from twintrack.pilot.compare.records import EMULATED
from twintrack.pilot.summary_records import Summary, TrackSummary
from twintrack.quantity import Quantity
from twintrack.report.format import quantity_text
from twintrack.report.records import Block, Callout, Cell, Column, Section, Status, Table

__all__ = ["basis", "bit_status", "headline", "limits", "outcome_table", "ran"]

NONE = "–"


def bit_status(answer: bool | None) -> Status:
    """Whether a track resumed to the bit."""
    if answer is None:
        return Status("not known", "warn")
    return Status("yes", "good") if answer else Status("no", "bad")


def headline(summary: Summary) -> Callout:
    """The outcome in one sentence, and every failure."""
    names = " and ".join(track.track for track in summary.tracks) or "no track"
    if summary.failures:
        items = tuple(f"{failure.where}: {failure.what}" for failure in summary.failures)
        return Callout(
            "bad", "The pilot failed", f"Tracks that ran: {names}. What had to hold and did not:", items
        )
    sentences = [
        f"{one.first} and {one.second}: losses differ by at most {quantity_text(one.largest)} "
        f"(step {one.at_step}), within the job's tolerance of {quantity_text(one.tolerance)}."
        for one in summary.comparisons
    ]
    if not summary.comparisons:
        sentences.append("One track ran, so there is no other to compare it with.")
    if summary.to_the_bit:
        title = f"The pilot passed: stopped, killed and resumed to the bit on {names}"
        return Callout("good", title, " ".join(sentences))
    sentences.append("The job asks for no stop, so resuming was not tried.")
    return Callout("plain", f"Nothing failed on {names}", " ".join(sentences))


def outcome_table(summary: Summary) -> Table:
    """One column per track, one row per figure that decides."""
    rows = [(name, *(pick(track) for track in summary.tracks)) for name, pick in _OUTCOME]
    emulated = [track.track for track in summary.tracks if track.track in EMULATED]
    heads = (
        f"{track.track} (emulated)" if track.track in EMULATED else track.track for track in summary.tracks
    )
    columns = (Column(""), *(Column(head, numeric=True) for head in heads))
    note = "Figures are those of the uninterrupted run, unless the row says otherwise."
    if emulated:
        note += (
            f" Seconds and memory of {emulated[0]} are those of the machine that emulates, never Trainium's."
        )
    return Table("Tracks at a glance", columns, tuple(rows), note)


def _reference(pick: Callable[[Any], Cell]) -> Callable[[TrackSummary], Cell]:
    return lambda track: (
        Quantity.unknown("", "there is no reference run")
        if track.reference is None
        else pick(track.reference)
    )


def _worst(track: TrackSummary) -> Cell:
    run = track.reference
    if run is None or not run.evaluations or not run.evaluations[-1].slices:
        return Quantity.unknown("", "no evaluation by slices")
    return run.evaluations[-1].slices[0].loss


def _evaluation(index: int) -> Callable[[TrackSummary], Cell]:
    def pick(track: TrackSummary) -> Cell:
        run = track.reference
        if run is None or not run.evaluations:
            return Quantity.unknown("", "no evaluation")
        return run.evaluations[index].loss

    return pick


def _interrupted(name: str) -> Callable[[TrackSummary], Cell]:
    return lambda track: NONE if track.interrupted is None else getattr(track.interrupted, name)


_OUTCOME: tuple[tuple[str, Callable[[TrackSummary], Cell]], ...] = (
    ("Resumed to the bit", lambda track: bit_status(track.resume.to_the_bit)),
    ("Steps done", _reference(lambda run: run.steps_done)),
    ("Training loss, first step", _reference(lambda run: run.loss.at(0))),
    ("Training loss, last step", _reference(lambda run: run.loss.at(-1))),
    ("Evaluation loss, first", _evaluation(0)),
    ("Evaluation loss, last", _evaluation(-1)),
    ("Evaluation loss of the worst slice, last", _worst),
    ("Tokens per second, median step", _reference(lambda run: run.tokens_per_second)),
    ("Time before the first step, cold", lambda track: track.cold.total if track.cold else NONE),
    ("Time before the first step, warm", lambda track: track.warm.total if track.warm else NONE),
    (
        "FLOPs under the track's number rules",
        _reference(lambda run: run.coverage.flops_share if run.coverage else NONE),
    ),
    ("Recompiles after the first step, both runs", lambda track: track.recompiles),
    ("Checkpoint stall, median, both runs", lambda track: track.stall),
    ("Step while saving, relative to other steps, both runs", lambda track: track.slowdown),
    ("Restarts, interrupted run", _interrupted("restarts")),
    ("Read again on resuming, interrupted run", _interrupted("bytes_reread")),
    ("Steps done again, interrupted run", _interrupted("repeated_steps")),
    ("Peak memory", _reference(lambda run: run.peak_memory)),
)


def ran(summary: Summary) -> Section:
    """Which tracks fill the places of the comparison, and why."""
    rows: list[tuple[Cell, ...]] = [
        (
            ", then ".join(slot.use),
            Status(slot.track, "good") if slot.track else Status("none", "warn"),
            slot.reason or NONE,
        )
        for slot in summary.slots
    ]
    columns = (Column("the job prefers"), Column("ran"), Column("why"))
    return Section("Which tracks ran", (Table("", columns, tuple(rows)),))


def basis(summary: Summary) -> Section:
    """Model, data, environment and job."""
    tracks = [track for track in summary.tracks if track.reference is not None]
    blocks: list[Block] = [_inputs(tracks)]
    blocks.append(_environment(tracks))
    columns = (Column("key"), Column("value"))
    job = summary.job.model_dump(mode="json")
    blocks.append(Table("the effective job", columns, tuple(_flat(job)), folded=True))
    lead = f"Job {summary.job.name}, digest {summary.job_digest}; run begun with twintrack {summary.version}."
    return Section("Model, data, environment and job", tuple(blocks), lead)


def _inputs(tracks: list[TrackSummary]) -> Table:
    def pick(part: str, name: str) -> tuple[Cell, ...]:
        found = (getattr(track.reference, part) for track in tracks)
        return tuple(
            Quantity.unknown("", f"no event tells of the {part}") if x is None else getattr(x, name) or NONE
            for x in found
        )

    rows: list[tuple[Cell, ...]] = [
        (label, *pick(part, name))
        for label, part, name in (
            ("Model", "model", "source"),
            ("Note on the weights", "model", "note"),
            ("Digest of the weights", "model", "weights_digest"),
            ("Parameters", "model", "parameters"),
            ("Trainable parameters", "model", "trainable_parameters"),
            ("Adapted modules", "model", "adapted_modules"),
            ("Training samples", "data", "train_samples"),
            ("Evaluation samples", "data", "evaluation_samples"),
            ("Training rows", "data", "train_rows"),
            ("Evaluation rows", "data", "evaluation_rows"),
            ("Truncated samples", "data", "truncated"),
            ("Split samples", "data", "split"),
            ("Tokens", "data", "tokens"),
            ("Tokens with loss", "data", "loss_tokens"),
            ("Digest of data, split and order", "data", "digest"),
        )
    ]
    return Table("Model and data", (Column(""), *(Column(t.track) for t in tracks)), tuple(rows))


def _environment(tracks: list[TrackSummary]) -> Table:
    known = [dict(track.reference.environment) for track in tracks if track.reference is not None]
    names = sorted({name for one in known for name in one})
    rows = tuple((name, *(one.get(name, NONE) for one in known)) for name in names)
    note = "As the last process of each uninterrupted run wrote it down."
    return Table("Environment", (Column(""), *(Column(t.track) for t in tracks)), rows, note)


def _flat(value: Any, path: str = "") -> Iterator[tuple[Cell, ...]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{index}]")
    else:
        yield path, json.dumps(value, ensure_ascii=False)


_MEASURED = (
    "Losses, gradient norms, seconds, bytes and memory are measured, by the runs of this report on the machine that "
    "the environment names, and stand in their events files.",
    "A machine that does other work at the same time is slower: compare seconds inside one report only.",
)
_IMPORTED = (
    "Runs that were imported were measured where their log was written; each of their figures names the log, and what "
    "it does not say is unknown."
)
_TRN2 = (
    "The trn2 track computes values under Trainium's number rules in software, on this machine's processor: bf16 "
    "operands, float32 accumulation, one rounding at the end of each operator. Its values are what the rules give; "
    "its seconds are this processor's seconds, not Trainium's.",
    "Program bound and unfused estimate are figures about the program on the named chip. The bound is a limit that "
    "no execution can beat; the estimate lets no two operators share a trip to memory. Neither is a prediction of "
    "a step's time.",
)
_READING = (
    "Equal to the bit means: losses, gradient norms, sample ids, evaluations, answers and the digest of the final "
    "state are the same as in the run that was never stopped, on the same kind of machine.",
    "Where a figure is not on record, the report says unknown, and a tooltip says which event is missing.",
)


def limits(summary: Summary) -> Section:
    """What the figures do not say."""
    items = [*_MEASURED]
    if any(run.imported for track in summary.tracks for run in track.runs):
        items.append(_IMPORTED)
    if any(track.track == "trn2" for track in summary.tracks):
        items += _TRN2
    items += _READING
    title = "What is measured and what is simulated"
    return Section(title, (Callout("plain", "How to read these figures", items=tuple(items)),))
