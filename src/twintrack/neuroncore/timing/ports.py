"""Ports of SBUF and PSUM that two engines share: while one uses such a port the other waits.

NeuronCore-v2: the Vector and the GpSimd Engine cannot access SBUF at the same time, nor the Vector and the Scalar
Engine PSUM. NeuronCore-v3 lifted both; there a performance mode of the Vector Engine takes a bus that it shares with
the GpSimd Engine (sdk:nki/guides/architecture/trainium2_arch.rst, "Data Movement Updates"). Who comes first in the
program comes first at the port: our choice, the hardware's arbitration is not published.
"""

from __future__ import annotations

from collections import deque

from twintrack.neuroncore.timing.cost import PSUM, SBUF, Work
from twintrack.neuroncore.timing.parameters import Parameters
from twintrack.neuroncore.timing.trace import ENGINES

__all__ = ["Ports"]

_VECTOR, _SCALAR, _GPSIMD = (ENGINES.index(name) for name in ("vector", "scalar", "gpsimd"))
_MOST_HELD = 1024
"""Stretches that are remembered of an engine: more than it runs ahead of the other."""


class Ports:
    """Who uses which shared port when, in ns.

    Args:
        parameters: of the chip.
    """

    def __init__(self, parameters: Parameters) -> None:
        self._second_generation = parameters.chip == "trn1"
        self._held: dict[tuple[int, int], deque[tuple[float, float]]] = {}

    def take(self, engine: int, work: Work, start: float, length: float) -> float:
        """When an instruction that could start at ``start`` has its ports for ``length``; they are then its own.

        Args:
            engine: position in ``ENGINES``; its instructions come in the order of their starts.
            work: of the instruction.
            start: when operands and engine are there.
            length: for which it uses the ports.
        """
        ports = self._shared(engine, work)
        if not ports:
            return start
        first = start
        moved = True
        while moved:
            moved = False
            for port, other in ports:
                after = self._after(self._held.get((port, other)), first, start, length)
                if after > start:
                    start, moved = after, True
        for port, _ in ports:
            self._hold(port, engine, start, start + length)
        return start

    def _shared(self, engine: int, work: Work) -> tuple[tuple[int, int], ...]:
        """Ports that the instruction needs, each with the engine it is shared with."""
        if not self._second_generation:
            if engine == _VECTOR and work.mode > 1:
                return ((SBUF, _GPSIMD),)
            return ((SBUF, _VECTOR),) if engine == _GPSIMD and work.memories & SBUF else ()
        if engine == _VECTOR:
            every = ((SBUF, _GPSIMD), (PSUM, _SCALAR))
            return tuple(one for one in every if work.memories & one[0])
        if engine == _GPSIMD and work.memories & SBUF:
            return ((SBUF, _VECTOR),)
        return ((PSUM, _VECTOR),) if engine == _SCALAR and work.memories & PSUM else ()

    @staticmethod
    def _after(held: deque[tuple[float, float]] | None, first: float, start: float, length: float) -> float:
        """The end of what the other engine holds from ``start`` on, or ``start`` where nothing is in the way."""
        while held and held[0][1] <= first:
            held.popleft()  # no later instruction of this engine starts before that
        for low, high in held or ():
            if low >= start + length:
                break
            start = max(start, high)
        return start

    def _hold(self, port: int, engine: int, start: float, end: float) -> None:
        held = self._held.setdefault((port, engine), deque(maxlen=_MOST_HELD))
        if held and held[-1][1] == start:
            held[-1] = (held[-1][0], end)
        else:
            held.append((start, end))
