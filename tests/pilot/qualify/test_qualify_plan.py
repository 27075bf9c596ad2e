"""Parallel plans, verdicts and the smallest change."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from saved_bytes import ALL, small_config

from twintrack.errors import CatalogueError, TrackError
from twintrack.hardware import load_catalogue
from twintrack.job.load import load_job
from twintrack.job.records import Job, Lora, Parallel
from twintrack.pilot.qualify import Verdict, qualify
from twintrack.pilot.qualify.architecture import ModelShape, shape_of
from twintrack.pilot.qualify.changes import smallest_change
from twintrack.pilot.qualify.memory import Need, device_memory, moments, peak_bytes
from twintrack.pilot.qualify.parameters import targets_of
from twintrack.pilot.qualify.plan import check_plan, shard_of
from twintrack.pilot.qualify.spread import spread_of
from twintrack.pilot.qualify.tables import verdict_lines
from twintrack.quantity import Error, Provenance, Quantity
from twintrack.storage import LocalFileSystem

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "qualify"
GIB = 2**30
BASIS = (Quantity(1, "job", Provenance.ASSUMED, "test"),)


def shape(**changes: object) -> ModelShape:
    """4 layers, 8 heads, 2 KV heads, 500 tokens."""
    sizes = {"num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 500, "intermediate_size": 192}
    return shape_of(small_config(**(sizes | changes)), "test")


def findings(model: ModelShape, plan: Parallel) -> dict[str, tuple[bool, str]]:
    """Findings by subject."""
    return {one.subject: (one.blocks, one.text) for one in check_plan(model, plan, 64).findings}


def test_fewer_kv_heads_than_devices_are_repeated_and_said_to_be():
    found = findings(shape(), Parallel(tensor=8))

    assert found["KV heads"] == (False, "2 KV heads are fewer than 8 devices: each is kept 4 times")


@pytest.mark.parametrize(
    ("plan", "subject"),
    [
        (Parallel(tensor=3), "heads"),
        (Parallel(pipeline=5), "layers"),
        (Parallel(tensor=16), "heads"),
    ],
)
def test_a_plan_that_cannot_be_is_blocked(plan, subject):
    assert findings(shape(), plan)[subject][0]


def test_kv_heads_that_neither_divide_nor_repeat_block():
    model = shape(num_attention_heads=12, num_key_value_heads=6, hidden_size=96)

    assert findings(model, Parallel(tensor=4))["KV heads"][0]


def test_an_intermediate_size_that_is_no_multiple_blocks():
    assert findings(shape(intermediate_size=190), Parallel(tensor=4))["intermediate size"][0]


def test_padding_tied_tables_and_uneven_stages_are_said():
    found = findings(shape(tie_word_embeddings=True), Parallel(tensor=8, pipeline=3))

    assert found["vocabulary"] == (False, "500 tokens are padded to 504 for 8 devices")
    assert found["layers"] == (False, "4 layers on 3 stages: uneven, 2 on the longest")
    assert found["tied embedding"] == (False, "kept twice, on the first and the last pipeline stage")


@given(tensor=st.sampled_from([1, 2]), pipeline=st.sampled_from([1, 2, 4]), tied=st.booleans())
def test_shards_of_all_devices_make_the_model(tensor, pipeline, tied):
    """Norms are repeated on the devices of a stage, a tied table on first and last stage, and nothing else."""
    model = shape(tie_word_embeddings=tied)
    plan = Parallel(tensor=tensor, pipeline=pipeline)
    targets = targets_of(model, None)
    stages = [0] if pipeline == 1 else [0, *[0] * (pipeline - 2), pipeline - 1]
    table = model.vocabulary * model.hidden
    inner = pipeline - 2 if pipeline > 2 else 0

    total = tensor * sum(shard_of(model, targets, None, plan, stage).base for stage in stages)

    norms = (2 * model.layers + 1) * model.hidden
    extra_tables = inner * table + (table if tied and pipeline > 1 else 0)
    assert total == model.parameters + (tensor - 1) * norms + extra_tables


def small_need(**changes: object) -> Need:
    """LoRA on every module; one device."""
    model, lora = shape(), Lora(targets=ALL, rank=8)
    need = Need(model, targets_of(model, lora), 8, False, Parallel(), 4, 1, 64, 2, True, False, True)
    return dataclasses.replace(need, **changes)


def test_what_is_in_memory_adds_up_and_the_peak_is_its_largest_moment():
    memory = device_memory(small_need(), BASIS, Error(0.1, 0.2, "test"))

    for moment in memory.moments:
        assert moment.total.value == sum(part.size.require() for part in moment.parts)
    assert (
        memory.peak.total.value
        == max(one.total.require() for one in memory.moments)
        == peak_bytes(small_need())
    )


@pytest.mark.parametrize(
    "less",
    [
        {"recompute": True},
        {"asynchronous": False},
        {"micro": 1, "accumulation": 4},
        {"eager": False},
        {"plan": Parallel(tensor=2)},
        {"plan": Parallel(pipeline=2)},
        {"rank": 2},
        {"length": 32},
    ],
    ids=str,
)
def test_each_saving_saves(less):
    assert peak_bytes(small_need(**less)) < peak_bytes(small_need())


def test_early_pipeline_stages_hold_more_micro_batches():
    """One forward, one backward: the first of four stages holds four, the last one."""
    need = small_need(plan=Parallel(pipeline=4), accumulation=8)

    def kept(stage: int) -> int:
        return sum(
            t.size for t in moments(need, stage)["backward of a layer"] if t.kind == "attention scores"
        )

    assert kept(0) == 4 * kept(3) > 0


FURTHEST = (
    {"asynchronous": False},
    {"micro": 1, "accumulation": 8},
    {"plan": Parallel(tensor=8, pipeline=4)},
    {"recompute": True},
    {"rank": 1},
)
"""Each kind of change, as far as it goes."""


@pytest.mark.parametrize("share", [0.97, 0.7, 0.4, 0.2, 0.1, 0.05])
def test_the_smallest_change_fits_and_no_fewer_kinds_of_change_would(share):
    need = small_need(micro=8)
    limit = peak_bytes(need) * share

    found = smallest_change(need, lambda one: peak_bytes(one) <= limit)

    assert found is not None
    texts, changed = found
    assert peak_bytes(changed) <= limit
    for fewer in range(len(texts)):
        for chosen in itertools.combinations(FURTHEST, fewer):
            changes = {key: value for one in chosen for key, value in one.items()}
            assert peak_bytes(dataclasses.replace(need, **changes)) > limit


def test_repeated_kv_heads_take_memory_on_every_device():
    """2 KV heads on 8 devices: k and v weigh on each what they would at degree 2, with their adapters."""
    model = shape()
    targets = targets_of(model, Lora(targets=ALL, rank=8))

    def difference(lora_rank: int | None) -> int:
        at_2, at_8 = (shard_of(model, targets, lora_rank, Parallel(tensor=degree), 0) for degree in (2, 8))
        return (at_8.adapters if lora_rank else at_8.base) * 4 - (at_2.adapters if lora_rank else at_2.base)

    keys, norms = model.kv_heads * model.head_size, (2 * model.layers + 1) * model.hidden
    repeated = 2 * model.layers * model.hidden * keys // 2 * 3
    padding = (504 - 500) // 2 * model.hidden * 2  # embedding and head
    assert difference(None) == repeated + 3 * norms + padding
    whole = (
        model.layers * 8 * (5 * model.hidden + 2 * model.hidden)
    )  # A of five column cuts, B of two row cuts
    assert difference(8) == 2 * model.layers * 8 * keys // 2 * 3 + 3 * whole


@pytest.mark.parametrize(
    ("share", "kinds"),
    [
        (0.999, ["checkpoint.asynchronous"]),
        (0.8, ["batch.micro"]),
    ],
)
def test_of_changes_that_are_enough_the_first_in_the_stated_order_is_taken(share, kinds):
    """Nearly all of them are enough for the first limit; rank, which changes the result, never comes before others."""
    need = small_need(micro=8)

    found = smallest_change(need, lambda one: peak_bytes(one) <= share * peak_bytes(need))

    assert found is not None
    assert [text.split(" ")[0] for text in found[0]] == kinds


def test_rank_is_not_touched_where_the_plan_alone_is_enough():
    need = small_need(micro=1, asynchronous=False)

    found = smallest_change(need, lambda one: one.rank == 4 or one.plan.devices > 1)

    assert found is not None
    assert found[0] == ("parallel.tensor = 2",)


def test_rank_is_proposed_where_nothing_else_alone_is_enough():
    need = small_need(micro=1, asynchronous=False, recompute=True)
    only_rank = smallest_change(need, lambda one: one.rank == 1)

    assert only_rank is not None
    assert only_rank[0] == ("lora.rank = 1",)


def test_where_nothing_fits_no_change_is_made_up():
    assert smallest_change(small_need(), lambda _: False) is None


def examined(name: str, change=lambda job: job, **options: object):
    """An example job, changed, qualified without its graph."""
    loaded = load_job(EXAMPLES / name / "job.toml")
    job: Job = change(loaded.job)
    return qualify(job, loaded.base, load_catalogue(), LocalFileSystem(), graph=False, **options)


def replaced(job: Job, **changes: object) -> Job:
    """A copy of a job that has gone through every check."""
    return Job.model_validate(job.model_dump() | changes)


@pytest.mark.parametrize("full", [True, False], ids=["full fine-tuning", "LoRA"])
def test_llama_70b_on_cores_of_16_gib_at_tensor_8_is_refused(full):
    """Published: aws-neuron-sdk issue 884, the compiler wants 22.8 GB of 16. bf16 weights alone are 16.4 GiB."""

    def change(job: Job) -> Job:
        return replaced(job, lora=None) if full else job

    (place,) = examined("llama-3.1-70b", change, track="trn2", instance="trn1.32xlarge").places

    assert place.capacity.value == 16 * GIB
    assert place.memory is not None
    assert place.verdict is Verdict.DOES_NOT_FIT
    assert place.memory.peak.total.interval[0] > 16 * GIB
    assert "GiB too much" in place.sentence


def test_a_proposed_change_makes_the_job_fit_when_it_is_made():
    (place,) = examined("llama-3.1-8b", track="trn2").places
    assert place.verdict is Verdict.DOES_NOT_FIT
    assert place.change is not None
    assert place.change.settings == ("parallel.tensor = 8",)

    (after,) = examined(
        "llama-3.1-8b", lambda job: replaced(job, parallel={"tensor": 8}), track="trn2"
    ).places

    assert after.verdict is Verdict.FITS
    assert after.memory is not None
    assert after.memory.peak.total.value == place.change.peak.value


def test_a_cpu_track_has_no_limit_to_be_held_against():
    (place,) = examined("llama-3.1-8b", track="cpu").places

    assert place.verdict is Verdict.UNKNOWN
    assert not place.capacity.known


def test_a_gpu_place_without_instance_is_held_against_every_gpu_of_the_catalogue():
    found = examined(
        "llama-3.1-8b",
        lambda job: replaced(job, tracks=({"use": ("cuda",)}, {"use": ("trn2",)})),
        track="cuda",
    )

    assert len(found.places) == sum(chip.cores is None for chip in load_catalogue().chips.values())
    assert len({place.capacity.value for place in found.places}) > 1


def test_an_impossible_plan_does_not_fit_and_a_possible_one_is_offered():
    (place,) = examined(
        "llama-3.1-8b", lambda job: replaced(job, parallel={"tensor": 3}), track="trn2"
    ).places

    assert place.verdict is Verdict.DOES_NOT_FIT
    assert "32 heads cannot be shared by 3 devices" in place.sentence
    assert place.change is not None
    assert place.change.settings == ("parallel.tensor = 8",)


def test_within_the_error_of_the_figure_it_is_too_close_to_tell():
    found = examined("llama-3.1-8b")
    core = next(one for one in found.comparisons if one.title == "Trainium3, logical core LNC 2")

    low, high = core.peak.interval
    assert low < core.capacity.require() < high
    assert core.verdict is Verdict.TOO_CLOSE


def test_an_instance_is_for_the_tracks_of_its_kind():
    found = examined("llama-3.1-8b", instance="p5e.48xlarge")

    assert {place.track: place.instance for place in found.places} == {
        "cuda": "p5e.48xlarge",
        "trn2": "trn2.48xlarge",
    }


def test_wrong_names_are_refused_with_the_nearest():
    with pytest.raises(CatalogueError, match=r"trn2\.48xlarge"):
        examined("llama-3.1-8b", instance="trn2.48xlrge")
    with pytest.raises(TrackError, match="did you mean 'trn2'"):
        examined("llama-3.1-8b", track="trn3")


@pytest.mark.parametrize(
    ("track", "instance"), [("trn2", "p5.48xlarge"), ("cuda", "trn2.48xlarge"), ("cpu", "trn2.48xlarge")]
)
def test_an_instance_that_suits_no_track_that_is_asked_about_is_refused(track, instance):
    with pytest.raises(TrackError, match=f"--instance: required an instance for track {track}"):
        examined("llama-3.1-8b", track=track, instance=instance)


@pytest.mark.parametrize(
    ("plan", "settings"),
    [
        ({"tensor": 128}, ("parallel.tensor = 32",)),
        ({"tensor": 64}, ("parallel.tensor = 32",)),
        ({"tensor": 8, "pipeline": 64}, ("parallel.pipeline = 32",)),
    ],
)
def test_a_plan_that_is_too_wide_is_offered_the_nearest_narrower_one(plan, settings):
    found = examined(
        "llama-3.1-8b", lambda job: replaced(job, parallel=plan, batch={"accumulation": 1}), track="trn2"
    )

    (place,) = found.places
    assert place.verdict is Verdict.DOES_NOT_FIT
    assert place.change is not None
    assert place.change.settings == settings


def test_the_sentence_and_the_change_say_how_many_instances_and_where_a_tensor_group_crosses_them():
    """trn1.32xlarge has 16 chips of two cores: 64 x 2 = 128 devices are four, and no group of 64 fits into 32."""
    plan = {"tensor": 64, "pipeline": 2}

    (place,) = examined(
        "llama-3.1-70b", lambda job: replaced(job, parallel=plan), track="trn2", instance="trn1.32xlarge"
    ).places

    assert (place.instances, place.tensor_crosses) == (4, True)
    assert place.sentence.endswith(
        "; 128 devices on 4 instances, where a tensor group of 64 does not fit into one instance of 32:"
        " its collectives cross EFA"
    )


def test_a_change_says_the_instances_that_it_takes():
    found = examined("llama-3.1-8b", track="trn2")

    lines = [line for _, line in verdict_lines(found)]
    assert lines[1].endswith("GiB too much; 4 devices on 1 instance")
    assert lines[2].endswith("parallel.tensor = 8: 18.3 GiB; 8 devices on 1 instance")


@pytest.mark.parametrize(
    ("plan", "per_instance", "instances", "crosses"),
    [
        (Parallel(), 64, 1, False),
        (Parallel(tensor=8, data=3), 16, 2, False),
        (Parallel(tensor=6, pipeline=2), 8, 2, False),  # two groups of 6 do not share 8
        (Parallel(tensor=16), 8, 2, True),
    ],
)
def test_a_tensor_group_stays_in_one_instance_where_it_fits(plan, per_instance, instances, crosses):
    spread = spread_of(plan, per_instance, efa=True)

    assert spread is not None
    assert (spread.instances, spread.crosses, "EFA" in spread.text) == (instances, crosses, crosses)


def test_one_device_is_singular():
    found = examined("llama-3.1-8b", lambda job: replaced(job, parallel={}), track="cpu")

    assert next(iter(verdict_lines(found)))[1].endswith("= 1 device")
