"""``trainer_state.json`` of the Hugging Face Trainer, and of what is built on it (TRL, Accelerate examples).

``log_history`` holds a training entry every ``logging_steps`` steps, whose ``loss`` is the mean over the steps since
the entry before (transformers 5.24, ``Trainer._maybe_log_save_evaluate``); evaluations, by ``eval_loss``; and one entry
with ``train_loss`` and ``train_runtime`` where a session ended. It holds no times of day.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twintrack.errors import EventError
from twintrack.events import Defect
from twintrack.pilot.imports.columns import Columns
from twintrack.pilot.imports.records import MOST_STEPS, Log, Row
from twintrack.pilot.imports.text import LogFile, json_value, number

__all__ = ["read_trainer"]


def read_trainer(file: LogFile, chosen: Mapping[str, str]) -> Log:
    """Read a Trainer's state.

    Raises:
        EventError: if it is no JSON object with a ``log_history``.
    """
    try:
        state = json_value(file.data.decode("utf-8-sig"))
    except (ValueError, UnicodeDecodeError) as error:
        raise _none(file, str(error)) from None
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise _none(file, "no list of that name")
    columns = Columns(chosen)
    rows: list[Row] = []
    seconds: list[float] = []
    ends: list[int] = []
    for place, entry in enumerate(history, 1):
        if not isinstance(entry, dict):
            columns.defects.append(
                Defect(line=place, step=None, what="unreadable", text="the entry is no JSON object")
            )
            continue
        ended = "train_loss" in entry and "loss" not in entry
        if (
            ended
            and (took := number(entry.get("train_runtime"))) is not None
            and 0 <= took < MOST_STEPS * 1e3
        ):
            seconds.append(took)
        step = columns.row(place, {k: v for k, v in entry.items() if not (ended and k == "train_loss")})
        if step is None:
            continue
        ends += [step.step] if ended else []
        rows += [step] if step.figures else []
    return Log(
        format="trainer",
        lines=len(history),
        rows=tuple(rows),
        defects=tuple(columns.defects),
        averaged=True,
        interval=_interval(state),
        end=max(ends, default=None),
        seconds=sum(seconds) if seconds else None,
    )


def _interval(state: Mapping[str, Any]) -> int | None:
    """``logging_steps`` as a number of steps; older versions keep a share of the training there, or nothing."""
    told = number(state.get("logging_steps"))
    return int(told) if told is not None and 1 <= told <= MOST_STEPS and told == int(told) else None


def _none(file: LogFile, found: str) -> EventError:
    return EventError(
        "a JSON object with log_history, as the Trainer writes it",
        found=found,
        where=file.name,
        remedy="name trainer_state.json of the last checkpoint, or of trainer.save_state()",
    )
