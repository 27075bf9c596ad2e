"""A run on the software Trainium2 compiles exactly the programs that its shapes foretell, and says why each."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from small_pilot import make_run, small_job, world
from tiny_llama import tiny_tokenizer, write_tiny_model
from twintrack.errors import RecompileLimit
from twintrack.events import CompileDone, read_events
from twintrack.pilot.qualify.shapes import program_shapes
from twintrack.pilot.worker import run_leg

TRAINING = (9, 13, 9, 21, 17, 13, 9)
HELD = (25, 11, 7)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    write_tiny_model(folder / "model", layers=1)
    for name, sizes in (("data.jsonl", TRAINING), ("held.jsonl", HELD), ("nine.jsonl", range(9, 18))):
        text = "".join(json.dumps({"text": "z" * (size - 1)}) + "\n" for size in sizes)
        (folder / name).write_text(text)
    return folder


def a_job(padding, *, files="data.jsonl", micro=2, **changes):
    data = {
        "files": [files],
        "evaluation_files": ["held.jsonl"],
        "template": "text",
        "packing": False,
        "padding": padding,
        "sequence_length": 32,
    }
    values = {
        "data": data,
        "batch": {"micro": micro, "accumulation": 2 if micro > 1 else 1},
        "stop": {"steps": 3},
        "evaluation": {"prompts": ["zzz", "z"], "answer_tokens": 2},
        "lora": {"targets": ["v_proj"], "rank": 2},
        "tracks": [{"use": ["trn2"]}],
        "checkpoint": {"every_steps": 2},
    }
    return small_job(**{**values, **changes})


def compiled(root, inputs, job, cache):
    run = make_run(root, inputs, job, "trn2")
    run_leg(run, world(cache))
    return [event for event in read_events(run.events) if isinstance(event, CompileDone)]


@pytest.fixture(scope="module", params=["longest", "full"])
def both(request, inputs, tmp_path_factory):
    """A job, and the programs of two runs of it: with an empty cache, and with what the first one left in it."""
    job, folder = a_job(request.param), tmp_path_factory.mktemp("runs")
    return job, [compiled(folder / name, inputs, job, folder / "cache") for name in ("cold", "warm")]


def test_a_run_compiles_the_foretold_programs(both, inputs):
    """Number by function, and how many of them a function needed that had run before; cold and warm."""
    job, (cold, warm) = both
    padding = job.data.padding
    found = program_shapes(job, inputs, tokenizer=tiny_tokenizer())
    for events in (cold, warm):
        programs = Counter(event.program for event in events)
        later = Counter(event.program for event in events if event.during == "later")
        assert dict(programs) == {one.function: one.programs.value for one in found.functions}
        for one in found.functions:
            assert later[one.function] == one.recompiles.value, one.function
        assert len({event.key for event in events}) == len(events) == found.programs.value
    assert [event.warm for event in warm] == [True] * len(warm)
    assert found.of("gradients").recompiles.value == (0 if padding == "full" else 2)
    assert found.of("evaluate").programs.value == (1 if padding == "full" else 2)


def test_every_recompile_says_what_differed_whether_captured_or_found_in_the_cache(both):
    job, (cold, warm) = both
    for events in (cold, warm):
        later = [event for event in events if event.during == "later"]
        assert bool(later) == (job.data.padding == "longest")
        for event in later:
            assert event.reason.startswith("shapes: was "), event.reason
            assert event.reason.endswith("found in the cache") == (events is warm)


def test_a_job_with_too_many_lengths_is_refused_by_the_run_as_foretold(inputs, tmp_path):
    job = a_job("longest", files="nine.jsonl", micro=1, stop={"steps": 9})
    gradients = program_shapes(job, inputs, tokenizer=tiny_tokenizer()).of("gradients")
    assert (gradients.programs.value, gradients.refused) == (9, True)
    with pytest.raises(RecompileLimit, match=r"function 'gradients'.*shapes"):
        compiled(tmp_path / "run", inputs, job, tmp_path / "cache")
