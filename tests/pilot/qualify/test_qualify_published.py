"""Published memory figures beside ours, and the error that follows."""

from __future__ import annotations

import dataclasses
import math

import pytest

from twintrack.errors import CatalogueError
from twintrack.pilot.qualify.published import check_published, estimate_error, published_parameters
from twintrack.pilot.qualify.tables import published_table

CHECKS = {one.key: one for one in check_published()}


def test_every_complete_figure_is_computed_and_no_other():
    """Where a source does not state enough, ours is unknown, with the reason."""
    unknown = {key for key, one in CHECKS.items() if not one.ours.known}

    assert "neuron-884-llama-3-70b" in unknown
    assert "torchtune-8b-lora-4090" in unknown
    assert all(CHECKS[key].error is None and not CHECKS[key].judged for key in unknown)
    assert len(CHECKS) - len(unknown) >= 20


@pytest.mark.parametrize("key", [key for key, one in CHECKS.items() if one.judged])
def test_judged_figures_are_met_within_a_fifth(key):
    assert abs(CHECKS[key].error or math.inf) < 0.20


@pytest.mark.parametrize("key", [key for key in CHECKS if "-file-" in key])
def test_sizes_of_published_files_are_met_but_for_their_headers(key):
    assert -0.002 < (CHECKS[key].error if CHECKS[key].error is not None else math.inf) <= 0.0


def test_the_error_is_the_range_of_the_judged_figures_without_their_weights():
    judged = [one for one in CHECKS.values() if one.judged]
    error = estimate_error(judged)
    assert error is not None

    for one in judged:
        ours = one.ours.require() - one.exact
        published = one.published.require() - one.exact
        assert ours * (1 - error.low) <= published * (1 + 1e-9)
        assert published <= ours * (1 + error.high) * (1 + 1e-9)
    assert str(len(judged)) in error.basis


def test_no_judged_figure_means_no_error_rather_than_none_at_all():
    assert estimate_error([one for one in CHECKS.values() if not one.judged]) is None


def test_every_row_of_the_table_keeps_its_source():
    table = published_table(list(CHECKS.values()))

    assert len(table.rows) == len(CHECKS)
    assert all(one.published.source and one.published.date for one in CHECKS.values())


@pytest.mark.parametrize(
    "text",
    ["", "[[memory]]\nkey = 'x'\n", "[[memory]\n", "memory = 3\n"],
    ids=["empty", "bare", "broken", "no table"],
)
def test_data_that_are_wrong_are_refused_with_their_file(text, tmp_path):
    (tmp_path / "memory.toml").write_text(text)
    (tmp_path / "models.toml").write_bytes(b"")

    with pytest.raises(CatalogueError, match=r"(memory|models)\.toml"):
        check_published(tmp_path)


def test_a_model_of_other_sizes_has_no_published_total():
    from twintrack.pilot.qualify.published import known_models

    shape, total = known_models()["meta-llama/Llama-3.1-8B"]

    assert published_parameters(shape) == total
    assert published_parameters(dataclasses.replace(shape, layers=31)) is None
