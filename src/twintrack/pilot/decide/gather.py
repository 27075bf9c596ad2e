"""Gathers the evidence for a decision from files: run folders, prices, proofs of conversions, the catalogue."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from pydantic import ValidationError

from twintrack.errors import CatalogueError, CompareError, ModelError, RunFolderError
from twintrack.hardware.catalogue import Catalogue
from twintrack.job.digest import comparable_parts, differing_parts, job_digest
from twintrack.job.records import Job
from twintrack.pilot.compare.compare import compare_tracks_of
from twintrack.pilot.compare.records import RunComparison
from twintrack.pilot.convert.records import Proof
from twintrack.pilot.decide.evidence import (
    TRAINIUM,
    Evidence,
    FitFinding,
    KeptProof,
    PilotEvidence,
    QualityFinding,
)
from twintrack.pilot.decide.records import DatedFact, Figure
from twintrack.pilot.folders import TrackRun, run_label
from twintrack.pilot.ledger.ledger import build_ledger
from twintrack.pilot.manifest import read_job_file
from twintrack.pilot.qualify import Verdict as Fit
from twintrack.pilot.qualify import qualify
from twintrack.pilot.summary import read_summary
from twintrack.quantity import Quantity
from twintrack.storage import FileSystem, inside, storage_errors

__all__ = ["gather"]

_FITS = {Fit.FITS: True, Fit.TOO_CLOSE: None, Fit.DOES_NOT_FIT: False, Fit.UNKNOWN: None}
_SAME = ("adapters", "data", "model", "training")
"""Parts in which every run must be of the job that is decided on; answers and prices may be written later."""


def gather(
    job: Job,
    base: Path,
    where: str,
    folders: Sequence[Path],
    fs: FileSystem,
    catalogue: Catalogue,
    *,
    prices: Sequence[Path],
    on: datetime.date,
    machine_times: Mapping[str, Quantity],
    named: bool = True,
) -> Evidence:
    """Everything that ``decide`` judges.

    Args:
        job: its ``[costs]``, ``[decision]`` and ``[tolerances]`` count, not those that a run began with.
        base: folder of the job file; what the job names lies relative to it.
        where: how a message names the job.
        folders: run folders, each once.
        fs: file system.
        catalogue: machines, prices, support status.
        prices: price files that come before the job's own.
        on: day to which prices are looked up.
        machine_times: simulated times by track, seconds.
        named: whether labels of runs begin with their folder; without, equal files give equal labels anywhere.

    Raises:
        RunFolderError: if a folder is no run folder, or one of another job.
        CatalogueError: if a price file is not one.
        EventError, StorageError: if a file cannot be read.
    """
    unique = list(dict.fromkeys(folders))
    for folder in unique:
        _check_job(job, where, folder, fs)
    pilots = tuple(
        PilotEvidence(
            str(folder) if named else "",
            read_summary(folder, fs),
            build_ledger(
                folder,
                fs,
                catalogue,
                on=on,
                prices=prices,
                machine_times=machine_times,
                job=job,
                base=base,
                name=None if named else "",
            ),
            tuple(_proofs(folder, fs)),
        )
        for folder in unique
    )
    quality, comparisons, refusals = _quality(unique, pilots, fs, job.tolerances.loss)
    return Evidence(
        job=job,
        job_digest=job_digest(job),
        on=on.isoformat(),
        pilots=pilots,
        quality=quality,
        comparisons=comparisons,
        refusals=refusals,
        fits=tuple(_fits(job, base, catalogue, fs)),
        software=tuple(_software(catalogue, on)),
    )


def _check_job(job: Job, where: str, folder: Path, fs: FileSystem) -> None:
    theirs = comparable_parts(read_job_file(folder, fs))
    other = [part for part in differing_parts(comparable_parts(job), theirs) if part in _SAME]
    if other:
        raise RunFolderError(
            f"runs of the job '{job.name}'",
            found=f"another job: {', '.join(other)} differ",
            where=str(folder),
            remedy=f"give runs of {where}, or the job file that they were made from",
        )


def _proofs(folder: Path, fs: FileSystem) -> Iterator[KeptProof]:
    root = folder / "tracks"
    if not fs.exists(root):
        return
    for track in fs.list(root):
        for kind in ("reference", "interrupted"):
            kept = root / track / kind / "conversions"
            if fs.exists(kept):
                for name in sorted(fs.list(kept)):
                    if name.endswith(".json"):
                        yield KeptProof(
                            track, _read_proof(inside(kept, name), fs), f"{track}/{kind}/conversions/{name}"
                        )


def _read_proof(path: Path, fs: FileSystem) -> Proof:
    with storage_errors(path, "read the proof of a conversion"):
        data = fs.read_bytes(path)
    try:
        return Proof.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise RunFolderError(
            "the proof of a conversion",
            found=f"{first['msg']} {'.'.join(map(str, first['loc']))}".strip(),
            where=str(path),
            remedy="convert the checkpoint again, or remove the file",
        ) from error


def _quality(
    folders: Sequence[Path], pilots: Sequence[PilotEvidence], fs: FileSystem, tolerance: float
) -> tuple[tuple[QualityFinding, ...], tuple[RunComparison, ...], tuple[str, ...]]:
    """Every run of the Trainium side against every run of the other side; pairs that may not be compared apart."""
    runs = [
        (TrackRun(folder, track.track, "reference"), run_label(pilot.folder, track.track))
        for folder, pilot in zip(folders, pilots, strict=True)
        for track in pilot.summary.tracks
        if track.reference is not None
    ]
    ours = [pair for pair in runs if pair[0].track in TRAINIUM]
    theirs = [pair for pair in runs if pair[0].track not in TRAINIUM]
    found: list[QualityFinding] = []
    made: list[RunComparison] = []
    refused: list[str] = []
    for (other, first), (trainium, second) in product(theirs, ours):
        try:
            one = compare_tracks_of(other, trainium, fs, tolerance=tolerance)
        except CompareError as error:
            refused.append(str(error))
            continue
        made.append(one)
        figures = (
            Figure("largest relative difference of the losses", one.losses.largest),
            Figure("mean relative difference over the last half", one.test.mean),
        )
        found.append(QualityFinding(first, second, one.quality, one.quality_reason, figures))
    return tuple(found), tuple(made), tuple(refused)


def _fits(job: Job, base: Path, catalogue: Catalogue, fs: FileSystem) -> Iterator[FitFinding]:
    """Places of the Trainium side; what keeps a job from being qualified here is said and leaves the answer open."""
    try:
        found = qualify(job, base, catalogue, fs, graph=False)
    except (ModelError, CatalogueError) as error:
        yield FitFinding("trn2", "the job's machine", None, str(error))
        return
    for place in found.places:
        if place.track in TRAINIUM:
            machine = place.instance or place.device
            yield FitFinding(place.track, machine, _FITS[place.verdict], place.sentence)


def _software(catalogue: Catalogue, on: datetime.date) -> Iterator[DatedFact]:
    for fact in catalogue.software:
        yield DatedFact(
            side="trainium" if fact.side.value == "trainium" else "gpu",
            what=f"{fact.component}: {fact.statement}",
            status=fact.status_on(on).value,
            since=fact.since or "",
            until=fact.until or "",
            source=fact.source.where,
            date=fact.as_of or "undated",
        )
