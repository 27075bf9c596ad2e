"""Which instructions an operation of ``nki.language`` is made of, on every generation, with values and without."""

from __future__ import annotations

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

VECTOR, SCALAR, GPSIMD, TENSOR, DMA = "vector", "scalar", "gpsimd", "tensor", "dma"

F32 = np.linspace(0.5, 2, 32, dtype=np.float32).reshape(4, 8)
COLUMN = np.full((4, 1), 2, np.float32)
ROW = np.full((1, 8), 2, np.float32)
INTEGERS = np.arange(32, dtype=np.int32).reshape(4, 8)
INDICES = np.zeros((4, 8), np.uint32)

CASES = {
    "add of two tiles": (lambda x: nl.add(x, x), [F32], [("tensor_tensor", VECTOR)]),
    "add of two tiles of integers": (lambda x: nl.add(x, x), [INTEGERS], [("tensor_tensor", GPSIMD)]),
    "subtract a number": (lambda x: nl.subtract(x, 1), [F32], [("tensor_scalar", VECTOR)]),
    "subtract from a number": (lambda x: nl.subtract(1, x), [F32], [("tensor_scalar", VECTOR)]),
    "divide by a column": (nl.divide, [F32, COLUMN], [("tensor_scalar", VECTOR)]),
    "multiply a column": (lambda x, c: nl.multiply(c, x), [F32, COLUMN], [("tensor_scalar", VECTOR)]),
    "power of two tiles": (lambda x: nl.power(x, x), [F32], [("tensor_tensor", GPSIMD)]),
    "bitwise_and of a number": (lambda x: nl.bitwise_and(x, 3), [INTEGERS], [("tensor_scalar", VECTOR)]),
    "invert": (nl.invert, [INTEGERS], [("tensor_scalar", VECTOR)]),
    "exp": (nl.exp, [F32], [("activation", SCALAR)]),
    "reciprocal": (nl.reciprocal, [F32], [("reciprocal", VECTOR)]),
    "copy": (nl.copy, [F32], [("tensor_copy", VECTOR)]),
    "floor": (nl.floor, [F32], [("tensor_scalar", VECTOR)] * 2 + [("tensor_tensor", VECTOR)]),
    "sin": (
        nl.sin,
        [F32],
        [("tensor_scalar", VECTOR)]
        + [("scalar_tensor_tensor", VECTOR)] * 5
        + [("tensor_scalar", VECTOR), ("activation", SCALAR)],
    ),
    "sum": (lambda x: nl.sum(x, axis=1), [F32], [("tensor_reduce", VECTOR)]),
    "mean": (lambda x: nl.mean(x, axis=1), [F32], [("tensor_reduce", VECTOR), ("tensor_scalar", VECTOR)]),
    "softmax": (
        nl.softmax,
        [F32],
        [
            ("tensor_reduce", VECTOR),
            ("activation", SCALAR),
            ("reciprocal", VECTOR),
            ("tensor_scalar", VECTOR),
        ],
    ),
    "where": (
        lambda x: nl.where(x, x, 0.0),
        [F32],
        [("tensor_scalar", VECTOR), ("memset", VECTOR), ("tensor_copy_predicated", VECTOR)],
    ),
    "gather_flattened": (nl.gather_flattened, [F32, INDICES], [("nc_n_gather", GPSIMD)]),
    "transpose": (nl.transpose, [F32], [("nc_transpose", TENSOR)]),
    "matmul": (lambda x, y: nl.matmul(x, y, transpose_x=True), [F32, F32], [("nc_matmul", TENSOR)]),
    "matmul that transposes": (
        lambda x: nl.matmul(x, nl.broadcast_to(nl.copy(x)[0:1, 0:1], (8, 3))),
        [F32],
        [
            ("tensor_copy", VECTOR),
            ("memset", VECTOR),
            ("nc_matmul", TENSOR),
            ("tensor_copy", VECTOR),
            ("tensor_copy", VECTOR),
            ("nc_transpose", TENSOR),
            ("tensor_copy", VECTOR),
            ("nc_matmul", TENSOR),
        ],
    ),
    "broadcast_to over partitions": (
        lambda x: nl.broadcast_to(x, (128, 8)),
        [ROW],
        [("memset", VECTOR), ("nc_matmul", TENSOR), ("tensor_copy", VECTOR)],
    ),
    "broadcast_to of integers over partitions": (
        lambda x: nl.broadcast_to(x[0:1], (5, 8)),
        [INTEGERS],
        [("dma_copy", DMA)] * 4,
    ),
    "rand": (
        lambda x: nl.rand(x.shape, nl.float32),
        [F32],
        [("rng", VECTOR)] + [("tensor_scalar", VECTOR)] * 2,
    ),
    "dropout": (lambda x: nl.dropout(x, 0.5), [F32], [("dropout", VECTOR)]),
    "shared_identity_matrix": (lambda x: nl.shared_identity_matrix(4), [F32], [("dma_copy", DMA)]),
    "rms_norm": (
        lambda x: nl.rms_norm(x, x, axis=1, n=8),
        [F32],
        [
            ("activation", SCALAR),
            ("tensor_reduce", VECTOR),
            ("tensor_scalar", VECTOR),
            ("activation", SCALAR),
            ("tensor_tensor", VECTOR),
            ("tensor_tensor", VECTOR),
        ],
    ),
    "var": (
        lambda x: nl.var(x, axis=1),
        [F32],
        [
            ("tensor_reduce", VECTOR),
            ("tensor_scalar", VECTOR),
            ("tensor_tensor", VECTOR),
            ("tensor_tensor", VECTOR),
            ("tensor_reduce", VECTOR),
            ("tensor_scalar", VECTOR),
        ],
    ),
}


def _stream(function, arrays, **options):
    """Opcodes and engines of the operation alone, and lines that are not the author's."""
    seen, strangers = [], []

    def kernel(*inputs):
        tiles = []
        for one in inputs:
            tiles.append(nl.ndarray(one.shape, one.dtype))
            nisa.dma_copy(tiles[-1], one)
        seen.clear()
        function(*tiles)
        operation.extend(seen)
        out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.zeros((1, 1), nl.float32))
        return out

    def sink(*given):
        ins = given[-1]
        seen.append((ins.opcode, str(ins.engine)))
        if ins.code.co_filename != __file__:
            strangers.append(ins.line)

    operation = []
    nki.simulate(nki.jit(kernel)).with_options(sink=sink, **options)(*arrays)
    return operation, strangers


@pytest.mark.parametrize("name", CASES)
def test_an_operation_is_made_of_the_stated_instructions_at_the_authors_line(name):
    function, arrays, expected = CASES[name]
    operation, strangers = _stream(function, arrays)

    assert operation == expected
    assert strangers == []


@pytest.mark.parametrize("chip", ["trn1", "trn3"])
@pytest.mark.parametrize("name", CASES)
def test_every_generation_takes_every_operation(name, chip):
    function, arrays, expected = CASES[name]

    assert _stream(function, arrays, generation=GENERATIONS[chip])[0] == expected


@pytest.mark.parametrize("name", CASES)
def test_without_values_the_instructions_are_the_same(name):
    function, arrays, expected = CASES[name]
    shapes = [nki.arrays.Shape(one.shape, one.dtype) for one in arrays]

    assert _stream(function, shapes, values=False)[0] == expected


def test_outside_a_kernel_an_operation_says_where_to_call_it():
    with pytest.raises(KernelError, match="called by a kernel"):
        nl.add(1, 2)
