"""Books one track of a run folder: which run, on which machine, with which time, into which lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twintrack.events import AnyEvent, CheckpointRemoved, CheckpointSaved, CompileDone, LegStarted, StepDone
from twintrack.hardware import Catalogue
from twintrack.job.records import Job, TrackSlot
from twintrack.pilot.folders import RunKind, TrackRun, run_label
from twintrack.pilot.ledger.lines import Facts, Lines, make_lines
from twintrack.pilot.ledger.machine_time import (
    MachineTime,
    given_time,
    measured_time,
    run_seconds,
    scaled_time,
    unknown_time,
)
from twintrack.pilot.ledger.machines import Machine, machine_of, own_time_problem
from twintrack.pilot.ledger.price_book import PriceBook, Priced
from twintrack.pilot.ledger.records import Input, Line, TrackLedger
from twintrack.pilot.ledger.workload import published_time
from twintrack.pilot.summary_figures import Ledger, of_kind, told_elsewhere
from twintrack.quantity import Quantity, combine, total

__all__ = ["Bookkeeper", "Place", "sum_of_lines"]

Runs = Mapping[TrackRun, Sequence[AnyEvent]]


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the job.

    Args:
        slot: what the job says of it.
        track: that fills it, or the first that could where none did.
        ran: whether it did.
    """

    slot: TrackSlot
    track: str
    ran: bool


@dataclass(frozen=True, slots=True)
class Bookkeeper:
    """What all tracks of a run folder share.

    Args:
        name: of the run folder, in labels; empty: labels are without it.
        job: whose costs count.
        base: folder of the job file; ``None`` where it is not known.
        runs: every run of the folder with its events.
        abandoned: runs of other folders that never finished.
        book: prices.
        catalogue: machines and published speeds.
    """

    name: str
    job: Job
    base: Path | None
    runs: Runs
    abandoned: Runs
    book: PriceBook
    catalogue: Catalogue

    def track(self, place: Place, *, kind: RunKind | None, given: Quantity | None) -> TrackLedger:
        """The ledger of one place.

        Args:
            place: of the job.
            kind: of this run alone; by default the interrupted one where its seconds count, else the reference.
            given: simulated seconds of the whole run, where there are any.
        """
        mine = {run.kind: run for run in self.runs if place.ran and run.track == place.track}
        opening = self._events(next(iter(mine.values()), None))
        machine = machine_of(place.track, place.slot, self.job.parallel, opening, self.catalogue)
        problem = own_time_problem(place.track, machine, opening) if mine else "the track did not run here"
        run = _chosen(mine, kind, prefer_stops=not problem)
        events = self._events(run)
        if run is None or problem:
            time = self._other_time(place, machine, problem or f"there is no {kind} run", given)
        else:
            time = self._own_time(run, mine)
        facts = self._facts(place, machine, run, problem)
        price = self._price(machine)
        lines = make_lines(time, facts, price, self.book, self.job.costs)
        return self._ledger(place, run, events, machine, time, lines)

    def _events(self, run: TrackRun | None) -> Sequence[AnyEvent]:
        return () if run is None else self.runs[run]

    def _own_time(self, run: TrackRun, mine: Mapping[RunKind, TrackRun]) -> MachineTime:
        calm = mine.get("reference")
        reference = None if calm is None or calm == run else (self.runs[calm], path_of(calm))
        every = self.job.checkpoint.every_steps
        return measured_time(self.runs[run], path_of(run), every=every, reference=reference)

    def _other_time(
        self, place: Place, machine: Machine, problem: str, given: Quantity | None
    ) -> MachineTime:
        """Time of a machine that the run was not made on: simulated, else published and scaled, else unknown."""
        if given is not None:
            return given_time(given)
        if machine.chip is None:
            return unknown_time(problem if machine.name else machine.count.source)
        events = {path_of(run): found for run, found in self.runs.items()}
        rows = self.catalogue.throughputs
        scaled = published_time(self.job, place.slot, machine.chip, events, self.base, rows)
        if not scaled.training.known:
            return unknown_time(f"{problem}, and {scaled.training.source}")
        return scaled_time(scaled.training, scaled.evaluation, scaled.remark)

    def _price(self, machine: Machine) -> Priced:
        if machine.name is None:
            return Priced(Quantity.unknown(f"{self.book.currency}/h", machine.count.source))
        return self.book.machine(machine.name)

    def _facts(self, place: Place, machine: Machine, run: TrackRun | None, problem: str) -> Facts:
        events = self._events(run)
        trials = [
            Input(
                f"abandoned {one.root}:{one.track}/{one.kind}",
                self._trial(one, found, place, machine, problem),
            )
            for one, found in self.abandoned.items()
            if one.track == place.track
        ]
        return Facts(
            machine.count,
            _checkpoint_bytes(run, events),
            _told_bytes(run, events, "compile cache bytes", needed=bool(of_kind(events, CompileDone))),
            _told_bytes(run, events, "transferred bytes", needed=False),
            tuple(trials),
        )

    def _trial(
        self, run: TrackRun, events: Sequence[AnyEvent], place: Place, machine: Machine, problem: str
    ) -> Quantity:
        """Machine seconds of an abandoned run; unknown where it ran on another machine."""
        theirs = machine_of(place.track, place.slot, self.job.parallel, events, self.catalogue)
        if problem:
            return Quantity.unknown("s", problem)
        if theirs.name != machine.name:
            reason = (
                f"the abandoned run was on {theirs.name}, not on {machine.name}: make a ledger of its own"
            )
            return Quantity.unknown("s", reason)
        return run_seconds(events, f"{run.root}/{path_of(run)}", every=self.job.checkpoint.every_steps)

    def _ledger(
        self,
        place: Place,
        run: TrackRun | None,
        events: Sequence[AnyEvent],
        machine: Machine,
        time: MachineTime,
        made: Lines,
    ) -> TrackLedger:
        currency = self.book.currency
        counted = [line for line in made.lines if line.name not in made.left_out]
        whole = sum_of_lines(currency, counted, lambda line: line.amount)
        return TrackLedger(
            run=self.name or place.track if run is None else run_label(self.name, f"{run.track}/{run.kind}"),
            track=place.track,
            machine=machine.text,
            currency=currency,
            time=time.time,
            lines=made.lines,
            total=whole,
            total_without_faults=sum_of_lines(currency, counted, lambda line: line.without_faults),
            per_million_tokens=_per_million(whole, _tokens(run, events), currency),
            stale=made.stale,
            remarks=(*machine.remarks, *time.remarks, *_notes(made)),
            left_out=made.left_out,
        )


