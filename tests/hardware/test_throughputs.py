"""Published training speeds: rows are complete, physically possible, and agree with what else their sources state."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from twintrack.errors import CatalogueError
from twintrack.hardware import Method, Precision, Scope, load_catalogue
from twintrack.hardware.catalogue import parse_catalogue
from twintrack.quantity import Provenance

CATALOGUE = load_catalogue()
ROWS = {row.key: row for row in CATALOGUE.throughputs}
FILES = {
    entry.name: entry.read_text(encoding="utf-8")
    for entry in resources.files("twintrack.hardware").joinpath("data").iterdir()
    if entry.name.endswith(".toml")
}


def _flop_per_token(row, *, attention: float) -> float:
    """Matrix products of a step: 2 FLOP per parameter forward, 2 for gradients of activations, 2 of weights."""
    passes = 2 if row.method in (Method.LORA, Method.QLORA) else 3
    return passes * (2 * row.parameters + attention * 4 * row.layers * row.hidden_size * row.sequence_length)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_no_speed_is_faster_than_its_chip_and_none_is_idle(row):
    """Less than the chip's dense peak even with causal attention counted by half, and more than 2 % of it."""
    chip = CATALOGUE.chip(row.chip)
    peak = chip.tensor_bf16_tflops if row.precision is Precision.BF16 else chip.tensor_fp8_tflops
    speed = row.tokens_per_second_per_chip

    share = speed.value * _flop_per_token(row, attention=0.5) / (peak.require() * 1e12)

    assert 0.02 < share < 1, f"{share:.1%} of the peak"


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_speed_has_date_source_and_a_formula_if_derived(row):
    speed = row.tokens_per_second_per_chip

    assert speed.unit == "token/s"
    assert row.detail.source.date
    assert speed.kind in (Provenance.PUBLISHED, Provenance.DERIVED)
    assert (speed.kind is Provenance.DERIVED) == bool(row.detail.formula)


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS.values() if row.detail.formula.startswith(("median", "logged"))],
    ids=lambda r: r.key,
)
def test_mlperf_speeds_follow_from_the_formula_that_they_show(row):
    """Read out of the formula's text and computed again."""
    formula = row.detail.formula
    if row.scope is Scope.STEADY:
        samples, tokens, chips = re.search(
            r"([\d.]+) samples/s, x (\d+) tokens / (\d+) GPUs", formula
        ).groups()
        expected = float(samples) * int(tokens) / int(chips)
    else:
        tokens, chips = re.search(r"([\d.]+) token/s, / (\d+) GPUs", formula).groups()
        expected = float(tokens) / int(chips)

    assert int(chips) == row.chips
    assert row.tokens_per_second_per_chip.value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("key", "tflops"),
    [
        ("nemo-24.07-llama-2-7b-full-h100-8", 702),
        ("nemo-24.07-llama-2-7b-lora-h100-8", 673),
        ("nemo-24.07-llama-2-13b-full-h100-8", 787),
        ("nemo-24.07-llama-2-13b-lora-h100-8", 764),
        ("nemo-24.07-llama-2-70b-full-h100-16", 747),
        ("nemo-24.07-llama-2-70b-lora-h100-8", 722),
        ("nemo-24.07-llama-2-7b-pretrain-h100-8", 767),
        ("nemo-24.07-llama-3-8b-pretrain-h100-8", 688),
        ("megatron-26.06-llama-3-70b-lora-h100-8", 735),
        ("megatron-26.06-llama-3-70b-full-h100-32", 710),
        ("megatron-25.11-llama-3-8b-pretrain-h100-8", 744),
        ("megatron-25.11-llama-3-8b-pretrain-b200-8", 1576),
    ],
)
def test_speeds_give_the_tflops_that_the_same_table_prints(key, tflops):
    """The sources print model TFLOP/s beside tokens/s: parameters, method and speed of a row must reproduce them."""
    row = ROWS[key]
    causal = 0.5 if "megatron" in key else (1.0 if row.method is Method.PRETRAIN else 0.0)

    got = row.tokens_per_second_per_chip.value * _flop_per_token(row, attention=causal) / 1e12

    assert got == pytest.approx(tflops, rel=0.12)


