"""What a report says of an imported run: what the log told, with the log as source; the rest unknown, never zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported import FS, bring, csv_log

from twintrack.pilot.page import build_page, write_report
from twintrack.pilot.summary import read_summary
from twintrack.pilot.summary_checks import matched
from twintrack.pilot.summary_parts import Curve
from twintrack.quantity import Provenance
from twintrack.report.html import render_page

WHOLE = [(step, 3 - step / 10, 2e-4) for step in range(1, 7)]


def test_what_a_log_does_not_say_is_unknown_with_the_reason(tmp_path):
    made = bring(tmp_path, csv_log(WHOLE))
    track = read_summary(made.run.root, FS).tracks[0]
    run = track.reference
    assert run is not None

    silent = {
        "tokens per second": run.tokens_per_second,
        "memory": run.peak_memory,
        "restarts": run.restarts,
        "failures": run.failures,
        "bytes read again": run.bytes_reread,
        "recompiles": track.recompiles,
        "stall": track.stall,
        "slowdown": track.slowdown,
        "ended": run.legs[0].ended,
        "captured": run.starts[0].captured,
        "start": run.starts[0].total,
        "whole": run.imported[0].training_seconds,
    }
    assert [name for name, figure in silent.items() if figure.known or not figure.source] == []
    assert (run.data, run.model, track.cold, track.warm) == (None, None, None, None)
    assert run.gradient_norm.steps == run.step_seconds.steps == ()
    assert run.end is not None
    assert run.end.state_digest is None
    assert run.legs[0].how == "done"


def test_every_figure_of_an_imported_run_names_the_log(tmp_path):
    made = bring(tmp_path, csv_log([(*row, 0.5, 64) for row in WHOLE], "step,loss,lr,seconds,tokens"))
    run = read_summary(made.run.root, FS).tracks[0].reference
    assert run is not None

    mark = f"imported from the.log, sha256 {made.imported.sha256[:12]}"
    known = [
        run.loss.at(0),
        run.step_seconds.at(1),
        run.tokens_per_second,
        run.steps_done,
        run.imported[0].lines,
    ]
    assert all(figure.known and mark in figure.source for figure in known)
    assert run.loss.kind is Provenance.MEASURED


def test_the_page_shows_the_log_and_each_defect(tmp_path):
    made = bring(tmp_path, csv_log([row for row in WHOLE if row[0] != 4]), instance="p5.48xlarge")
    summary = read_summary(made.run.root, FS)

    html = render_page(build_page(summary))
    for text in ("Imported logs", "step 4 is not in the log", made.imported.sha256, "p5.48xlarge", "1 holes"):
        assert text in html
    assert "cuda compiles no program" not in html
    assert write_report(summary, made.run.root, FS).exists()


def test_a_run_that_was_made_here_has_no_such_section():
    from test_import_native import OLD

    assert "Imported logs" not in render_page(build_page(read_summary(OLD, FS)))


@pytest.mark.parametrize("log", [WHOLE[:3], [row for row in WHOLE if row[0] != 2], WHOLE])
def test_a_spoiled_log_is_a_failure_of_the_run(tmp_path, log):
    summary = read_summary(bring(tmp_path, csv_log(log)).run.root, FS)
    steps = [failure for failure in summary.failures if failure.kind in ("steps", "log")]

    assert bool(steps) == (log != WHOLE)


def _curve(values: list[float], width: int) -> Curve:
    """A curve of means over ``width`` steps."""
    means = [sum(values[i : i + width]) / width for i in range(0, len(values), width)]
    steps = tuple(range(width, len(values) + 1, width))
    return Curve(
        "", Provenance.MEASURED, "x", steps, tuple(means), () if width == 1 else (width,) * len(steps)
    )


@given(
    st.lists(st.floats(-10, 10), min_size=12, max_size=12),
    st.sampled_from([1, 2, 3, 4, 6, 12]),
    st.sampled_from([1, 2, 3]),
)
def test_curves_of_the_same_losses_match_whatever_they_are_means_of(values, wide, narrow):
    """Independent reference: both are made from the same losses, so that every matched pair is equal."""
    one, other = _curve(values, wide), _curve(values, narrow)
    pairs = matched(one, other)

    assert all(a == pytest.approx(b, abs=1e-12) for _, a, b in pairs)
    if wide % narrow == 0:
        assert [step for step, _, _ in pairs] == list(one.steps)


def test_a_mean_whose_steps_are_not_all_on_record_finds_no_partner():
    one = Curve("", Provenance.MEASURED, "x", (2, 4), (1.0, 2.0), (2, 2))
    other = Curve("", Provenance.MEASURED, "y", (1, 2, 4), (0.5, 1.5, 2.0))

    assert matched(one, other) == ((2, 1.0, 1.0),)
