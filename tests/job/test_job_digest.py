"""Which change of a job changes which of its identities."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from job_strategies import MINIMAL, jobs

from twintrack.job.digest import comparable_parts, differing_parts, job_digest, training_digest
from twintrack.job.keys import dotted
from twintrack.job.load import effective_values, load_job
from twintrack.job.records import Job

_BASE: dict[str, Any] = {
    "name": "small",
    "model": {"source": "models/tiny"},
    "data": {"files": ["train.jsonl"], "template": "prompt"},
    "lora": {"targets": ["q_proj"]},
    "stop": {"steps": 40},
    "evaluation": {"every_steps": 10},
    "checkpoint": {"every_steps": 10},
    "stops": [{"kind": "kill", "step": 20}],
    "tracks": [{"use": ["cpu"]}, {"use": ["trn2"]}],
}

# every key of a job, another valid value of it, the part it belongs to, whether it is another training then
_CHANGES: list[tuple[str, Any, str, bool]] = [
    ("name", "other", "name", False),
    ("seed", 1, "training", True),
    ("model.source", "models/other", "model", True),
    ("model.revision", "main", "model", True),
    ("data.files", ["other.jsonl"], "data", True),
    ("data.evaluation_files", ["held-out.jsonl"], "data", True),
    ("data.evaluation_fraction", 0.2, "data", True),
    ("data.limit", 5, "data", True),
    ("data.template", "text", "data", True),
    ("data.prompt_format", "Q: {prompt}", "data", True),
    ("data.loss_on", "all", "data", True),
    ("data.slice_field", "topic", "evaluation", False),
    ("data.packing", False, "data", True),
    ("data.sequence_length", 64, "data", True),
    ("data.too_long", "split", "data", True),
    ("data.padding", "longest", "data", True),
    ("lora.targets", ["v_proj"], "adapters", True),
    ("lora.rank", 4, "adapters", True),
    ("lora.alpha", 8.0, "adapters", True),
    ("lora.dropout", 0.1, "adapters", True),
    ("precision.compute", "fp32", "training", True),
    ("precision.rounding", "stochastic", "training", True),
    ("batch.micro", 2, "training", True),
    ("batch.accumulation", 2, "training", True),
    ("optimizer.learning_rate", 1e-3, "training", True),
    ("optimizer.beta1", 0.8, "training", True),
    ("optimizer.beta2", 0.8, "training", True),
    ("optimizer.epsilon", 1e-6, "training", True),
    ("optimizer.weight_decay", 0.1, "training", True),
    ("optimizer.max_gradient_norm", None, "training", True),
    ("schedule.kind", "linear", "training", True),
    ("schedule.warmup_steps", 3, "training", True),
    ("schedule.final_fraction", 0.1, "training", True),
    ("stop.steps", 41, "training", True),
    ("stop.evaluation_loss_below", 1.0, "training", True),
    ("evaluation.every_steps", 5, "evaluation", False),
    ("evaluation.prompts", ["Why?"], "evaluation", False),
    ("evaluation.answer_tokens", 4, "evaluation", False),
    ("checkpoint.every_steps", 5, "checkpoint", False),
    ("checkpoint.keep", 1, "checkpoint", False),
    ("checkpoint.asynchronous", False, "checkpoint", False),
    ("stops[0].kind", "polite", "stops", False),
    ("stops[0].step", 21, "stops", False),
    ("tolerances.loss", 0.5, "tolerances", False),
    ("parallel.data", 2, "parallel", True),
    ("parallel.tensor", 2, "parallel", True),
    ("parallel.pipeline", 2, "parallel", True),
    ("costs.region", "us-east-2", "costs", False),
    ("costs.model", "spot", "costs", False),
    ("costs.prices", ["prices.toml"], "costs", False),
    ("costs.currency", "EUR", "costs", False),
    ("costs.oldest_price_days", 30, "costs", False),
    ("costs.reserved_hours", 24.0, "costs", False),
    ("costs.operating_hours", 4.0, "costs", False),
    ("costs.keep_days", 7, "costs", False),
    ("decision.model_changes", "weekly", "decision", False),
    ("decision.custom_operators", "few", "decision", False),
    ("decision.cycle_days", 30.0, "decision", False),
    ("decision.team_experience", "shipped", "decision", False),
    ("decision.fallback", "rehearsed", "decision", False),
    ("decision.fallback_plan", "Go back.", "decision", False),
    ("decision.quality_criteria", "As good.", "decision", False),
    ("decision.cheaper_by", 0.1, "decision", False),
    ("responsibility.code", "team", "decision", False),
    ("responsibility.compilation", "team", "decision", False),
    ("responsibility.cache", "team", "decision", False),
    ("responsibility.image", "team", "decision", False),
    ("responsibility.conversion", "team", "decision", False),
    ("tracks[0].use", ["cuda"], "tracks", False),
    ("tracks[0].if_absent", "skip", "tracks", False),
    ("tracks[0].compute", "fp32", "tracks", False),
    ("tracks[0].instance", "trn2.3xlarge", "tracks", False),
    ("tracks[1].logical_cores", 1, "tracks", False),
    ("tracks[1].allow_host", True, "tracks", False),
]


def _changed(content: dict[str, Any], key: str, value: Any) -> Job:
    content = copy.deepcopy(content)
    *parts, last = key.replace("[", ".").replace("]", "").split(".")
    at: Any = content
    for part in parts:
        at = at[int(part)] if part.isdigit() else at.setdefault(part, {})
    at[last] = value
    return Job.model_validate_json(json.dumps(content))


def _base() -> Job:
    return Job.model_validate_json(json.dumps(_BASE))


@pytest.mark.parametrize(("key", "value", "part", "training"), _CHANGES, ids=[c[0] for c in _CHANGES])
def test_a_change_is_seen_in_one_part_and_where_it_matters_in_the_training(key, value, part, training):
    base, changed = _base(), _changed(_BASE, key, value)

    assert job_digest(changed) != job_digest(base)
    assert differing_parts(comparable_parts(base), comparable_parts(changed)) == (part,)
    assert (training_digest(changed) != training_digest(base)) is training


def test_no_key_of_a_job_is_left_out():
    """``optimizer.name`` has one value only and cannot change."""
    keys = {dotted(key).replace("tracks[1]", "tracks[0]") for key, _ in effective_values(_base())}

    assert {key.replace("tracks[1]", "tracks[0]") for key, *_ in _CHANGES} == keys - {"optimizer.name"}


def test_when_evaluations_happen_matters_where_one_may_end_the_training():
    content = {**_BASE, "stop": {"steps": 40, "evaluation_loss_below": 1.0}}
    base = Job.model_validate_json(json.dumps(content))

    assert training_digest(_changed(content, "evaluation.every_steps", 5)) != training_digest(base)
    assert training_digest(_changed(content, "evaluation.answer_tokens", 5)) == training_digest(base)


def test_parts_that_only_one_job_has_differ():
    assert differing_parts({"a": "1", "b": "2"}, {"b": "2", "c": "3"}) == ("a", "c")


def test_how_a_job_is_written_does_not_matter(tmp_path):
    """Defaults written out, another order, another notation, comments, another folder: the same digest."""
    one, other = tmp_path / "job.toml", tmp_path / "elsewhere" / "other.toml"
    other.parent.mkdir()
    one.write_text(MINIMAL)
    other.write_text(
        "tracks = [{use = ['cpu']}, {use = ['trn2'], if_absent = 'fail'}] # places\n"
        "stop.steps = 40\ndata.files = ['train.jsonl']\nmodel = {source = 'models/tiny'}\n"
        "optimizer.learning_rate = 2e-4\noptimizer.weight_decay = -0.0\nname = 'small'\n"
    )

    assert load_job(one).digest == load_job(other).digest


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(jobs())
def test_a_job_keeps_its_identities_through_json(job):
    """Which is how a run keeps it."""
    again = Job.model_validate_json(job.model_dump_json())

    assert again == job
    assert (job_digest(again), training_digest(again)) == (job_digest(job), training_digest(job))


def test_keys_added_after_the_first_format_leave_the_digests_of_earlier_jobs_as_they_were():
    """The digests of this job as version 0.1.0 of the first format computed them."""
    job = _base()

    assert job_digest(job) == "3b99b5f2aa8abdbcdccb8f43ee4e4f632d17db67ebc43520381119b1cf538246"
    assert training_digest(job) == "831a1dbd1f0c7615e1b86835c7d11263bb43ff2afdeaf0605538043c6677febe"
