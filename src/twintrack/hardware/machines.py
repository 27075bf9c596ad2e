"""What is rented: instances, servers that join several, and the links between chips."""

from __future__ import annotations

from dataclasses import dataclass, field

from twintrack.hardware.records import Record, figure
from twintrack.quantity import Quantity

__all__ = ["Instance", "Link", "Machine", "Server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Record):
    """What is rented: an instance, or a server that joins several."""

    chip: str
    """Name of the chip."""
    link: str = ""
    """Name of the link between its chips; empty where there is one chip."""
    topology: str = ""

    chip_count: Quantity = field(metadata=figure("chips", "chips"))
    vcpus: Quantity = field(metadata=figure("vCPU", "vCPU"))
    host_memory_gib: Quantity = field(metadata=figure("GiB", "host memory"))
    hbm_capacity_gib: Quantity = field(metadata=figure("GiB", "HBM capacity"))
    hbm_bandwidth_tb_per_s: Quantity = field(metadata=figure("TB/s", "HBM bandwidth"))
    tensor_bf16_pflops: Quantity = field(metadata=figure("PFLOPS", "peak BF16, dense"))
    tensor_fp8_pflops: Quantity = field(metadata=figure("PFLOPS", "peak FP8, dense"))
    tensor_mxfp8_pflops: Quantity | None = field(default=None, metadata=figure("PFLOPS", "peak MXFP8, dense"))
    tensor_fp32_pflops: Quantity = field(metadata=figure("PFLOPS", "peak FP32"))
    tensor_sparse_pflops: Quantity | None = field(
        default=None, metadata=figure("PFLOPS", "peak 16-bit, structured sparse")
    )
    link_per_chip_gb_per_s: Quantity | None = field(
        default=None, metadata=figure("GB/s", "link inside, per chip")
    )
    outer_link_per_chip_gb_per_s: Quantity | None = field(
        default=None, metadata=figure("GB/s", "link between members, per chip")
    )
    efa_gbps: Quantity = field(metadata=figure("Gbps", "EFA"))
    efa_devices: Quantity | None = field(default=None, metadata=figure("devices", "EFA devices"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance(Machine):
    """One EC2 instance type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Machine):
    """Several hosts in one scale-up domain of chip-to-chip links (UltraServer)."""

    member: str = ""
    """Name of the instance type that it is made of; empty where the catalogue has none."""
    member_count: Quantity = field(metadata=figure("members", "hosts"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(Record):
    """A link between chips, or the network between instances."""

    connects: str
    direction: str
    """What the source says on whether both directions are summed."""
    per_chip_gb_per_s: Quantity | None = field(default=None, metadata=figure("GB/s", "bandwidth per chip"))
    per_chip_gbps: Quantity | None = field(
        default=None, metadata=figure("Gbps", "network bandwidth per chip")
    )
    links_per_chip: Quantity | None = field(default=None, metadata=figure("links", "links per chip"))
    per_link_gb_per_s: Quantity | None = field(default=None, metadata=figure("GB/s", "bandwidth per link"))
    latency_us: Quantity | None = field(default=None, metadata=figure("us", "least latency, HBM to HBM"))
