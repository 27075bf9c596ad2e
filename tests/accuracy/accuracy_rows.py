"""Published measurements that state shape and chip, each with the kernel that re-creates it.

Times are in us. A measurement published as a rate over active time is stated as the time that the rate gives.
``fitted`` marks the one on which a parameter was fitted (``fitted_on`` in the data file of parameters); others are
predictions. ``gated`` marks those on which the accuracy gates hold the model; the note says why another is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import kernels_matmul as matmul
import kernels_small as small

from twintrack.nki.arrays import Shape

__all__ = ["NOT_RECREATED", "ROWS", "VERSIONS", "Figure", "Row"]

TOTAL = "total, us"
ACTIVE = "{} active, us"
TENSOR, VECTOR, DMA = (ACTIVE.format(name) for name in ("tensor", "vector", "dma"))
BF16 = "bfloat16"

_PROFILING = "aws-neuron/neuron-agentic-development: skills/neuron-nki-profile-querying/references/"
_MATMUL2 = _PROFILING + "example-bounds-analysis.md"
_MATMUL1 = "aws-neuron-sdk@v2.26.0: general/nki/tutorials/matrix_multiplication.rst"
_MAMBA = "aws-neuron-sdk: nki/guides/tutorials/fused_mamba.rst"
_STUDENT = "github.com/xaviergonzalez/asst4-trainium2: writeup.md (third party)"


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure of a row."""

    quantity: str
    published: float
    fitted: bool = False
    gated: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel that was measured."""

    name: str
    kind: str
    chip: str
    kernel: Callable[..., Any]
    arguments: tuple[Any, ...]
    figures: tuple[Figure, ...]
    source: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    long: bool = False
    """Traced by the script alone; tests take its figures from the file that the script writes."""

    @property
    def weight(self) -> int:
        """About its instructions in thousands, for progress."""
        return (
            90
            if self.long
            else 40
            if self.name.startswith("matmul_trn1")
            else 10
            if "matmul" in self.name
            else 1
        )


def _matmul_on_trn2(name, kind, kernel, figures, note="", **keywords):
    made = tuple(
        Figure(quantity, published, gated=not note, note=note)
        for quantity, published in zip((TOTAL, TENSOR, DMA, VECTOR), figures, strict=True)
    )
    operands = Shape((4096, 4096), BF16), Shape((4096, 4096), BF16)
    return Row(name, kind, "trn2", kernel, operands, made, _MATMUL2, keywords)


def _matmul_on_trn1(name, kind, kernel, total, *, fitted=False, long=False, **keywords):
    operands = Shape((8192, 4096), BF16), Shape((8192, 8192), BF16)
    figures = (Figure(TOTAL, total, fitted=fitted),)
    return Row(name, kind, "trn1", kernel, operands, figures, _MATMUL1, keywords, long)


def _tiles(name, kernel, shapes, tflops, *, fitted):
    flops = sum(2 * m * n * k for m, n, k in shapes) * small.COUNT // len(shapes)
    note = f"published as {tflops} TFLOPS while active"
    figure = Figure(TENSOR, flops / tflops * 1e-6, fitted=fitted, note=note)
    source = _PROFILING + "investigations/te_inefficiency.md"
    return Row(name, "tensor", "trn2", kernel, (Shape((128, 512)),), (figure,), source)


def _load_and_store(width, gigabytes_per_second, *, fitted):
    operands = Shape((128, 16 * width), BF16), Shape((128, 16 * width), BF16)
    moved = 2 * 128 * 16 * width * 2
    note = f"published as {gigabytes_per_second} GB/s while active; its transposes state no shape and are left out"
    figure = Figure(DMA, moved / gigabytes_per_second * 1e-3, fitted=fitted, note=note)
    source = _PROFILING + "investigations/dma_efficiency.md"
    keywords = {"width": width}
    return Row(
        f"dge_mixed_{width}", "dma", "trn2", small.load_and_store, operands, (figure,), source, keywords
    )


def _mamba(name, kind, kernel, channels, total, vector, note, vector_note):
    shapes = ((channels, 512), (channels, 512), (channels, 16), (16, 512), (16, 512), (1, 128))
    figures = (Figure(TOTAL, total, note=note), Figure(VECTOR, vector, note=vector_note))
    return Row(name, kind, "trn1", kernel, tuple(Shape(one) for one in shapes), figures, _MAMBA)


def _vector_add(width, elements, total):
    operands = Shape((elements,)), Shape((elements,)), Shape((elements,))
    note = "third party; includes the start of a kernel, which the model leaves out"
    return Row(
        f"vector_add_{width}",
        "dma",
        "trn2",
        small.vector_add,
        operands,
        (Figure(TOTAL, total, gated=False, note=note),),
        _STUDENT,
        {"width": width},
    )


_V0 = "bytes as published: the compiler removed loads that the code shows (left operand moved 3 times, not 8)"
_V1 = "bytes as published: the source shows two sizes of blocks; 8 x 2 tiles give its bytes"
_FIRST = "includes about 16 us before the first and after the last DMA; the compiler dropped loads that the code shows"
_SUMMARY = "of a selected stretch of 150.93 us, by the profile's image; its 98.71 % are of that stretch"
_RELOADS = "the compiler loaded delta and u about 7 times, the code 16 times"

ROWS: tuple[Row, ...] = (
    _tiles("te_tiles_full", small.full_tiles, ((128, 512, 128),), 77.2, fitted=True),
    _tiles("te_tiles_mixed", small.mixed_tiles, small.TILE_SHAPES, 30.8, fitted=False),
    _load_and_store(512, 259, fitted=True),
    _load_and_store(2048, 354, fitted=False),
    _matmul_on_trn2("matmul_trn2_v0", "mixed", matmul.tiled, (8602, 4806, 7906, 176), _V0, left_loads=3),
    _matmul_on_trn2(
        "matmul_trn2_v1",
        "mixed",
        matmul.blocked_columns_first,
        (2451, 2163, 1325, 174),
        _V1,
        block_m=8,
        block_n=2,
    ),
    _matmul_on_trn2(
        "matmul_trn2_v2", "tensor", matmul.row_loads, (1801, 1781, 819, 172), block_m=8, block_n=2
    ),
    _matmul_on_trn1("matmul_trn1_tiled", "dma", matmul.tiled, 51_800, fitted=True, long=True),
    _matmul_on_trn1("matmul_trn1_hoisted", "dma", matmul.blocked, 42_960, long=True, block_m=1, block_n=1),
    _matmul_on_trn1("matmul_trn1_block_free", "dma", matmul.blocked, 22_070, block_m=2, block_n=2),
    _matmul_on_trn1(
        "matmul_trn1_block_all", "mixed", matmul.blocked_in_three, 6_970, block_m=16, block_n=2, block_k=8
    ),
    _mamba("mamba_trn1", "mixed", small.selective_scan, 256, 172.93, 148.99, _FIRST, _SUMMARY),
    _mamba(
        "mamba_trn1_4k",
        "mixed",
        small.selective_scan,
        4096,
        2340,
        0.9216 * 2340,
        _RELOADS,
        "published as 92.16 %",
    ),
    _mamba(
        "mamba_trn1_4k_reordered",
        "vector",
        small.selective_scan_reordered,
        4096,
        1610,
        0.9963 * 1610,
        "",
        "published as 99.63 %",
    ),
    _vector_add(2, 25_600, 186),
    _vector_add(200, 25_600, 15),
    _vector_add(1000, 256_000, 26),
    _vector_add(2000, 256_000, 28),
)

VERSIONS: tuple[tuple[str, ...], ...] = (
    ("matmul_trn2_v0", "matmul_trn2_v1", "matmul_trn2_v2"),
    ("matmul_trn1_tiled", "matmul_trn1_hoisted", "matmul_trn1_block_free", "matmul_trn1_block_all"),
    ("mamba_trn1_4k", "mamba_trn1_4k_reordered"),
)
"""Versions of one kernel, the slowest first."""

NOT_RECREATED: Mapping[str, str] = {
    "vector_add_tiled, ROW_CHUNK = 1 and 128 (37,318 and 378 us, trn2, third party)": "no tile shape is stated",
    "matrix transpose (86 us, trn2, third party)": "no shape is stated",
    "LayerNorm 300 x 1000 (2,311 and 1,969 us, trn1)": "a host's latency, mostly not the kernel's",
    "Mamba in PyTorch (151.83 ms, NeuronCore-v2)": "instructions are the compiler's; it is no kernel",
    "NeuronMM, AIM3335 (third party)": "ratios or shares without shapes",
}
"""Published measurements of kernels that no row re-creates, with the reason."""
