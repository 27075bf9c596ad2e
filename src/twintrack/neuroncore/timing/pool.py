"""Resources that several requesters share: DMA engines, issuing queues.

Requests are made in program order but may be ready in another; one that is ready early takes what an earlier request
left free, as a queue that holds something else would let it.
"""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["Pool"]

_MOST_GAPS = 256


class Pool:
    """Time on one resource, in ns, as the gaps that are free in it."""

    def __init__(self) -> None:
        self._gaps: list[tuple[float, float]] = []
        self._end = 0.0
        self.busy = 0.0
        """Time that was taken."""

    def share(self, ready: float, length: float) -> tuple[float, float]:
        """Reserve ``length`` from ``ready`` on, in pieces where gaps are short; when it begins and ends.

        DMA engines take turns between queues descriptor by descriptor, so a transfer fills what others leave.
        """
        self.busy += length
        begin = -1.0
        left = length
        at = next(iter(self._from(ready)), len(self._gaps))
        while at < len(self._gaps):
            low, high = self._gaps[at]
            start = max(low, ready)
            if start >= high:
                at += 1
                continue
            if begin < 0:
                begin = start
            if start + left <= high:
                self._use(at, start, start + left)
                return begin, start + left
            left -= high - start
            self._use(at, start, high)
            if start > low:
                at += 1  # what is left of the gap lies before us
        start = self._append(ready, left)
        return (start if begin < 0 else begin), start + left

    def _from(self, ready: float) -> range:
        """Gaps that end after ``ready``."""
        if not self._gaps or ready >= self._end:
            return range(0)
        at = bisect_right(self._gaps, (ready, float("inf"))) - 1
        return range(max(0, at), len(self._gaps))

    def _use(self, at: int, start: float, end: float) -> None:
        low, high = self._gaps[at]
        self._gaps[at : at + 1] = [gap for gap in ((low, start), (end, high)) if gap[1] > gap[0]]

    def _append(self, ready: float, length: float) -> float:
        start = max(ready, self._end)
        if start > self._end:
            self._gaps.append((self._end, start))
            if len(self._gaps) > _MOST_GAPS:
                del self._gaps[0]
        self._end = start + length
        return start
