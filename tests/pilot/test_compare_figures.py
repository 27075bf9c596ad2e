"""Starts, seconds, memory, recompiles, checkpoints, costs, the page: what stands beside what, and what over what."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from compare_cases import FS, STORY, events, folders, story, tracks
from page_reader import read_page
from synthetic import FakeClock, Story, make_run

from twintrack.events import StepDone
from twintrack.job.records import CheckpointPolicy
from twintrack.pilot.compare.compare import compare_tracks_of
from twintrack.pilot.compare.page import build_page
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.ledger.records import LINES, Line, PilotLedger, TrackLedger
from twintrack.quantity import Quantity
from twintrack.report.html import render_page
from twintrack.training.checkpoint import Checkpointer, TrainingState


def rows_of(one):
    return {row.name: row for row in one.figures}


def test_a_cold_run_beside_a_warm_one_is_labelled_and_never_put_over_it(tmp_path):
    one = folders(tmp_path, STORY, story(STORY.edit, warm=True), track="trn2")
    starts = {pair.state: pair for pair in one.starts}

    own = starts["as it was"]
    assert (own.first.programs, own.second.programs) == ("cold", "warm")
    assert not own.ratio.known
    assert own.note == "a:trn2 started cold, b:trn2 warm: the two are not comparable"
    assert own.note in one.remarks
    assert not starts["cold"].ratio.known  # put together from what the cache entries remember
    assert "put together from what capturing took" in starts["cold"].note
    for pair in one.starts:
        if pair.ratio.known:
            assert pair.first.programs == pair.second.programs


def test_two_cold_runs_are_put_over_each_other(tmp_path):
    one = folders(tmp_path, track="trn2")
    start = next(pair for pair in one.starts if pair.state == "cold")

    assert start.ratio.value == 1.0
    assert start.note == ""


def test_seconds_and_memory_of_an_emulation_are_marked_and_never_put_over_a_machines(tmp_path):
    one = tracks(tmp_path)
    rows = rows_of(one)

    for name in ("tokens per second, median step", "time of a step, median", "peak memory"):
        assert not rows[name].ratio.known
        assert "trn2 is an emulation" in rows[name].ratio.source
        assert "the emulation's own" in rows[name].second.conditions
        assert "emulation" not in rows[name].first.conditions
    assert rows["checkpoint size, median"].ratio.value == 1.0
    assert all(not pair.ratio.known for pair in one.starts)
    assert any("never Trainium's" in remark for remark in one.remarks)


def test_figures_are_those_of_the_runs_events(tmp_path):
    """Against the story: 0.55 s and a hundredth for every third of a step, 1.12 times that after a checkpoint."""
    rows = rows_of(folders(tmp_path))
    times = []
    for step in range(2, 41):
        saving = step > 10 and step % 10 in (1, 2)
        times.append(0.55 * (1.12 if saving else 1.0) + 0.01 * (step % 3))

    assert rows["time of a step, median"].first.value == pytest.approx(sorted(times)[len(times) // 2])
    assert rows["checkpoint size, median"].first.value == 5_534_208 + 25
    assert rows["checkpoint stall, median"].first.value == pytest.approx(0.012 + 25 / 1e4)


def test_a_track_that_recompiled_at_every_step_shows_its_share_and_reason(tmp_path):
    one = tracks(tmp_path, recompiles=lambda step: step > 1)

    assert one.second.recompile_share.value == 39 / 40
    assert one.first.recompile_share.value == 0
    (reason,) = [reason for reason in one.second.compile_reasons if reason.during == "later"]
    assert (reason.reason, reason.count.value) == ("another shape of input_ids", 39)
    assert rows_of(one)["share of steps that recompiled"].second.value == 39 / 40


def test_resume_of_both_tracks_is_told(tmp_path):
    one = tracks(
        tmp_path,
        events(StepDone, lambda e: {"loss": e.loss + 1e-9}, track="trn2", when=lambda e: e.step == 17),
        stops=(("polite", 14),),
    )
    assert (one.first.to_the_bit, one.second.to_the_bit) == (True, True)

    def later(track, run, event):
        if (track, run) == ("trn2", "interrupted") and isinstance(event, StepDone) and event.step > 15:
            return event.model_copy(update={"loss": event.loss * 1.001})
        return event

    folder = make_run(tmp_path / "lost", Story(stops=(("polite", 14),), edit=later))
    two = compare_tracks_of(TrackRun(folder, "cpu", "reference"), TrackRun(folder, "trn2", "interrupted"), FS)
    assert two.second.to_the_bit is False
    assert any("the optimizer was not restored" in failure.what for failure in two.second.failures)
    assert two.quality is None
    assert (two.first.label, two.second.label) == ("cpu", "trn2")


def checkpoint(folder: Path, *groups: str) -> None:
    """A complete checkpoint of step 40 with one small file of tensors per group."""
    tensors = {f"{group}/w": torch.zeros(2) for group in groups}
    place = TrackRun(folder, "trn2", "reference").checkpoints
    with Checkpointer(FS, place, FakeClock(), CheckpointPolicy(), "d" * 64, lambda event: None) as keeper:
        keeper.save(TrainingState(40, tensors, {}))
        keeper.finish()


@pytest.mark.parametrize(
    ("groups", "kept", "lacking"),
    [
        (("weights", "master", "moment1", "moment2"), "master weights, first moments, second moments", None),
        (
            ("weights", "master"),
            "master weights",
            "lacks first moments and second moments: no resume can restore",
        ),
        (("weights",), "nothing of the optimizer", "the optimizer"),
    ],
)
def test_a_checkpoint_without_moments_is_a_failure_to_resume_that_says_optimizer(
    tmp_path, groups, kept, lacking
):
    folder = make_run(tmp_path / "run", STORY)
    checkpoint(folder, *groups)
    one = compare_tracks_of(TrackRun(folder, "cpu", "reference"), TrackRun(folder, "trn2", "reference"), FS)

    assert one.second.optimizer == f"step 40: {kept}"
    assert one.first.optimizer == ""
    said = [f"{failure.kind}: {failure.what}" for failure in one.second.failures]
    assert bool(said) is (lacking is not None)
    assert all(text.startswith("resume: ") and lacking in text and "optimizer" in text for text in said)
    assert one.quality is (True if lacking is None else None)


def ledger(track, amount, *, currency="USD", left_out=(), stale=()):
    def money(value):
        return Quantity.measured(value, currency, "test")

    lines = tuple(Line(name, money(amount), money(amount), "test", ()) for name in LINES)
    total = money(amount * (len(LINES) - len(left_out)))
    one = TrackLedger(
        "x", track, None, currency, money(1), lines, total, total, money(1), stale=stale, left_out=left_out
    )
    return PilotLedger("2026-11-30", (one,))


def compared(tmp_path, *ledgers):
    folder = make_run(tmp_path / "run", STORY)
    runs = TrackRun(folder, "cpu", "reference"), TrackRun(folder, "trn2", "reference")
    one = compare_tracks_of(*runs, FS, ledgers=ledgers)
    return one, {row.name: row for row in one.costs}


def test_costs_stand_in_the_comparison_only_where_a_ledger_is_given(tmp_path):
    assert compared(tmp_path, None, None)[0].costs == ()
    one, rows = compared(
        tmp_path, ledger("cpu", 2.0), ledger("trn2", 3.0, stale=("p5 price of 2020, 5 years",))
    )

    assert rows["total"].ratio.value == 1.5
    assert len(rows) == len(LINES) + 3
    assert "too old to decide anything: p5 price of 2020, 5 years" in one.remarks
    _, half = compared(tmp_path, None, ledger("trn2", 3.0))
    assert not half["total"].first.known
    assert not half["total"].ratio.known


def test_amounts_in_two_currencies_and_totals_of_other_lines_are_not_put_over_each_other(tmp_path):
    _, rows = compared(tmp_path, ledger("cpu", 2.0), ledger("trn2", 3.0, currency="EUR"))
    assert "USD and EUR are not compared" in rows["total"].ratio.source

    _, rows = compared(tmp_path, ledger("cpu", 2.0), ledger("trn2", 3.0, left_out=("compilation",)))
    assert rows["compilation"].ratio is None
    assert rows["total"].ratio is None
    alike = rows["total of the lines that both tell of, without faults"]
    assert (alike.first.value, alike.second.value) == (2.0 * 6, 3.0 * 6)


def test_the_page_shows_every_part_and_escapes_what_models_wrote(tmp_path):
    evil = "<script>window.evil = 1</script>"
    folder = make_run(
        tmp_path / "run", dataclasses.replace(STORY, answer=evil, recompiles=lambda step: step > 1)
    )
    runs = TrackRun(folder, "cpu", "reference"), TrackRun(folder, "trn2", "reference")
    one = compare_tracks_of(*runs, FS, ledgers=(ledger("cpu", 2.0), ledger("trn2", 3.0)))
    read = read_page(render_page(build_page(one)))

    assert "trn2 is as good as cpu" in read.prose
    for title in (
        "Loss",
        "Slices",
        "Answers",
        "Time before the first step",
        "Compilations by reason",
        "Cost",
    ):
        assert f"{title}, side by side" in read.prose
    assert read.prose.count(evil) == 4
    assert "not comparable" in read.prose
    assert "another shape of input_ids" in read.prose
    assert "trn2 (emulated)" in read.prose
    assert len(read.charts) == 2
    assert any("moving-block bootstrap" in tip for tip in read.tips)
    assert all(math.isfinite(y) for y in read.charts[1]["data"][0]["y"])
