"""What a decision rests on, gathered by ``gather`` and judged by the other files: plain records, no rule of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twintrack.job.records import Job
from twintrack.pilot.compare.records import RunComparison
from twintrack.pilot.convert.records import Proof
from twintrack.pilot.decide.records import DatedFact, Figure
from twintrack.pilot.folders import run_label
from twintrack.pilot.ledger.records import PilotLedger, TrackLedger
from twintrack.pilot.summary_records import Failure, RunSummary, Summary, TrackSummary

__all__ = [
    "TRAINIUM",
    "Evidence",
    "FitFinding",
    "KeptProof",
    "PilotEvidence",
    "QualityFinding",
    "TrackEvidence",
]

TRAINIUM = frozenset({"trn2", "neuron"})
"""Tracks of the Trainium side; all others are the other side."""


@dataclass(frozen=True, slots=True)
class KeptProof:
    """A conversion's proof that lies beside the run that was converted."""

    track: str
    proof: Proof
    file: str


@dataclass(frozen=True, slots=True)
class PilotEvidence:
    """One run folder."""

    folder: str
    summary: Summary
    ledger: PilotLedger
    proofs: tuple[KeptProof, ...]


@dataclass(frozen=True, slots=True)
class TrackEvidence:
    """One track of one run folder."""

    folder: str
    track: TrackSummary
    ledger: TrackLedger | None
    proofs: tuple[KeptProof, ...]
    failures: tuple[Failure, ...]
    """Of this track alone."""

    @property
    def label(self) -> str:
        """How the run is named on the command line."""
        return run_label(self.folder, self.track.track)

    @property
    def runs(self) -> tuple[RunSummary, ...]:
        """Its runs, the reference first."""
        return self.track.runs


@dataclass(frozen=True, slots=True)
class QualityFinding:
    """What the comparison of a run on each side says of the quality."""

    first: str
    second: str
    holds: bool | None
    text: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class FitFinding:
    """Whether the job fits a place, as ``qualify`` found."""

    track: str
    machine: str
    fits: bool | None
    text: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one job on one day."""

    job: Job
    job_digest: str
    on: str
    pilots: tuple[PilotEvidence, ...]
    quality: tuple[QualityFinding, ...]
    comparisons: tuple[RunComparison, ...]
    """What the quality rests on."""
    refusals: tuple[str, ...]
    """Why two runs that should be compared may not be."""
    fits: tuple[FitFinding, ...]
    software: tuple[DatedFact, ...]

    def tracks(self, *, trainium: bool) -> tuple[TrackEvidence, ...]:
        """The tracks of one side, in the order of the run folders."""
        return tuple(one for one in self.all_tracks() if (one.track.track in TRAINIUM) is trainium)

    def all_tracks(self) -> Iterator[TrackEvidence]:
        """Every track of every run folder."""
        for pilot in self.pilots:
            for track in pilot.summary.tracks:
                yield TrackEvidence(
                    pilot.folder,
                    track,
                    pilot.ledger.of(track.track),
                    tuple(kept for kept in pilot.proofs if kept.track == track.track),
                    tuple(f for f in pilot.summary.failures if _names(f.where, track.track)),
                )

    def failures(self) -> tuple[tuple[str, Failure], ...]:
        """Everything that failed, with its run folder."""
        return tuple((pilot.folder, failure) for pilot in self.pilots for failure in pilot.summary.failures)

    def failures_of(self, kinds: Sequence[str]) -> tuple[tuple[str, Failure], ...]:
        """Failures of some kinds."""
        return tuple((folder, failure) for folder, failure in self.failures() if failure.kind in kinds)


def _names(where: str, track: str) -> bool:
    return where == track or where.startswith(f"{track} ")
