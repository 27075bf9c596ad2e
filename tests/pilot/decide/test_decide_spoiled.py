"""Runs that were really trained, each spoiled in one way, are refused by ``decide`` with the right reason.

The spoiled thing is a fault put into the training code while the run is made; the decision sees the run's files alone.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from small_pilot import make_run, small_job, world, write_inputs
from twintrack.hardware.catalogue import load_catalogue
from twintrack.job.records import Job
from twintrack.numerics.rounding import TowardZero
from twintrack.pilot.decide.gather import gather
from twintrack.pilot.decide.records import Outcome, Verdict
from twintrack.pilot.decide.verdict import decide
from twintrack.pilot.worker import run_leg
from twintrack.storage import LocalFileSystem
from twintrack.tracks import TRACKS
from twintrack.tracks.trn2 import SoftwareTrainium
from twintrack.training.sampler import Sampler
from twintrack.training.session import Session
from twintrack.training.step import Step

FS = LocalFileSystem()
STEPS = 12


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


def _job(**changes: Any) -> Job:
    return small_job(
        stop={"steps": STEPS},
        stops=[{"kind": "polite", "step": 6}],
        tolerances={"loss": 2e-3},
        checkpoint={"every_steps": 3, "asynchronous": False},
        **changes,
    )


def _verdict(root: Path, inputs: Path, job: Job, tracks: Any = TRACKS) -> Verdict:
    for track in ("cpu", "trn2"):
        run_leg(make_run(root, inputs, job, track), world(root / "cache", tracks=tracks))
        interrupted = make_run(root, inputs, job, track, "interrupted")
        for _ in range(2):  # stopped politely, and resumed
            run_leg(interrupted, world(root / "cache", tracks=tracks))
    day = datetime.date(2026, 11, 30)
    evidence = gather(
        job, inputs, "job.toml", [root], FS, load_catalogue(), prices=(), on=day, machine_times={}
    )
    return decide(evidence)


def _broken(verdict: Verdict) -> dict[str, str]:
    return {reason.rule: reason.text for reason in verdict.reasons if reason.holds is False}


def test_runs_that_nobody_spoiled_break_no_rule(tmp_path: Path, inputs: Path) -> None:
    """On a laptop the verdict is undecided, for nobody knows what a Trainium2 would have taken."""
    verdict = _verdict(tmp_path, inputs, _job())

    assert _broken(verdict) == {}
    assert verdict.outcome is Outcome.UNDECIDED
    assert "emulation" in verdict.sentence


def test_wrong_rounding_is_refused_for_its_losses(tmp_path: Path, inputs: Path) -> None:
    class WrongTrainium:
        name = "trn2"

        def absence(self) -> str | None:
            return None

        def check(self, settings: Any) -> None:
            TRACKS["trn2"].check(settings)

        def open(self, settings: Any, services: Any) -> SoftwareTrainium:
            return SoftwareTrainium(settings, services, TowardZero())

    job = _job().model_copy(update={"tolerances": _job().tolerances.model_copy(update={"loss": 2e-4})})
    verdict = _verdict(tmp_path, inputs, job, {**TRACKS, "trn2": WrongTrainium()})

    assert verdict.outcome is Outcome.REFUSED
    assert "tolerate" in _broken(verdict)["quality holds at equal parameters"]


def test_an_optimizer_that_is_not_restored_is_refused(
    tmp_path: Path, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = Session.restore

    def forgetful(self: Session, state: Any) -> Any:
        progress = restore(self, state)
        for kind in ("moment1", "moment2"):
            for name, moment in progress.optimizer[kind].items():
                progress.optimizer[kind][name] = torch.zeros_like(moment)
        return progress

    monkeypatch.setattr(Session, "restore", forgetful)
    verdict = _verdict(tmp_path, inputs, _job())

    assert verdict.outcome is Outcome.REFUSED
    assert "resume restores the optimizer" in _broken(verdict)


def test_data_skipped_on_resuming_are_refused(
    tmp_path: Path, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_state = Sampler.from_state.__func__  # type: ignore[attr-defined]

    def skipping(cls: type[Sampler], state: Any) -> Sampler:
        sampler: Sampler = from_state(cls, state)
        sampler.next(2)
        return sampler

    monkeypatch.setattr(Sampler, "from_state", classmethod(skipping))
    verdict = _verdict(tmp_path, inputs, _job())

    assert verdict.outcome is Outcome.REFUSED
    broken = _broken(verdict)
    assert "sample" in broken["runs did what the job says"], broken


def test_an_adapter_that_is_saved_and_never_applied_is_refused(
    tmp_path: Path, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training computes with the adapter, evaluation and answers without it: what is saved changes no result."""
    evaluate = Step.evaluate

    def dropped(self: Step, weights: Any, frozen: Any, batch: Any) -> Any:
        none = {
            name: torch.zeros_like(value) if "lora_B" in name else value for name, value in weights.items()
        }
        return evaluate(self, none, frozen, batch)

    monkeypatch.setattr(Step, "evaluate", dropped)
    verdict = _verdict(tmp_path, inputs, _job())

    assert verdict.outcome is Outcome.REFUSED
    assert "adapter" in _broken(verdict)["runs did what the job says"], _broken(verdict)
