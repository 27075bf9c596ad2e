"""Which kinds of log are read, and which of them a log is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice

from twintrack.errors import EventError
from twintrack.events import AnyEvent, Defect
from twintrack.pilot.imports.build import build_events
from twintrack.pilot.imports.console import CONSOLES, read_console
from twintrack.pilot.imports.metrics import looks_like_csv, read_metrics
from twintrack.pilot.imports.mlperf import MARK, read_mlperf
from twintrack.pilot.imports.native import looks_like_events, read_native
from twintrack.pilot.imports.records import Log, Target
from twintrack.pilot.imports.text import Line, LogFile, json_value, lines_of
from twintrack.pilot.imports.trainer import read_trainer

__all__ = ["FORMATS", "detect", "read_run"]

_Reader = Callable[[LogFile, Mapping[str, str]], Log]

_READERS: Mapping[str, _Reader] = {
    "trainer": read_trainer,
    "metrics": read_metrics,
    "mlperf": read_mlperf,
    **{name: partial(read_console, name=name) for name in CONSOLES},
}
FORMATS: Mapping[str, str] = {
    "events": "our own events.jsonl",
    "trainer": "trainer_state.json of the Hugging Face Trainer",
    "metrics": "CSV with column names, or one JSON object a line",
    "mlperf": "lines with :::MLLOG",
    "torchtune": "torchtune's log_*.txt: Step 1 | loss:...",
    "neuronx": "NeuronX Distributed's examples: LOG ... step_loss : ...",
    "megatron": "Megatron-LM: iteration 10/ 100 | lm loss: ...",
}
"""By name, what it is."""
_LINES_LOOKED_AT = 10_000


def read_run(file: LogFile, name: str, chosen: Mapping[str, str], target: Target) -> list[AnyEvent]:
    """The events of a run that a log tells of, the event of the import first.

    Args:
        file: the log.
        name: one of ``FORMATS``, or ``auto``.
        chosen: column of a field, as the user said.
        target: the run that it is to become.

    Raises:
        EventError: if it is none of them, or tells of no run.
    """
    name = detect(file, chosen) if name == "auto" else name
    if name == "events":
        return read_native(file, target)
    return build_events(_READERS[name](file, chosen), file, target)


def detect(file: LogFile, chosen: Mapping[str, str]) -> str:
    """The name of the format that a log has.

    Raises:
        EventError: if it has none of them.
    """
    if MARK.encode() in file.data:
        return "mlperf"
    ignored: list[Defect] = []
    lines = list(islice(lines_of(file.data, ignored), _LINES_LOOKED_AT))
    if lines and lines[0].text.lstrip().startswith("{"):
        found = _of_json(lines, file)
    else:
        found = next((name for name in CONSOLES if _printed_by(name, lines)), None)
        if found is None and lines and ("step" in chosen or looks_like_csv(lines[0].text)):
            found = "metrics"
    if found is None:
        raise EventError(
            "a log that twintrack knows",
            found="none of " + ", ".join(FORMATS),
            where=file.name,
            remedy="say which it is with --format, and which columns it has with --columns",
        )
    return found


def _of_json(lines: list[Line], file: LogFile) -> str | None:
    for line in lines[:2]:  # a first line may be damaged
        try:
            value = json_value(line.text)
        except ValueError:
            continue
        if looks_like_events(value):
            return "events"
        if isinstance(value, dict):
            return "trainer" if "log_history" in value else "metrics"
    return "trainer" if b'"log_history"' in file.data else None


def _printed_by(name: str, lines: list[Line]) -> bool:
    return any(CONSOLES[name].begins.search(line.text) for line in lines)
