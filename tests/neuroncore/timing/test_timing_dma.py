"""What a transfer costs: rows that are contiguous on both sides, engines by partitions, bytes once per byte."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timing_streams import issued

from twintrack.neuroncore.timing.dma import transfer_of
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape

TRN2, TRN1 = parameters_of("trn2"), parameters_of("trn1")


def _load(source, rows, columns, first=0, step=1):
    tile = nl.ndarray((rows, columns), source.dtype)
    nisa.dma_copy(tile, source[first : first + rows, first : first + columns * step : step])


def _store(out):
    tile = nl.ndarray(out.shape, out.dtype)
    nisa.memset(tile, 0)
    nisa.dma_copy(out, tile)


def _transfers(kernel, *shapes, parameters=TRN2, **keywords):
    chip = parameters.chip
    return [
        transfer_of(ins, parameters)
        for ins in issued(kernel, *shapes, chip=chip, **keywords)
        if ins.opcode.startswith("dma")
    ]


@settings(max_examples=40)
@given(st.integers(1, 128), st.integers(1, 256), st.booleans())
def test_a_load_of_rows_follows_the_formula(rows, columns, whole):
    """Independent of the model: a row per partition, an engine per 8 partitions, every engine its share."""
    width = columns if whole else columns + 3
    (found,) = _transfers(_load, Shape((128, width)), rows=rows, columns=columns)

    engines = math.ceil(rows / 8)
    size = rows * columns * 4
    assert (found.bytes, found.hbm_bytes, found.rows, found.engines) == (size, size, rows, engines)
    expected = math.ceil(rows / engines) * 14.5 + size / engines / 23
    assert found.engine_ns == pytest.approx(expected, rel=1e-12)
    assert not found.writes_hbm


def test_one_engine_moves_32_kib_in_about_the_published_time():
    """Published for 4 rows of 8 KiB on one engine: 1,416 ns."""
    (found,) = _transfers(_load, Shape((4, 4096), "bfloat16"), rows=4, columns=4096)

    assert found.engines == 1
    assert found.engine_ns == pytest.approx(1416, rel=0.06)


def test_trn1_moves_at_its_own_rate_and_pays_no_rows():
    (found,) = _transfers(_load, Shape((128, 512), "bfloat16"), parameters=TRN1, rows=128, columns=512)

    assert found.engine_ns == pytest.approx(128 * 1024 / 16 / 6.48)


def test_elements_apart_are_a_row_each():
    (found,) = _transfers(_load, Shape((128, 256)), rows=128, columns=64, step=2)

    assert found.rows == 128 * 64


def test_rows_of_more_than_64_kib_take_several_descriptors():
    (found,) = _transfers(_load, Shape((2, 40_000)), rows=2, columns=40_000)

    assert found.rows == math.ceil(2 * 160_000 / 65_536)


def test_a_store_says_that_it_writes_hbm():
    (found,) = _transfers(_store, Shape((128, 512)))

    assert found.writes_hbm
    assert found.hbm_bytes == found.bytes == 128 * 512 * 4


def _between_tensors(source, out):
    nisa.dma_copy(out, source)


def test_hbm_to_hbm_reads_and_writes_hbm():
    (found,) = _transfers(_between_tensors, Shape((64, 1024)), Shape((64, 1024)))

    assert found.bytes == 64 * 1024 * 4
    assert found.hbm_bytes == 2 * found.bytes


def _transpose(source):
    tile = nl.ndarray((128, 128), source.dtype)
    nisa.dma_transpose(tile, source)


def _transpose_on_chip():
    tile, other = nl.ndarray((128, 128), nl.bfloat16), nl.ndarray((128, 128), nl.bfloat16)
    nisa.memset(tile, 0)
    nisa.dma_transpose(other, tile)


@pytest.mark.parametrize("parameters", [TRN1, TRN2], ids=["trn1", "trn2"])
def test_transposes_run_at_the_documented_share_of_the_rate(parameters):
    (plain,) = _transfers(_load, Shape((128, 128), "bfloat16"), parameters=parameters, rows=128, columns=128)
    (hbm,) = _transfers(_transpose, Shape((128, 128), "bfloat16"), parameters=parameters)
    (chip,) = _transfers(_transpose_on_chip, parameters=parameters)

    def moving(one):
        return one.engine_ns - math.ceil(one.rows / one.engines) * parameters.dma_row

    assert moving(hbm) == pytest.approx(moving(plain) / {"trn1": 0.5, "trn2": 0.9}[parameters.chip])
    assert moving(chip) == pytest.approx(moving(plain) / 0.5)


def _add(one, other):
    tile = nl.ndarray(one.shape, nl.float32)
    nisa.dma_compute(tile, [one, other], nl.add)


def test_adding_on_the_way_moves_every_source_at_half_rate():
    (found,) = _transfers(_add, Shape((128, 512)), Shape((128, 512)))

    assert found.bytes == 2 * 128 * 512 * 4
    assert found.engine_ns == pytest.approx(16 * 14.5 + found.bytes / 16 / (23 * 0.5))
