"""A published speed stands in only for a like job, and openly: method, source and error go with it."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path

import pytest
from made_runs import calm, made_job, write_run

from twintrack.hardware import load_catalogue
from twintrack.hardware.throughputs import Method, Precision, Scope, Throughput
from twintrack.pilot.ledger.ledger import build_ledger, like_totals
from twintrack.pilot.ledger.likeness import Workload, differences, scale
from twintrack.quantity import Error, Provenance, Quantity
from twintrack.storage import LocalFileSystem

CATALOGUE = load_catalogue()
ON = datetime.date(2026, 11, 30)


def figure(value: float, unit: str) -> Quantity:
    return Quantity.measured(value, unit, "a run")


def row(**fields) -> Throughput:
    """A published speed with a spread of 10 % either way; the row of the catalogue says the rest."""
    base = next(one for one in CATALOGUE.throughputs if one.key == "mlperf-4.1-h100-8")
    speed = Quantity(
        fields.pop("speed", 2000.0), "token/s", Provenance.PUBLISHED, "a benchmark", date="2024-11"
    )
    error = fields.pop("error", Error(0.1, 0.1, "slowest and fastest party"))
    return dataclasses.replace(
        base, tokens_per_second_per_chip=speed if error is None else speed.within(error), **fields
    )


def workload(**fields) -> Workload:
    """A job that is the published one, of a million positions."""
    published = row()
    flops = 4.0 * published.parameters + 12.0 * 80 * 8192 * 8192
    base = Workload(
        chip="h100",
        method=Method.LORA,
        precision="fp8",
        parameters=published.parameters,
        sequence_length=8192,
        chips=8,
        positions=figure(1_000_000, "token"),
        evaluation_positions=figure(0, "token"),
        flops=figure(flops, "FLOP/token"),
    )
    return dataclasses.replace(base, **fields)


def test_the_job_that_was_published_takes_the_time_that_was_published():
    found = scale(workload(), [row()])

    assert found.training.value == pytest.approx(1_000_000 / (8 * 2000.0))
    assert found.training.interval == (pytest.approx(62.5 / 1.1), pytest.approx(62.5 / 0.9))
    assert found.training.rests_on is Provenance.PUBLISHED
    assert "equal MFU" in found.training.source
    assert "mlperf-4.1-h100-8" in found.training.source
    assert "mlperf-4.1-h100-8" in found.training.error.basis
    assert found.evaluation is None
    assert "NeMo 24.09" in found.remark


def test_time_grows_with_positions_and_flops_and_falls_with_chips():
    one = float(scale(workload(), [row()]).training.require())
    flops = workload().flops.require()

    assert scale(workload(positions=figure(3e6, "token")), [row()]).training.value == pytest.approx(3 * one)
    assert scale(workload(flops=figure(flops / 2, "FLOP/token")), [row()]).training.value == pytest.approx(
        one / 2
    )
    assert scale(workload(chips=16), [row()]).training.value == pytest.approx(one / 2)


def test_an_evaluation_is_a_forward_pass():
    """Half of a step's work with adapters, a third where all parameters are trained; none where it is inside."""
    positions = figure(1_000_000, "token")
    lora = scale(workload(evaluation_positions=positions), [row()])
    full_row = row(method=Method.FULL, lora_rank=None)
    full_flops = figure(6.0 * full_row.parameters + 12.0 * 80 * 8192 * 8192, "FLOP/token")
    full = scale(workload(evaluation_positions=positions, method=Method.FULL, flops=full_flops), [full_row])
    inside = scale(workload(evaluation_positions=positions), [row(scope=Scope.END_TO_END)])

    assert lora.evaluation.value == pytest.approx(62.5 / 2)
    assert full.evaluation.value == pytest.approx(62.5 / 3)
    assert lora.evaluation.error is not None
    assert inside.evaluation is None


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"chip": "h200"}, "its chip is h200, not h100"),
        ({"method": Method.FULL}, "its method is full, not lora"),
        ({"method": Method.QLORA}, "its method is qlora, not lora"),
        ({"precision": Precision.BF16}, "its precision is bf16, not fp8"),
        ({"parameters": 30_000_000_000}, "its 30,000,000,000 parameters are more than a factor of 2"),
        ({"parameters": 140_000_000_000}, "its 140,000,000,000 parameters are more than a factor of 2"),
        ({"sequence_length": 2048}, "its 2,048 positions of a row are more than a factor of 2"),
        ({"chips": 128}, "its 128 chips are more than a factor of 8"),
        ({"packed": False}, "its rows are not packed"),
    ],
)
def test_an_unlike_figure_never_stands_in(fields, told):
    found = scale(workload(), [row(**fields)])

    assert not found.training.known
    assert told in found.training.source
    assert "the nearest is mlperf-4.1-h100-8" in found.training.source


def test_pre_training_has_the_arithmetic_of_full_fine_tuning_and_not_of_adapters():
    pretrain = row(method=Method.PRETRAIN, lora_rank=None)

    assert not differences(workload(method=Method.FULL), pretrain)
    assert differences(workload(), pretrain)


