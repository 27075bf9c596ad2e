"""The programs that a job's shapes cost, against the loop's own order taken step by step, and from the job alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_pilot import small_job
from tiny_llama import tiny_tokenizer
from twintrack.errors import DataError
from twintrack.pilot.qualify import shapes as module
from twintrack.pilot.qualify.shapes import program_shapes
from twintrack.quantity import Provenance
from twintrack.training.data.pack import Piece, fill_rows
from twintrack.training.data.rows import Counts, PreparedData
from twintrack.training.sampler import Sampler

LENGTH = 64


def prepared(sizes, held=(10,)):
    """Data whose rows use so many positions."""

    def rows(many):
        pieces = [Piece(f"s:{i}", "all", (7,) * size, (7,) * size) for i, size in enumerate(many)]
        return fill_rows(pieces, LENGTH, 0, packing=False)

    return PreparedData(rows(sizes), rows(held), "digest", Counts(len(sizes), len(held), 0, 0, 0, 0, 0))


def a_job(padding="longest", *, micro=1, accumulation=1, steps=8, **changes):
    data = {"files": ["data.jsonl"], "template": "text", "sequence_length": LENGTH, "packing": False}
    return small_job(
        data={**data, "padding": padding},
        batch={"micro": micro, "accumulation": accumulation},
        stop={"steps": steps},
        **{"evaluation": {}, "checkpoint": {"every_steps": 1}, **changes},
    )


def write_texts(folder, sizes, name="data.jsonl"):
    """Samples of so many tokens: one per letter, and the end token."""
    text = "".join(json.dumps({"text": "z" * (size - 1)}) + "\n" for size in sizes)
    (folder / name).write_text(text)


def numbers(found):
    return {one.function: one.programs.value for one in found.functions}


EIGHT = (8, 12, 16, 20, 24, 28, 32, 36)


def _eight(tmp_path, padding):
    write_texts(tmp_path, EIGHT)
    write_texts(tmp_path, [10], "held.jsonl")
    job = a_job(padding)
    data = job.data.model_copy(update={"evaluation_files": ("held.jsonl",)})
    return program_shapes(job.model_copy(update={"data": data}), tmp_path, tokenizer=tiny_tokenizer())


def test_eight_batches_of_eight_lengths_are_eight_programs(tmp_path):
    found = _eight(tmp_path, "longest")
    gradients = found.of("gradients")
    assert gradients.programs.value == 8
    assert gradients.recompiles.value == 7
    assert sorted(shape.length for shape in gradients.shapes) == list(EIGHT)
    assert gradients.refused is False  # eight are what the limit allows
    assert found.filled.value == 1.0


def test_eight_batches_of_eight_lengths_padded_are_one_program(tmp_path):
    found = _eight(tmp_path, "full")
    gradients = found.of("gradients")
    assert (gradients.programs.value, gradients.recompiles.value) == (1, 0)
    assert [(shape.rows, shape.length, shape.calls) for shape in gradients.shapes] == [(1, LENGTH, 8)]
    assert found.filled.value == pytest.approx(sum(EIGHT) / (8 * LENGTH))


def test_nine_lengths_are_more_than_a_track_accepts():
    found = program_shapes(a_job(steps=9), None, prepared=prepared(range(10, 19)))
    assert found.of("gradients").programs.value == found.limit + 1 == 9
    assert found.of("gradients").refused is True


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(2, LENGTH), min_size=1, max_size=9),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 12),
    st.sampled_from(["full", "longest"]),
)
def test_training_shapes_are_those_of_the_loop_taken_step_by_step(sizes, micro, accumulation, steps, padding):
    """Reference: the loop's own calls of the sampler, one per step, and its cuts into micro-batches."""
    job = a_job(padding, micro=micro, accumulation=accumulation, steps=steps)
    data = prepared(sizes)
    sampler, seen = Sampler(len(data.train), job.seed), {}
    for step in range(1, steps + 1):
        rows = [data.train[i] for i in sampler.next(micro * accumulation)]
        for start in range(0, len(rows), micro):
            tokens = max(row.tokens for row in rows[start : start + micro])
            first, calls = seen.get(LENGTH if padding == "full" else tokens, (step, 0))
            seen[LENGTH if padding == "full" else tokens] = (first, calls + 1)
    found = program_shapes(job, None, prepared=data).of("gradients")
    assert [(s.length, s.first_step, s.calls) for s in found.shapes] == [(k, *v) for k, v in seen.items()]
    assert found.programs.value == len(seen)
    assert found.recompiles.value == sum(first > 1 for first, _ in seen.values())