@pytest.mark.parametrize(
    ("key", "mfu"), [("trn2-1024", 0.242), ("h100-256", 0.542), ("h100-256-megatron", 0.449)]
)
def test_axlearn_speeds_give_the_utilisation_that_the_paper_prints(key, mfu):
    row = ROWS[f"axlearn-llama-2-7b-{key}"]
    peak = {"trainium2": 667, "h100": 989.4}[row.chip]

    got = row.tokens_per_second_per_chip.value * _flop_per_token(row, attention=1) / (peak * 1e12)

    assert got == pytest.approx(mfu, rel=0.04)


def test_both_sides_and_each_method_are_there_and_trainium2_has_no_fine_tuning():
    """That nobody published one is what makes a comparison undecided: a new row must be noticed."""
    chips = {row.chip for row in ROWS.values()}
    assert chips == {"a100-80gb", "h100", "h200", "b200", "trainium1", "trainium2"}
    assert {row.method for row in ROWS.values()} == set(Method)
    assert {row.method for row in ROWS.values() if row.chip == "trainium2"} == {Method.PRETRAIN}


def test_spread_of_submitters_is_carried_as_error():
    speed = ROWS["mlperf-4.0-h100-8"].tokens_per_second_per_chip
    low, high = speed.interval

    assert low == pytest.approx(1.924 * 1024, rel=1e-4)
    assert high == pytest.approx(2.155 * 1024, rel=1e-4)
    assert "10 submissions" in speed.error.basis


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        ('chip = "h100"', 'chip = "h1000"', "chip", "a chip in the catalogue"),
        ('method = "lora"', 'method = "full"', "lora_rank", "no lora_rank"),
        ("lora_rank = 16", "lora_rank = 0", "lora_rank", "positive whole number"),
        ("chips = 8", "chips = 8.0", "chips", "positive whole number"),
        ("packed = true", 'packed = "true"', "packed", "true or false"),
        ("low = 0.0592", "low = -0.1", "error.low", "fraction"),
        ("low = 0.0592", "low = nan", "error.low", "fraction"),
        ('unit = "token/s"', 'unit = "token/h"', "tokens_per_second_per_chip.unit", "token/s"),
        ('scope = "steady"', 'scope = "peak"', "scope", "steady"),
        ('model = "Llama-2-70B"\n', "", "model", "a text"),
        ('key = "mlperf-4.0-h100-8"', 'key = "mlperf-4.0-h100-8"\ngpus = 8', "gpus", "a known key"),
        (
            'key = "mlperf-4.1-h100-8"',
            'key = "mlperf-4.0-h100-8"',
            "mlperf-4.0-h100-8",
            "each throughput once",
        ),
    ],
)
def test_a_spoiled_row_is_refused_and_the_refusal_names_the_key(old, new, where, says):
    text = FILES["throughputs.toml"]
    assert old in text

    with pytest.raises(CatalogueError, match=re.escape(says)) as caught:
        parse_catalogue({**FILES, "throughputs.toml": text.replace(old, new, 1)})

    assert caught.value.where.endswith(where)
    assert caught.value.exit_code == 2


def test_an_unknown_speed_is_no_row():
    start = FILES["throughputs.toml"].index("tokens_per_second_per_chip")
    end = FILES["throughputs.toml"].index("\n", start)
    text = (
        FILES["throughputs.toml"][:start]
        + 'tokens_per_second_per_chip = { unknown = "nobody says" }'
        + FILES["throughputs.toml"][end:]
    )

    with pytest.raises(CatalogueError, match="is no row"):
        parse_catalogue({**FILES, "throughputs.toml": text})
