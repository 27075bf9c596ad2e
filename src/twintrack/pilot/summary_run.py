"""The events of one run as a record."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from twintrack.events import (
    Answer,
    AnyEvent,
    DataPrepared,
    EvaluationDone,
    Imported,
    LegStarted,
    MemoryPeak,
    ModelLoaded,
    Resumed,
    RunDone,
    StepDone,
)
from twintrack.pilot.summary_checks import repeats
from twintrack.pilot.summary_figures import Ledger, of_kind, told_elsewhere
from twintrack.pilot.summary_legs import by_leg, checkpoints, legs, stops
from twintrack.pilot.summary_parts import (
    AnswerText,
    DataSummary,
    EvaluationSummary,
    ImportSummary,
    ModelSummary,
    RunEnd,
    RunName,
    SliceLoss,
)
from twintrack.pilot.summary_programs import compiles, coverage, programs
from twintrack.pilot.summary_records import RunSummary
from twintrack.pilot.summary_start import starts
from twintrack.quantity import Quantity

__all__ = ["last_steps", "slowdown", "stall", "summarise_run"]


def last_steps(events: Sequence[AnyEvent]) -> list[StepDone]:
    """Each step as the last leg that did it tells of it, in the order of the steps."""
    steps = {event.step: event for event in of_kind(events, StepDone)}
    return [steps[step] for step in sorted(steps)]


def _settled(events: Sequence[AnyEvent]) -> list[StepDone]:
    """Steps without the first of each leg, which pays for everything that happens once."""
    return [step for own in by_leg(events).values() for step in of_kind(own, StepDone)[1:]]


def summarise_run(track: str, run: RunName, path: str, events: Sequence[AnyEvent]) -> RunSummary:
    """One run, from its events in the order they were written (at least one).

    Args:
        track: name of the track.
        run: ``reference`` or ``interrupted``.
        path: of the events file, relative to the run folder; becomes the source of every figure.
        events: what the file holds.
    """
    ledger = Ledger.of(path, events)
    done = last_steps(events)
    at = [step.step for step in done]
    over = [step.averaged_steps for step in done]
    silent = told_elsewhere(events)  # what is not in such a log may have happened all the same
    found = legs(events, ledger)
    started = of_kind(events, LegStarted)
    end = of_kind(events, RunDone)
    return RunSummary(
        track=track,
        run=run,
        events=path,
        job_digests=tuple(dict.fromkeys(event.job_digest for event in started)),
        environment=tuple(sorted(started[-1].environment.items())) if started else (),
        data=_data(events, ledger),
        model=_model(events, ledger),
        legs=found,
        end=RunEnd(end[-1].step, end[-1].reason, end[-1].state_digest) if end else None,
        loss=ledger.curve(at, [step.loss for step in done], "", "StepDone.loss", over),
        gradient_norm=ledger.curve(at, [s.gradient_norm for s in done], "", "StepDone.gradient_norm"),
        learning_rate=ledger.curve(at, [s.learning_rate for s in done], "", "StepDone.learning_rate"),
        step_seconds=ledger.curve(at, [step.seconds for step in done], "s", "StepDone.seconds", over),
        sample_ids=tuple(tuple(step.sample_ids) for step in done),
        repeats=repeats(events, ledger),
        starts=starts(events, run, ledger),
        compiles=compiles(events, run, ledger),
        programs=programs(events, ledger),
        coverage=coverage(events, ledger),
        checkpoints=checkpoints(events, ledger),
        stops=stops(events, ledger),
        evaluations=_evaluations(events, ledger),
        answers=_answers(events),
        peak_memory=_peak(events, ledger),
        tokens_per_second=ledger.median(
            _rates(events),
            "token/s",
            "StepDone.tokens / StepDone.seconds, the first step of each leg left out,",
        ),
        steps_done=ledger.derived(len(done), "", "number of different steps in StepDone"),
        restarts=ledger.unknown("", "word of the processes")
        if silent and len(found) == 1
        else ledger.derived(len(found) - 1, "", "number of legs − 1"),
        failures=ledger.unknown("", "word of how the processes ended")
        if silent
        else ledger.derived(
            sum(leg.how in ("killed", "lost", "error") for leg in found),
            "",
            "number of legs that did not end in order",
        ),
        bytes_reread=ledger.unknown("byte", "Resumed")
        if silent
        else ledger.derived(
            sum(event.bytes_read for event in of_kind(events, Resumed)), "byte", "sum of Resumed.bytes_read"
        ),
        repeated_steps=ledger.derived(
            len(of_kind(events, StepDone)) - len(done), "", "number of StepDone − number of different steps"
        ),
        imported=_imported(events, ledger),
    )


def _rates(events: Sequence[AnyEvent]) -> list[float]:
    """Tokens per second of the settled steps that tell of both."""
    pairs = [(step.tokens, step.seconds) for step in _settled(events)]
    return [tokens / seconds for tokens, seconds in pairs if tokens is not None and seconds]


def _imported(events: Sequence[AnyEvent], ledger: Ledger) -> tuple[ImportSummary, ...]:
    return tuple(
        ImportSummary(
            file=one.file,
            sha256=one.sha256,
            format=one.format,
            lines=ledger.measured(one.lines, "", "Imported.lines"),
            training_seconds=ledger.maybe(one.seconds, "s", "Imported.seconds"),
            defects=tuple(one.defects),
        )
        for one in of_kind(events, Imported)
    )


def _data(events: Sequence[AnyEvent], ledger: Ledger) -> DataSummary | None:
    found = of_kind(events, DataPrepared)
    if not found:
        return None
    event = found[-1]

    def figure(value: int) -> Quantity:
        return ledger.measured(value, "", "DataPrepared")

    return DataSummary(
        digest=event.digest,
        train_samples=figure(event.train_samples),
        evaluation_samples=figure(event.evaluation_samples),
        train_rows=figure(event.train_rows),
        evaluation_rows=figure(event.evaluation_rows),
        truncated=figure(event.truncated),
        split=figure(event.split),
        tokens=figure(event.tokens),
        loss_tokens=figure(event.loss_tokens),
    )


def _model(events: Sequence[AnyEvent], ledger: Ledger) -> ModelSummary | None:
    found = of_kind(events, ModelLoaded)
    if not found:
        return None
    event = found[-1]
    return ModelSummary(
        source=event.source,
        weights_digest=event.weights_digest,
        note=event.note,
        parameters=ledger.measured(event.parameters, "", "ModelLoaded"),
        trainable_parameters=ledger.measured(event.trainable_parameters, "", "ModelLoaded"),
        adapted_modules=ledger.measured(event.adapted_modules, "", "ModelLoaded"),
    )


def _evaluations(events: Sequence[AnyEvent], ledger: Ledger) -> tuple[EvaluationSummary, ...]:
    last = {event.step: event for event in of_kind(events, EvaluationDone)}
    return tuple(_evaluation(last[step], ledger) for step in sorted(last))


def _evaluation(event: EvaluationDone, ledger: Ledger) -> EvaluationSummary:
    order = sorted(event.slices, key=lambda name: (-event.slices[name], name))
    at = f"step {event.step}"
    return EvaluationSummary(
        step=event.step,
        loss=ledger.measured(event.loss, "", "EvaluationDone.loss", at),
        seconds=ledger.maybe(event.seconds, "s", "EvaluationDone.seconds", at),
        slices=tuple(
            SliceLoss(
                name,
                ledger.measured(event.slices[name], "", "EvaluationDone.slices", at),
                ledger.measured(event.slice_tokens[name], "", "EvaluationDone.slice_tokens", at)
                if name in event.slice_tokens
                else ledger.unknown("", f"EvaluationDone.slice_tokens of {name}"),
            )
            for name in order
        ),
    )


def _answers(events: Sequence[AnyEvent]) -> tuple[AnswerText, ...]:
    last = {(event.step, event.prompt): event.text for event in of_kind(events, Answer)}
    return tuple(AnswerText(step, prompt, text) for (step, prompt), text in last.items())


def _peak(events: Sequence[AnyEvent], ledger: Ledger) -> Quantity:
    found = of_kind(events, MemoryPeak)
    if not found:
        return ledger.unknown("byte", "MemoryPeak")
    event = max(found, key=lambda one: one.bytes)
    return ledger.measured(event.bytes, "byte", "MemoryPeak, largest of the legs", event.source)


def stall(runs: Sequence[RunSummary]) -> Quantity:
    """Median time that a checkpoint held up training, over both runs of a track."""
    values = [c.stall for run in runs for c in run.checkpoints if c.stall.known]
    if not values:
        return Quantity.unknown("s", "no CheckpointSnapshot")
    formula = f"median of CheckpointSnapshot.stall_seconds over {len(values)}, from {_paths(runs)}"
    return Quantity.derived(statistics.median(value.require() for value in values), "s", formula, values)


def slowdown(runs: Sequence[RunSummary], events: Sequence[Sequence[AnyEvent]]) -> Quantity:
    """Median step while a checkpoint was being written over the median of the others, over both runs of a
    track.

    The first step of each leg is left out. Unknown if one of the two groups is empty, or the median of the
    others is 0.
    """
    steps = [step for own in events for step in _settled(own)]
    saving = [step.seconds for step in steps if step.saving and step.seconds is not None]
    others = [step.seconds for step in steps if not step.saving and step.seconds is not None]
    if not saving or not others or statistics.median(others) == 0:
        lacking = "was being written" if not saving else "was not being written"
        return Quantity.unknown("", f"no timed step while a checkpoint {lacking}")
    source = Ledger(_paths(runs))
    inputs = [source.measured(value, "s", "StepDone.seconds") for value in (*saving, *others)]
    formula = (
        f"median of {len(saving)} steps with saving over median of {len(others)} without, "
        f"the first of each leg left out, from {source.path}"
    )
    return Quantity.derived(statistics.median(saving) / statistics.median(others), "", formula, inputs)


def _paths(runs: Sequence[RunSummary]) -> str:
    return " and ".join(run.source for run in runs)
