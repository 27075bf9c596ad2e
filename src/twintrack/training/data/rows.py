"""Rows, batches and what they count; the architecture page, under "Batches", explains the four arrays.

Shapes: T is the job's sequence length, B the rows of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["IGNORED", "Counts", "Padding", "PreparedData", "Row", "batch_length", "collate"]

IGNORED = -100
"""Label of a position without loss: what ``torch.nn.functional.cross_entropy`` ignores by default."""

Padding = Literal["full", "longest"]
"""What the rows of a micro-batch are padded to, as ``data.padding`` of a job names it."""

IntArray = npt.NDArray[np.int64]
_FIELDS = ("input_ids", "labels", "position_ids", "segment_ids")


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One row of fixed length; its arrays are read-only int64 of shape [T]."""

    input_ids: IntArray
    labels: IntArray
    """Token that a position must predict, shifted inside each sample; ``IGNORED`` where there is no loss."""
    position_ids: IntArray
    """Positions from 0 in each segment."""
    segment_ids: IntArray
    """Which sample a position belongs to, from 0; padding is a segment of its own, the last."""
    sample_ids: tuple[str, ...]
    """Sample of each segment but the padding: ``stem:line``, and ``#k`` for piece k of a split one."""
    slices: tuple[str, ...]
    """Slice of each segment but the padding."""
    tokens: int
    """Positions that hold samples, the first ones; the other ``T - tokens`` are padding."""

    @property
    def loss_tokens(self) -> int:
        """Positions that carry loss; every row has at least one."""
        return int((self.labels != IGNORED).sum())


@dataclass(frozen=True, slots=True)
class Counts:
    """What was read and what became of it."""

    train_samples: int
    evaluation_samples: int
    truncated: int
    """Samples, of both parts, that were cut to the sequence length."""
    split: int
    """Samples, of both parts, that were cut into several pieces."""
    without_loss: int
    """Pieces of truncated or split samples that were left out, because no token in them carries loss."""
    tokens: int
    """In training rows, padding left out."""
    loss_tokens: int
    """In training rows."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedData:
    """Rows for training and evaluation, and the digest that stands for all of them."""

    train: tuple[Row, ...]
    evaluation: tuple[Row, ...]
    digest: str
    """SHA-256 over files, settings, seed, tokenizer and every row in order."""
    counts: Counts


def batch_length(rows: Sequence[Row], padding: Padding) -> int:
    """Positions of a micro-batch's rows: all T of them, or those that its longest row uses.

    Raises:
        ValueError: if there are no rows.
    """
    if not rows:
        raise ValueError("a batch needs at least one row")
    return len(rows[0].input_ids) if padding == "full" else max(row.tokens for row in rows)


def collate(rows: Sequence[Row], padding: Padding = "full") -> dict[str, torch.Tensor]:
    """A batch: ``input_ids``, ``labels``, ``position_ids``, ``segment_ids``, each int64 of shape [B, L].

    L is ``batch_length(rows, padding)``. What is cut off is padding: no position in it carries loss, and none that
    stays may look at it.

    Raises:
        ValueError: if there are no rows.
    """
    length = batch_length(rows, padding)
    return {
        name: torch.from_numpy(np.stack([getattr(row, name)[:length] for row in rows])) for name in _FIELDS
    }