def test_the_nearest_of_several_like_figures_is_scaled_and_their_spread_is_the_error():
    near = row(key="near", error=None)
    far = row(key="far", speed=1000.0, sequence_length=4096, error=None)
    found = scale(workload(), [far, near]).training

    slow = (
        1_000_000
        * workload().flops.require()
        / (8 * 1000.0 * (4.0 * far.parameters + 12.0 * 80 * 8192 * 4096))
    )
    assert found.value == pytest.approx(62.5)
    assert found.interval == (pytest.approx(62.5), pytest.approx(slow))
    assert found.error.basis.endswith("near, far")


def test_of_figures_that_are_equally_near_the_one_in_the_middle_is_scaled():
    rows = [
        row(key=key, speed=speed, error=None) for key, speed in (("a", 3000.0), ("b", 2000.0), ("c", 1900.0))
    ]
    found = scale(workload(), rows).training

    assert found.value == pytest.approx(62.5)
    assert found.interval == (pytest.approx(1e6 / 24000), pytest.approx(1e6 / 15200))


def test_one_figure_without_a_spread_gives_no_time():
    found = scale(workload(), [row(error=None)])

    assert not found.training.known
    assert "nothing says how far off it may be" in found.training.source


def test_a_workload_that_is_not_known_gives_no_time():
    found = scale(workload(positions=Quantity.unknown("token", "never counted")), [row()])

    assert not found.training.known


def test_nothing_published_is_like_lora_on_a_model_of_135_million_parameters():
    small = workload(parameters=134_515_008, sequence_length=512, precision="bf16", chips=1)

    for chip in ("h100", "h200", "b200", "a100-80gb", "trainium2"):
        assert not scale(dataclasses.replace(small, chip=chip), CATALOGUE.throughputs).training.known


# --- a whole ledger ---------------------------------------------------------------------------------------------


def llama_3b(folder: Path) -> None:
    """A configuration of about three thousand million parameters; no weights."""
    folder.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 28,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "tie_word_embeddings": True,
        "max_position_embeddings": 8192,
    }
    (folder / "config.json").write_text(json.dumps(config))


def test_the_cost_of_a_gpu_that_is_not_here_comes_from_like_jobs_with_its_error(tmp_path):
    """A place that was skipped: full fine-tuning of 3B, for which one stack published three speeds on the chip."""
    job = made_job(
        tracks=(
            {"use": ("cuda",), "if_absent": "skip", "instance": "p4de.24xlarge"},
            {"use": ("cpu",), "instance": "box.large"},
        ),
        lora=None,
        data={"files": ("data.jsonl",), "sequence_length": 4096},
        costs={"region": "us-east-1"},
    )
    run = write_run(tmp_path / "run", job, {"cpu/reference": calm()}, filled=[None, "cpu"])
    llama_3b(run / "model")
    found = build_ledger(run, LocalFileSystem(), CATALOGUE, on=ON)
    gpu = found.of("cuda")

    best = next(
        one for one in CATALOGUE.throughputs if one.key == "torchtune-llama-3.2-3b-full-a100-recompute"
    )
    assert gpu.run == str(run)
    assert gpu.time.rests_on is Provenance.PUBLISHED
    positions = 6 * 4096 + 3 * 4096 / 3  # one evaluation of three rows, forward alone
    speed = best.tokens_per_second_per_chip.require()
    assert gpu.time.value == pytest.approx(
        positions / speed, rel=0.02
    )  # FLOPs of the captured step, and the usual count
    price = CATALOGUE.price("p4de.24xlarge", "capacity_block", "us-east-1", ON).usd_per_hour.require()
    assert gpu.total.value == pytest.approx(gpu.time.value / 3600 * price)
    assert gpu.total.error is not None
    assert "torchtune" in gpu.total.error.basis
    assert gpu.left_out == ("compilation", "cache storage", "data transfer and loading", "operating time")
    assert any("scaled by FLOPs per position at equal MFU" in one for one in gpu.remarks)
    assert "1 of 8 chips of 1 × p4de.24xlarge are used" in gpu.remarks[0]
    ours, theirs = like_totals(found.of("cpu"), gpu)
    assert not ours.known
    assert theirs.value == pytest.approx(gpu.total.value)


def test_rows_that_are_cut_to_their_longest_give_no_time(tmp_path):
    """How many positions they have is not recorded, and the job's length would be a bound."""
    job = made_job(
        tracks=({"use": ("cuda",), "if_absent": "skip", "instance": "p4de.24xlarge"}, {"use": ("cpu",)}),
        lora=None,
        data={"files": ("data.jsonl",), "sequence_length": 4096, "padding": "longest"},
    )
    run = write_run(tmp_path / "run", job, {"cpu/reference": calm()}, filled=[None, "cpu"])
    llama_3b(run / "model")
    found = build_ledger(run, LocalFileSystem(), CATALOGUE, on=ON).of("cuda")

    assert "padded to their longest row" in found.time.source


def test_a_model_whose_configuration_is_not_here_is_not_fetched(tmp_path):
    job = made_job(
        tracks=({"use": ("cuda",), "if_absent": "skip", "instance": "p4de.24xlarge"},),
        lora=None,
        model={"source": "organisation/model"},
        data={"files": ("data.jsonl",), "sequence_length": 4096},
    )
    run = write_run(tmp_path / "run", job, {}, filled=[None])
    found = build_ledger(run, LocalFileSystem(), CATALOGUE, on=ON).of("cuda")

    assert "its configuration is not here (organisation/model)" in found.time.source
