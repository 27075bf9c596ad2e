"""How a parallel plan lies on instances: how many it takes, and whether a tensor group stays inside one.

A tensor group exchanges activations in every layer, so it is placed whole into one instance wherever it fits there;
the instances that a plan takes follow from that.
"""

from __future__ import annotations

from dataclasses import dataclass

from twintrack.job.records import Parallel

__all__ = ["Spread", "count_of", "spread_of"]


@dataclass(frozen=True, slots=True)
class Spread:
    """A plan on instances of one type."""

    devices: int
    """That the plan needs."""
    instances: int
    """That the plan takes."""
    per_instance: int
    """Devices that one instance has."""
    tensor: int
    """Devices of a tensor group."""
    crosses: bool
    """Whether a tensor group does not fit into one instance."""
    efa: bool
    """The instances of this type have EFA."""

    @property
    def text(self) -> str:
        """In words, such as ``128 devices on 4 instances``, and where a tensor group crosses them."""
        said = f"{count_of(self.devices, 'device')} on {count_of(self.instances, 'instance')}"
        if not self.crosses:
            return said
        network = "EFA" if self.efa else "the network between instances"
        return (
            f"{said}, where a tensor group of {self.tensor} does not fit into one instance of {self.per_instance}:"
            f" its collectives cross {network}"
        )


def count_of(count: int, one: str) -> str:
    """A count with its noun, which takes an s but for one."""
    return f"{count:,} {one}" + ("" if count == 1 else "s")


def spread_of(plan: Parallel, per_instance: int | None, *, efa: bool) -> Spread | None:
    """The plan on instances of ``per_instance`` devices; ``None`` where that is not known, as without an instance."""
    if not per_instance:
        return None
    crosses = plan.tensor > per_instance
    if crosses:
        instances = -(-plan.devices // per_instance)
    else:
        groups = plan.data * plan.pipeline
        instances = -(-groups // (per_instance // plan.tensor))
    return Spread(plan.devices, instances, per_instance, plan.tensor, crosses, efa)
