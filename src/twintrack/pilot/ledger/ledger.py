"""Builds the ledger of a run folder from its events, prices and the catalogue; nothing is measured or written."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from twintrack.errors import RunFolderError
from twintrack.events import AnyEvent, RunDone, read_events
from twintrack.hardware import Catalogue
from twintrack.job.records import Job, TrackSlot
from twintrack.pilot.folders import RunKind, TrackRun
from twintrack.pilot.ledger.book import Bookkeeper, Place, sum_of_lines
from twintrack.pilot.ledger.price_book import PriceBook
from twintrack.pilot.ledger.prices import PriceFile, read_price_file
from twintrack.pilot.ledger.records import PilotLedger, TrackLedger
from twintrack.pilot.manifest import PilotFile, SlotChoice, read_job_file, read_manifest, read_pilot_file
from twintrack.quantity import Quantity
from twintrack.report.values import plain_values
from twintrack.storage import FileSystem

__all__ = ["build_ledger", "ledger_json", "like_totals"]

_KINDS: tuple[RunKind, ...] = get_args(RunKind)


def build_ledger(
    folder: Path,
    fs: FileSystem,
    catalogue: Catalogue,
    *,
    on: datetime.date,
    prices: Sequence[Path] = (),
    abandoned: Sequence[Path] = (),
    machine_times: Mapping[str, Quantity] | None = None,
    job: Job | None = None,
    base: Path | None = None,
    track: str | None = None,
    kind: RunKind | None = None,
    name: str | None = None,
) -> PilotLedger:
    """What the runs of a folder cost, a ledger per track and per place of the job that no track filled.

    Args:
        folder: run folder.
        fs: file system.
        catalogue: machines, prices, published speeds.
        on: day to which prices are looked up and ages counted.
        prices: price files that come before those of the job.
        abandoned: run folders of trials that never finished; their machine time is a line.
        machine_times: by track, seconds of the priced machine for the whole run, from its first process to its end,
            without stops, such as a simulation gives them; used where the run's own seconds are not the machine's.
        job: whose costs and places count; by default the one that the run began with.
        base: folder of the job file, where its price files and model lie; by default as the run folder has it.
        track: of this track alone.
        kind: of this run alone. By default the interrupted run where its seconds count, since it shows what stops cost,
            else the reference run.
        name: of the run folder, in labels; by default its path, and where empty labels are without it.

    Raises:
        RunFolderError: if a folder is no run folder, or one named as abandoned finished.
        CatalogueError: if a price file is none; file, line and key are named.
        EventError, StorageError: if a file cannot be read.
    """
    pilot = read_pilot_file(folder, fs)
    used = job or read_job_file(folder, fs)
    if base is None and fs.exists(folder / "inputs.json"):
        base = Path(read_manifest(folder, fs).base)
    files = _price_files(used, base, prices, fs)
    keeper = Bookkeeper(
        name=str(folder) if name is None else name,
        job=used,
        base=base,
        runs=_runs(folder, pilot, fs),
        abandoned={run: events for one in abandoned for run, events in _unfinished(one, fs).items()},
        book=PriceBook(files, catalogue, used.costs, on),
        catalogue=catalogue,
    )
    given = machine_times or {}
    places = [one for one in _places(pilot, used) if track in (None, one.track)]
    ledgers = [keeper.track(one, kind=kind, given=given.get(one.track)) for one in places]
    return PilotLedger(on.isoformat(), tuple(ledgers))


def _price_files(job: Job, base: Path | None, prices: Sequence[Path], fs: FileSystem) -> list[PriceFile]:
    """Those that were given, then those of the job, relative to its file."""
    named = [Path(one) if base is None else base / one for one in job.costs.prices]
    return [read_price_file(one, fs) for one in (*prices, *named)]


def _runs(folder: Path, pilot: PilotFile, fs: FileSystem) -> dict[TrackRun, list[AnyEvent]]:
    """Every run of a folder that has events, finished or not."""
    tracks = dict.fromkeys(slot.track for slot in pilot.slots if slot.track is not None)
    found = {}
    for run in (TrackRun(folder, track, kind) for track in tracks for kind in _KINDS):
        events = list(read_events(run.events)) if fs.exists(run.events) else []
        if events:
            found[run] = events
    return found


def _unfinished(folder: Path, fs: FileSystem) -> dict[TrackRun, list[AnyEvent]]:
    runs = _runs(folder, read_pilot_file(folder, fs), fs)
    found = {
        run: events for run, events in runs.items() if not any(isinstance(one, RunDone) for one in events)
    }
    if not found:
        raise RunFolderError(
            "an abandoned trial, with a run that never finished",
            found="finished runs" if runs else "no run",
            where=str(folder),
            remedy="name it as a run of its own",
        )
    return found


def _places(pilot: PilotFile, job: Job) -> list[Place]:
    """Every track once, with what the job says of its place; places that no track fills, by their first track."""
    found: dict[str, Place] = {}
    for index, choice in enumerate(pilot.slots):
        if choice.track is not None:
            found.setdefault(choice.track, Place(_slot(job, index, choice), choice.track, ran=True))
    for index, choice in enumerate(pilot.slots):
        if choice.track is None:
            first = next((one for one in choice.use if one not in found), None)
            if first is not None:
                found[first] = Place(_slot(job, index, choice), first, ran=False)
    return list(found.values())


def _slot(job: Job, index: int, choice: SlotChoice) -> TrackSlot:
    """What the job says of a place; an imported run may stand in a place more than the job has."""
    if index < len(job.tracks) and job.tracks[index].use == choice.use:
        return job.tracks[index]
    same = [slot for slot in job.tracks if slot.use == choice.use]
    allowed = [slot for slot in job.tracks if choice.track in slot.use]
    return next(iter([*same, *allowed]), TrackSlot(use=choice.use))


def like_totals(first: TrackLedger, second: TrackLedger) -> tuple[Quantity, Quantity]:
    """Two totals that may be compared: each without the lines that either leaves out, and without faults.

    Where one side's time is published it tells of training alone, and says nothing of start-up or of stops; beside
    it the other side's start-up and stops would count against it.
    """
    apart = {*first.left_out, *second.left_out}

    def one(ledger: TrackLedger) -> Quantity:
        lines = [line for line in ledger.lines if line.name not in apart]
        return sum_of_lines(ledger.currency, lines, lambda line: line.without_faults)

    return one(first), one(second)


def ledger_json(ledger: PilotLedger) -> dict[str, Any]:
    """The ledger as plain JSON values; fields of a quantity that say nothing are left out."""
    values: dict[str, Any] = plain_values(ledger)
    return {"format": 1, **values}
