"""Lines that training programs print: torchtune, NeuronX Distributed's examples, Megatron-LM.

Each is told by how a line begins. Any other line of the file is somebody else's and is passed over; one that begins as
a step's line and does not go on as one is a defect. Shapes as of torchtune bd2a0fc7 (``DiskLogger``),
neuronx-distributed fbac349b (``examples/training/llama/*/logger.py``), Megatron-LM d98e8a64 (its
``training_log``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from twintrack.events import Defect
from twintrack.pilot.imports.columns import Columns
from twintrack.pilot.imports.records import MOST_STEPS, Log, Row
from twintrack.pilot.imports.text import Line, LogFile, lines_of

__all__ = ["CONSOLES", "Console", "read_console"]

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ASCTIME = re.compile(r"\w{3} (\w{3}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})", re.ASCII)
_TENSOR = re.compile(r"tensor\(([^,()\s]{1,40})[^()]{0,80}\)")


@dataclass(frozen=True, slots=True)
class Console:
    """How one program prints its steps."""

    begins: re.Pattern[str]
    """Finds the beginning of a step's line; further text of any kind may stand before it."""
    read: Callable[[str], tuple[int, Mapping[str, Any]] | None]
    """Step and values of a line, the time under ``time``; ``None`` if it does not go on as a step's line."""
    averaged: bool = False


def _torchtune(text: str) -> tuple[int, Mapping[str, Any]] | None:
    match = re.match(r"Step (\d{1,18}) \| (.*)", text, re.ASCII)
    if match is None:
        return None
    pairs = re.findall(r"([^\s:]{1,80}):(\S{1,60})", _TENSOR.sub(r"\1", match[2]))
    return (int(match[1]), dict(pairs)) if pairs else None


def _neuronx(text: str) -> tuple[int, Mapping[str, Any]] | None:
    match = re.match(
        r"LOG (.{1,40}?) - \((\d{1,18}), (\d{1,18})\) step_loss : (\S+) learning_rate : (\S+) "
        r"throughput : (\S+) seq/s(?: grad-norm : (\S+))?",
        text,
        re.ASCII,
    )
    if match is None:
        return None
    when = _ASCTIME.fullmatch(match[1])
    values = {"loss": match[4], "learning_rate": match[5], "throughput": match[6], "grad_norm": match[7]}
    return int(match[3]), values | {"time": match[1] if when is None else _asctime(when)}


def _asctime(found: re.Match[str]) -> float | str:
    """``Tue Oct 10 12:00:00 2023`` as seconds; the zone is not told, so that only differences mean something."""
    month, day, hour, minute, second, year = found.groups()
    try:
        at = (int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second))
        return datetime(*at, tzinfo=UTC).timestamp()
    except ValueError:
        return found[0]


def _megatron(text: str) -> tuple[int, Mapping[str, Any]] | None:
    evaluation = re.match(r"validation loss at iteration (\d{1,18})[^|]{0,80}\|(.*)", text, re.ASCII)
    if evaluation is not None:
        told = _piped(evaluation[2])
        return int(evaluation[1]), {"evaluation_loss": told.get("lm loss value")}
    match = re.match(
        r"(?:\[([^\]]{1,40})\] )?iteration\s{1,20}(\d{1,18})/\s{0,20}\d{1,18} \|(.*)", text, re.ASCII
    )
    if match is None:
        return None
    told = _piped(match[3])
    if told.get("number of nan iterations", "0") != "0" and "lm loss" not in told:
        told["lm loss"] = "nan"  # it leaves a loss out that is no number, and only counts it
    return int(match[2]), told | {"time": match[1]}


def _piped(text: str) -> dict[str, str]:
    """``name: value | name: value |``."""
    parts = (part.partition(":") for part in text.split("|")[:64])
    return {name.strip(): value.strip() for name, colon, value in parts if colon}


CONSOLES: Mapping[str, Console] = {
    "torchtune": Console(re.compile(r"^()(?=Step \d+ \|)", re.ASCII), _torchtune),
    "neuronx": Console(
        re.compile(r"(?:^|\s)()(?=LOG .{1,40}? - \(\d+, \d+\) step_loss)", re.ASCII), _neuronx
    ),
    "megatron": Console(
        re.compile(
            r"(?:^|\s)()(?=(?:\[[^\]]{1,40}\] )?iteration\s+\d+/ *\d+ \||validation loss at iteration \d+)",
            re.ASCII,
        ),
        _megatron,
        averaged=True,
    ),
}
"""By the name of the format."""


def read_console(file: LogFile, chosen: Mapping[str, str], name: str) -> Log:
    """Read the steps that a program printed.

    Args:
        file: the log.
        chosen: column of a field, as the user said.
        name: one of ``CONSOLES``.
    """
    console = CONSOLES[name]
    defects: list[Defect] = []
    columns = Columns(chosen, defects)
    rows: list[Row] = []
    count = 0
    for line in lines_of(file.data, defects):
        count = line.number
        begin = console.begins.search(line.text)
        if begin is not None:
            rows += _row(line, line.text[begin.end() :], console, columns)
    return Log(format=name, lines=count, rows=tuple(rows), defects=tuple(defects), averaged=console.averaged)


def _row(line: Line, text: str, console: Console, columns: Columns) -> list[Row]:
    told = console.read(text)
    if told is None or told[0] > MOST_STEPS:
        text = "it begins as the line of a step and does not go on as one"
        columns.defects.append(Defect(line=line.number, step=None, what="unreadable", text=text))
        return []
    row = columns.row(line.number, told[1], told[0])
    return [] if row is None else [row]
