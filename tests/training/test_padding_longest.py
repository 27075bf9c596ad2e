"""Micro-batches cut to their longest row: the same losses and gradients as padded ones, from fewer positions."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from small_pilot import make_run, small_job, world, write_inputs
from tiny_llama import tiny_model, tiny_tokenizer
from twintrack.events import EvaluationDone, StepDone, read_events
from twintrack.job.digest import training_digest
from twintrack.job.records import Data, Lora, Optimizer
from twintrack.pilot.worker import run_leg
from twintrack.training.adapter import adapt
from twintrack.training.data import batch_length, collate, prepare
from twintrack.training.data.pack import Piece, fill_rows
from twintrack.training.data.rows import IGNORED
from twintrack.training.evaluate import full_batches
from twintrack.training.step import Step

LENGTH = 32
LONGEST = {"files": ["data.jsonl"], "sequence_length": 64, "packing": False, "padding": "longest"}


def rows_of(sizes, *, packing=False, seed=0):
    """Rows whose samples have these sizes, of random tokens, all but the first ones of which carry loss."""
    random = np.random.default_rng(seed)
    pieces = []
    for index, size in enumerate(sizes):
        ids = random.integers(5, 500, size).tolist()
        labels = (*ids[1:], IGNORED)
        pieces.append(Piece(f"s:{index}", "ab"[index % 2], tuple(ids), labels))
    return fill_rows(pieces, LENGTH, 0, packing=packing)


@given(st.lists(st.integers(2, LENGTH), min_size=1, max_size=6), st.booleans())
def test_what_is_cut_is_padding_and_nothing_else_changes(sizes, packing):
    """Reference: the padded batch, and the sizes that went in."""
    rows = rows_of(sizes, packing=packing)
    whole, cut = collate(rows), collate(rows, "longest")
    length = batch_length(rows, "longest")
    assert length == max(row.tokens for row in rows)
    if not packing:
        assert length == max(sizes)
    assert batch_length(rows, "full") == LENGTH
    for name, tensor in whole.items():
        assert torch.equal(cut[name], tensor[:, :length])
    assert (whole["labels"][:, length:] == IGNORED).all()
    assert (whole["input_ids"][:, length:] == 0).all()


def test_a_batch_without_rows_has_no_length():
    with pytest.raises(ValueError, match="at least one row"):
        batch_length([], "longest")


def _step(lora):
    model = tiny_model(layers=2)
    adapted = adapt(model, lora, seed=1)
    learned = set(adapted.trainable)
    tensors = dict([*adapted.model.named_parameters(), *adapted.model.named_buffers()])
    weights = {name: adapted.initial[name] + 0.01 for name in adapted.trainable}
    frozen = {name: tensor.detach() for name, tensor in tensors.items() if name not in learned}
    return Step(adapted.model.eval(), Optimizer(), torch.float32), weights, frozen


@pytest.mark.parametrize("lora", [Lora(targets=("q_proj", "down_proj"), rank=4), None], ids=["lora", "full"])
@pytest.mark.parametrize("packing", [False, True])
def test_losses_and_gradients_equal_those_of_padded_batches(lora, packing):
    step, weights, frozen = _step(lora)
    rows = rows_of([5, 9, 14, 3] if packing else [5, 19, 14, 3], packing=packing)
    assert max(row.tokens for row in rows) < LENGTH
    scale = torch.tensor(1.0 / sum(row.loss_tokens for row in rows))
    whole, cut = collate(rows), collate(rows, "longest")
    one, other = (step.gradients(weights, frozen, batch, scale) for batch in (whole, cut))
    assert other["loss"].item() == pytest.approx(one["loss"].item(), rel=1e-6)
    for name, gradient in one[
        "gradients"
    ].items():  # those of attention are small differences of large numbers
        largest = gradient.abs().max().item()
        assert largest > 0.0
        assert (other["gradients"][name] - gradient).abs().max().item() < 1e-4 * largest, name
    table, shorter = (step.evaluate(weights, frozen, batch) for batch in (whole, cut))
    assert torch.allclose(table[:, : shorter.shape[1]], shorter, rtol=1e-5, atol=1e-6)
    assert (table[:, shorter.shape[1] :] == 0).all()


def test_the_row_that_fills_the_last_batch_makes_it_no_longer():
    """The filling row is a copy of the first, longest one; the last batch is as long as its own row."""
    rows = rows_of([30, 7, 9])
    batches = full_batches(rows, 2)
    assert [batch_length(batch, "longest") for batch in batches] == [30, 9]
    last = collate(batches[-1], "longest")
    assert (last["labels"][1] == IGNORED).all()
    assert torch.equal(last["labels"][0], torch.from_numpy(rows[2].labels[:9].copy()))


def test_padding_is_part_of_the_data_digest_and_of_the_training(tmp_path):
    (tmp_path / "d.jsonl").write_text(
        "".join(json.dumps({"text": "the robot " * n}) + "\n" for n in (2, 3, 4, 5))
    )
    data = Data(
        files=("d.jsonl",), template="text", packing=False, evaluation_fraction=0.25, sequence_length=64
    )
    cut = data.model_copy(update={"padding": "longest"})
    one, other = (prepare(d, tmp_path, tiny_tokenizer(), seed=1, pad_id=0) for d in (data, cut))
    assert one.digest != other.digest
    assert [row.input_ids.tolist() for row in one.train] == [row.input_ids.tolist() for row in other.train]
    jobs = [small_job(data={**LONGEST, "padding": padding}) for padding in ("full", "longest")]
    assert training_digest(jobs[0]) != training_digest(jobs[1])


def test_a_run_has_the_losses_of_the_padded_run(tmp_path):
    """Steps and evaluations, slices too, of a whole run on the CPU; the last evaluation batch is a filled one."""
    write_inputs(tmp_path)
    found = {}
    for padding in ("full", "longest"):
        job = small_job(
            data={**LONGEST, "padding": padding, "evaluation_fraction": 0.12},
            stop={"steps": 4},
            evaluation={},
        )
        run = make_run(tmp_path / padding, tmp_path, job, "cpu")
        run_leg(run, world(tmp_path / "cache"))
        found[padding] = list(read_events(run.events))
    losses, evaluations = (
        [[event for event in found[padding] if isinstance(event, kind)] for padding in ("full", "longest")]
        for kind in (StepDone, EvaluationDone)
    )
    assert len(losses[0]) == 4
    assert len(evaluations[0]) == 2
    for one, other in zip(*losses, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-4)
        assert (other.tokens, other.sample_ids) == (one.tokens, one.sample_ids)
    for one, other in zip(*evaluations, strict=True):
        assert other.slices == pytest.approx(one.slices, rel=1e-5)
        assert other.slice_tokens == one.slice_tokens
