"""``nki.isa``: which NeuronCore a kernel is run for."""

from __future__ import annotations

from twintrack.nki.context import current_core, is_running
from twintrack.nki.isa.constants import nc_version

__all__ = ["get_nc_sub_version", "get_nc_version"]


def get_nc_version() -> nc_version:
    """The generation of the running kernel's core; outside a kernel that of ``NEURON_PLATFORM_TARGET_OVERRIDE``.

    Raises:
        KernelError: if the variable names an unknown chip.
    """
    if is_running():
        return nc_version(current_core().generation.number)
    # imported here, as the launch of kernels needs this package first
    from twintrack.nki.kernel import options_from_environment

    return nc_version(options_from_environment().generation.number)


def get_nc_sub_version() -> int:
    """The revision of the silicon within a generation: 0, the first, as no rule here differs by revision."""
    return 0
