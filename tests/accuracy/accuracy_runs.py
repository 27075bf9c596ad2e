"""Trace the kernels of the accuracy table, time them, and compare with what was published."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from accuracy_rows import Row

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.timing.parameters import Parameters, parameter_records, parameters_of
from twintrack.neuroncore.timing.schedule import Timeline, schedule
from twintrack.neuroncore.timing.trace import ENGINES, Trace
from twintrack.nki.kernel import options_from_environment
from twintrack.nki.launch import launch

__all__ = ["Result", "Traced", "digest", "results", "timed", "times", "traced"]

MODEL = (
    "cost.py", "dma.py", "parameters.py", "pool.py", "ports.py", "regions.py", "rotation.py", "schedule.py",
    "tensor_engine.py", "trace.py", "traffic.py",
)  # fmt: skip
"""Files of ``twintrack.neuroncore.timing`` that decide times."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A row's instructions: what a model with other parameters is timed on without tracing again."""

    row: Row
    generation: Generation
    instructions: Sequence[Instruction]


@dataclass(frozen=True, slots=True)
class Result:
    """One published figure beside the model's; ``error`` is ``simulated / published - 1``."""

    name: str
    kind: str
    chip: str
    quantity: str
    published: float
    simulated: float
    error: float
    fitted: bool
    gated: bool
    note: str

    def as_entry(self) -> dict[str, Any]:
        """For the JSON file."""
        return asdict(self)


def traced(row: Row) -> Traced:
    """Issue a row's kernel, from shapes."""
    kept: list[Instruction] = []
    options = options_from_environment({}, chip=row.chip)

    def keep(core: int, instruction: Instruction) -> None:
        del core
        kept.append(instruction)

    launch(row.kernel, (), row.arguments, dict(row.keywords), replace(options, values=False, sink=keep))
    return Traced(row, options.generation, kept)


def timed(one: Traced, parameters: Parameters | None = None) -> Timeline:
    """Time a traced row; with the published parameters of its chip by default."""
    trace = Trace(parameters or parameters_of(one.row.chip))
    for instruction in one.instructions:
        trace.keep(0, instruction)
    return schedule(trace, one.generation)


def times(timeline: Timeline) -> dict[str, float]:
    """Every quantity that can be published, in us: total, and active time per engine and of DMA."""
    active = dict.fromkeys((*ENGINES, "dma"), 0.0)
    for step, span in zip(timeline.trace.steps, timeline.spans, strict=True):
        if step.engine >= 0:
            active[ENGINES[step.engine]] += span.end - span.start
    active["dma"] = sum(end - start for start, end in timeline.dma_active)
    return {"total, us": timeline.seconds * 1e6} | {
        f"{name} active, us": value * 1e-3 for name, value in active.items()
    }


def results(row: Row, simulated: Mapping[str, float]) -> tuple[Result, ...]:
    """A row's figures beside what was simulated, to seven digits."""
    found = []
    for figure in row.figures:
        value = float(f"{simulated[figure.quantity]:.7g}")
        published = float(f"{figure.published:.7g}")
        found.append(
            Result(
                row.name,
                row.kind,
                row.chip,
                figure.quantity,
                published,
                value,
                float(f"{value / published - 1:.5f}"),
                figure.fitted,
                figure.gated,
                figure.note,
            )
        )
    return tuple(found)


def digest() -> str:
    """Of everything that decides the table: parameters, the model's source, the rows and their kernels."""
    found = hashlib.sha256()
    for record in parameter_records():
        found.update(repr((record.name, sorted(record.values.items()))).encode())
    package = files("twintrack.neuroncore.timing")
    here = Path(__file__).resolve().parent
    for name in MODEL:
        found.update((package / name).read_bytes())
    for name in ("accuracy_rows.py", "kernels_matmul.py", "kernels_small.py"):
        found.update((here / name).read_bytes())
    return found.hexdigest()
