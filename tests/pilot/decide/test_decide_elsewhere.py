"""Runs brought in from elsewhere, priced on both sides: from logs and price files to every outcome.

The logs are those of a tiny model trained here and said to come from a GPU instance and from a Trainium instance; the
prices are made up. Only the rules are tested, never a figure.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest
from made_evidence import ANSWERS, OWNERS, PROVED

from small_pilot import FakeClock, make_run, small_job, world, write_inputs
from twintrack.hardware.catalogue import load_catalogue
from twintrack.job.load import load_job
from twintrack.job.records import Costs, Job
from twintrack.job.write import job_toml
from twintrack.pilot.decide.gather import gather
from twintrack.pilot.decide.records import Outcome, Verdict
from twintrack.pilot.decide.verdict import decide
from twintrack.pilot.imports import ImportRequest, import_run
from twintrack.pilot.worker import run_leg
from twintrack.storage import LocalFileSystem, write_json_atomic

FS = LocalFileSystem()
DAY = datetime.date(2026, 11, 30)
PLACES = (("cuda", "p5.48xlarge"), ("neuron", "trn2.48xlarge"))
PRICES = """
[[price]]
what = "machine"
name = "p5.48xlarge"
value = {gpu}
unit = "USD/h"
source = "made up for a test"
observed = {observed}
[[price]]
what = "machine"
name = "trn2.48xlarge"
value = {trainium}
unit = "USD/h"
source = "made up for a test"
observed = {observed}
[[price]]
what = "storage"
name = "s3_standard"
value = 0.02
unit = "USD/GB-month"
source = "made up for a test"
observed = {observed}
[[price]]
what = "operating"
name = "engineer"
value = 100.0
unit = "USD/h"
source = "made up for a test"
observed = {observed}
"""


def _job() -> Job:
    return small_job(
        stop={"steps": 32},
        stops=[{"kind": "polite", "step": 16}],
        tolerances={"loss": 0.02},
        costs=Costs(region="us-east-2", operating_hours=1e-6).model_dump(mode="json"),
        decision=ANSWERS.model_dump(mode="json", exclude_none=True),
        responsibility=OWNERS.model_dump(mode="json"),
        tracks=[
            {"use": ["cuda", "cpu"], "compute": "fp32", "instance": "p5.48xlarge"},
            {"use": ["neuron"], "if_absent": "skip", "compute": "fp32", "instance": "trn2.48xlarge"},
        ],
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Path, ...]]:
    """Inputs, and two run folders that two people brought in, with a proof beside the Trainium run."""
    root = tmp_path_factory.mktemp("elsewhere")
    write_inputs(root)
    (root / "job.toml").write_text(job_toml(_job()))
    loaded = load_job(root / "job.toml")
    logs, clock = {}, FakeClock()
    for kind in ("reference", "interrupted"):
        run = make_run(root / "made", root, loaded.job, "cpu", kind)
        for _ in range(1 if kind == "reference" else 2):
            run_leg(run, replace(world(root / "cache"), clock=clock, started=clock.now()))
        logs[kind] = run.events.read_text()
    for person in ("ada", "grace"):
        for kind, text in logs.items():
            for track, instance in PLACES:
                log = root / f"{person}-{track}-{kind}.jsonl"
                own = _operator(text)
                log.write_text(text.replace('"track": "cpu"', f'"track": "{track}"').replace(own, person))
                request = ImportRequest(log, root / person, track, loaded, kind, instance=instance)
                import_run(request, FS)
        proofs = root / person / "tracks" / "neuron" / "reference" / "conversions"
        proofs.mkdir(parents=True)
        write_json_atomic(FS, proofs / "32-peft.json", PROVED.model_dump(mode="json"))
    return root, (root / "ada", root / "grace")


def _operator(text: str) -> str:
    return text.partition('"operator": "')[2].partition('"')[0]


def _verdict(
    folders: tuple[Path, tuple[Path, ...]], tmp_path: Path, *, gpu: float, trainium: float, observed: str
) -> Verdict:
    root, runs = folders
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES.format(gpu=gpu, trainium=trainium, observed=observed))
    loaded = load_job(root / "job.toml")
    evidence = gather(
        loaded.job,
        loaded.base,
        "job.toml",
        runs,
        FS,
        load_catalogue(),
        prices=[prices],
        on=DAY,
        machine_times={},
    )
    return decide(evidence)


def _rules(verdict: Verdict, holds: bool | None) -> dict[str, str]:
    return {reason.rule: reason.text for reason in verdict.reasons if reason.holds is holds}


def test_a_cheaper_trainium_run_with_every_sign_is_accepted(folders, tmp_path: Path) -> None:
    verdict = _verdict(folders, tmp_path, gpu=100.0, trainium=20.0, observed="2026-11-01")

    assert verdict.outcome is Outcome.ACCEPTED, (_rules(verdict, False), _rules(verdict, None))
    assert "0.2" in _rules(verdict, True)["cost"]
    assert {flip.name for flip in verdict.sensitivity} >= {"tolerances.loss", "points of the matrix"}
    assert any(
        flip.name.startswith("price of") and flip.becomes is Outcome.REFUSED for flip in verdict.sensitivity
    )


def test_a_dearer_one_is_refused_for_its_cost_alone(folders, tmp_path: Path) -> None:
    verdict = _verdict(folders, tmp_path, gpu=20.0, trainium=100.0, observed="2026-11-01")

    assert verdict.outcome is Outcome.REFUSED
    assert set(_rules(verdict, False)) == {"cost"}


def test_a_price_two_years_old_decides_nothing(folders, tmp_path: Path) -> None:
    verdict = _verdict(folders, tmp_path, gpu=100.0, trainium=20.0, observed="2024-11-01")

    assert verdict.outcome is Outcome.UNDECIDED
    assert "too old" in _rules(verdict, None)["cost"]
