"""The Tensor Engine's state: its pipeline, and the limit on its rate after it was idle.

A stationary operand is loaded while the previous multiplication runs, so the fill is paid only by an instruction that
finds the engine waiting. Trainium2 runs the engine at about half of its peak for about 3 us when work begins, and
again whenever its use over a window of about 3 us falls below about half
(sdk:tools/neuron-explorer/overview-summary-page.rst, "Understanding throttling"). Use counts the rows of the array
that are fed: our choice, none is published.
"""

from __future__ import annotations

from collections import deque

from twintrack.neuroncore.timing.cost import Work
from twintrack.neuroncore.timing.parameters import Parameters

__all__ = ["TensorEngine"]


class TensorEngine:
    """One core's Tensor Engine; times in ns.

    Args:
        parameters: of the chip.
    """

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self.free = 0.0
        """When the last instruction ended."""
        self._cycle = 1 / parameters.tensor_ghz
        self._fill = parameters.tensor_fill * self._cycle
        self._throttles = self._limited = parameters.throttle_share < 1
        self._ramp = 0.0
        self._window: deque[tuple[float, float, float]] = deque()
        self._total = 0.0
        self.throttled_ns = 0.0
        """Time lost to the limit."""

    def run(self, ready: float, work: Work) -> tuple[float, float]:
        """Carry out an instruction whose operands are there at ``ready``: when it becomes active, and when it ends."""
        cycle, free = self._cycle, self.free
        idle = ready > free
        begin = ready if idle else free
        length = (work.cycles + work.fixed) * cycle
        filled = ready + self._fill
        if self._throttles:
            if self._slow(begin, idle=idle):
                factor = 1 / self._p.throttle_share
                self.throttled_ns += length * (factor - 1)
                filled = ready + self._fill * factor
                length *= factor
            end = (free if free > filled else filled) + length
            fed = work.cycles * cycle * work.rows
            self._window.append((begin, end, fed))
            self._total += fed
        else:
            end = (free if free > filled else filled) + length
        self.free = end
        return begin, end

    def _slow(self, now: float, *, idle: bool) -> bool:
        p = self._p
        window = p.throttle_window
        if idle and now - self.free >= window:
            self._limited, self._ramp = True, now
            return True
        # work at peak rate, in ns, within the window that ends now
        since, runs = now - window, self._window
        while runs and runs[0][1] <= since:
            self._total -= runs.popleft()[2]
        if not runs:
            self._total = 0.0
        used = self._total
        if runs and runs[0][0] < since:
            begin, end, work = runs[0]
            used -= work * (since - begin) / (end - begin)
        used /= window
        if self._limited:
            if now - self._ramp >= window and used >= p.throttle_threshold:
                self._limited = False
            elif used < p.throttle_threshold and now - self._ramp >= window:
                self._ramp = now - window  # looked at again at every instruction from here on
        elif used < p.throttle_threshold and now >= self._ramp + window:
            self._limited, self._ramp = True, now
        return self._limited
