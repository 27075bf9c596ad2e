"""Time before the first step, cold and warm; cost and coverage of programs."""

from __future__ import annotations

import pytest
from synthetic import Story, make_run

from twintrack.events import CompileDone, Coverage, Phase, ProgramCost
from twintrack.pilot.summary import read_summary
from twintrack.quantity import Provenance
from twintrack.storage import LocalFileSystem

FS = LocalFileSystem()
CAPTURE = 11.5 + 1.25 + 3.5


def read(tmp_path, **fields):
    given = {"steps": 6, "every": 3, "stops": (("kill", 4),), "tracks": ("trn2",)} | fields
    return read_summary(make_run(tmp_path / "run", Story(**given)), FS).tracks[0]


def parts(start):
    return {part.name: part.seconds.value for part in start.parts}


def test_cold_is_the_start_that_captured_and_warm_the_first_that_captured_nothing(tmp_path):
    track = read(tmp_path)

    assert (track.cold.run, track.cold.leg, track.cold.programs) == ("reference", 0, "cold")
    assert (track.warm.run, track.warm.leg, track.warm.programs) == ("interrupted", 0, "warm")
    assert parts(track.cold)["capture"] == CAPTURE
    assert parts(track.warm)["capture"] == 0.0
    assert (track.cold.captured.value, track.cold.loaded.value) == (3, 0)
    assert (track.warm.captured.value, track.warm.loaded.value) == (0, 3)


def test_the_total_is_the_sum_of_the_parts_that_exist(tmp_path):
    track = read(tmp_path)

    assert track.cold.total.value == pytest.approx(sum(parts(track.cold).values()), rel=1e-12)
    assert "resume" not in parts(track.cold)
    resumed = track.interrupted.starts[1]
    assert resumed.resumed
    assert parts(resumed)["resume"] == 0.21
    assert resumed.total.value == pytest.approx(sum(parts(resumed).values()), rel=1e-12)


def test_a_second_run_that_captured_nothing_still_shows_cold_labelled_as_measured_earlier(tmp_path):
    track = read(tmp_path, warm=True)

    assert (track.warm.run, track.warm.leg) == ("reference", 0)
    assert parts(track.warm)["capture"] == 0.0
    capture = track.cold.part("capture")
    assert capture.value == CAPTURE
    assert "when the cache entries were made" in capture.conditions
    assert track.cold.part("compile") is None
    assert track.cold.total.value == pytest.approx(
        track.warm.total.value - track.warm.part("compile").value + CAPTURE, rel=1e-12
    )
    assert "writing the cache entries is not in it" in track.cold.total.source


def test_a_start_that_found_part_of_its_programs_is_neither_cold_nor_warm(tmp_path):
    def edit(track, run, event):
        if isinstance(event, CompileDone) and run == "reference" and event.program == "update":
            return event.model_copy(update={"warm": True})
        return event

    track = read(tmp_path, edit=edit)

    assert track.reference.starts[0].programs == "mixed"
    assert track.cold.note
    assert track.warm.run == "interrupted"


def test_without_phases_capture_and_compile_are_the_sums_of_the_compilations(tmp_path):
    def edit(track, run, event):
        return None if isinstance(event, Phase) and event.name in ("capture", "compile") else event

    track = read(tmp_path, edit=edit)

    assert track.cold.part("capture").value == CAPTURE
    assert track.cold.part("compile").value == 3 * 0.375
    assert track.cold.part("capture").kind is Provenance.DERIVED


def test_programs_first_used_after_the_first_step_do_not_count_before_it(tmp_path):
    def edit(track, run, event):
        if isinstance(event, Phase) and event.name in ("capture", "compile"):
            return None
        if isinstance(event, CompileDone) and event.program == "evaluate":
            return event.model_copy(update={"during": "first_use"})
        return event

    track = read(tmp_path, edit=edit)

    assert track.cold.part("capture").value == CAPTURE - 3.5
    assert track.cold.captured.value == 2


def test_a_track_that_compiles_nothing_has_two_plain_starts(tmp_path):
    track = read(tmp_path, tracks=("cpu",))

    assert track.cold.programs == track.warm.programs == "none"
    assert (track.cold.run, track.warm.run) == ("reference", "interrupted")
    assert track.cold.part("capture") is None


def test_a_lost_phase_makes_its_part_and_the_total_unknown(tmp_path):
    def edit(track, run, event):
        return None if isinstance(event, Phase) and event.name == "model" else event

    cold = read(tmp_path, edit=edit).cold

    assert not cold.part("model").known
    assert not cold.total.known


def test_bound_and_estimate_are_named_as_what_they_are(tmp_path):
    program = read(tmp_path).reference.programs[0]

    assert program.program == "gradients"
    assert program.bound.kind is Provenance.BOUND
    assert program.unfused.kind is Provenance.DERIVED
    for figure in (program.bound, program.unfused):
        assert "never a prediction" in figure.source
        assert "LNC 2" in figure.conditions
    assert program.operators[0].operator == "matmul"
    assert sum(one.flops.value or 0 for one in program.operators) == program.flops.value


def test_an_operator_that_was_only_counted_has_unknown_flops(tmp_path):
    operators = {one.operator: one for one in read(tmp_path).reference.programs[0].operators}

    assert not operators["transpose"].flops.known
    assert operators["transpose"].count.value == 150


def test_each_program_stands_once_however_many_processes_tell_of_it(tmp_path):
    run = read(tmp_path).interrupted

    assert len(run.legs) == 2
    assert [one.program for one in run.programs] == ["gradients", "evaluate", "update"]
    assert len(run.coverage.programs) == 3


def test_a_program_of_two_shapes_stands_twice(tmp_path):
    def edit(track, run, event):
        if (
            isinstance(event, ProgramCost)
            and event.program == "update"
            and event.leg == 0
            and run == "reference"
        ):
            edit.count += 1
        return event.model_copy(update={"program": "gradients"}) if isinstance(event, ProgramCost) else event

    edit.count = 0
    assert [one.program for one in read(tmp_path, edit=edit).reference.programs] == ["gradients"] * 3


def test_the_share_under_the_rules_counts_flops_and_operators(tmp_path):
    def edit(track, run, event):
        if isinstance(event, Coverage) and event.program == "update":
            return event.model_copy(
                update={
                    "flops_under_rules": event.flops - 7,
                    "operators_under_rules": event.operators - 2,
                    "host_operators": {"aten.foo (model.py:3)": 2},
                }
            )
        return event

    track = read(tmp_path, edit=edit, allow_host=True)
    coverage = track.reference.coverage
    operators = 2_143 + 480 + 912

    assert coverage.operators_share.value == pytest.approx(100 * (operators - 2) / operators)
    assert coverage.flops_share.value == pytest.approx(100 * (1 - 7 / (operators * 31_000_000)))
    assert not coverage.complete
    assert [(name, count.value) for name, count in coverage.host_operators] == [("aten.foo (model.py:3)", 2)]
