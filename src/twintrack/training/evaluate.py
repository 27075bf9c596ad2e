"""Loss by slices, and greedy answers to fixed prompts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from twintrack.errors import DataError
from twintrack.events import Answer, EvaluationDone
from twintrack.job.records import Job
from twintrack.training.data import Row
from twintrack.training.data.rows import IGNORED
from twintrack.training.session import Progress, Session

__all__ = ["answer", "evaluate", "evaluation_batches", "full_batches", "prompt_ids"]


def evaluation_batches(session: Session) -> list[list[Row]]:
    """Evaluation rows in micro-batches."""
    return full_batches(session.data.evaluation, session.job.batch.micro)


def full_batches(rows: Sequence[Row], size: int) -> list[list[Row]]:
    """Rows in batches of one size, in order: the last is filled with a row whose labels carry no loss.

    That row counts as empty, so it makes no batch longer.
    """
    blank = replace(rows[0], labels=np.full_like(rows[0].labels, IGNORED), tokens=0)
    filled = [*rows, *[blank] * (-len(rows) % size)]
    return [filled[i : i + size] for i in range(0, len(filled), size)]


def evaluate(
    session: Session, progress: Progress, *, invocation: int, seconds: float = 0.0
) -> EvaluationDone:
    """Mean loss over the evaluation data, over all and by slice, weighted by loss tokens.

    Args:
        session: of the process.
        progress: whose weights.
        invocation: number of the first program call; one more per batch.
        seconds: filled in by the caller, who has the clock.
    """
    losses: dict[str, float] = defaultdict(float)
    tokens: dict[str, int] = defaultdict(int)
    for index, rows in enumerate(evaluation_batches(session)):
        batch = session.batch(rows)
        table = session.programs.evaluate(
            progress.weights, session.frozen, batch, invocation=invocation + index
        )
        for row, found in zip(rows, table.double().cpu().numpy(), strict=True):
            segments, labels = row.segment_ids[: len(found)], row.labels[: len(found)]
            for segment, name in enumerate(row.slices):
                here = (segments == segment) & (labels != IGNORED)
                losses[name] += float(found[here].sum())
                tokens[name] += int(here.sum())
    named = sorted(name for name, count in tokens.items() if count)
    total = sum(tokens.values())
    return EvaluationDone(
        step=progress.step,
        loss=sum(losses[name] for name in named) / total,
        slices={name: losses[name] / tokens[name] for name in named},
        slice_tokens={name: tokens[name] for name in named},
        seconds=seconds,
    )


def answer(session: Session, progress: Progress, *, invocation: int) -> list[Answer]:
    """Greedy answers to the job's prompts, all in one batch of fixed length, so that one program serves every token.

    Raises:
        DataError: if a prompt and its answer do not fit the sequence length.
    """
    settings, tokenizer = session.job.evaluation, session.loaded.tokenizer
    if not settings.prompts:
        return []
    started = [prompt_ids(session.job, tokenizer, prompt) for prompt in settings.prompts]
    length = max(map(len, started)) + settings.answer_tokens
    ids, stop = [list(prompt) for prompt in started], tokenizer.eos_token_id
    open_rows = set(range(len(ids)))
    for token in range(settings.answer_tokens):
        batch, last = _pad(session, ids, length)
        found = session.programs.next_tokens(
            progress.weights, session.frozen, batch, last, invocation=invocation + token
        ).tolist()
        for row in sorted(open_rows):
            if found[row] == stop:
                open_rows.discard(row)
            else:
                ids[row].append(found[row])
        if not open_rows:
            break
    return [
        Answer(
            step=progress.step,
            prompt=prompt,
            text=tokenizer.decode(row[len(start) :], skip_special_tokens=True).strip(),
        )
        for prompt, start, row in zip(settings.prompts, started, ids, strict=True)
    ]


def prompt_ids(job: Job, tokenizer: Any, prompt: str) -> list[int]:
    """Tokens of a prompt by the job's template.

    Raises:
        DataError: if the prompt and its answer do not fit the sequence length.
    """
    if job.data.template == "chat":
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
        )
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    elif job.data.template == "prompt":
        ids = tokenizer(job.data.prompt_format.replace("{prompt}", prompt))["input_ids"]
    else:
        ids = tokenizer(prompt)["input_ids"]
    if len(ids) + job.evaluation.answer_tokens > job.data.sequence_length:
        raise DataError(
            f"prompts that leave room for {job.evaluation.answer_tokens} answer tokens in {job.data.sequence_length}",
            found=f"{len(ids)} tokens for {prompt[:40]!r}",
            where="evaluation.prompts",
            remedy="shorten the prompt, or set answer_tokens lower",
        )
    return list(ids)


def _pad(session: Session, ids: list[list[int]], length: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Rows padded on the right; padding is a later segment of its own, which no real token can see."""
    shape = (len(ids), length)
    input_ids = torch.zeros(shape, dtype=torch.int64)
    segments = torch.ones(shape, dtype=torch.int64)
    for index, row in enumerate(ids):
        input_ids[index, : len(row)] = torch.tensor(row)
        segments[index, : len(row)] = 0
    positions = torch.arange(length).expand(shape).contiguous()
    batch = {"input_ids": input_ids, "position_ids": positions, "segment_ids": segments}
    last = torch.tensor([len(row) - 1 for row in ids])
    device = session.track.device
    return {name: tensor.to(device) for name, tensor in batch.items()}, last.to(device)
