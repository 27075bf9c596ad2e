"""MLPerf training logs: lines with ``:::MLLOG`` and a JSON object (mlcommons/logging 7bbf7926, ``mllog.py``).

They count samples, not steps: a step is ``samples_count / global_batch_size`` where that is whole. ``time_ms`` is
milliseconds since 1970, UTC. Of the result only ``run_start`` to ``run_stop`` is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twintrack.events import Defect
from twintrack.pilot.imports.columns import Columns
from twintrack.pilot.imports.records import MOST_STEPS, Log, Row
from twintrack.pilot.imports.text import LogFile, json_value, lines_of, number, shown, told_value

__all__ = ["MARK", "read_mlperf"]

MARK = ":::MLLOG"
_LOSS_IS_THE_TARGET = ("llama2_70b_lora", "llama31_8b", "llama31_405b")
"""Benchmarks whose ``eval_accuracy`` is the mean loss of the evaluation."""
_TOLD = (
    "submission_benchmark",
    "submission_org",
    "submission_division",
    "submission_status",
    "submission_platform",
)
_STATISTICS = {
    "train_step_time": "seconds",
    "reduced_train_loss": "loss",
    "train_loss": "loss",
    "loss": "loss",
}


@dataclass(slots=True)
class _Reading:
    columns: Columns
    rows: list[Row] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    batch: float | None = None
    began: float | None = None
    seconds: float | None = None
    end: int | None = None

    def take(self, line: int, entry: Mapping[str, Any]) -> None:
        key, value, data = entry.get("key"), entry.get("value"), entry.get("metadata")
        metadata = data if isinstance(data, dict) else {}
        milliseconds = number(entry.get("time_ms"))
        time = None if milliseconds is None else milliseconds / 1000
        if key == "global_batch_size":
            self.batch = number(value)
        elif key in _TOLD and isinstance(value, str | int | float):
            self.environment[str(key)] = shown(str(value))
        elif key == "run_start":
            self.began = time
        elif key == "run_stop":
            self._stop(line, metadata, time)
        elif key == "train_loss":
            self._figures(line, metadata, time, {"loss": value})
        elif key == "tracked_stats" and isinstance(value, dict):
            told = {_STATISTICS[name]: one for name, one in value.items() if name in _STATISTICS}
            self._figures(line, metadata, time, told)
        elif key == "eval_accuracy":
            self._evaluation(line, metadata, time, value)

    def _evaluation(self, line: int, metadata: Mapping[str, Any], time: float | None, value: Any) -> None:
        if self.environment.get("submission_benchmark") in _LOSS_IS_THE_TARGET:
            self._figures(line, metadata, time, {"evaluation_loss": value})
        else:
            self.columns.row(line, {"eval_accuracy": value})

    def _stop(self, line: int, metadata: Mapping[str, Any], time: float | None) -> None:
        self.environment["run_stop"] = told_value(metadata.get("status"))
        if time is not None and self.began is not None and time >= self.began:
            self.seconds = time - self.began
        if metadata.get("status") == "success" and "samples_count" in metadata:
            self.end = self._step(line, metadata)

    def _figures(
        self, line: int, metadata: Mapping[str, Any], time: float | None, told: Mapping[str, Any]
    ) -> None:
        if not told:
            return
        step = self._step(line, metadata)
        row = None if step is None else self.columns.row(line, {**told, "time": time}, step)
        if row is not None:
            self.rows.append(row)

    def _step(self, line: int, metadata: Mapping[str, Any]) -> int | None:
        samples = number(metadata.get("samples_count"))
        if samples is not None and self.batch and 0 <= samples / self.batch <= MOST_STEPS:
            step = samples / self.batch
            if step == int(step):
                return int(step)
        told = told_value(metadata.get("samples_count"))
        text = f"no whole step: samples_count {told}, global_batch_size {self.batch}"
        self.columns.defects.append(Defect(line=line, step=None, what="unreadable", text=text))
        return None


def read_mlperf(file: LogFile, chosen: Mapping[str, str]) -> Log:
    """Read an MLPerf log; other lines of the file are passed over."""
    defects: list[Defect] = []
    reading = _Reading(Columns(chosen, defects))
    count = 0
    for line in lines_of(file.data, defects):
        count = line.number
        _, mark, text = line.text.partition(MARK)
        if not mark:
            continue
        try:
            entry = json_value(text)
        except ValueError as error:
            entry = str(error)
        if isinstance(entry, dict):
            reading.take(line.number, entry)
        else:
            told = f"no JSON object behind {MARK}: {told_value(entry)}"
            defects.append(Defect(line=line.number, step=None, what="unreadable", text=told))
    return Log(
        format="mlperf",
        lines=count,
        rows=tuple(reading.rows),
        defects=tuple(defects),
        end=reading.end,
        seconds=reading.seconds,
        environment=reading.environment,
    )
