"""Threads of which exactly one runs at a time, always in the same order.

The one that runs holds the baton. It passes it on when it must wait for another and when it ends; the next in turn
that can go on takes it. So a run is deterministic, what the threads share needs no locks, and a deadlock is seen the
moment that nobody can go on.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twintrack.errors import KernelError

__all__ = ["Baton", "Stopped"]


_SECONDS = 0.25
"""After which the caller's thread, while it waits, looks for signals."""


class Stopped(BaseException):
    """Ends a thread because another one failed."""


@dataclass(frozen=True, slots=True)
class _Wait:
    ready: Callable[[], bool]
    what: Callable[[], str]
    where: str
    soft: bool


class Baton:
    """Runs a function once per number, taking turns.

    Args:
        count: how many.
        named: a number's name in messages.
        stop: is called when one failed, so that others that still run end soon.
    """

    def __init__(self, count: int, named: Callable[[int], str], stop: Callable[[], None]) -> None:
        self._count = count
        self._named = named
        self._stop = stop
        self._turns = [threading.Event() for _ in range(count)]
        self._waiting: dict[int, _Wait] = {}
        self._done: set[int] = set()
        self._failed: BaseException | None = None
        self._turns[0].set()

    def run(self, body: Callable[[int], Any]) -> list[Any]:
        """What each number's call returned; number 0 runs in the caller's thread.

        Raises:
            KernelError: if all that are left wait for each other.
            BaseException: what the first call that failed raised, with its traceback.
        """
        results: list[Any] = [None] * self._count

        def lane(number: int) -> None:
            try:
                self._take(number)
                results[number] = body(number)
            except Stopped:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                self._fail(error)
            finally:
                self._done.add(number)
                self._pass(number)

        threads = [
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(lane, number),
                name=self._named(number),
                daemon=True,
            )
            for number in range(1, self._count)
        ]
        for thread in threads:
            thread.start()
        lane(0)
        self._join(threads)
        if self._failed is not None:
            raise self._failed
        return results

    def _join(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            while thread.is_alive():
                try:
                    thread.join()
                except KeyboardInterrupt as error:
                    if isinstance(self._failed, KeyboardInterrupt):
                        raise  # asked twice: leave a thread that does not end behind
                    self._fail(error)

    def wait(
        self,
        number: int,
        ready: Callable[[], bool],
        what: Callable[[], str],
        where: str,
        *,
        soft: bool = False,
    ) -> bool:
        """Let others run until this holds.

        Args:
            number: who waits.
            ready: looked at whenever the baton is passed on.
            what: what it waits for, as a message names it.
            where: the author's line.
            soft: rather go on unready than let the run end in a deadlock.

        Returns:
            Whether it is ready; ``False`` only where ``soft``.

        Raises:
            Stopped: if another failed, or nobody can go on.
        """
        if ready():
            return True
        self._waiting[number] = _Wait(ready, what, where, soft)
        self._pass(number)
        self._take(number)
        del self._waiting[number]
        return ready()

    def _take(self, number: int) -> None:
        turn = self._turns[number]
        # the caller's thread gets the signals; one that comes just before its wait does not end it
        while not turn.wait(_SECONDS if number == 0 else None):
            pass
        turn.clear()
        if self._failed is not None:
            raise Stopped

    def _pass(self, number: int) -> None:
        """Give the baton to the next that can go on; where none can, the run has failed."""
        if self._failed is not None:
            return
        order = [(number + step) % self._count for step in range(1, self._count + 1)]
        left = [other for other in order if other not in self._done]
        for other in left:
            waits = self._waiting.get(other)
            if waits is None or waits.ready():
                self._turns[other].set()
                return
        for other in left:
            if self._waiting[other].soft:
                self._turns[other].set()
                return
        if left:
            self._fail(self._deadlock())

    def _fail(self, error: BaseException) -> None:
        if self._failed is None or isinstance(error, KeyboardInterrupt):
            self._failed = error
        self._stop()
        for turn in self._turns:
            turn.set()

    def _deadlock(self) -> KernelError:
        waits = sorted(self._waiting.items())
        named = "; ".join(
            f"{self._named(number)} waits for {one.what()} at {one.where}" for number, one in waits
        )
        ended = ", ".join(self._named(number) for number in sorted(self._done))
        return KernelError(
            "cores that can go on",
            found=f"a deadlock: {named}{f'; ended: {ended}' if ended else ''}",
            where=waits[0][1].where,
            remedy="make every core reach the same barriers and exchanges, in the same order",
        )
