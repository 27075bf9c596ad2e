"""The way from the job's data record to rows, and the digest that stands for data, split and order."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twintrack.errors import DataError
from twintrack.job.digest import data_values
from twintrack.job.records import Data
from twintrack.storage import canonical_json, digest_file, digest_json
from twintrack.training.data.encode import Encoded, Encoder
from twintrack.training.data.pack import Fitted, fill_rows, fit
from twintrack.training.data.read import read_samples, samples_of
from twintrack.training.data.rows import Counts, PreparedData, Row
from twintrack.training.sampler import Stream, permutation

__all__ = ["prepare", "tokenizer_digest"]


def prepare(data: Data, base: Path, tokenizer: Any, *, seed: int, pad_id: int) -> PreparedData:
    """Read, split, tokenise, mask and pack.

    Args:
        data: the job's data record.
        base: folder of the job file; data files are relative to it.
        tokenizer: a fast tokenizer of ``transformers``.
        seed: the job's seed; it decides which samples are held out and which are packed together.
        pad_id: token that fills rows; it never carries loss.

    Raises:
        DataError: naming file and line where there is one, for anything that is wrong with the data.
        StorageError: if a file cannot be read.
    """
    _check_files(data)
    encoder = Encoder(data, tokenizer)
    samples = _encode(data.files, data, base, encoder)
    if data.evaluation_files:
        train, evaluation = samples, _encode(data.evaluation_files, data, base, encoder)
    else:
        train, evaluation = _hold_out(samples, data.evaluation_fraction, seed)
    order = permutation(len(train), Stream.PACKING, seed).tolist()
    fitted = _fit([train[i] for i in order], "training", data), _fit(evaluation, "evaluation", data)
    rows, held = (
        fill_rows(part.pieces, data.sequence_length, pad_id, packing=data.packing) for part in fitted
    )
    counts = Counts(
        train_samples=len(train),
        evaluation_samples=len(evaluation),
        truncated=sum(part.truncated for part in fitted),
        split=sum(part.split for part in fitted),
        without_loss=sum(part.without_loss for part in fitted),
        tokens=sum(row.tokens for row in rows),
        loss_tokens=sum(row.loss_tokens for row in rows),
    )
    identity = {
        "data": data_values(data),
        "files": [digest_file(base / name) for name in (*data.files, *data.evaluation_files)],
        "seed": seed,
        "tokenizer": tokenizer_digest(tokenizer),
        "train": _rows_digest(rows),
        "evaluation": _rows_digest(held),
    }
    return PreparedData(rows, held, digest_json(identity), counts)


def _fit(samples: Sequence[Encoded], name: str, data: Data) -> Fitted:
    fitted = fit(samples, data.sequence_length, data.too_long)
    if not fitted.pieces:
        raise DataError(
            f"{name} data with something to learn",
            found=f"all labels masked once {fitted.truncated} samples were truncated",
            where="data.too_long",
            remedy='raise sequence_length, or set too_long = "split"',
        )
    return fitted


def tokenizer_digest(tokenizer: Any) -> str:
    """SHA-256 of what decides a fast tokenizer's output: its own serialisation, template and end token."""
    identity = {
        "tokenizer": tokenizer.backend_tokenizer.to_str(),
        "template": tokenizer.chat_template,
        "end": tokenizer.eos_token_id,
    }
    return digest_json(identity)


def _check_files(data: Data) -> None:
    """A file named twice would repeat sample ids, or leak training samples into evaluation."""
    seen: set[str] = set()
    for name in (*data.files, *data.evaluation_files):
        path = str(Path(name))
        if path in seen:
            raise DataError(
                "each data file once",
                found=f"'{name}' twice",
                where="data.files",
                remedy="remove one of them",
            )
        seen.add(path)


def _encode(names: Sequence[str], data: Data, base: Path, encoder: Encoder) -> list[Encoded]:
    table = read_samples(names, base, template=data.template, slice_field=data.slice_field, limit=data.limit)
    return [encoder(sample) for sample in samples_of(table)]


def _hold_out(samples: Sequence[Encoded], fraction: float, seed: int) -> tuple[list[Encoded], list[Encoded]]:
    """Training and evaluation samples, both in file order; the share is rounded half up."""
    count = math.floor(len(samples) * fraction + 0.5)
    if not 0 < count < len(samples):
        raise DataError(
            "at least one sample to train on and one to evaluate",
            found=f"{len(samples)} samples, of which a share of {fraction} is {count}",
            where="data.evaluation_fraction",
            remedy="add samples, change the fraction, or name evaluation_files",
        )
    held = set(permutation(len(samples), Stream.SPLIT, seed)[:count].tolist())
    train = [sample for i, sample in enumerate(samples) if i not in held]
    return train, [sample for i, sample in enumerate(samples) if i in held]


def _rows_digest(rows: Iterable[Row]) -> str:
    state = hashlib.sha256()
    for row in rows:
        for array in (row.input_ids, row.labels, row.position_ids, row.segment_ids):
            state.update(np.ascontiguousarray(array, dtype="<i8").data)
        state.update(canonical_json([row.sample_ids, row.slices]).encode())
    return state.hexdigest()
