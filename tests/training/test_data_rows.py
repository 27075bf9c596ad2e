"""Packing and batches: nothing lost, nothing crosses a sample's end, the same everywhere."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twintrack.errors import DataError
from twintrack.training.data import collate
from twintrack.training.data.encode import Encoded
from twintrack.training.data.pack import fill_rows, fit
from twintrack.training.data.rows import IGNORED

PAD = 0


@st.composite
def encoded_samples(draw, most_tokens=40):
    sizes = draw(st.lists(st.integers(2, most_tokens), min_size=1, max_size=15))
    counter = itertools.count(1)  # every token of the test is different, so that it can be followed
    samples = []
    for index, size in enumerate(sizes):
        ids = tuple(next(counter) for _ in range(size))
        loss = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        loss[1] = True
        samples.append(Encoded(f"s:{index}", f"s.jsonl:{index}", f"slice{index % 3}", ids, tuple(loss)))
    return samples


def targets(samples):
    """Reference: for each sample, every (token before, token to learn)."""
    return {
        (before, token)
        for sample in samples
        for before, (token, learn) in zip(
            sample.input_ids, zip(sample.input_ids[1:], sample.loss[1:], strict=True), strict=False
        )
        if learn
    }


def targets_of_rows(rows):
    return {
        (int(token), int(label))
        for row in rows
        for token, label in zip(row.input_ids, row.labels, strict=True)
        if label != IGNORED
    }


@given(encoded_samples(), st.integers(8, 64), st.booleans())
def test_splitting_and_packing_keep_every_target_exactly_once(samples, length, packing):
    """Independent reference: the pairs (token, next token) of the samples, one by one."""
    fitted = fit(samples, length, "split")
    rows = fill_rows(fitted.pieces, length, PAD, packing=packing)
    expected = targets(samples)
    assert targets_of_rows(rows) == expected
    assert sum(row.loss_tokens for row in rows) == len(expected)
    assert fitted.split == sum(len(sample.input_ids) > length for sample in samples)


@given(encoded_samples(most_tokens=24), st.integers(24, 64), st.booleans())
def test_every_segment_is_one_sample_with_positions_from_zero(samples, length, packing):
    """Document boundaries stand in segments and positions, and padding is a segment of its own."""
    by_id = {sample.id: sample for sample in samples}
    rows = fill_rows(fit(samples, length, "error").pieces, length, PAD, packing=packing)
    seen = []
    for row in rows:
        assert {len(array) for array in (row.input_ids, row.labels, row.position_ids, row.segment_ids)} == {
            length
        }
        for segment, name in enumerate(row.sample_ids):
            where = row.segment_ids == segment
            assert row.input_ids[where].tolist() == list(by_id[name].input_ids)
            assert row.position_ids[where].tolist() == list(range(len(by_id[name].input_ids)))
            assert row.slices[segment] == by_id[name].slice
            assert row.labels[where][-1] == IGNORED
            assert (np.diff(np.flatnonzero(where)) == 1).all()
            seen.append(name)
        padding = row.segment_ids == len(row.sample_ids)
        assert padding.sum() == length - row.tokens
        assert (row.input_ids[padding] == PAD).all()
        assert (row.labels[padding] == IGNORED).all()
        assert row.loss_tokens >= 1
    assert sorted(seen) == sorted(by_id)
    if not packing:
        assert [row.sample_ids for row in rows] == [(sample.id,) for sample in samples]


@given(encoded_samples(most_tokens=24), st.integers(24, 64))
def test_packing_is_best_fit_in_the_order_given(samples, length):
    """Reference: the rule by plain search over all rows, for every sample."""
    bins: list[list[str]] = []
    space: list[int] = []
    for sample in samples:
        size = len(sample.input_ids)
        fitting = [index for index, left in enumerate(space) if left >= size]
        if fitting:
            index = min(fitting, key=lambda i: (space[i], i))
        else:
            index = len(bins)
            bins.append([])
            space.append(length)
        bins[index].append(sample.id)
        space[index] -= size
    rows = fill_rows(fit(samples, length, "error").pieces, length, PAD, packing=True)
    assert [list(row.sample_ids) for row in rows] == bins


def test_a_truncated_sample_does_not_learn_what_was_cut():
    sample = Encoded("s:1", "s.jsonl:1", "all", (1, 2, 3, 4, 5), (False, False, True, True, True))
    fitted = fit([sample], 3, "truncate")
    assert (fitted.truncated, fitted.split, fitted.without_loss) == (1, 0, 0)
    assert fitted.pieces[0].input_ids == (1, 2, 3)
    assert fitted.pieces[0].labels == (IGNORED, 3, IGNORED)


def test_a_split_sample_learns_across_its_cuts():
    sample = Encoded("s:1", "s.jsonl:1", "all", (1, 2, 3, 4, 5), (True,) * 5)
    pieces = fit([sample], 3, "split").pieces
    assert [(piece.id, piece.labels) for piece in pieces] == [
        ("s:1#1", (2, 3, 4)),
        ("s:1#2", (5, IGNORED)),
    ]


def test_pieces_without_loss_are_left_out_and_counted():
    sample = Encoded("s:1", "s.jsonl:1", "all", tuple(range(1, 8)), (False,) * 6 + (True,))
    assert fit([sample], 3, "truncate").without_loss == 1
    split = fit([sample], 3, "split")
    assert [piece.id for piece in split.pieces] == ["s:1#2"]
    assert split.without_loss == 2


def test_a_sample_that_is_too_long_is_named_with_its_length():
    sample = Encoded("s:7", "folder/s.jsonl:7", "all", tuple(range(1, 21)), (True,) * 20)
    with pytest.raises(DataError, match=r"folder/s\.jsonl:7.*at most 16 tokens.*found 20 tokens"):
        fit([sample], 16, "error")


def test_rows_cannot_be_changed_and_batches_can():
    sample = Encoded("s:1", "s.jsonl:1", "all", (1, 2, 3), (True,) * 3)
    (row,) = fill_rows(fit([sample], 4, "error").pieces, 4, PAD, packing=True)
    with pytest.raises(ValueError, match="read-only"):
        row.input_ids[0] = 9
    batch = collate([row, row])
    assert {name: (value.dtype, tuple(value.shape)) for name, value in batch.items()} == dict.fromkeys(
        ("input_ids", "labels", "position_ids", "segment_ids"), (torch.int64, (2, 4))
    )
    assert batch["input_ids"].tolist() == [[1, 2, 3, PAD]] * 2
    assert batch["labels"].tolist() == [[2, 3, IGNORED, IGNORED]] * 2
    assert batch["segment_ids"].tolist() == [[0, 0, 0, 1]] * 2
    batch["input_ids"][0, 0] = 9
    assert row.input_ids[0] == 1
    with pytest.raises(ValueError, match="at least one row"):
        collate([])
