"""Programs: what was compiled and why, what one execution costs, how much ran under the track's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

from twintrack.events import AnyEvent, CompileDone, Coverage, Event, ProgramCost, StepDone
from twintrack.pilot.summary_figures import Ledger, of_kind
from twintrack.pilot.summary_parts import (
    CompileReason,
    CompileSummary,
    CoverageSummary,
    OperatorCost,
    ProgramCoverage,
    ProgramSummary,
    RunName,
)
from twintrack.pilot.summary_records import RunSummary
from twintrack.quantity import Provenance, Quantity

__all__ = ["compile_reasons", "compiles", "coverage", "programs", "recompile_churn"]

_DURING: tuple[Literal["warmup", "first_use", "later"], ...] = ("warmup", "first_use", "later")
_BOUND = (
    "program bound: the larger of all FLOPs over peak, and the bytes of the program's own inputs and outputs "
    "over memory bandwidth; a limit, never a prediction"
)
_UNFUSED = (
    "unfused estimate: the larger of FLOPs over peak and bytes over memory bandwidth per operator, added up; "
    "never a prediction"
)
E = TypeVar("E", bound=Event)


def compiles(events: Sequence[AnyEvent], run: RunName, ledger: Ledger) -> tuple[CompileSummary, ...]:
    """Every program made ready, in order."""
    return tuple(
        CompileSummary(
            run=run,
            leg=event.leg,
            program=event.program,
            key=event.key,
            warm=event.warm,
            during=event.during,
            reason=event.reason,
            capture_seconds=ledger.measured(
                event.capture_seconds,
                "s",
                "CompileDone",
                "measured when the cache entry was made" if event.warm else "captured now",
            ),
            load_seconds=ledger.measured(event.load_seconds, "s", "CompileDone"),
            operators=ledger.measured(event.operators, "", "CompileDone"),
            step=step,
        )
        for event, step in _before_step(events)
    )


def _before_step(events: Sequence[AnyEvent]) -> list[tuple[CompileDone, int | None]]:
    """Every program with the step that its process did next."""
    found: list[tuple[CompileDone, int | None]] = []
    following: dict[int, int] = {}
    for event in reversed(events):
        if isinstance(event, StepDone):
            following[event.leg] = event.step
        elif isinstance(event, CompileDone):
            found.append((event, following.get(event.leg)))
    return found[::-1]


def recompile_churn(run: RunSummary) -> Quantity:
    """Share of a run's steps, from 0 to 1, for which another program had to be made after the first step.

    Unknown where a log from elsewhere does not say, or there is no step.
    """
    if not run.told_here or not run.steps_done.value:
        return Quantity.unknown("", f"no CompileDone in {run.source}")
    steps = {one.step for one in run.compiles if one.during == "later"} - {None}
    formula = f"steps before which a later CompileDone stands, over steps done, from {run.source}"
    return Quantity.derived(len(steps) / float(run.steps_done.value), "", formula, [run.steps_done])


def compile_reasons(found: Sequence[CompileSummary], ledger: Ledger) -> tuple[CompileReason, ...]:
    """Compilations by reason: in warm-up, at a later first use, recompiles; captured before loaded."""
    groups: dict[tuple[int, bool, str], list[CompileSummary]] = {}
    for one in found:
        groups.setdefault((_DURING.index(one.during), one.warm, one.reason), []).append(one)
    reasons = []
    for (during, warm, reason), members in sorted(groups.items(), key=lambda item: item[0]):
        capture = 0.0 if warm else sum(one.capture_seconds.require() for one in members)
        load = sum(one.load_seconds.require() for one in members)
        formula = "sum of CompileDone.load_seconds" + ("" if warm else " and capture_seconds")
        reasons.append(
            CompileReason(
                during=_DURING[during],
                warm=warm,
                reason=reason,
                programs=tuple(sorted({one.program for one in members})),
                count=ledger.derived(len(members), "", "number of CompileDone"),
                seconds=ledger.derived(capture + load, "s", formula),
            )
        )
    return tuple(reasons)


def _distinct(events: Sequence[E]) -> list[E]:
    """Each process tells of its programs again; equal accounts are one."""
    seen: dict[str, E] = {}
    for event in events:
        seen.setdefault(event.model_dump_json(exclude={"time", "leg"}), event)
    return list(seen.values())


def programs(events: Sequence[AnyEvent], ledger: Ledger) -> tuple[ProgramSummary, ...]:
    """Cost of each program, most FLOPs first; a program compiled for two shapes stands here twice."""
    found = [_program(event, ledger) for event in _distinct(of_kind(events, ProgramCost))]
    return tuple(sorted(found, key=lambda one: (-one.flops.require(), one.program)))


def _program(event: ProgramCost, ledger: Ledger) -> ProgramSummary:
    def counted(value: int, unit: str) -> Quantity:
        what = "ProgramCost, counted from the operators and shapes of the captured program"
        return ledger.derived(value, unit, what, "one execution")

    flops = event.by_operator
    names = sorted(event.counts.keys() | flops.keys(), key=lambda name: (-flops.get(name, 0), name))
    return ProgramSummary(
        program=event.program,
        flops=counted(event.flops, "FLOP"),
        matmul_flops=counted(event.matmul_flops, "FLOP"),
        operator_bytes=counted(event.operator_bytes, "byte"),
        boundary_bytes=counted(event.boundary_bytes, "byte"),
        bound=Quantity(
            event.bound_seconds,
            "s",
            Provenance.BOUND,
            f"{ledger.path}: ProgramCost, {_BOUND}",
            conditions=event.conditions,
        ),
        unfused=Quantity(
            event.unfused_seconds,
            "s",
            Provenance.DERIVED,
            f"{ledger.path}: ProgramCost, {_UNFUSED}",
            rests_on=Provenance.PUBLISHED,
            conditions=event.conditions,
        ),
        operators=tuple(
            OperatorCost(
                name,
                counted(event.by_operator[name], "FLOP")
                if name in event.by_operator
                else ledger.unknown("FLOP", f"FLOPs of {name}"),
                counted(event.counts[name], "")
                if name in event.counts
                else ledger.unknown("", f"count of {name}"),
            )
            for name in names
        ),
    )


def coverage(events: Sequence[AnyEvent], ledger: Ledger) -> CoverageSummary | None:
    """Share of FLOPs and of operators under the rules, over one execution of each program."""
    found = _distinct(of_kind(events, Coverage))
    if not found:
        return None
    host: dict[str, int] = {}
    for event in found:
        for name, count in event.host_operators.items():
            host[name] = host.get(name, 0) + count
    return CoverageSummary(
        flops_share=_share(found, "flops", ledger),
        operators_share=_share(found, "operators", ledger),
        complete=not host
        and all(e.flops_under_rules == e.flops and e.operators_under_rules == e.operators for e in found),
        programs=tuple(
            ProgramCoverage(e.program, _share([e], "flops", ledger), _share([e], "operators", ledger))
            for e in found
        ),
        host_operators=tuple(
            (name, ledger.derived(count, "", "Coverage.host_operators, one execution of each program"))
            for name, count in sorted(host.items())
        ),
    )


def _share(events: Sequence[Coverage], what: str, ledger: Ledger) -> Quantity:
    total: int = sum(getattr(event, what) for event in events)
    under: int = sum(getattr(event, f"{what}_under_rules") for event in events)
    if total == 0:
        return Quantity.unknown("%", f"the programs have no {what}")
    return ledger.derived(100 * under / total, "%", f"100 × {what}_under_rules / {what} of Coverage")
