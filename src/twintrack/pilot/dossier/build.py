"""From job, evidence and verdict to the dossier: nothing is measured here, and nothing that is missing is made up."""

from __future__ import annotations

from collections.abc import Iterator

import twintrack
from twintrack.errors import DossierError
from twintrack.job.records import Job, TrackSlot
from twintrack.pilot.decide.evidence import TRAINIUM, Evidence, TrackEvidence
from twintrack.pilot.decide.records import Figure, Verdict
from twintrack.pilot.dossier.records import Dossier, Duty, Entry, Part
from twintrack.pilot.dossier.risks import risks
from twintrack.pilot.summary_records import RunSummary
from twintrack.quantity import Provenance, Quantity

__all__ = ["build_dossier", "require_complete"]


def build_dossier(evidence: Evidence, verdict: Verdict) -> Dossier:
    """The dossier, complete or not; ``missing`` says what it lacks."""
    job = evidence.job
    parts = (
        Part("What is asked for", tuple(_asked(evidence, verdict))),
        Part("Model", tuple(_model(evidence))),
        Part("Training", tuple(_training(job))),
        Part("Data", tuple(_data(evidence))),
        Part("Parallel scheme", tuple(_parallel(evidence))),
        Part("Checkpoints", tuple(_checkpoints(evidence))),
        Part("Quality criteria", tuple(_quality(evidence))),
        Part("Falling back", tuple(_fallback(evidence))),
        Part("Cost", tuple(_cost(evidence))),
        Part("How to run it again", tuple(_again(evidence))),
    )
    ledgers = tuple(one for pilot in evidence.pilots for one in pilot.ledger.tracks)
    return Dossier(
        job=job.name,
        job_digest=evidence.job_digest,
        version=twintrack.__version__,
        on=evidence.on,
        verdict=verdict,
        parts=parts,
        ledgers=ledgers,
        risks=risks(evidence, verdict),
        duties=_duties(job),
    )


def require_complete(dossier: Dossier, where: str) -> None:
    """Refuse a dossier that lacks something.

    Raises:
        DossierError: listing every required field that is empty.
    """
    if missing := dossier.missing:
        raise DossierError(
            "every field of a capacity request",
            found=f"{len(missing)} empty: {'; '.join(missing)}",
            where=where,
            remedy="fill them in, in the job file or by the command named",
        )


def _stated(value: float, unit: str, key: str) -> Quantity:
    return Quantity(value, unit, Provenance.ASSUMED, f"the job's {key}")


def _trainium_slot(job: Job) -> TrackSlot | None:
    return next((slot for slot in job.tracks if TRAINIUM.intersection(slot.use)), None)


def _references(evidence: Evidence) -> list[tuple[TrackEvidence, RunSummary]]:
    return [(one, one.track.reference) for one in evidence.all_tracks() if one.track.reference is not None]


def _asked(evidence: Evidence, verdict: Verdict) -> Iterator[Entry]:
    job = evidence.job
    slot = _trainium_slot(job)
    ledger = next((one.ledger for one in evidence.tracks(trainium=True) if one.ledger is not None), None)
    machine = (
        (ledger.machine if ledger is not None else None)
        or (slot.instance if slot is not None else None)
        or ""
    )
    yield Entry("machines", machine, "tracks.instance")
    yield Entry("region", job.costs.region or "", "costs.region")
    yield Entry("how they are bought", job.costs.model.replace("_", " "), "costs.model")
    hours = job.costs.reserved_hours
    figures = () if hours is None else (Figure("hours", _stated(hours, "h", "costs.reserved_hours")),)
    yield Entry("hours asked for", "", "costs.reserved_hours", figures)
    time = ledger.time if ledger is not None else Quantity.unknown("s", "no run on the Trainium side")
    yield Entry("machine time of one run", "", "twintrack ledger", (Figure("time", time),))
    yield Entry("verdict", verdict.sentence, "twintrack decide")


def _model(evidence: Evidence) -> Iterator[Entry]:
    job = evidence.job
    yield Entry("model", job.model.source, "model.source")
    run = next((run for _, run in _references(evidence) if run.model is not None), None)
    model = None if run is None else run.model
    version = [f"revision {job.model.revision}"] if job.model.revision else []
    version += [f"weights SHA-256 {model.weights_digest}"] if model is not None else []
    yield Entry(
        "version", ", ".join(version), "model.revision, or a run that tells the digest of the weights"
    )
    if model is not None:
        yield Entry("remark on the weights", model.note, "the run", required=False)
        counts = (
            Figure("parameters", model.parameters),
            Figure("trained", model.trainable_parameters),
            Figure("adapted modules", model.adapted_modules),
        )
        yield Entry("parameters", "", "the run", counts)
    lora = job.lora
    text = "all parameters are trained"
    if lora is not None:
        text = f"LoRA of rank {lora.rank}, alpha {lora.alpha:g}, dropout {lora.dropout:g} on {', '.join(lora.targets)}"
    yield Entry("what is trained", text, "lora")


def _training(job: Job) -> Iterator[Entry]:
    yield Entry("sequence length", f"{job.data.sequence_length} tokens", "data.sequence_length")
    numbers = f"{job.precision.compute} compute, rounding {job.precision.rounding}"
    precision = f"{numbers}, float32 master weights and moments"
    yield Entry("precision", precision, "precision")
    yield Entry("steps", f"{job.stop.steps}", "stop.steps")
    rows = job.batch.micro * job.batch.accumulation * job.parallel.data
    batch = f"{rows} rows a step: micro-batch {job.batch.micro}, accumulation {job.batch.accumulation}"
    yield Entry("batch", batch, "batch")
    o, s = job.optimizer, job.schedule
    rate = f"peak rate {o.learning_rate:g}, {s.kind}, {s.warmup_steps} warm-up steps"
    yield Entry("optimizer", f"AdamW, {rate}, weight decay {o.weight_decay:g}", "optimizer, schedule")
    yield Entry("seed", f"{job.seed}", "seed")


