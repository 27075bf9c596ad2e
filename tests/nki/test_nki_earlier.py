"""Arguments of earlier SDKs do what they were documented to do then."""

from __future__ import annotations

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.nki import collectives
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.earlier import earlier_arguments

_RNG = np.random.default_rng(0)


def test_a_function_shows_the_parameters_of_the_newest_documentation() -> None:
    assert list(inspect.signature(nisa.register_move).parameters) == ["dst", "src"]
    assert earlier_arguments(nisa.register_move) == {"imm"}
    assert earlier_arguments(nisa.nc_matmul) == frozenset()


def test_a_register_is_given_an_immediate() -> None:
    def kernel(a: Any) -> Any:
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        held = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        register = nisa.register_alloc()
        nisa.register_move(register, imm=41)
        nisa.register_store(held, register)
        nisa.dma_copy(dst=out, src=held)
        return out

    assert nki.simulate(kernel)(np.zeros((1, 1), np.int32)).item() == 41
    with pytest.raises(KernelError, match=r"test_nki_earlier.py:\d+: required src, or imm .* found both"):
        nki.simulate(lambda a: nisa.register_move(nisa.register_alloc(), 1, imm=2))(np.zeros(1, np.float32))


def test_an_argument_under_both_its_names_is_refused_by_these_names() -> None:
    def kernel(a: Any) -> Any:
        return a

    for made in (lambda: nki.jit(kernel, func=kernel), lambda: nki.jit(fn=kernel, func=kernel)):
        with pytest.raises(
            KernelError, match=r"required fn, or func as earlier SDKs called it, .* found both"
        ):
            made()
    assert nki.jit(func=kernel).function is kernel


def test_what_earlier_arguments_say_is_checked_though_it_changes_nothing() -> None:
    with pytest.raises(KernelError, match=r"required a mode among auto, .* found 'rubbish'"):
        nki.jit(mode="rubbish")

    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        nisa.tensor_copy(tile, tile, dtype="rubbish")
        return a

    with pytest.raises(KernelError, match=r"test_nki_earlier.py:\d+: required an element type .* 'rubbish'"):
        nki.simulate(kernel)(np.zeros((1, 4), np.float32))


@pytest.mark.parametrize("source", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64])
@pytest.mark.parametrize("target", ["uint8", "int8", "int16", "int32"])
def test_a_constant_is_rounded_and_saturated_as_a_tensor_is_converted(source: Any, target: str) -> None:
    given = np.array([[-40000, -300.7, -0.5, 0.5, 1.5, 2.5, 44, 127, 300.7, 40000]]).astype(source)

    def kernel(a: Any) -> Any:
        out = nl.ndarray(given.shape, target, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.shared_constant(given, dtype=target))
        return out

    limits = np.iinfo(target)
    expected = np.clip(np.rint(given.astype(np.float64)), limits.min, limits.max)
    assert np.array_equal(nki.simulate(kernel)(np.zeros((1, 1), np.float32)), expected)


def _adding(index: bool, **how: Any) -> Any:
    def kernel(table: Any, rows: Any, at: Any) -> Any:
        out = nl.ndarray(table.shape, table.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=table)
        held = nl.ndarray(rows.shape, rows.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=held, src=rows)
        where = nl.ndarray(at.shape, at.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=where, src=at)
        target = (
            out.ap([[4, rows.shape[0]], [1, 4]], vector_offset=where) if index else out[: rows.shape[0], :]
        )
        nisa.dma_copy(dst=target, src=held, **how)
        return out

    return nki.simulate(kernel)


@pytest.mark.parametrize("index", [False, True])
def test_a_copy_that_adds_reads_modifies_and_writes(index: bool) -> None:
    table, rows = _RNG.random((8, 4), np.float32), _RNG.random((3, 4), np.float32)
    at = np.array([[5], [0], [2]], np.int32)
    expected = table.copy()
    expected[at[:, 0] if index else slice(3)] += rows

    found = _adding(index, dst_rmw_op=nl.add, unique_indices=True)(table, rows, at)

    assert np.array_equal(found, expected)


def test_a_copy_without_an_operation_copies() -> None:
    table, rows = _RNG.random((8, 4), np.float32), _RNG.random((3, 4), np.float32)

    found = _adding(False, dst_rmw_op=None)(table, rows, np.zeros((3, 1), np.int32))

    assert np.array_equal(found[:3], rows)


def test_a_copy_that_adds_refuses_to_skip_and_other_operations() -> None:
    arrays = np.ones((8, 4), np.float32), np.ones((3, 4), np.float32), np.zeros((3, 1), np.int32)
    with pytest.raises(KernelError, match=r"oob_mode\.error"):
        _adding(False, dst_rmw_op=nl.add, oob_mode=nisa.oob_mode.skip)(*arrays)
    with pytest.raises(KernelError, match="add"):
        _adding(False, dst_rmw_op=nl.multiply)(*arrays)


@pytest.mark.parametrize("named", ["bfloat16", "float32"])
def test_a_copy_on_chip_has_the_type_of_its_destination_whatever_type_is_named(named: str) -> None:
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, nl.bfloat16, buffer=nl.shared_hbm)
        held = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=held, src=a)
        narrow = nl.ndarray(a.shape, nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=narrow, src=held, dtype=getattr(nl, named))
        nisa.dma_copy(dst=out, src=narrow)
        return out

    data = _RNG.random((8, 4), np.float32)
    assert np.array_equal(nki.simulate(kernel)(data), data.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("named", ["bfloat16", "int8", None])
def test_a_shared_constant_is_converted_to_the_type_that_is_named(named: str | None) -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4) * 1.01

    def kernel(a: Any) -> Any:
        constant = nl.shared_constant(data, dtype=None if named is None else getattr(nl, named))
        out = nl.ndarray(constant.shape, constant.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=constant)
        return out

    expected = data.astype({"bfloat16": ml_dtypes.bfloat16, "int8": np.int8, None: np.float32}[named])
    found = nki.simulate(kernel)(np.zeros(1, np.float32))
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_a_ring_has_as_many_channels_as_it_is_told() -> None:
    rank_in = collectives.collective_permute_implicit_current_processing_rank_id

    def kernel(a: Any, channel: int) -> Any:
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        held = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        group = collectives.ReplicaGroup([[0]])
        nisa.register_store(held, rank_in(0, group, channel_id=channel, num_channels=2))
        nisa.dma_copy(dst=out, src=held)
        return out

    assert nki.simulate(kernel)(np.zeros(1, np.float32), 1).item() == 0
    with pytest.raises(KernelError, match=r"channel_id below num_channels \(2\)"):
        nki.simulate(kernel)(np.zeros(1, np.float32), 2)


def test_a_kernel_is_made_by_the_names_that_jit_had() -> None:
    def double(a: Any) -> Any:
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=held, src=a)
        nisa.tensor_scalar(held, held, nl.multiply, 2.0)
        nisa.dma_copy(dst=out, src=held)
        return out

    data = _RNG.random((8, 4), np.float32)
    for made in (nki.jit(func=double), nki.jit(mode="torchxla")(double), nki.jit(func=double, mode="jax")):
        assert np.array_equal(made(data), 2 * data)