def test_blocks_change_nothing(monkeypatch):
    job, data = a_job(micro=3, accumulation=2, steps=40), prepared(range(2, 30))
    whole = program_shapes(job, None, prepared=data)
    monkeypatch.setattr(module, "_BLOCK", 4)
    assert program_shapes(job, None, prepared=data) == whole


def test_evaluation_and_its_last_batch_count_apart():
    """Five rows in batches of two: lengths 30, 20, and a last one of 12, filled without growing."""
    found = program_shapes(a_job(micro=2), None, prepared=prepared([9, 9], held=[30, 4, 20, 20, 12]))
    apart = {one.name: one.programs.value for one in found.apart}
    assert apart == {
        "last training batch": 0,
        "evaluation": 2,
        "last evaluation batch": 1,
        "prompts": 0,
        "checkpoint save": 0,
    }
    assert [shape.length for shape in found.of("evaluate").shapes] == [30, 20, 12]
    assert (found.of("evaluate").programs.value, found.of("evaluate").recompiles.value) == (3, 2)
    same = program_shapes(a_job(micro=2), None, prepared=prepared([9, 9], held=[30, 4, 20, 20, 20]))
    assert {one.name: one.programs.value for one in same.apart}["last evaluation batch"] == 0
    full = program_shapes(a_job("full", micro=2), None, prepared=prepared([9, 9], held=[30, 4, 20, 20, 12]))
    assert {one.name: one.programs.value for one in full.apart}["last evaluation batch"] == 0
    assert full.of("evaluate").programs.value == 1


def test_accumulation_and_prompts_have_one_program_where_there_are_any():
    plain = program_shapes(a_job("full"), None, prepared=prepared([9]))
    assert numbers(plain) == {"gradients": 1, "accumulate": 0, "update": 1, "evaluate": 1, "next_tokens": 0}
    assert plain.programs.value == 3
    prompts = {"prompts": ["what is z", "zzzzzzzzzzzz"], "answer_tokens": 5}
    job = a_job("full", accumulation=2, evaluation=prompts)
    more = program_shapes(job, None, prepared=prepared([9]), tokenizer=tiny_tokenizer())
    assert numbers(more) == {"gradients": 1, "accumulate": 1, "update": 1, "evaluate": 1, "next_tokens": 1}
    (shape,) = more.of("next_tokens").shapes
    assert (shape.rows, shape.length) == (2, 12 + 5)


def test_padded_shapes_are_known_from_the_job_alone(tmp_path):
    """No tokenizer, no data: the model's configuration is enough."""
    job = a_job("full", accumulation=2, evaluation={"prompts": ["what is z"]})
    found = program_shapes(job, tmp_path)
    assert numbers(found) == {"gradients": 1, "accumulate": 1, "update": 1, "evaluate": 1, "next_tokens": 1}
    assert [shape.length for shape in found.of("gradients").shapes] == [LENGTH]
    assert found.of("next_tokens").shapes[0].length is None
    assert not found.filled.known


def test_lengths_that_nobody_can_know_are_unknown_with_the_reason(tmp_path):
    job = a_job()
    for tokenizer, reason in ((None, "there is no tokenizer"), (tiny_tokenizer(), "no data file data.jsonl")):
        found = program_shapes(job, tmp_path, tokenizer=tokenizer)
        for name in ("gradients", "evaluate"):
            one = found.of(name)
            assert not one.programs.known
            assert one.refused is None
            assert reason in one.programs.source
            assert "longest" in one.programs.source
        assert not found.programs.known
        assert found.of("update").programs.value == 1


def test_data_that_a_run_would_refuse_are_refused(tmp_path):
    write_texts(tmp_path, [LENGTH + 1, 9, 9, 9, 9, 9])
    with pytest.raises(DataError, match=r"data\.jsonl:1"):
        program_shapes(a_job("full"), tmp_path, tokenizer=tiny_tokenizer())


def test_a_job_of_very_many_rows_gives_a_least_number(monkeypatch):
    """Of a hundred steps two are looked at: what they show is a bound; once every length was seen it is the count."""
    monkeypatch.setattr(module, "_MOST_ROWS", 2)
    found = program_shapes(a_job(steps=100), None, prepared=prepared([8, 12, 16, 20]))
    assert found.steps == 2
    assert (found.of("gradients").programs.value, found.of("gradients").programs.kind) == (
        2,
        Provenance.BOUND,
    )
    assert found.of("gradients").refused is None
    whole = program_shapes(a_job(steps=100), None, prepared=prepared([8, 12]))
    assert (whole.of("gradients").programs.value, whole.of("gradients").programs.kind) == (
        2,
        Provenance.DERIVED,
    )
