"""Rules between the fields of a job hold for every job, read from a file or made in Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_strategies import jobs
from pydantic import ValidationError

from twintrack.job.records import Job
from twintrack.job.rules import broken_rules, write_step

_BASE: dict[str, Any] = {
    "name": "small",
    "model": {"source": "models/tiny"},
    "data": {"files": ["train.jsonl"]},
    "stop": {"steps": 40},
    "checkpoint": {"every_steps": 10},
    "tracks": [{"use": ["cpu"]}, {"use": ["trn2"]}],
}


def _job(**changes: Any) -> Job:
    return Job.model_validate_json(json.dumps({**_BASE, **changes}))


def _stops(*stops: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"kind": kind, "step": step} for kind, step in stops]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param(
            {"schedule": {"warmup_steps": 40}},
            "schedule.warmup_steps: required fewer warm-up steps than stop.steps = 40, found 40; "
            "warm up for less, or train for longer",
            id="warm-up as long as the run",
        ),
        pytest.param(
            {"schedule": {"kind": "constant", "final_fraction": 0.5}},
            "schedule.final_fraction: required a schedule that falls for a final fraction to have an effect, "
            'found 0.5 with kind = "constant"; change the kind, or leave final_fraction out',
            id="final fraction without effect",
        ),
        pytest.param(
            {"stop": {"steps": 40, "evaluation_loss_below": 1.0}},
            "stop.evaluation_loss_below: required evaluations before step 40 for the criterion to have an "
            "effect, found none; set evaluation.every_steps below 40",
            id="criterion without evaluations",
        ),
        pytest.param(
            {"stop": {"steps": 40, "evaluation_loss_below": 1.0}, "evaluation": {"every_steps": 40}},
            "stop.evaluation_loss_below: required evaluations before step 40 for the criterion to have an "
            "effect, found evaluation.every_steps = 40; set evaluation.every_steps below 40",
            id="criterion with evaluations too late",
        ),
        pytest.param(
            {"stops": _stops(("polite", 40))},
            "stops[0].step: required a step before the last one, stop.steps = 40, found 40; "
            "stop earlier: after the last step there is nothing to resume",
            id="polite stop at the last step",
        ),
        pytest.param(
            {"stops": _stops(("kill", 5), ("kill", 41))},
            "stops[1].step: required a step before the last one, stop.steps = 40, found 41; "
            "stop earlier: after the last step there is nothing to resume",
            id="kill after the last step",
        ),
        pytest.param(
            {"stops": _stops(("kill", 20), ("polite", 10))},
            "stops[1].step: required a step after 20, where the stop before it happens, found 10; "
            "put the stops in the order of their steps, no two at one step",
            id="stops out of order",
        ),
        pytest.param(
            {"stops": _stops(("kill", 20), ("polite", 20))},
            "stops[1].step: required a step after 20, where the stop before it happens, found 20; "
            "put the stops in the order of their steps, no two at one step",
            id="two stops at one step",
        ),
        pytest.param(
            {"stops": _stops(("kill-in-write", 11), ("kill", 15))},
            "stops[1].step: required a step after 20, where the stop before it happens, found 15; "
            "put the stops in the order of their steps, no two at one step",
            id="stop before the write in which the one before it happens",
        ),
        pytest.param(
            {"stops": _stops(("kill-in-write", 31))},
            "stops[0].step: required a checkpoint to be written at or after step 31 and before step 40, "
            "found checkpoint.every_steps = 10; write checkpoints more often (every 31 steps, say), or stop "
            "earlier",
            id="no write left before the end",
        ),
        pytest.param(
            {"stops": _stops(("kill-in-write", 5)), "checkpoint": {"every_steps": 100}},
            "stops[0].step: required a checkpoint to be written at or after step 5 and before step 40, "
            "found checkpoint.every_steps = 100; write checkpoints more often (every 5 steps, say), or stop "
            "earlier",
            id="no write at all",
        ),
        pytest.param(
            {"precision": {"rounding": "stochastic"}, "tracks": [{"use": ["cpu"]}]},
            'precision.rounding: required a place for "trn2" that computes in bf16, the only one that rounds '
            'stochastically, found none; add "trn2" to the tracks, compute in bf16, or round to nearest-even',
            id="stochastic rounding nowhere",
        ),
        pytest.param(
            {
                "precision": {"rounding": "stochastic"},
                "tracks": [{"use": ["cpu"]}, {"use": ["trn2"], "compute": "fp32"}],
            },
            'precision.rounding: required a place for "trn2" that computes in bf16, the only one that rounds '
            'stochastically, found none; add "trn2" to the tracks, compute in bf16, or round to nearest-even',
            id="stochastic rounding of float32",
        ),
        pytest.param(
            {"data": {"files": ["a.jsonl", "./a.jsonl"]}},
            "data.files[1]: required each entry of data.files once, found 'a.jsonl' again; leave it out",
            id="file twice",
        ),
        pytest.param(
            {"data": {"files": ["a.jsonl"], "evaluation_files": ["b/../a.jsonl"]}},
            "data.evaluation_files[0]: required files that are not trained on, found 'b/../a.jsonl', which "
            "is in data.files too; leave it out of one of the two; evaluation_fraction holds a share of "
            "data.files out",
            id="evaluation on what is trained on",
        ),
        pytest.param(
            {"data": {"files": ["a.jsonl"], "evaluation_fraction": 0}},
            "data.evaluation_fraction: required some text for evaluation, found 0 and no "
            "data.evaluation_files; hold a share out, or name files",
            id="nothing to evaluate on",
        ),
        pytest.param(
            {"data": {"files": ["a.txt"], "evaluation_files": ["b.txt"], "evaluation_fraction": 0.5}},
            "data.evaluation_fraction: required one source of evaluation text, found 0.5 beside "
            "data.evaluation_files; leave one of the two out",
            id="two sources of evaluation text",
        ),
        pytest.param(
            {"data": {"files": ["a.jsonl"], "template": "prompt", "prompt_format": "Q:"}},
            "data.prompt_format: required {prompt} exactly once, found it 0 times in 'Q:'; put it in once",
            id="no place for the prompt",
        ),
        pytest.param(
            {"data": {"files": ["a.jsonl"], "template": "prompt", "prompt_format": "{prompt}{prompt}"}},
            "data.prompt_format: required {prompt} exactly once, found it 2 times in '{prompt}{prompt}'; "
            "put it in once",
            id="two places for the prompt",
        ),
        pytest.param(
            {"data": {"files": ["a.jsonl"], "prompt_format": "Q: {prompt}"}},
            'data.prompt_format: required data.template = "prompt" for a prompt format to have an effect, '
            'found "chat"; change the template, or leave prompt_format out',
            id="prompt format without effect",
        ),
        pytest.param(
            {"lora": {"targets": ["q_proj", "v_proj", "q_proj"]}},
            "lora.targets[2]: required each entry of lora.targets once, found 'q_proj' again; leave it out",
            id="target twice",
        ),
        pytest.param(
            {"evaluation": {"prompts": ["Why?", "Why?"]}},
            "evaluation.prompts[1]: required each entry of evaluation.prompts once, found 'Why?' again; "
            "leave it out",
            id="prompt twice",
        ),
        pytest.param(
            {"tracks": [{"use": ["cpu", "cuda", "cpu"]}]},
            "tracks[0].use[2]: required each entry of tracks[0].use once, found 'cpu' again; leave it out",
            id="track twice in a place",
        ),
        pytest.param(
            {"tracks": [{"use": ["cuda", "cpu"]}, {"use": ["trn2", "cpu"]}]},
            "tracks[1].use[1]: required each track in one place only, since it could fill both, found 'cpu', "
            "which tracks[0] lists too; take it out of one of the two",
            id="track in two places",
        ),
        pytest.param(
            {"tracks": [{"use": ["cpu"], "allow_host": True}]},
            'tracks[0].allow_host: required allow_host only where "trn2" is listed, found it with '
            "use = ['cpu']; leave it out",
            id="allow_host without effect",
        ),
        pytest.param(
            {"tracks": [{"use": ["cpu"], "logical_cores": 1}]},
            'tracks[0].logical_cores: required logical_cores only where "trn2" or "neuron" is listed, found '
            "it with use = ['cpu']; leave it out",
            id="logical_cores without effect",
        ),
        pytest.param(
            {"model": {"source": "package:only-a-name"}},
            "model.source: required package:NAME/FILE.gguf, found 'package:only-a-name'; name the "
            "Python package and, after a slash, the file inside it",
            id="package without file",
        ),
        pytest.param(
            {"model": {"source": "package:name/../../etc/passwd"}},
            "model.source: required package:NAME/FILE.gguf, found 'package:name/../../etc/passwd'; name the "
            "Python package and, after a slash, the file inside it",
            id="file outside of the package",
        ),
        pytest.param(
            {"model": {"source": "package:name/file.gguf", "revision": "main"}},
            "model.revision: required no revision for weights from a Python package, found 'main'; leave it "
            "out: the version of the package is the revision",
            id="revision without effect",
        ),
        pytest.param(
            {"batch": {"micro": 65_536}, "data": {"files": ["a.jsonl"], "sequence_length": 1_048_576}},
            "batch.micro: required at most 2,147,483,647 tokens in a forward pass (as far as 32-bit "
            "indices reach), found 65,536 rows of 1,048,576 tokens; use fewer rows and more "
            "batch.accumulation",
            id="absurd batch",
        ),
    ],
)
def test_a_broken_rule_is_named(changes, told):
    with pytest.raises(ValidationError) as caught:
        _job(**changes)

    assert caught.value.errors()[0]["msg"] == told


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": {"warmup_steps": 39}},
        {"stops": _stops(("polite", 39))},
        {"stops": _stops(("kill-in-write", 30))},
        {"stops": _stops(("kill-in-write", 11), ("kill", 21), ("kill-in-write", 22), ("polite", 31))},
        {"precision": {"rounding": "stochastic", "compute": "fp32"},
         "tracks": [{"use": ["cpu", "trn2"], "compute": "bf16"}]},
        {"stop": {"steps": 40, "evaluation_loss_below": 1.0}, "evaluation": {"every_steps": 39}},
        {"data": {"files": ["a.jsonl"], "evaluation_files": ["b.jsonl"], "evaluation_fraction": 0.0}},
        {"data": {"files": ["a.jsonl"], "template": "prompt", "prompt_format": "{{prompt}}"}},
        {"checkpoint": {"every_steps": 1000}},
        {"parallel": {"data": 16, "tensor": 4}},
    ],
)  # fmt: skip
def test_what_just_keeps_the_rules_is_accepted(changes):
    assert broken_rules(_job(**changes)) == ()


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 60), jobs())
def test_the_write_in_which_a_kill_happens_is_the_first_one_in_reach(step, job):
    """Against counting the steps one by one."""
    writes = [at for at in range(step, job.stop.steps) if at % job.checkpoint.every_steps == 0]

    assert write_step(job, step) == (writes[0] if writes else None)
