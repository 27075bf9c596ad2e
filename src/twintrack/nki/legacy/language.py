"""``neuronxcc.nki.language``: what kernels until 2.26 are written in.

Operations take ``mask=``; those of one operand are the current ones on what the mask leaves. Types, memories and sizes
are those of the current dialect.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes

from twintrack.nki import language as current
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language.constants import (
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    hbm,
    int8,
    int16,
    int32,
    private_hbm,
    psum,
    sbuf,
    shared_hbm,
    tfloat32,
    tile_size,
    uint8,
    uint16,
    uint32,
)
from twintrack.nki.legacy.blocks import ParDim as par_dim
from twintrack.nki.legacy.creation import (
    empty_like,
    full,
    ndarray,
    ones,
    rand,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from twintrack.nki.legacy.elementwise import lifted, where
from twintrack.nki.legacy.grid import (
    affine_range,
    nc,
    num_programs,
    program_id,
    program_ndim,
    sequential_range,
    spmd_dim,
    static_range,
)
from twintrack.nki.legacy.indexing import Affine, Grid, arange, ds, mgrid
from twintrack.nki.legacy.limits import bfp16, fp32
from twintrack.nki.legacy.memory import (
    atomic_rmw,
    broadcast_to,
    copy,
    expand_dims,
    gather_flattened,
    load,
    load_transpose2d,
    static_cast,
    store,
    transpose,
)
from twintrack.nki.legacy.operations import (
    abs,
    add,
    arctan,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    ceil,
    cos,
    divide,
    equal,
    erf,
    erf_dx,
    exp,
    floor,
    fmod,
    gelu,
    gelu_apprx_sigmoid,
    gelu_apprx_tanh,
    gelu_dx,
    greater,
    greater_equal,
    invert,
    left_shift,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mish,
    mod,
    multiply,
    negative,
    not_equal,
    power,
    reciprocal,
    relu,
    right_shift,
    rsqrt,
    sigmoid,
    sign,
    silu,
    silu_dx,
    sin,
    softplus,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from twintrack.nki.legacy.products import loop_reduce, matmul
from twintrack.nki.legacy.reductions import all, max, mean, min, prod, rms_norm, softmax, sum, var
from twintrack.nki.legacy.regions import kind_of, on_chip
from twintrack.nki.legacy.tile import Tile, settle
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "abs",
    "add",
    "affine_range",
    "all",
    "all_reduce",
    "arange",
    "arctan",
    "atomic_rmw",
    "bfloat16",
    "bfp16",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bool_",
    "broadcast_to",
    "ceil",
    "copy",
    "cos",
    "device_print",
    "divide",
    "dropout",
    "ds",
    "empty_like",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "expand_dims",
    "finfo",
    "float8_e4m3",
    "float8_e5m2",
    "float16",
    "float32",
    "floor",
    "fmod",
    "fp32",
    "full",
    "gather_flattened",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_tanh",
    "gelu_dx",
    "gemm_grid",
    "gemm_stationary_grid",
    "greater",
    "greater_equal",
    "hbm",
    "int8",
    "int16",
    "int32",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "load",
    "load_transpose2d",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "loop_reduce",
    "matmul",
    "max",
    "maximum",
    "mean",
    "mgrid",
    "min",
    "minimum",
    "mish",
    "mod",
    "multiply",
    "nc",
    "ndarray",
    "negative",
    "not_equal",
    "num_programs",
    "ones",
    "par_dim",
    "power",
    "private_hbm",
    "prod",
    "program_id",
    "program_ndim",
    "psum",
    "rand",
    "random_seed",
    "reciprocal",
    "relu",
    "right_shift",
    "rms_norm",
    "rsqrt",
    "sbuf",
    "sequential_range",
    "shared_constant",
    "shared_hbm",
    "shared_identity_matrix",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softmax",
    "softplus",
    "spmd_dim",
    "sqrt",
    "square",
    "static_cast",
    "static_range",
    "store",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "tfloat32",
    "tile_size",
    "transpose",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "var",
    "where",
    "zeros",
    "zeros_like",
]


def finfo(dtype: Any) -> Any:
    """What NumPy's (or ml_dtypes') ``finfo`` tells of a float type."""
    return ml_dtypes.finfo(kind_of(dtype, float32).stored)  # type: ignore[no-untyped-call]


def dropout(x: Any, rate: Any, *, dtype: Any = None, mask: Any = None) -> Tile:
    """Elements set to 0 with a probability, which is a number or one per partition; see the current ``nl.dropout``."""
    tile = on_chip("nl.dropout", "x", x)
    kind = kind_of(dtype, tile.dtype)
    chance = on_chip("nl.dropout", "rate", rate) if isinstance(rate, NkiTensor) else rate
    return lifted(
        lambda part, p: current.dropout(part, p, kind), mask, [tile, chance], tile.shape, dtype=kind
    )


def random_seed(seed: Any, *, mask: Any = None) -> None:
    """Seed the generator that ``nl.rand`` and ``nl.dropout`` draw from; see the current ``nl.random_seed``."""
    if mask is None or mask:
        settle()
        current.random_seed(seed)


def device_print(prefix: str, x: Any, *, mask: Any = None) -> None:
    """Print a tile; see the current ``nl.device_print``."""
    if mask is None or mask:
        current.device_print(prefix, on_chip("nl.device_print", "x", x))


def all_reduce(x: Any, op: Any, program_axes: Any, **kwargs: Any) -> Tile:
    """Of the programs of a grid, which run one after the other: there is nothing yet to reduce with.

    Raises:
        KernelError: always, but for a grid of one program along these axes.
    """
    del op, kwargs
    tile = on_chip("nl.all_reduce", "x", x)
    if num_programs(program_axes) == 1:
        return tile
    raise author_error(
        "one program along the axes of nl.all_reduce",
        f"{num_programs(program_axes)}",
        "reduce in HBM after the launch: programs of a grid run one after the other",
    )


def gemm_grid() -> tuple[Affine, Affine]:
    """Index expressions over the rows and columns of the largest moving operand: ``(128, 1)`` and ``(1, 512)``."""
    return _grid(tile_size.gemm_moving_fmax)


def gemm_stationary_grid() -> tuple[Affine, Affine]:
    """Index expressions over the rows and columns of the largest stationary operand: ``(128, 1)`` and ``(1, 128)``."""
    return _grid(tile_size.gemm_stationary_fmax)


def _grid(columns: int) -> tuple[Affine, Affine]:
    found: Grid = mgrid[0 : tile_size.pmax, 0:columns]
    return found[0], found[1]
