"""What chips, instances, servers, links and prices are: typed records over data files, a source per figure.

``load_catalogue()`` reads and checks the data files that lie in the package. Nothing here computes what a job
does; the only arithmetic is a change of unit and the derivations that a record names in its own figure.
"""

from __future__ import annotations

from twintrack.hardware.catalogue import Catalogue, load_catalogue
from twintrack.hardware.chips import Chip, LogicalCore
from twintrack.hardware.machines import Instance, Link, Machine, Server
from twintrack.hardware.records import Claim, Detail, Disagreement, Price, PriceModel, Source, Status
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
    "Price",
    "PriceModel",
    "Server",
    "Source",
    "Status",
    "in_base_unit",
    "load_catalogue",
]
