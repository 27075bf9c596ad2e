"""The published memory and operator figures say enough to be used, and agree with arithmetic where it is simple."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from twintrack.hardware.table import parse_date

DATA = resources.files("twintrack.pilot.qualify").joinpath("data")
MEMORY = {row["key"]: row for row in tomllib.loads(DATA.joinpath("memory.toml").read_text("utf-8"))["memory"]}
OPERATORS = tomllib.loads(DATA.joinpath("operators.toml").read_text("utf-8"))
NEEDED = {
    "weights",
    "trained",
    "compute",
    "optimizer",
    "micro_batch",
    "sequence_length",
    "recomputation",
    "plan",
}
WIDTH = {"bf16": 2, "fp32": 4}
TRAINED = {  # Llama-3.2-3B: 28 layers, hidden 3072, KV 1024, intermediate 8192
    "lora-r32": 28 * 32 * ((3072 + 3072) + (3072 + 1024)),
    "lora-r64": 28 * 64 * ((3072 + 3072) + (3072 + 1024)),
    "lora-r10-mlp": 28 * 10 * 3 * (3072 + 8192),
    "full": 3_212_749_824,
}


@pytest.mark.parametrize("row", MEMORY.values(), ids=MEMORY)
def test_every_memory_figure_has_source_date_unit_and_what_it_counts(row):
    assert row["source"]
    assert row["counts"]
    assert parse_date(row["date"])
    assert row["unit"] in ("byte", "GB", "GiB")
    assert row["value"] > 0
    assert row.get("lowest", 0) < row["value"]


@pytest.mark.parametrize(
    "row", [row for row in MEMORY.values() if row["complete"]], ids=lambda row: row["key"]
)
def test_a_figure_of_a_step_that_is_called_complete_states_what_a_model_needs(row):
    if "compute" in row:
        assert set(row) >= NEEDED, NEEDED - set(row)


@pytest.mark.parametrize("kind", TRAINED)
def test_saved_files_are_trained_parameters_by_their_width_and_at_most_a_small_header(kind):
    row = MEMORY[f"peft-file-llama-3.2-3b-{kind}"]

    header = row["value"] - TRAINED[kind] * WIDTH[row["trained"]]

    assert 0 <= header < 64 * 1024


def test_the_refused_llama_3_70b_is_there_with_what_its_thread_leaves_open():
    row = MEMORY["neuron-884-llama-3-70b"]
    assert row["value"] == pytest.approx(22.84, abs=0.01)
    assert not row["complete"]
    assert "plan" not in row


def test_published_operator_lists_are_incomplete_and_contradict_no_statement_of_their_stack():
    """An operator outside every list is unknown: no list may claim to be complete."""
    assert {entry["complete"] for entry in OPERATORS["list"]} == {False}
    refused = {(entry["stack"], entry["operator"]) for entry in OPERATORS["unsupported"]}
    for entry in OPERATORS["list"]:
        assert parse_date(entry["date"])
        assert len(entry["operators"]) == len(set(entry["operators"]))
        assert all(name.startswith("aten::") for name in entry["operators"])
        assert not {(entry["stack"], name) for name in entry["operators"]} & refused
    assert len(next(e for e in OPERATORS["list"] if e["key"] == "torch-neuronx-xla")["operators"]) == 41
