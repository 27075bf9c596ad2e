"""Stops made on purpose, by the process that they hit.

A worker kills itself with the signal that an operator or a failing machine would send, at a point that the job names,
so that a drill hits the same instruction each time. A stop is an event before it happens.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from twintrack.events import AnyEvent, Event, StopMade
from twintrack.job.records import Job, Stop
from twintrack.storage.faults import KillingFileSystem

__all__ = ["Drills", "pending_stop"]


def pending_stop(job: Job, events: list[AnyEvent]) -> Stop | None:
    """The first stop of the job that earlier processes of the run have not made."""
    made = sum(isinstance(event, StopMade) and event.stop != "signal" for event in events)
    return job.stops[made] if made < len(job.stops) else None


class Drills:
    """Makes at most one stop; also the loop's view of signals.

    Args:
        stop: to make; none in a reference run.
        emit: takes events.
        disk: below the checkpointer; it kills this process in the middle of a write once armed.
        write_bytes: bytes of a checkpoint after which to kill.
        settle: returns once no earlier checkpoint is being written, which the kill would hit instead.
        send: sends a signal to this process.
        orphaned: whether the process that started this one is gone.
    """

    def __init__(
        self,
        stop: Stop | None,
        emit: Callable[[Event], None],
        disk: KillingFileSystem,
        *,
        write_bytes: int,
        settle: Callable[[], None],
        send: Callable[[int], None] = lambda number: os.kill(os.getpid(), number),
        orphaned: Callable[[], bool] = lambda: False,
    ) -> None:
        self._stop = stop
        self._emit = emit
        self._disk = disk
        self._write_bytes = write_bytes
        self._settle = settle
        self._send = send
        self._orphaned = orphaned
        self._requested = False
        self.asked_by_drill = False
        """Whether the stop that was asked for is the job's own."""

    def request(self) -> None:
        """A signal asks the run to save and end."""
        self._requested = True

    def after_step(self, step: int) -> None:
        """Make a polite or hard stop that is due after this step."""
        stop = self._stop
        if stop is None or step < stop.step or stop.kind == "kill-in-write":
            return
        self._stop = None
        self.asked_by_drill = stop.kind == "polite"
        self._emit(StopMade(step=step, stop=stop.kind))
        self._send(signal.SIGTERM if stop.kind == "polite" else signal.SIGKILL)

    def before_save(self, step: int) -> None:
        """Arm the disk if the checkpoint about to be written is the one to be killed in."""
        stop = self._stop
        if stop is not None and stop.kind == "kill-in-write" and step >= stop.step:
            self._stop = None
            self._settle()
            self._emit(StopMade(step=step, stop=stop.kind))
            self._disk.arm(after_bytes=self._write_bytes)

    def stop_requested(self) -> bool:
        """Whether a signal came, or whoever watched over this process is gone."""
        return self._requested or self._orphaned()