def _data(evidence: Evidence) -> Iterator[Entry]:
    data = evidence.job.data
    yield Entry("files", ", ".join((*data.files, *data.evaluation_files)), "data.files")
    run = next((run for _, run in _references(evidence) if run.data is not None), None)
    found = None if run is None else run.data
    if found is None:
        yield Entry("size", "", "a run that tells of its data")
        return
    sizes = (
        Figure("training samples", found.train_samples),
        Figure("evaluation samples", found.evaluation_samples),
        Figure("training rows", found.train_rows),
        Figure("tokens in training rows", found.tokens),
        Figure("tokens with loss", found.loss_tokens),
    )
    yield Entry("size", "", "the run", sizes)
    yield Entry("digest of data, split and order", found.digest, "the run")


def _parallel(evidence: Evidence) -> Iterator[Entry]:
    plan = evidence.job.parallel
    text = f"data {plan.data} x tensor {plan.tensor} x pipeline {plan.pipeline}: {plan.devices} devices"
    yield Entry("plan", text, "parallel")
    for fit in evidence.fits:
        yield Entry(f"fits {fit.machine}", fit.text, "twintrack qualify", fit.figures)
    if not evidence.fits:
        yield Entry("fits", "", "twintrack qualify")


def _checkpoints(evidence: Evidence) -> Iterator[Entry]:
    policy = evidence.job.checkpoint
    how = "in the background" if policy.asynchronous else "while training waits"
    yield Entry(
        "format",
        "safetensors with a manifest of digests, written last; converts to PEFT and Hugging Face",
        "checkpoint",
    )
    yield Entry(
        "policy", f"every {policy.every_steps} steps, {policy.keep} kept, written {how}", "checkpoint"
    )
    for one, run in _references(evidence):
        saved = [checkpoint for checkpoint in run.checkpoints if checkpoint.outcome == "saved"]
        if saved:
            figures = (
                Figure("size", saved[-1].bytes),
                Figure("stall", one.track.stall),
                Figure("slowdown", one.track.slowdown),
            )
            yield Entry(f"on {one.label}", "", "the run", figures)


def _quality(evidence: Evidence) -> Iterator[Entry]:
    job = evidence.job
    yield Entry("criteria", job.decision.quality_criteria or "", "decision.quality_criteria")
    tolerance = _stated(job.tolerances.loss, "", "tolerances.loss")
    yield Entry(
        "tolerance of losses", "", "tolerances.loss", (Figure("largest relative difference", tolerance),)
    )
    for finding in evidence.quality:
        name = f"{finding.first} and {finding.second}"
        yield Entry(name, finding.text, "twintrack compare", finding.figures)
    for one, run in _references(evidence):
        if run.evaluations and run.evaluations[-1].slices:
            last = run.evaluations[-1]
            worst = last.slices[0]
            figures = (Figure("evaluation loss", last.loss), Figure(f"worst slice, {worst.name}", worst.loss))
            yield Entry(f"evaluation on {one.label}", "", "the run", figures)


def _fallback(evidence: Evidence) -> Iterator[Entry]:
    yield Entry("plan", evidence.job.decision.fallback_plan or "", "decision.fallback_plan")
    proofs = [
        (one, kept) for one in evidence.tracks(trainium=True) for kept in one.proofs if kept.proof.passed
    ]
    texts = [
        f"{kept.proof.source} to {kept.proof.to}: {len(kept.proof.checks)} checks passed "
        f"({', '.join(check.name for check in kept.proof.checks)}); {kept.file}"
        for _, kept in proofs
    ]
    yield Entry(
        "proof that a checkpoint was restored on the other side", "; ".join(texts), "twintrack convert"
    )


def _cost(evidence: Evidence) -> Iterator[Entry]:
    ledgers = [one for pilot in evidence.pilots for one in pilot.ledger.tracks]
    for ledger in ledgers:
        figures = (
            Figure("total", ledger.total),
            Figure("without faults", ledger.total_without_faults),
            Figure("per million tokens", ledger.per_million_tokens),
        )
        yield Entry(
            f"of {ledger.run}", ledger.machine or "no machine with a price", "twintrack ledger", figures
        )
    if not ledgers:
        yield Entry("total", "", "twintrack ledger")


def _again(evidence: Evidence) -> Iterator[Entry]:
    yield Entry("command", "twintrack pilot JOB, then twintrack decide JOB RUN", "this version")
    yield Entry("job digest", evidence.job_digest, "twintrack job show")
    yield Entry("runs", ", ".join(one.label for one in evidence.all_tracks()), "twintrack decide")
    versions = {pilot.summary.version for pilot in evidence.pilots}
    yield Entry("made by", f"twintrack {', '.join(sorted(versions))}" if versions else "", "the runs")


def _duties(job: Job) -> tuple[Duty, ...]:
    owners = job.responsibility
    rows = (
        ("model and training code", owners.code, "code"),
        ("compiler versions, flags, recompiles", owners.compilation, "compilation"),
        ("compile cache: place, size, retention", owners.cache, "cache"),
        ("container image and its versions", owners.image, "image"),
        ("checkpoint conversion and the way back", owners.conversion, "conversion"),
    )
    return tuple(Duty(what, who or "", f"responsibility.{key}") for what, who, key in rows)
