"""What differs between NeuronCore generations, as one record per generation.

Sizes: the NKI architecture guides (``trainium_inferentia2_arch.rst``, ``trainium2_arch.rst``, ``trainium3_arch.rst`` of
the AWS Neuron documentation, 2.32). Limits of single instructions stand where the instruction is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["GENERATIONS", "PARTITIONS", "PSUM_BANKS", "PSUM_BANK_BYTES", "Generation"]

PARTITIONS = 128
"""Partitions of SBUF and PSUM, on every generation."""
PSUM_BANKS = 8
"""Banks of a PSUM partition."""
PSUM_BANK_BYTES = 2048
"""Bytes of a bank, per partition."""


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """One NeuronCore generation."""

    number: int
    """2, 3 or 4: NeuronCore-v2, -v3, -v4."""
    chip: str
    """The short name of the chip: ``trn1``, ``trn2``, ``trn3``."""
    sbuf_partition_bytes: int
    """SBUF bytes of one partition."""

    @property
    def psum_partition_bytes(self) -> int:
        """PSUM bytes of one partition."""
        return PSUM_BANKS * PSUM_BANK_BYTES


_ALL = (
    Generation(2, "trn1", 192 * 1024),
    Generation(3, "trn2", 224 * 1024),
    Generation(4, "trn3", 256 * 1024),
)
GENERATIONS: Mapping[str, Generation] = MappingProxyType(
    {
        name: one
        for one, names in zip(
            _ALL, (("trn1", "inf2", "gen2"), ("trn2", "gen3"), ("trn3", "gen4")), strict=True
        )
        for name in names
    }
)
"""By every name that ``NEURON_PLATFORM_TARGET_OVERRIDE`` takes."""
