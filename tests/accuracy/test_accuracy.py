"""The accuracy table is what the model says now, holds the gates, and fits no more than it admits."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from accuracy_gates import broken_gates, mean_absolute_error, predicted_rows
from accuracy_rows import ROWS, VERSIONS
from accuracy_runs import MODEL, Result, digest, results, timed, times, traced

from twintrack.neuroncore.timing.accuracy import kind_of
from twintrack.neuroncore.timing.parameters import parameter_records

PAGE = Path(__file__).resolve().parents[2] / "docs" / "timing-accuracy.md"
TABLE = json.loads(
    (files("twintrack.neuroncore.timing") / "data" / "accuracy.json").read_text(encoding="utf-8")
)
FOUND = tuple(Result(**entry) for entry in TABLE["rows"])
NEVER_FITTED = {
    "te_tiles_mixed", "dge_mixed_2048", "matmul_trn2_v2", "matmul_trn1_block_free", "matmul_trn1_block_all",
    "mamba_trn1",
}  # fmt: skip
"""Rows that must be predictions, and gated ones."""
MOST_FITTED = 6
REMAKE = "run python scripts/accuracy.py --write, and look at what changed"


def _file_rows(name):
    return [one for one in FOUND if one.name == name]


def test_the_table_was_made_with_this_model_and_these_rows():
    assert TABLE["digest"] == digest(), f"model, parameters or rows changed since accuracy.json: {REMAKE}"
    assert [(one.name, one.quantity) for one in FOUND] == [
        (row.name, figure.quantity) for row in ROWS for figure in row.figures
    ]


def test_the_digest_covers_every_file_that_decides_a_time():
    """Those that the schedule imports, directly or by way of others."""
    room = Path(str(files("twintrack.neuroncore.timing")))
    found, left = set(), ["schedule.py"]
    while left:
        name = left.pop()
        found.add(name)
        imported = re.findall(
            r"^from twintrack\.neuroncore\.timing\.(\w+) import", (room / name).read_text(), re.MULTILINE
        )
        left += [f"{one}.py" for one in imported if f"{one}.py" not in found]

    assert found == set(MODEL)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if not row.long], ids=lambda row: row.name)
def test_a_row_simulated_now_gives_the_figures_of_the_table(row):
    timeline = timed(traced(row))
    active = times(timeline)

    assert list(results(row, active)) == _file_rows(row.name), REMAKE
    assert row.kind == kind_of({key.partition(" ")[0]: value for key, value in active.items()})


def test_predicted_rows_hold_the_gates():
    assert broken_gates(FOUND) == []
    assert {one.name for one in predicted_rows(FOUND)} >= NEVER_FITTED


def test_errors_are_simulated_over_published_less_one():
    for one in FOUND:
        assert one.error == pytest.approx(one.simulated / one.published - 1, abs=1e-5)


def test_what_counts_as_fitted_is_what_the_parameters_say():
    fitted_on = {record.fitted_on for record in parameter_records() if record.fitted_on}

    assert {one.name for one in FOUND if one.fitted} == fitted_on
    assert len(fitted_on) <= MOST_FITTED
    assert not fitted_on & NEVER_FITTED


def test_the_page_shows_every_figure():
    text = PAGE.read_text(encoding="utf-8")
    for one in FOUND:
        line = f"| {one.name} | {one.chip} | {one.kind} | {one.quantity} | "
        assert any(
            part.startswith(line) and f"| {one.error * 100:+.1f} % |" in part for part in text.splitlines()
        ), one


def _result(name, quantity="total, us", published=100.0, simulated=100.0, *, fitted=False, gated=True):
    error = simulated / published - 1
    return Result(name, "dma", "trn2", quantity, published, simulated, error, fitted, gated, "")


def test_a_gate_breaks_when_a_prediction_is_off():
    good, bad = _result("matmul_trn2_v2"), _result("matmul_trn1_block_all", simulated=126.0)

    assert broken_gates([good]) == []
    assert any("matmul_trn1_block_all" in text for text in broken_gates([good, bad]))
    assert broken_gates([_result("matmul_trn1_tiled", simulated=126.0, fitted=True)]) == []


def test_a_gate_breaks_when_the_mean_is_off_though_no_row_is():
    off = [_result("matmul_trn2_v2", simulated=112.0), _result("matmul_trn1_hoisted", simulated=90.0)]

    assert mean_absolute_error(off) == pytest.approx(0.11)
    assert any("mean" in text for text in broken_gates(off))


def test_a_gate_breaks_when_an_engine_is_active_for_too_long():
    name, quantity = "matmul_trn2_v2", "tensor active, us"

    assert broken_gates([_result(name, quantity, simulated=114.0)]) == []
    assert broken_gates([_result(name, quantity, simulated=116.0)])
    assert broken_gates([_result(name, quantity, simulated=84.0)])


def test_a_gate_breaks_when_versions_change_places():
    slow, _, fast = VERSIONS[0]
    swapped = [_result(slow, simulated=100.0, gated=False), _result(fast, published=101.0, simulated=101.0)]

    assert broken_gates(swapped) == [f"{fast} is slower than {slow}"]