def path_of(run: TrackRun) -> str:
    """Path of a run's events inside its folder."""
    return f"tracks/{run.track}/{run.kind}/events.jsonl"


def _chosen(mine: Mapping[RunKind, TrackRun], kind: RunKind | None, *, prefer_stops: bool) -> TrackRun | None:
    if kind is not None:
        return mine.get(kind)
    order: tuple[RunKind, RunKind] = (
        ("interrupted", "reference") if prefer_stops else ("reference", "interrupted")
    )
    return next((mine[one] for one in order if one in mine), None)


def _checkpoint_bytes(run: TrackRun | None, events: Sequence[AnyEvent]) -> Quantity:
    """Bytes of the checkpoints that are there at the end."""
    if run is None or told_elsewhere(events):
        return Quantity.unknown("byte", "nothing tells of checkpoints")
    kept: dict[int, int] = {}
    for event in events:
        match event:
            case CheckpointSaved():
                kept[event.step] = event.bytes
            case CheckpointRemoved():
                kept.pop(event.step, None)
            case _:
                pass
    figures = Ledger.of(path_of(run), events)
    return figures.derived(
        sum(kept.values()), "byte", f"CheckpointSaved.bytes of the {len(kept)} that are kept"
    )


def _told_bytes(
    run: TrackRun | None, events: Sequence[AnyEvent], name: str, *, needed: bool
) -> Quantity | None:
    """Bytes that a run says of itself in its environment; ``None`` where it says nothing and nothing is needed."""
    started = of_kind(events, LegStarted)
    text = started[-1].environment.get(name) if started else None
    if run is None or text is None:
        return Quantity.unknown("byte", f"the run does not say its {name}") if needed else None
    if not (text.isascii() and text.isdigit()):
        return Quantity.unknown(
            "byte", f"the run says {text[:40]!r} for its {name}, which is no number of bytes"
        )
    return Quantity.measured(int(text), "byte", f"{path_of(run)}: {name}, as the run says of itself")


def _tokens(run: TrackRun | None, events: Sequence[AnyEvent]) -> Quantity:
    """Training tokens of a run, padding left out, each step once."""
    steps = {event.step: event for event in of_kind(events, StepDone)}
    if run is None or not steps:
        return Quantity.unknown("token", "no run of the track tells of its steps")
    counts = [event.tokens for event in steps.values() if event.averaged_steps == 1]
    if len(counts) < len(steps) or None in counts or set(steps) != set(range(1, max(steps) + 1)):
        return Quantity.unknown("token", f"{path_of(run)} does not tell the tokens of every step")
    value = sum(count or 0 for count in counts)
    return Ledger.of(path_of(run), events).derived(value, "token", "sum of StepDone.tokens, each step once")


def _per_million(whole: Quantity, tokens: Quantity, currency: str) -> Quantity:
    unit = f"{currency}/Mtoken"
    if not whole.known:
        return Quantity.unknown(unit, whole.source)
    if not tokens.value:
        return Quantity.unknown(unit, tokens.source if not tokens.known else "the run trained on no tokens")
    return combine("total / training tokens × 10^6", unit, [whole, tokens], lambda a, b: a / b * 1e6)


def sum_of_lines(currency: str, lines: Sequence[Line], side: Callable[[Line], Quantity]) -> Quantity:
    """Sum of one side of some lines; unknown with the reasons of those that are, equal reasons told once."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        one = side(line)
        if not one.known:
            reasons.setdefault(one.source, []).append(line.name)
    if reasons:
        return Quantity.unknown(
            currency, "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
        )
    if not lines:
        return Quantity.unknown(currency, "no line is in the total")
    return total(" + ".join(line.name for line in lines), currency, [side(line) for line in lines])


def _notes(made: Lines) -> tuple[str, ...]:
    left = [f"{line.name}: {line.amount.source}" for line in made.lines if line.name in made.left_out]
    kept = [f"{line.name}: {line.note}" for line in made.lines if line.name == "cache storage" and line.note]
    return (*(f"not in the total: {one}" for one in left), *kept)
