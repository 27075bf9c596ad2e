"""Each parameter moves what it is about, in the right direction, and nothing else."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields
from typing import Any

import kernels_matmul as matmul
import kernels_probing as probing
import kernels_small as small
import pytest
from accuracy_rows import ROWS, Row
from accuracy_runs import timed, times, traced

from twintrack.neuroncore.timing.parameters import Parameters, parameters_of
from twintrack.nki.arrays import Shape

STEP = 1.1
PARAMETERS = [one.name for one in fields(Parameters) if one.name != "chip"]
DENOMINATORS = {"tensor_peak", "dma_peak"}
"""Peaks against which shares are stated: they move no time."""
TWO_CORES = {"dma_core_rate_shared"}
"""Of a pair of cores: moves no time of one."""
ROW_COSTS = {"dma_row", "dma_stagger"}
DMA_LONGER = ROW_COSTS | {"dma_start"}
DMA_SHORTER = {"dma_engines", "dma_rate"}
ANY_DMA = DMA_LONGER | DMA_SHORTER | {"dma_issue", "dma_completion"}
LIMIT = {"throttle_window", "throttle_threshold"}
"""Of the Tensor Engine after idleness: thresholds, at which times jump or do not move at all."""
BF16 = "bfloat16"


@dataclass(frozen=True)
class Case:
    """A kernel, what lengthens and shortens it, and what may do either or nothing; all else must not move it."""

    row: Row
    longer: set[str]
    shorter: set[str]
    either: set[str] = field(default_factory=set)

    @property
    def quantity(self) -> str:
        return self.row.figures[0].quantity if self.row.figures else "total, us"


def _published(name: str, longer: set[str], shorter: set[str], either: set[str]) -> Case:
    return Case(next(row for row in ROWS if row.name == name), longer, shorter, either)


def _probe(
    kernel: Any, *arguments: Any, longer: set[str], shorter: set[str], chip: str = "trn2", **keywords: Any
):
    either = {"dma_issue"} | (LIMIT if "tensor_ghz" in shorter and chip == "trn2" else set())
    row = Row(f"{kernel.__name__}_{chip}", "", chip, kernel, arguments, (), "", keywords)
    return Case(row, longer, shorter, either)


TILE = Shape((128, probing.WIDTH))
SQUARE = {"trn1": (512, 512), "trn2": (1024, 1024)}
SCAN = tuple(Shape(dims) for dims in ((128, 512), (128, 512), (128, 16), (16, 512), (16, 512), (1, 128)))
SEEN_BY_AN_ENGINE = DMA_LONGER | {"semaphore", "dma_completion"}
CASES = [
    _published("te_tiles_full", {"tensor_gap", "tensor_fill"}, {"tensor_ghz", "throttle_share"}, LIMIT),
    _published(
        "te_tiles_mixed",
        {"tensor_gap", "tensor_fill", "minimum_interval"},  # an interval below which N = 64 does not get
        {"tensor_ghz", "throttle_share"},
        LIMIT,
    ),
    _published("dge_mixed_512", ROW_COSTS, DMA_SHORTER, ANY_DMA),
    _published("dge_mixed_2048", ROW_COSTS, DMA_SHORTER, ANY_DMA),
    Case(
        Row("selective_scan", "", "trn1", small.selective_scan_reordered, SCAN, (), ""),
        {"vector_fixed"},
        {"vector_ghz"},
        ANY_DMA - {"dma_row"}
        | {
            "semaphore",
            "tensor_ghz",
            "tensor_gap",
            "tensor_fill",
            "scalar_ghz",
            "scalar_fixed",
            "scalar_table_load",
        },
    ),
    _probe(
        probing.vector_chain,
        TILE,
        Shape(TILE.dims),
        longer=SEEN_BY_AN_ENGINE | {"vector_fixed"},
        shorter=DMA_SHORTER | {"vector_ghz"},
    ),
    _probe(
        probing.scalar_chain,
        TILE,
        Shape(TILE.dims),
        longer=SEEN_BY_AN_ENGINE | {"scalar_fixed", "scalar_table_load", "scalar_accumulator_read"},
        shorter=DMA_SHORTER | {"scalar_ghz"},
    ),
    _probe(
        probing.gpsimd_chain,
        Shape(TILE.dims, "int32"),
        longer=DMA_LONGER | {"semaphore", "gpsimd_fixed"},
        shorter=DMA_SHORTER | {"gpsimd_ghz"},
    ),
    _probe(
        probing.transposed_load,
        Shape((128, 128), BF16),
        Shape((128, 128), BF16),
        longer=DMA_LONGER | {"dma_completion"},
        shorter=DMA_SHORTER | {"dma_transpose_share"},
    ),
    _probe(
        probing.added_on_the_way,
        TILE,
        Shape(TILE.dims),
        Shape(TILE.dims),
        longer=DMA_LONGER | {"dma_completion"},
        shorter=DMA_SHORTER | {"dma_compute_share"},
    ),
    _probe(
        matmul.row_loads,
        Shape(SQUARE["trn2"], BF16),
        Shape(SQUARE["trn2"], BF16),
        longer=SEEN_BY_AN_ENGINE | {"tensor_gap", "tensor_fill", "vector_fixed"},
        shorter=DMA_SHORTER | {"tensor_ghz", "throttle_share", "vector_ghz"},
        block_m=8,
        block_n=2,
    ),
    _probe(
        matmul.tiled,
        Shape(SQUARE["trn1"], BF16),
        Shape(SQUARE["trn1"], BF16),
        longer=SEEN_BY_AN_ENGINE - {"dma_row"} | {"tensor_gap", "tensor_fill", "vector_fixed"},
        shorter=DMA_SHORTER | {"tensor_ghz", "vector_ghz"},
        chip="trn1",
    ),
]


@functools.cache
def _traced(name: str):
    case = next(case for case in CASES if case.row.name == name)
    return traced(case.row)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.row.name)
def test_a_parameter_moves_what_it_is_about_and_nothing_else(case):
    kept = _traced(case.row.name)
    parameters = parameters_of(case.row.chip)
    before = times(timed(kept))[case.quantity]
    wrong = []
    for name in PARAMETERS:
        value = getattr(parameters, name)
        after = times(timed(kept, parameters.changed(**{name: value * STEP})))[case.quantity]
        if name in case.either:
            right = True
        elif name in case.longer:
            right = after > before
        elif name in case.shorter:
            right = after < before
        else:
            right = after == before
        if not right:
            wrong.append((name, f"{after / before - 1:+.3%}"))

    assert wrong == []


def test_every_parameter_that_decides_a_time_moves_some_kernel():
    moved = set().union(*(case.longer | case.shorter for case in CASES))

    assert set(PARAMETERS) - moved == DENOMINATORS | TWO_CORES | LIMIT | {"dma_issue"}


def test_thresholds_of_the_limit_move_the_mixed_tiles():
    """The window and the share below which the limit falls decide how much of the mixed row is slow."""
    kept = _traced("te_tiles_mixed")
    parameters = parameters_of("trn2")
    before = times(timed(kept))["tensor active, us"]

    for name in sorted(LIMIT):
        moved = parameters.changed(**{name: getattr(parameters, name) * STEP})
        assert times(timed(kept, moved))["tensor active, us"] != before


def test_issuing_slower_lengthens_a_kernel_of_many_small_transfers():
    kept = traced(next(row for row in ROWS if row.name == "vector_add_2"))
    parameters = parameters_of("trn2")
    slower = parameters.changed(dma_issue=parameters.dma_issue * STEP)

    assert times(timed(kept, slower))["total, us"] > times(timed(kept))["total, us"]
