"""Which limits of a NeuronCore can be lifted one at a time, to find what would help a kernel most.

A throughput is doubled, because no kernel can do without it; a latency, a fixed cost or a capacity is lifted
altogether. To compare both, half of what a lifted limit saves counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.timing.cores import Change, at_dma_rate, reworked, schedule_cores
from twintrack.neuroncore.timing.dma import Transfer
from twintrack.neuroncore.timing.parameters import Parameters
from twintrack.neuroncore.timing.schedule import Timeline
from twintrack.neuroncore.timing.trace import ENGINES, Trace

__all__ = ["Limit", "limits", "retime"]


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that can be lifted.

    Args:
        name: a short word.
        text: what is changed.
        whole: lifted altogether, not only halved.
        parameters: other values of the model's parameters.
        change: of the work of instructions.
        unlimited: memories in which no tile waits for another's place.
        share_hbm: whether two cores share the bandwidth of HBM.
        meet: whether cores wait for each other.
    """

    name: str
    text: str
    whole: bool = True
    parameters: Mapping[str, float] = field(default_factory=dict)
    change: Change | None = None
    unlimited: tuple[MemoryRegion, ...] = ()
    share_hbm: bool = True
    meet: bool = True


def limits(p: Parameters, timelines: Sequence[Timeline], engines: Mapping[str, int]) -> tuple[Limit, ...]:
    """Those that may bound a kernel; limits that it never met are left out.

    Args:
        p: parameters that its instructions were costed with.
        timelines: of its cores.
        engines: instructions per engine, DMAs under ``dma``.
    """
    reasons = {span.reason for one in timelines for span in one.spans if span.wait > 0}
    found = [
        Limit(name, f"{title} at twice its rate", whole=False, change=_twice(name))
        for name, title in (
            ("tensor", "Tensor Engine"),
            ("vector", "Vector Engine"),
            ("scalar", "Scalar Engine"),
            ("gpsimd", "GpSimd Engine"),
        )
        if engines.get(name)
    ]
    if engines.get("dma"):
        found += _of_dma(p)
    if any(count for name, count in engines.items() if name != "dma"):
        found.append(
            Limit(
                "instruction_cost",
                "no fixed cost per instruction",
                parameters={"tensor_fill": 0.0},
                change=_without_fixed,
            )
        )
        found.append(Limit("semaphores", "no delay between engines", parameters={"semaphore": 0.0}))
    if any(one.throttled_ns > 0 for one in timelines):
        found.append(
            Limit(
                "throttle",
                "Tensor Engine never throttled",
                parameters={"throttle_share": 1.0},
            )
        )
    if any(getattr(work, "table", "") for work in _works(timelines)):
        found.append(Limit("table_loads", "no activation table loads", parameters={"scalar_table_load": 0.0}))
    if "place" in reasons or any(one.spill_bytes for one in timelines):
        found.append(Limit("sbuf_capacity", "SBUF without end", unlimited=(MemoryRegion.sbuf,)))
        found.append(Limit("psum_capacity", "PSUM without end", unlimited=(MemoryRegion.psum,)))
    if len(timelines) > 1 and any(one.reached for one in timelines):
        found.append(Limit("meetings", "cores never wait for each other", meet=False))
    return tuple(found)


def _of_dma(p: Parameters) -> list[Limit]:
    return [
        Limit(
            "dma_bandwidth",
            "DMA at twice its bandwidth",
            whole=False,
            change=at_dma_rate(p, 2 * p.dma_rate),
            parameters={"dma_rate": 2 * p.dma_rate, "dma_core_rate_shared": 2 * p.dma_core_rate_shared},
        ),
        Limit(
            "dma_descriptors",
            "no cost per DMA descriptor",
            change=at_dma_rate(p, p.dma_rate, row=0.0),
            parameters={"dma_row": 0.0},
        ),
        Limit("dma_issue", "no cost of issuing a DMA", parameters={"dma_issue": 0.0}),
        Limit(
            "dma_latency",
            "no DMA latency",
            parameters={"dma_start": 0.0, "dma_stagger": 0.0, "dma_completion": 0.0},
        ),
    ]


def _works(timelines: Sequence[Timeline]) -> list[Any]:
    return list({id(step.work): step.work for one in timelines for step in one.trace.steps}.values())


def _twice(name: str) -> Change:
    number = ENGINES.index(name)

    def change(engine: int, work: Any) -> Any:
        return work._replace(cycles=work.cycles / 2) if engine == number else work

    return change


def _without_fixed(engine: int, work: Any) -> Any:
    del engine
    return work if isinstance(work, Transfer) else work._replace(fixed=0.0)


def retime(
    limit: Limit,
    traces: Sequence[Trace],
    generation: Generation,
    p: Parameters,
    *,
    together: bool,
    spilled: Sequence[Collection[Buffer]] = (),
    drop_reloads: bool = False,
    total: Callable[[Sequence[Timeline]], float],
) -> float:
    """Seconds of a kernel with one limit lifted.

    Args:
        limit: which.
        traces: of its cores.
        generation: whose memory sizes hold.
        p: the model's parameters.
        together: whether the cores run at once.
        spilled: per trace, tiles that do not fit.
        drop_reloads: whether loads of what an earlier tile still holds are left out.
        total: seconds of the kernel from its timelines.
    """
    changed = limit.change
    found = [one if changed is None else reworked(one, changed) for one in traces]
    if not limit.meet:
        found = [_alone(one) for one in found]
    return total(
        schedule_cores(
            found,
            generation,
            p.changed(**limit.parameters),
            together=together,
            unlimited=limit.unlimited,
            share_hbm=limit.share_hbm,
            spilled=spilled,
            drop_reloads=drop_reloads,
        )
    )


def _alone(trace: Trace) -> Trace:
    """The trace of a core that waits for nobody."""
    found = reworked(trace, lambda _, work: work)
    found.steps = [step._replace(meets=0) if step.meets else step for step in found.steps]
    return found
