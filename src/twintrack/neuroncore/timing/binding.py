"""Which limit binds a kernel, said in one sentence.

The limit that matters most is the one whose halving saves most: a doubled rate as it was timed, and half of what a
latency, a fixed cost or a capacity saves when it is lifted altogether.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twintrack.neuroncore.timing.profile import Binding, Wait, WhatIf, short_line

__all__ = ["LIMIT_NAMES", "REASONS", "binding_of"]

_LEAST = 0.04
"""Below this share of the time that halving saves, no limit alone binds."""

LIMIT_NAMES: Mapping[str, str] = {
    "tensor": "Tensor Engine",
    "vector": "Vector Engine",
    "scalar": "Scalar Engine",
    "gpsimd": "GpSimd Engine",
    "sync": "sync queue",
    "dma": "DMA",
    "dma_bandwidth": "DMA bandwidth",
    "dma_descriptors": "DMA descriptors",
    "dma_issue": "issuing of DMAs",
    "dma_latency": "DMA latency",
    "instruction_cost": "fixed instruction cost",
    "semaphores": "semaphores",
    "throttle": "Tensor Engine's limit after idleness",
    "table_loads": "activation table loads",
    "sbuf_capacity": "SBUF capacity",
    "psum_capacity": "PSUM capacity",
    "meetings": "waiting of the cores for each other",
    "dependences": "dependences between instructions",
}
REASONS: Mapping[str, str] = {
    "data": "data",
    "place": "a tile's place",
    "engine": "shared port",
    "queue": "issuing queue",
    "dma": "DMA engines",
    "barrier": "the other core",
}


def binding_of(shares: Mapping[str, float], what_if: Sequence[WhatIf], waits: Sequence[Wait]) -> Binding:
    """What binds a kernel.

    Args:
        shares: of its time in which each engine, and ``dma``, was active.
        what_if: timings with one limit lifted; where there are none the busiest resource binds.
        waits: the longest first.
    """
    busiest = max(sorted(shares), key=lambda name: shares[name])
    busy = f"the {LIMIT_NAMES[busiest]} is active for {shares[busiest]:.0%} of the time"
    if busiest == "dma":
        busy = f"DMA is active for {shares[busiest]:.0%} of the time"
    if not what_if:
        return Binding(busiest, f"{busy}, more than any other; nothing was timed again")
    most = max(what_if, key=lambda one: (_halved(one), one.name))
    if _halved(most) < _LEAST:
        longest = waits[0] if waits else None
        why = "" if longest is None else f"; the longest wait is that of {short_line(longest.line)}"
        return Binding("dependences", f"no limit alone saves much, and {busy}{why}")
    if most.name in shares:
        busy = f"the {LIMIT_NAMES[most.name]} is active for {shares[most.name]:.0%} of the time"
    elif most.name.startswith("dma") and "dma" in shares:
        busy = f"DMA is active for {shares['dma']:.0%} of the time"
    article = "the " if most.text.split(" ")[1] == "Engine" else ""
    saved = f"the kernel would take {most.saved:.0%} less with {article}{most.text}"
    return Binding(most.name, f"{busy}, and {saved}")


def _halved(one: WhatIf) -> float:
    return one.saved / 2 if one.whole else one.saved
