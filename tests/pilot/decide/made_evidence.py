"""Evidence made up for tests of the decision: synthetic runs, and ledgers with the totals that a test states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from synthetic import Story, make_run

from twintrack.job.digest import job_digest
from twintrack.job.records import Costs, Decision, Job, Responsibility
from twintrack.pilot.convert.records import Check, Proof
from twintrack.pilot.decide.evidence import Evidence, FitFinding, KeptProof, PilotEvidence, QualityFinding
from twintrack.pilot.ledger.records import LINES, Input, Line, PilotLedger, TrackLedger
from twintrack.pilot.summary import read_summary
from twintrack.quantity import Error, Provenance, Quantity
from twintrack.storage import LocalFileSystem

PROVED = Proof(
    version="0.1.0",
    job_digest="0" * 64,
    source="trn2/reference@40",
    step=40,
    to="peft",
    files={"adapter_model.safetensors": "0" * 64},
    checks=(Check(name="logits", passed=True, found="KL 1e-13", value=1e-13, limit=1e-10),),
)
ANSWERS = Decision(
    model_changes="never",
    cycle_days=90.0,
    team_experience="shipped",
    fallback="rehearsed",
    fallback_plan="The GPU job file is kept and was rehearsed.",
    quality_criteria="No slice more than 2 % worse.",
)
OWNERS = Responsibility(code="a", compilation="b", cache="c", image="d", conversion="e")
UNKNOWN_TIME = Quantity.unknown("s", "seconds of an emulation are not a Trainium2's")


def ledger(
    track: str, total: float | None, *, error: float = 0.0, price: float = 10.0, stale: tuple[str, ...] = ()
) -> TrackLedger:
    """A ledger whose machine lines are its whole total, at a price per hour; unknown without a total."""
    per_hour = Quantity(price, "USD/h", Provenance.PUBLISHED, "a price list", date="2026-07-22")
    if total is None:
        time, amount = UNKNOWN_TIME, Quantity.unknown("USD", "its time is unknown")
    else:
        time = Quantity.measured(total / price * 3600.0, "s", "events")
        time = time.within(Error(error, error, "spread")) if error else time
        amount = Quantity.derived(total, "USD", "time x price", [time, per_hour])
        amount = amount.within(Error(error, error, "spread")) if error else amount
    zero = Quantity.derived(0.0, "USD", "nothing of this happened", [per_hour])
    lines = tuple(
        Line(name, one, one, "hours x price", (Input("price", per_hour),))
        for name, one in ((name, amount if name == "reserved resource" else zero) for name in LINES)
    )
    return TrackLedger(
        f"run:{track}", track, "1 x machine", "USD", time, lines, amount, amount, amount, stale
    )


def evidence(
    folder: Path,
    story: Story | None = None,
    *,
    trainium: TrackLedger | None = None,
    other: TrackLedger | None = None,
    quality: bool | None = True,
    fits: bool | None = True,
    proofs: tuple[Proof, ...] = (PROVED,),
    second_person: bool = True,
    decision: Decision = ANSWERS,
    cheaper_by: float = 0.0,
) -> Evidence:
    """Evidence in which everything speaks for Trainium, unless a test says otherwise."""
    story = story or Story()
    job = _job(story, decision.model_copy(update={"cheaper_by": cheaper_by}))
    ledgers = {"cpu": other or ledger("cpu", 100.0), "trn2": trainium or ledger("trn2", 50.0)}
    pilots = [_pilot(folder / "first", story, ledgers, proofs, "ada")]
    if second_person:
        pilots.append(_pilot(folder / "second", story, ledgers, proofs, "grace"))
    return Evidence(
        job=job,
        job_digest=job_digest(job),
        on="2026-11-30",
        pilots=tuple(pilots),
        quality=(QualityFinding("first:cpu", "first:trn2", quality, "the losses are equivalent"),),
        comparisons=(),
        refusals=(),
        fits=(FitFinding("trn2", "trn2.48xlarge", fits, "needs 3 GiB of 24"),),
        software=(),
    )


def _job(story: Story, decision: Decision) -> Job:
    costs = Costs(region="us-east-2", operating_hours=4.0, reserved_hours=24.0)
    return story.job().model_copy(update={"decision": decision, "costs": costs, "responsibility": OWNERS})


def _pilot(
    folder: Path, story: Story, ledgers: dict[str, TrackLedger], proofs: tuple[Proof, ...], person: str
) -> PilotEvidence:
    summary = read_summary(make_run(folder, story), LocalFileSystem())
    tracks = tuple(
        replace(track, reference=replace(track.reference, environment=(("operator", person),)))
        if track.reference is not None
        else track
        for track in summary.tracks
    )
    kept = tuple(
        KeptProof("trn2", proof, f"trn2/reference/conversions/{n}.json") for n, proof in enumerate(proofs)
    )
    return PilotEvidence(
        str(folder), replace(summary, tracks=tracks), PilotLedger("2026-11-30", tuple(ledgers.values())), kept
    )
