"""What chips, instances, prices, published speeds and support dates are: typed records, a source per figure.

``load_catalogue()`` reads and checks the data files that lie in the package. Nothing here computes what a job
does; the only arithmetic is a change of unit and the derivations that a record names in its own figure.
"""

from __future__ import annotations

from twintrack.hardware.catalogue import Catalogue, load_catalogue
from twintrack.hardware.chips import Chip, LogicalCore
from twintrack.hardware.machines import Instance, Link, Machine, Server
from twintrack.hardware.records import Claim, Detail, Disagreement, Price, PriceModel, Source, Status
from twintrack.hardware.software import Side, SupportFact, SupportStatus
from twintrack.hardware.storage_prices import StorageItem, StoragePrice
from twintrack.hardware.throughputs import Method, Precision, Scope, Throughput
from twintrack.hardware.units import in_base_unit

__all__ = [
    "Catalogue",
    "Chip",
    "Claim",
    "Detail",
    "Disagreement",
    "Instance",
    "Link",
    "LogicalCore",
    "Machine",
    "Method",
    "Precision",
    "Price",
    "PriceModel",
    "Scope",
    "Server",
    "Side",
    "Source",
    "Status",
    "StorageItem",
    "StoragePrice",
    "SupportFact",
    "SupportStatus",
    "Throughput",
    "in_base_unit",
    "load_catalogue",
]
