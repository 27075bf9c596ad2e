"""Which figure a column, key or field of a log holds, by the names that trainers give it or by the user's word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twintrack.errors import EventError, nearest
from twintrack.events import Defect
from twintrack.pilot.imports.records import EVALUATION, MOST_STEPS, TRAINING, Row
from twintrack.pilot.imports.text import moment, number, shown, told_value

__all__ = ["FIELDS", "Columns", "parse_columns"]

FIELDS = ("step", "time", "sample_ids", *TRAINING, *EVALUATION)
"""What a column can be."""

_NAMES: Mapping[str, tuple[str, ...]] = {
    "step": ("global_step", "_step", "iteration", "iter", "train/global_step", "trainer/global_step"),
    "time": ("timestamp", "_timestamp", "wall_time", "datetime"),
    "sample_ids": (),
    "loss": (
        "train_loss",
        "train/loss",
        "training_loss",
        "loss/train",
        "reduced_train_loss",
        "lm_loss",
        "step_loss",
    ),
    "learning_rate": ("lr", "train/learning_rate", "train/lr"),
    "gradient_norm": ("grad_norm", "train/grad_norm", "train/gradient_norm", "global_norm"),
    "seconds": (
        "step_time",
        "step_seconds",
        "step_time_s",
        "train_step_time",
        "train_step_timing_in_s",
        "iter_time",
    ),
    "tokens": ("step_tokens",),
    "loss_tokens": (),
    "peak_memory_bytes": (),
    "evaluation_loss": (
        "eval_loss",
        "eval/loss",
        "val_loss",
        "validation_loss",
        "val/loss",
        "loss/val",
        "test_loss",
    ),
    "evaluation_seconds": ("eval_runtime", "eval/runtime", "eval_seconds"),
}
_SCALED = {
    "step_time_ms": ("seconds", 1e-3),
    "elapsed_time_per_iteration_(ms)": ("seconds", 1e-3),
    "peak_memory_reserved": ("peak_memory_bytes", float(1 << 30)),  # torchtune writes GiB
}
_BY_NAME = {name: (figure, 1.0) for figure, names in _NAMES.items() for name in (figure, *names)} | _SCALED

_WITHOUT_A_PLACE = frozenset(
    {
        "epoch",
        "train/epoch",
        "samples_per_second",
        "steps_per_second",
        "train_runtime",
        "train_samples_per_second",
        "train_steps_per_second",
        "train_tokens_per_second",
        "total_flos",
        "num_input_tokens_seen",
        "eval_samples_per_second",
        "eval_steps_per_second",
        "eval/samples_per_second",
        "eval/steps_per_second",
        "tokens_per_second_per_gpu",
        "tokens_per_second",
        "throughput",
        "throughput_peak",
        "peak_memory_active",
        "peak_memory_alloc",
        "consumed_samples",
        "samples_count",
        "global_batch_size",
        "loss_scale",
        "parameter_norm",
        "num_tokens",
        "entropy",
        "mean_token_accuracy",
        "v_num",
        "_runtime",
        "throughput_per_gpu_(tflop/s/gpu)",
        "number_of_skipped_iterations",
        "number_of_nan_iterations",
    }
)
"""Well-known names whose figures follow from others, or of which the log does not say what they count."""


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


@dataclass(slots=True)
class Columns:
    """Reads rows out of named values.

    Args:
        chosen: column of a field, as the user said; goes before what the names say.
    """

    chosen: Mapping[str, str] = field(default_factory=dict)
    defects: list[Defect] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)

    def figure_of(self, name: str) -> tuple[str, float] | None:
        """Field and factor of a column; ``None`` if it has no place here."""
        for figure, column in self.chosen.items():
            if name.strip() == column:
                return figure, 1.0
        known = _BY_NAME.get(_plain(name))
        return None if known is None or known[0] in self.chosen else known

    def row(self, line: int, values: Mapping[str, Any], step: int | None = None) -> Row | None:
        """A row; what is wrong with it, and names without a place, are added to ``defects``.

        Args:
            line: of the log, from 1.
            values: by column; ``None`` and empty text say nothing.
            step: where no column holds it.
        """
        found: dict[str, Any] = {}
        for name, value in values.items():
            if value is None or (isinstance(value, str) and not value.strip()):
                continue
            known = self.figure_of(name)
            if known is None:
                self._unknown(line, name)
            else:
                found.setdefault(known[0], (name, value, known[1]))
        told = self._step(line, found) if step is None else step
        figures = {}
        for figure in (*TRAINING, *EVALUATION):
            if figure in found:
                name, value, factor = found[figure]
                read = number(value)
                if read is None:
                    self._wrong(line, told, f"{shown(name)} is {told_value(value)}, and no number")
                else:
                    figures[figure] = read * factor
        if told is None:
            if figures:
                self._wrong(line, None, "the line has figures and no step")
            return None
        return Row(line, told, figures, self._time(line, told, found), self._samples(line, told, found))

    def _step(self, line: int, found: Mapping[str, Any]) -> int | None:
        if "step" not in found:
            return None
        name, value, _ = found["step"]
        read = number(value)
        if read is None or not 0 <= read <= MOST_STEPS or read != int(read):
            self._wrong(
                line, None, f"{shown(name)} is {told_value(value)}, and no step from 0 to {MOST_STEPS}"
            )
            return None
        return int(read)

    def _time(self, line: int, step: int, found: Mapping[str, Any]) -> float | None:
        if "time" not in found:
            return None
        name, value, _ = found["time"]
        told = moment(value)
        if told is None:
            self._wrong(line, step, f"{shown(name)} is {told_value(value)}: no seconds and no ISO 8601 time")
        return told

    def _samples(self, line: int, step: int, found: Mapping[str, Any]) -> tuple[str, ...]:
        if "sample_ids" not in found:
            return ()
        _, value, _ = found["sample_ids"]
        if isinstance(value, list) and all(isinstance(one, str | int) for one in value):
            return tuple(str(one) for one in value)
        self._wrong(line, step, "sample_ids is no list of names")
        return ()

    def _unknown(self, line: int, name: str) -> None:
        if name in self._told or _plain(name) in _WITHOUT_A_PLACE:
            return
        self._told.add(name)
        text = f"{shown(name)} has no place here"
        self.defects.append(Defect(line=line, step=None, what="unknown_field", text=text))

    def _wrong(self, line: int, step: int | None, text: str) -> None:
        self.defects.append(Defect(line=line, step=step, what="unreadable", text=text))


def parse_columns(words: Iterable[str]) -> dict[str, str]:
    """``loss=train/loss,step=n`` as column by field.

    Raises:
        EventError: if a word is not ``FIELD=COLUMN``, or a field is unknown or named twice.
    """
    chosen: dict[str, str] = {}
    for word in (part for words_ in words for part in words_.split(",")):
        name, sign, column = (part.strip() for part in word.partition("="))
        if not sign or not column or name not in FIELDS or name in chosen:
            hint = nearest(name, FIELDS) or f"the fields are {', '.join(FIELDS)}"
            raise EventError(
                "FIELD=COLUMN, each field once", found=repr(shown(word)), where="--columns", remedy=hint
            )
        chosen[name] = column
    return chosen
