"""``nki.language``: element types, memory regions, sizes of the hardware."""

from __future__ import annotations

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES, DType
from twintrack.neuroncore.memory.generation import PARTITIONS, PSUM_BANK_BYTES, PSUM_BANKS
from twintrack.nki.context import current_core, is_running
from twintrack.nki.tensor import NKIObject

__all__ = [
    "bfloat16",
    "bool_",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "hbm",
    "int8",
    "int16",
    "int32",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "private_hbm",
    "psum",
    "sbuf",
    "shared_hbm",
    "tfloat32",
    "tile_size",
    "uint8",
    "uint16",
    "uint32",
]

bool_: DType = DTYPES["bool"]
int8: DType = DTYPES["int8"]
int16: DType = DTYPES["int16"]
int32: DType = DTYPES["int32"]
uint8: DType = DTYPES["uint8"]
uint16: DType = DTYPES["uint16"]
uint32: DType = DTYPES["uint32"]
float16: DType = DTYPES["float16"]
float32: DType = DTYPES["float32"]
bfloat16: DType = DTYPES["bfloat16"]
tfloat32: DType = DTYPES["tfloat32"]
float8_e4m3: DType = DTYPES["float8_e4m3"]
float8_e4m3fn: DType = DTYPES["float8_e4m3fn"]
float8_e5m2: DType = DTYPES["float8_e5m2"]
float8_e8m0fnu: DType = DTYPES["float8_e8m0fnu"]
float8_e4m3fn_x4: DType = DTYPES["float8_e4m3fn_x4"]
float8_e5m2_x4: DType = DTYPES["float8_e5m2_x4"]
float4_e2m1fn_x4: DType = DTYPES["float4_e2m1fn_x4"]

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm
hbm = MemoryRegion.private_hbm


class _TileSize(NKIObject):
    """Sizes that a tile may have.

    Those of SBUF are of the generation that the kernel runs on; outside a kernel of the one that
    ``NEURON_PLATFORM_TARGET_OVERRIDE`` names.
    """

    __slots__ = ()

    pmax = PARTITIONS
    """Partitions."""
    psum_fmax = PSUM_BANK_BYTES // 4
    """float32 elements of a PSUM bank per partition."""
    psum_bank_fmax = PSUM_BANK_BYTES // 4
    """float32 elements of a PSUM bank per partition."""
    psum_bank_fmax_bytes = PSUM_BANK_BYTES
    """Bytes of a PSUM bank per partition."""
    gemm_stationary_fmax = 128
    """Elements per partition of a matrix multiplication's stationary operand."""
    gemm_moving_fmax = 512
    """Elements per partition of its moving operand."""
    bn_stats_fmax = 512
    """Elements per partition of ``nisa.bn_stats``."""
    psum_min_align = 4
    """Bytes to which an address in PSUM is aligned."""
    sbuf_min_align = 1
    """Bytes to which an address in SBUF is aligned."""

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks per partition."""
        return PSUM_BANKS

    @property
    def sbuf_fmax_bytes(self) -> int:
        """SBUF bytes of one partition."""
        if is_running():
            return current_core().generation.sbuf_partition_bytes
        # imported here, as the launch of kernels needs this package first
        from twintrack.nki.kernel import options_from_environment

        return options_from_environment().generation.sbuf_partition_bytes

    @property
    def sbuf_size_bytes(self) -> int:
        """SBUF bytes of all partitions."""
        return self.sbuf_fmax_bytes * PARTITIONS

    @property
    def sbuf_fmax(self) -> int:
        """float32 elements of one SBUF partition."""
        return self.sbuf_fmax_bytes // 4

    @property
    def total_available_sbuf_size(self) -> int:
        """SBUF bytes of one partition, as documented, whatever the name."""
        return self.sbuf_fmax_bytes


tile_size = _TileSize()


def is_hbm(buffer: MemoryRegion | str) -> bool:
    """Whether this is a kind of HBM."""
    return buffer in (MemoryRegion.private_hbm, MemoryRegion.shared_hbm)


def is_on_chip(buffer: MemoryRegion | str) -> bool:
    """Whether this is SBUF or PSUM."""
    return buffer in (MemoryRegion.sbuf, MemoryRegion.psum)


def is_psum(buffer: MemoryRegion | str) -> bool:
    """Whether this is PSUM."""
    return buffer == MemoryRegion.psum


def is_sbuf(buffer: MemoryRegion | str) -> bool:
    """Whether this is SBUF."""
    return buffer == MemoryRegion.sbuf
