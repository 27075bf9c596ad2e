"""From encoded samples to rows of fixed length.

A sample never crosses the end of a row. Packing is best-fit: samples come in a given order, each goes into
the fullest row that still takes it (the oldest such row), or opens a new one; the result depends on the order
alone.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from twintrack.errors import DataError
from twintrack.training.data.encode import Encoded
from twintrack.training.data.rows import IGNORED, IntArray, Row

__all__ = ["Fitted", "Piece", "build_row", "fill_rows", "fit"]


@dataclass(frozen=True, slots=True)
class Piece:
    """What goes into one segment of a row: tokens and the labels of their positions, of the same length."""

    id: str
    slice: str
    input_ids: tuple[int, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fitted:
    """Pieces that fit, and what had to be done for it."""

    pieces: tuple[Piece, ...]
    truncated: int
    split: int
    without_loss: int


def fit(samples: Iterable[Encoded], length: int, too_long: Literal["error", "truncate", "split"]) -> Fitted:
    """Labels shifted inside each sample, and no piece longer than ``length``.

    A truncated sample loses its end. A split sample becomes pieces of ``length`` tokens, the last one
    shorter; the last position of a piece still predicts the first token of the next, so that no target is
    lost. Pieces in which nothing carries loss would teach nothing and are left out, counted.

    Raises:
        DataError: naming file, line and length, if a sample is too long and the policy is ``error``.
    """
    pieces: list[Piece] = []
    truncated = split = without_loss = 0
    for sample in samples:
        size = len(sample.input_ids)
        if size > length and too_long == "error":
            raise DataError(
                f"samples of at most {length} tokens (data.sequence_length)",
                found=f"{size} tokens",
                where=sample.where,
                remedy='raise sequence_length, or set too_long = "truncate" or "split"',
            )
        if size > length and too_long == "truncate":
            truncated += 1
            sample = replace(sample, input_ids=sample.input_ids[:length], loss=sample.loss[:length])
        elif size > length:
            split += 1
        for piece in _cut(sample, length):
            if any(label != IGNORED for label in piece.labels):
                pieces.append(piece)
            else:
                without_loss += 1
    return Fitted(tuple(pieces), truncated, split, without_loss)


def _cut(sample: Encoded, length: int) -> Iterator[Piece]:
    ids = sample.input_ids
    targets = zip(ids[1:], sample.loss[1:], strict=True)
    labels = (*(token if learn else IGNORED for token, learn in targets), IGNORED)
    if len(ids) <= length:
        yield Piece(sample.id, sample.slice, ids, labels)
        return
    for number, start in enumerate(range(0, len(ids), length), 1):
        part = slice(start, start + length)
        yield Piece(f"{sample.id}#{number}", sample.slice, ids[part], labels[part])


def fill_rows(pieces: Sequence[Piece], length: int, pad_id: int, *, packing: bool) -> tuple[Row, ...]:
    """Rows of ``length`` tokens; without ``packing`` one piece a row."""
    bins = _best_fit(pieces, length) if packing else [[piece] for piece in pieces]
    return tuple(build_row(row, length, pad_id) for row in bins)


def _best_fit(pieces: Sequence[Piece], length: int) -> list[list[Piece]]:
    bins: list[list[Piece]] = []
    open_bins: list[tuple[int, int]] = []  # (space left, bin), sorted
    for piece in pieces:
        size = len(piece.input_ids)
        found = bisect.bisect_left(open_bins, (size, -1))
        if found < len(open_bins):
            space, index = open_bins.pop(found)
        else:
            space, index = length, len(bins)
            bins.append([])
        bins[index].append(piece)
        if space > size:
            bisect.insort(open_bins, (space - size, index))
    return bins


def build_row(pieces: Sequence[Piece], length: int, pad_id: int) -> Row:
    """One row from pieces that fit into it together."""
    padding = length - sum(len(piece.input_ids) for piece in pieces)
    sizes = [len(piece.input_ids) for piece in pieces] + [padding]
    blank = Piece("", "", (pad_id,) * padding, (IGNORED,) * padding)
    parts = (*pieces, blank)
    return Row(
        input_ids=_frozen([part.input_ids for part in parts]),
        labels=_frozen([part.labels for part in parts]),
        position_ids=_frozen([range(size) for size in sizes]),
        segment_ids=_frozen([[index] * size for index, size in enumerate(sizes)]),
        sample_ids=tuple(piece.id for piece in pieces),
        slices=tuple(piece.slice for piece in pieces),
        tokens=length - padding,
    )


def _frozen(parts: Iterable[Iterable[int]]) -> IntArray:
    array = np.fromiter((value for part in parts for value in part), dtype=np.int64)
    array.flags.writeable = False
    return array
