"""The ledger of a run folder, against sums done by hand; what is not known never becomes money."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from made_runs import (
    at,
    calm,
    done,
    made_job,
    price_text,
    started,
    step,
    stopped,
    write_run,
)

from twintrack.errors import CatalogueError, RunFolderError
from twintrack.events import CheckpointRemoved, Imported, ProgramCost
from twintrack.hardware import load_catalogue
from twintrack.pilot.ledger.ledger import build_ledger, ledger_json, like_totals
from twintrack.pilot.ledger.records import LINES, PilotLedger, TrackLedger
from twintrack.quantity import Error, Provenance, Quantity
from twintrack.storage import LocalFileSystem

ON = datetime.date(2026, 11, 30)
ALL_PRICES = (
    price_text() + price_text("storage", 0.03, "USD/GB-month") + price_text("operating", 80.0, "USD/h")
)
"""A cent a second, 3 cents per GB and month, 80 USD an hour of a person."""


def prices(folder: Path, text: str = ALL_PRICES) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prices.toml").write_text(text)
    return [folder / "prices.toml"]


def ledger_of(
    folder: Path, job=None, runs=None, *, text: str = ALL_PRICES, filled=None, **options
) -> PilotLedger:
    runs = {"cpu/reference": calm(), "cpu/interrupted": stopped()} if runs is None else runs
    run = write_run(folder / "run", job or made_job(), runs, filled=filled)
    return build_ledger(
        run, LocalFileSystem(), load_catalogue(), on=ON, prices=prices(folder, text), **options
    )


def amounts(ledger: TrackLedger) -> dict[str, float | None]:
    return {
        line.name: None if line.amount.value is None else round(line.amount.value, 9) for line in ledger.lines
    }


def without(ledger: TrackLedger) -> dict[str, float | None]:
    return {
        line.name: None if not line.without_faults.known else round(line.without_faults.value, 9)
        for line in ledger.lines
    }


def test_a_stopped_run_is_booked_to_the_cent(tmp_path):
    """168 s at a cent a second, 1.5 GB for 60.875 days at 3 cents, half an hour of a person at 80 USD."""
    job = made_job(costs={"keep_days": 60, "operating_hours": 0.5})
    (found,) = ledger_of(tmp_path, job).tracks

    assert [line.name for line in found.lines] == list(LINES)
    assert amounts(found) == {
        "reserved resource": 0.36 + 0.12 + 0.02 + 0.19,
        "compilation": 0.08,
        "cache storage": round(1.0 * 0.03 * 60 / 30.4375, 9),
        "data transfer and loading": 0.32,  # imports 0.10, data 0.05, model 0.15, set-up 0.02
        "resume": 0.59,
        "abandoned trials": 0.0,
        "operating time": 40.0,
    }
    assert without(found)["reserved resource"] == 0.36 + 0.12 + 0.02 + 0.10  # as in the reference run
    assert without(found)["resume"] == 0.0
    assert found.total.value == pytest.approx(1.68 + 1.0 * 0.03 * 60 / 30.4375 + 40.0)
    assert found.total_without_faults.value == pytest.approx(1.00 + 1.0 * 0.03 * 60 / 30.4375 + 40.0)
    assert found.time.value == 168.0
    assert found.time.rests_on is Provenance.MEASURED
    assert found.per_million_tokens.value == pytest.approx(found.total.value / 600 * 1e6)
    assert (found.machine, found.currency, found.left_out, found.stale) == ("1 × box.large", "USD", (), ())


def test_without_a_reference_run_what_stops_cost_is_left_out(tmp_path):
    (found,) = ledger_of(tmp_path, runs={"cpu/interrupted": stopped()}, text=price_text()).tracks

    assert without(found)["reserved resource"] == amounts(found)["reserved resource"]
    assert without(found)["resume"] == 0.0


def test_without_faults_a_run_still_compiles_what_it_compiled(tmp_path):
    """The reference run found the programs in the cache; that saved the other run nothing, and no stop cost it."""
    warm = [
        e.model_copy(update={"warm": True, "load_seconds": 1.0}) if e.kind == "compile_done" else e
        for e in calm()
    ]
    (found,) = ledger_of(tmp_path, runs={"cpu/reference": warm, "cpu/interrupted": stopped()}).tracks

    assert without(found)["compilation"] == amounts(found)["compilation"] == 0.08


def test_checkpoints_that_were_removed_are_not_kept(tmp_path):
    """Half a GB for 30 days at 3 cents."""
    gone = at(0, (95.0, CheckpointRemoved(step=3, reason="retention")))
    runs = {"cpu/reference": [*calm()[:-2], *gone, *calm()[-2:]]}
    (found,) = ledger_of(tmp_path, runs=runs).tracks

    assert amounts(found)["cache storage"] == pytest.approx(0.5 * 0.03 * 30 / 30.4375)


def test_a_run_that_is_named_is_the_one_that_is_booked(tmp_path):
    (found,) = ledger_of(tmp_path, kind="reference").tracks

    assert found.run.endswith(":cpu/reference")
    assert amounts(found)["resume"] == 0.0
    assert found.time.value == 100.0


def test_every_input_says_where_it_comes_from(tmp_path):
    job = made_job(costs={"operating_hours": 0.5, "reserved_hours": 1.0, "currency": "EUR"})
    rate = '[[rate]]\nfrom = "EUR"\nto = "USD"\nvalue = 1.25\nsource = "bank"\nobserved = 2026-10-02\n'
    (found,) = ledger_of(tmp_path, job, text=ALL_PRICES + rate).tracks

    for line in found.lines:
        assert line.inputs
        assert line.formula
        for one in line.inputs:
            assert one.value.source, (line.name, one.name)
            if one.value.kind is Provenance.PUBLISHED:
                assert one.value.date == "2026-10-02"
                assert "prices.toml" in one.value.source
            if one.value.unit == "s" and one.name != "abandoned runs":
                assert "events.jsonl" in one.value.source or one.value.rests_on is Provenance.MEASURED
            if one.value.kind is Provenance.ASSUMED:
                assert "stated in the job: costs." in one.value.source
    assert found.total.value == pytest.approx((36.0 + 40.0 + 1.0 * 0.03 * 30 / 30.4375) / 1.25)


def test_hours_that_are_reserved_are_paid_used_or_not(tmp_path):
    """An hour costs 36 USD: with one reserved, nothing that happens inside it changes what the machines cost."""
    (found,) = ledger_of(tmp_path, made_job(costs={"reserved_hours": 1.0, "keep_days": 0})).tracks

    assert found.total.value == pytest.approx(36.0)
    assert found.total_without_faults.value == pytest.approx(36.0)
    assert amounts(found)["reserved resource"] == pytest.approx(36.0 - 1.68 + 0.69)


def test_fewer_hours_reserved_than_used_change_nothing(tmp_path):
    (found,) = ledger_of(tmp_path, made_job(costs={"reserved_hours": 0.01, "keep_days": 0})).tracks

    assert found.total.value == pytest.approx(1.68)


def test_the_machine_time_of_abandoned_trials_is_booked(tmp_path):
    trial = write_run(tmp_path / "trial", made_job(), {"cpu/reference": calm()[:-2]})  # 90 s, never finished
    (found,) = ledger_of(tmp_path, abandoned=[trial]).tracks

    line = found.lines[LINES.index("abandoned trials")]
    assert line.amount.value == pytest.approx(0.90)
    assert line.without_faults.value == pytest.approx(0.90)
    assert "trial" in line.inputs[0].name


def test_a_trial_that_finished_is_not_taken_for_an_abandoned_one(tmp_path):
    trial = write_run(tmp_path / "trial", made_job(), {"cpu/reference": calm()})

    with pytest.raises(RunFolderError, match="never finished"):
        ledger_of(tmp_path, abandoned=[trial])


def test_a_missing_price_leaves_the_amount_unknown_with_the_reason(tmp_path):
    (found,) = ledger_of(tmp_path, text=price_text(name="box.small")).tracks

    assert amounts(found)["resume"] is None
    assert not found.total.known
    assert "reserved resource" in found.total.source
    assert "no price of box.large" in found.total.source
    assert amounts(found)["abandoned trials"] == 0.0  # no second costs nothing at any price


def test_a_price_two_years_old_is_shown_and_said_to_decide_nothing(tmp_path):
    (found,) = ledger_of(
        tmp_path, made_job(costs={"keep_days": 0}), text=price_text(observed="2024-11-30")
    ).tracks

    assert found.total.value == pytest.approx(1.68)
    assert found.stale == (
        f"36.0 USD/h, observed 2024-11-30, is 730 days old, more than 365 ({tmp_path}/prices.toml: an offer)",
    )


def test_a_price_in_another_currency_without_a_rate_makes_the_total_unknown(tmp_path):
    (found,) = ledger_of(tmp_path, text=price_text(unit="EUR/h")).tracks

    assert not found.total.known
    assert "a price is in EUR, the ledger in USD, and no price file has a rate" in found.total.source


def test_what_the_job_does_not_state_is_named_and_not_in_the_total(tmp_path):
    (found,) = ledger_of(tmp_path, made_job(costs={"keep_days": 0})).tracks

    assert found.left_out == ("operating time",)
    assert not found.lines[LINES.index("operating time")].amount.known
    assert "not in the total: operating time: the job states no costs.operating_hours" in found.remarks
    assert found.total.value == pytest.approx(1.68)


def test_hours_of_people_without_a_price_make_the_total_unknown(tmp_path):
    """The job says that they apply, and a price file could have said what they cost."""
    (found,) = ledger_of(tmp_path, made_job(costs={"operating_hours": 1.0}), text=price_text()).tracks

    assert "no price file has a price of operating time" in found.total.source


# --- time that is not the machine's ---------------------------------------------------------------------------


TRN2 = ({"use": ("trn2",), "instance": "trn2.48xlarge"},)


def emulated() -> list:
    cost = ProgramCost(
        program="gradients",
        flops=10**12,
        matmul_flops=10**12,
        operator_bytes=1,
        boundary_bytes=1,
        bound_seconds=0.006,
        unfused_seconds=0.06,
        conditions="",
        by_operator={},
        counts={},
    )
    return [*calm("trn2")[:-2], *at(0, (99.0, cost)), *calm("trn2")[-2:]]


def test_the_seconds_of_an_emulation_are_never_a_trainium2s(tmp_path):
    (found,) = ledger_of(tmp_path, made_job(tracks=TRN2), {"trn2/reference": emulated()}).tracks

    assert not found.time.known
    assert not found.total.known
    assert not found.per_million_tokens.known
    assert "the seconds of an emulation are not a Trainium2's" in found.time.source
    assert [name for name, value in amounts(found).items() if value is not None] == [
        "cache storage",
        "abandoned trials",
    ]
    assert "1 of 64 logical NeuronCores" in found.remarks[0]


def test_a_bound_never_becomes_a_cost(tmp_path):
    """The run tells a bound and an unfused estimate of its programs; no figure of the ledger rests on either."""
    (found,) = ledger_of(tmp_path, made_job(tracks=TRN2), {"trn2/reference": emulated()}).tracks

    figures = [one.value for line in found.lines for one in line.inputs]
    figures += [figure for line in found.lines for figure in (line.amount, line.without_faults)]
    assert all(Provenance.BOUND not in (figure.kind, figure.rests_on) for figure in figures)


def test_a_simulated_time_of_the_whole_run_is_booked_with_its_error(tmp_path):
    """1800 s ± 10 % at 35.7608 USD an hour, kind simulated."""
    simulated = Quantity(1800.0, "s", Provenance.SIMULATED, "a model").within(
        Error(0.1, 0.1, "its accuracy table")
    )
    job = made_job(tracks=TRN2, costs={"keep_days": 0})
    (found,) = ledger_of(
        tmp_path, job, {"trn2/reference": emulated()}, machine_times={"trn2": simulated}
    ).tracks

    assert found.total.value == pytest.approx(17.8804)
    assert found.total.interval == (pytest.approx(17.8804 * 0.9), pytest.approx(17.8804 * 1.1))
    assert found.time is simulated
    assert found.total.rests_on is Provenance.SIMULATED or found.total.rests_on is Provenance.ASSUMED
    assert amounts(found)["compilation"] == 0.0
    assert "inside 'reserved resource'" in found.lines[1].note


def test_a_processors_seconds_are_not_those_of_the_gpu_whose_place_it_fills(tmp_path):
    job = made_job(tracks=({"use": ("cuda", "cpu"), "instance": "p5.4xlarge"},))
    (found,) = ledger_of(tmp_path, job, filled=["cpu"]).tracks

    assert not found.total.known
    assert "the seconds were measured on a processor, not on the" in found.total.source
    assert "no published training speed is like the job: the nearest is" in found.total.source


def test_a_processors_seconds_are_no_gpus_even_where_an_import_names_its_instance(tmp_path):
    job = made_job(tracks=({"use": ("cuda", "cpu")},))
    runs = {"cpu/reference": calm(instance="p5.4xlarge")}
    (found,) = ledger_of(tmp_path, job, runs, filled=["cpu"]).tracks

    assert not found.time.known
    assert "measured on a processor" in found.time.source


def test_an_emulation_is_no_device_whatever_its_track_is_called(tmp_path):
    job = made_job(tracks=({"use": ("neuron",), "instance": "trn2.48xlarge"},))
    runs = {"neuron/reference": calm("neuron", instance="trn2.48xlarge", emulates="trn2.48xlarge, LNC 2")}
    (found,) = ledger_of(tmp_path, job, runs, filled=["neuron"]).tracks

    assert not found.time.known
    assert "says of itself that it emulates" in found.time.source


@pytest.mark.parametrize(
    ("device", "problem"),
    [
        ("NVIDIA H100 80GB HBM3", ""),
        ("NVIDIA H200", "measured on NVIDIA H200, not on the H100 SXM5 80 GB of p5.4xlarge"),
        ("NVIDIA A100-SXM4-40GB", "measured on NVIDIA A100-SXM4-40GB"),
    ],
)
def test_seconds_of_one_gpu_are_not_those_of_another(tmp_path, device, problem):
    job = made_job(tracks=({"use": ("cuda",), "instance": "p5.4xlarge"},), costs={"keep_days": 0})
    (found,) = ledger_of(tmp_path, job, {"cuda/reference": calm("cuda", gpu=device)}).tracks

    assert problem in found.time.source
    assert found.time.known is not bool(problem)


def test_a_gpu_of_another_memory_is_another_gpu(tmp_path):
    job = made_job(tracks=({"use": ("cuda",), "instance": "p4de.24xlarge"},))
    runs = {size: {"cuda/reference": calm("cuda", gpu=f"NVIDIA A100-SXM4-{size}GB")} for size in (40, 80)}
    small, large = (ledger_of(tmp_path / str(size), job, found).tracks[0] for size, found in runs.items())

    assert not small.time.known
    assert large.time.value == 100.0


def test_a_place_without_a_named_machine_has_a_time_and_no_cost(tmp_path):
    (found,) = ledger_of(tmp_path, made_job(tracks=({"use": ("cpu",)},)), text=price_text()).tracks

    assert found.time.value == 168.0
    assert "the job names no instance for this place (tracks.instance)" in found.total.source


def test_every_instance_of_the_plan_is_paid_for(tmp_path):
    """24 devices on instances of 16 logical cores at LNC 2: 64 cores each, so one; of 80: two."""
    for devices, machines in ((24, 1), (64, 1), (65, 2)):
        job = made_job(
            tracks=({"use": ("neuron",), "instance": "trn2.48xlarge"},), parallel={"data": devices}
        )
        (found,) = ledger_of(tmp_path / str(devices), job, {"neuron/reference": calm("neuron")}).tracks
        assert found.machine == f"{machines} × trn2.48xlarge"
        assert found.lines[1].amount.value == pytest.approx(8.0 / 3600 * machines * 35.7608)


# --- runs that were made elsewhere ---------------------------------------------------------------------------


def elsewhere(*events, seconds: float | None = None, **environment: str) -> list:
    told = Imported(file="log.jsonl", sha256="0" * 64, format="trainer", lines=6, seconds=seconds, defects=[])
    return [told, started("neuron", instance="trn2.48xlarge", **environment), *events]


def test_an_imported_run_is_priced_on_the_machine_that_it_says_it_had(tmp_path):
    job = made_job(tracks=({"use": ("neuron",), "instance": "trn2.3xlarge"},), costs={"keep_days": 0})
    steps = [step(number, 60.0) for number in range(1, 7)]
    runs = {"neuron/reference": elsewhere(*steps, done(), instances="2")}
    (found,) = ledger_of(tmp_path, job, runs).tracks

    assert found.machine == "2 × trn2.48xlarge"
    assert found.time.value == 360.0
    assert found.total.value == pytest.approx(360 / 3600 * 2 * 35.7608)
    assert found.left_out == ("compilation", "cache storage", "data transfer and loading", "operating time")
    assert any(
        "the run was made on trn2.48xlarge, the job's place names trn2.3xlarge" in one
        for one in found.remarks
    )
    assert any(
        "compilation: tracks/neuron/reference/events.jsonl" in one and "does not tell" in one
        for one in found.remarks
    )


def test_what_a_log_says_that_training_took_comes_before_the_sum_of_its_steps(tmp_path):
    job = made_job(tracks=({"use": ("neuron",)},))
    steps = [step(number, 60.0) for number in range(1, 7)]
    (found,) = ledger_of(tmp_path, job, {"neuron/reference": elsewhere(*steps, done(), seconds=400.0)}).tracks

    assert found.time.value == 400.0
    assert found.time.kind is Provenance.MEASURED


def test_a_log_with_holes_and_no_times_gives_no_time(tmp_path):
    job = made_job(tracks=({"use": ("neuron",)},))
    runs = {"neuron/reference": elsewhere(step(1, 60.0), step(3, 60.0), done())}
    (found,) = ledger_of(tmp_path, job, runs).tracks

    assert not found.time.known
    assert "does not say how long all steps took" in found.total.source


@pytest.mark.parametrize("count", ["many", "0", "-1", "²"])
def test_a_number_of_instances_that_is_none_is_not_guessed(tmp_path, count):
    job = made_job(tracks=({"use": ("neuron",)},))
    runs = {"neuron/reference": elsewhere(step(1, 60.0), done(1), instances=count)}
    (found,) = ledger_of(tmp_path, job, runs).tracks

    assert "which is no number of them" in found.total.source


def test_bytes_that_a_run_says_it_moved_and_keeps_are_booked(tmp_path):
    """2 GB moved at 9 cents, 4 GB of programs for a month at 3 cents, beside 1 GB of checkpoints."""
    text = ALL_PRICES + price_text("transfer", 0.09, "USD/GB")
    told = {"transferred bytes": "2000000000", "compile cache bytes": "4000000000"}
    runs = {"cpu/reference": calm("cpu", **told)}
    (found,) = ledger_of(tmp_path, runs=runs, text=text).tracks

    assert amounts(found)["data transfer and loading"] == pytest.approx(0.32 + 0.18)
    assert amounts(found)["cache storage"] == pytest.approx(5.0 * 0.03 * 30 / 30.4375)


# --- the folder and its price files ---------------------------------------------------------------------------


def test_price_files_of_the_job_lie_beside_the_job_file(tmp_path):
    base = tmp_path / "jobs"
    prices(base, price_text(value=72.0))
    job = made_job(costs={"prices": ("prices.toml",), "keep_days": 0})
    run = write_run(tmp_path / "run", job, {"cpu/reference": calm()})
    (run / "inputs.json").write_text(json.dumps({"base": str(base)}))
    here = build_ledger(run, LocalFileSystem(), load_catalogue(), on=ON).tracks[0]
    first = build_ledger(run, LocalFileSystem(), load_catalogue(), on=ON, prices=prices(tmp_path)).tracks[0]

    assert (here.total.value, first.total.value) == (pytest.approx(2.0), pytest.approx(1.0))


def test_costs_that_are_written_later_count(tmp_path):
    """A decision reads the job file as it is now."""
    later = made_job(costs={"operating_hours": 2.0, "keep_days": 0})
    (found,) = ledger_of(tmp_path, job=None, runs=None, text=ALL_PRICES).tracks
    again = build_ledger(
        tmp_path / "run", LocalFileSystem(), load_catalogue(), on=ON, prices=prices(tmp_path), job=later
    ).tracks[0]

    assert found.left_out == ("operating time",)
    assert amounts(again)["operating time"] == 160.0


def test_a_price_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(CatalogueError, match="value"):
        ledger_of(tmp_path, text=price_text(value=-1.0))


def test_the_ledger_is_plain_json_with_every_source(tmp_path):
    text = json.dumps(ledger_json(ledger_of(tmp_path)), allow_nan=False)
    read = json.loads(text)

    assert read["format"] == 1
    assert read["on"] == "2026-11-30"
    line = read["tracks"][0]["lines"][0]
    assert line["name"] == "reserved resource"
    assert {one["name"] for one in line["inputs"]} >= {"training", "machines", "price"}
    assert all(one["value"]["source"] for one in line["inputs"])


def test_equal_folders_and_prices_give_equal_ledgers(tmp_path):
    ledger_of(tmp_path)
    run = tmp_path / "run"
    first, second = (
        build_ledger(run, LocalFileSystem(), load_catalogue(), on=ON, prices=prices(tmp_path))
        for _ in range(2)
    )

    assert first == second


def test_totals_are_compared_without_what_either_side_leaves_out(tmp_path):
    """A run whose log begins with training, beside one whose start-up was measured."""
    imported = elsewhere(*[step(number, 60.0) for number in range(1, 7)], done())
    neuron = made_job(tracks=({"use": ("neuron",)},))
    (ours,) = ledger_of(tmp_path / "a", made_job(costs={"operating_hours": 1.0})).tracks
    (theirs,) = ledger_of(tmp_path / "b", neuron, {"neuron/reference": imported}).tracks

    first, second = like_totals(ours, theirs)

    assert first.value == pytest.approx(0.60)  # the reserved resource alone, as without faults
    assert second.value == pytest.approx(360 / 3600 * 35.7608)
