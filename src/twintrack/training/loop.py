"""The one loop. Every track runs it; it asks for nothing by a track's name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from twintrack.clock import Clock
from twintrack.errors import RunFailed
from twintrack.events import Event, MemoryPeak, Phase, StepDone
from twintrack.training.checkpoint import Checkpointer
from twintrack.training.data import Row
from twintrack.training.evaluate import answer, evaluate, evaluation_batches
from twintrack.training.sampler import Sampler
from twintrack.training.schedule import adamw_scalars, learning_rate
from twintrack.training.session import Progress, Reason, Session

__all__ = ["Hooks", "Outcome", "train"]


class Hooks(Protocol):
    """What may interfere with the loop: stops made on purpose, and signals."""

    def after_step(self, step: int) -> None:
        """A step is done and recorded; its checkpoint, if one is due, is not yet written. May never return."""
        ...

    def before_save(self, step: int) -> None:
        """A checkpoint is about to be written."""
        ...

    def stop_requested(self) -> bool:
        """Whether to save and end."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the loop ended."""

    reason: Reason | Literal["stopped"]
    progress: Progress


def train(
    session: Session,
    start: Progress,
    *,
    checkpointer: Checkpointer,
    emit: Callable[[Event], None],
    compiled: Callable[[], float],
    clock: Clock,
    hooks: Hooks,
) -> Outcome:
    """Train until a stop criterion is met or a stop is asked for.

    Args:
        session: model, data and programs.
        start: where to begin.
        checkpointer: of the run.
        emit: takes events.
        compiled: seconds spent compiling so far in this process.
        clock: for durations.
        hooks: stops and signals.

    Raises:
        RunFailed: if a loss or a gradient is not finite.
        StorageError: if the last checkpoint could not be written.
    """
    outcome = _Loop(session, checkpointer, emit, compiled, clock, hooks).run(start)
    peak, source = session.track.peak_memory()
    emit(MemoryPeak(bytes=peak, source=source))
    return outcome


class _Loop:
    def __init__(
        self,
        session: Session,
        checkpointer: Checkpointer,
        emit: Callable[[Event], None],
        compiled: Callable[[], float],
        clock: Clock,
        hooks: Hooks,
    ) -> None:
        self.session, self.checkpointer = session, checkpointer
        self.emit, self.compiled, self.clock, self.hooks = emit, compiled, clock, hooks
        job = session.job
        self._stride = (
            job.batch.accumulation + 1 + len(evaluation_batches(session)) + job.evaluation.answer_tokens
        )

    def run(self, start: Progress) -> Outcome:
        progress, job = start, self.session.job
        if start.finished is not None:
            return self._finish(start, start.finished)
        for step in range(start.step + 1, job.stop.steps + 1):
            before, progress = progress, self._step(progress, step, first=step == start.step + 1)
            self.hooks.after_step(step)
            if before.step == 0:  # after the first step, so that the time before it is the step's alone
                self._evaluate(before)
            del before  # else the state before a step would live through the next one
            below = self._below(progress) if self._evaluation_due(step) else False
            last = step == job.stop.steps
            if below or last:
                reason: Reason = "evaluation_loss" if below else "steps"
                progress = replace(progress, finished=reason)
                self._save(progress)
                return self._finish(progress, reason)
            if self.hooks.stop_requested():
                self._save(progress)
                self.checkpointer.finish()
                return Outcome("stopped", progress)
            if step % job.checkpoint.every_steps == 0:
                self._save(progress)
        raise AssertionError("the last step ends the loop")

    def _finish(self, progress: Progress, reason: Reason) -> Outcome:
        for event in answer(self.session, progress, invocation=self._invocation(progress.step, answers=True)):
            self.emit(event)
        self.checkpointer.finish()
        return Outcome(reason, progress)

    def _step(self, progress: Progress, step: int, *, first: bool) -> Progress:
        session, job, begin, spent = self.session, self.session.job, self.clock.monotonic(), self.compiled()
        saving = self.checkpointer.saving
        sampler = Sampler.from_state(progress.sampler)
        rows = [session.data.train[i] for i in sampler.next(job.batch.micro * job.batch.accumulation)]
        loss_tokens = sum(row.loss_tokens for row in rows)
        result = self._gradients(progress, step, rows, loss_tokens)
        rate = learning_rate(step, job.stop.steps, job.optimizer, job.schedule)
        scalars = {k: session.scalar(v) for k, v in adamw_scalars(step, rate, job.optimizer).items()}
        invocation = self._invocation(step) + job.batch.accumulation
        new = session.programs.update(progress.optimizer, result["gradients"], scalars, invocation=invocation)
        loss, norm = float(result["loss"]), float(new["norm"])
        self._require_finite(step, loss, norm)
        session.track.synchronize()
        seconds = self.clock.monotonic() - begin
        if first:
            self.emit(Phase(name="first_step", seconds=seconds - (self.compiled() - spent)))
            session.track.warmed_up()
        tokens = sum(row.tokens for row in rows)
        self.emit(
            StepDone(
                step=step,
                loss=loss,
                learning_rate=rate,
                gradient_norm=norm,
                tokens=tokens,
                loss_tokens=loss_tokens,
                seconds=seconds,
                sample_ids=[name for row in rows for name in row.sample_ids],
                saving=saving,
            )
        )
        return Progress(step, new["weights"], new["state"], dict(sampler.state), progress.tokens + tokens)

    def _gradients(self, progress: Progress, step: int, rows: list[Row], loss_tokens: int) -> dict[str, Any]:
        """Loss and gradients of the step, summed over its micro-batches."""
        session, size = self.session, self.session.job.batch.micro
        scale, first = session.scalar(1.0 / loss_tokens), self._invocation(step)
        total: dict[str, Any] = {}
        for index in range(0, len(rows), size):
            number = first + index // size
            found = session.programs.gradients(
                progress.weights,
                session.keyed(number),
                session.batch(rows[index : index + size]),
                scale,
                invocation=number,
            )
            total = session.programs.accumulate(total, found, invocation=number) if total else found
            del found  # else it would live through the next micro-batch
        return total

    def _invocation(self, step: int, *, answers: bool = False) -> int:
        """Number of the first program call of a step; answers come last in a step's range."""
        batches = self._stride - self.session.job.evaluation.answer_tokens
        return step * self._stride + (batches if answers else 0)

    def _require_finite(self, step: int, loss: float, norm: float) -> None:
        for name, value in (("loss", loss), ("gradient norm", norm)):
            if not math.isfinite(value):
                raise RunFailed(
                    f"a finite {name}",
                    found=str(value),
                    where=f"step {step}",
                    remedy="lower the learning rate, or look at the samples of this step in the events",
                )

    def _evaluation_due(self, step: int) -> bool:
        every = self.session.job.evaluation.every_steps
        return step == self.session.job.stop.steps or (every is not None and step % every == 0)

    def _evaluate(self, progress: Progress) -> float:
        begin = self.clock.monotonic()
        first = self._invocation(progress.step) + self.session.job.batch.accumulation + 1
        event = evaluate(self.session, progress, invocation=first)
        seconds = self.clock.monotonic() - begin
        self.emit(event.model_copy(update={"seconds": seconds}))
        return event.loss

    def _below(self, progress: Progress) -> bool:
        """Evaluate; whether the loss fell below the job's limit."""
        loss, limit = self._evaluate(progress), self.session.job.stop.evaluation_loss_below
        return limit is not None and loss < limit

    def _save(self, progress: Progress) -> None:
        self.hooks.before_save(progress.step)
        self.checkpointer.save(self.session.snapshot(progress))
