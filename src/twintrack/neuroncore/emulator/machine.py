"""Several cores that run one kernel: LNC2, or the ranks of a collective, in one process and always in the same order.

Each program runs in a thread of its own, but only the one that holds the baton runs; it passes the baton on when it
must wait for another, and when it ends. So a run is deterministic, needs no locks in the emulator, and a deadlock is
seen the moment nobody can go on: it is an error that names what each core waits for.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.storage import Storage

__all__ = ["Machine"]

_LNC = 2


class _Stopped(BaseException):
    """Ends a program's thread because another program failed."""


class Machine:
    """The cores of one launch.

    Args:
        make: a core for a program's number.
        grid: programs per axis; two in one axis run at once as LNC2, more than two one after the other.
        together: run all of them at once, as ranks of collectives do.
    """

    def __init__(self, make: Callable[[int], Core], grid: tuple[int, ...], *, together: bool = False) -> None:
        self.grid = grid
        count = 1
        for size in grid:
            count *= size
        self.concurrent = together or (grid == (_LNC,))
        self.programs = count if self.concurrent else 1
        """Programs that run at once."""
        self.cores: list[Core] = []
        self._make = make
        self._count = count
        self._shared: list[Storage] = []
        self._turn = threading.Condition()
        self._holder = 0
        self._waiting: dict[int, tuple[Callable[[], bool], str]] = {}
        self._done: set[int] = set()
        self._failed: BaseException | None = None
        self.mail: dict[Any, Any] = {}
        """What programs leave for each other: by a key of their own choosing."""

    def run(self, program: Callable[[Core], Any]) -> Any:
        """Run it once per core; what the first one returned.

        Raises:
            KernelError: of the first program that failed, or for a deadlock.
        """
        for number in range(self._count):
            core = self._make(number)
            core.machine = self
            self.cores.append(core)
        if not self.concurrent or self._count == 1:
            results = [program(core) for core in self.cores]
            return results[0]
        return self._together(program)

    def _together(self, program: Callable[[Core], Any]) -> Any:
        results: list[Any] = [None] * self._count

        def body(number: int) -> None:
            try:
                self._take(number)
                results[number] = program(self.cores[number])
            except _Stopped:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                with self._turn:
                    if self._failed is None:
                        self._failed = error
            finally:
                self._end(number)

        threads = [
            threading.Thread(
                target=contextvars.copy_context().run, args=(body, number), name=f"core {number}"
            )
            for number in range(self._count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failed is not None:
            raise self._failed
        return results[0]

    # the baton

    def _take(self, number: int) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._holder == number or self._failed is not None)
            if self._failed is not None:
                raise _Stopped

    def _end(self, number: int) -> None:
        with self._turn:
            self._done.add(number)
            self._waiting.pop(number, None)
            self._pass(number)

    def _pass(self, number: int) -> None:
        """Give the baton to the next program that can go on; nobody where none can."""
        for step in range(1, self._count + 1):
            other = (number + step) % self._count
            if other in self._done:
                continue
            waits = self._waiting.get(other)
            if waits is None or waits[0]():
                self._holder = other
                self._turn.notify_all()
                return
        if len(self._done) < self._count and self._failed is None:
            self._failed = self._deadlock()
        self._turn.notify_all()

    def wait(self, core: Core, ready: Callable[[], bool], what: str) -> None:
        """Let others run until this holds.

        Args:
            core: which waits.
            ready: looked at whenever the baton is passed on.
            what: as a message names it, with the author's line.

        Raises:
            KernelError: if no program can go on.
        """
        if ready():
            return
        number = core.program
        if not self.concurrent or self._count == 1:
            raise KernelError(
                "another core to wait for",
                found=f"one core, which waits for {what}",
                where=what.rsplit(" at ", 1)[-1],
                remedy="launch the kernel on two cores, kernel[2]",
            )
        with self._turn:
            self._waiting[number] = (ready, what)
            self._pass(number)
            self._turn.wait_for(lambda: self._holder == number or self._failed is not None)
            self._waiting.pop(number, None)
            if self._failed is not None:
                raise _Stopped

    def _deadlock(self) -> KernelError:
        named = "; ".join(
            f"core {number} waits for {what}" for number, (_, what) in sorted(self._waiting.items())
        )
        ended = f"; cores {sorted(self._done)} have ended" if self._done else ""
        first = min(self._waiting) if self._waiting else 0
        where = self._waiting[first][1].rsplit(" at ", 1)[-1] if self._waiting else "kernel"
        return KernelError(
            "cores that can go on",
            found=f"a deadlock: {named}{ended}",
            where=where,
            remedy="make every core reach the same barriers and exchanges, in the same order",
        )

    # memory that cores share

    def shared(
        self, core: Core, shape: tuple[int, ...], dtype: DType, make: Callable[[], Storage]
    ) -> Storage:
        """The buffer that every core's n-th allocation in ``shared_hbm`` means.

        Args:
            core: which allocates.
            shape: of the allocation.
            dtype: of its elements.
            make: makes it, for the first core that comes here.

        Raises:
            KernelError: if the cores' n-th allocations differ.
        """
        at: int = core.state.get("shared allocations", 0)
        core.state["shared allocations"] = at + 1
        if at == len(self._shared):
            self._shared.append(make())
            return self._shared[at]
        found = self._shared[at]
        if found.buffer.shape != shape or found.buffer.dtype is not dtype:
            frame = core.author()
            raise KernelError(
                f"the same shared tensor on every core ({found.buffer!r})",
                found=f"{list(shape)} {dtype} on core {core.program}",
                where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
                remedy="allocate tensors in nl.shared_hbm alike on all cores, or in nl.private_hbm",
            )
        return found

    def shares(self, region: MemoryRegion) -> bool:
        """Whether a buffer in this region is one for all cores."""
        return region is MemoryRegion.shared_hbm and self.concurrent and self._count > 1
