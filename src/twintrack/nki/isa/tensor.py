"""``nki.isa``: instructions of the Tensor Engine."""

from __future__ import annotations

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.constants import matmul_perf_mode
from twintrack.nki.isa.issue import NkiInstruction, choose, issue
from twintrack.nki.tensor import NkiTensor

__all__ = ["nc_matmul", "nc_transpose"]

_VECTOR_MOST = 32


def nc_matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: tuple[int, int] | tuple[()] = (),
    tile_size: tuple[int, int] | tuple[()] = (),
    perf_mode: matmul_perf_mode = matmul_perf_mode.none,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = stationary.T @ moving`` or ``dst += ...`` on the Tensor Engine, summed in float32.

    Args:
        dst: PSUM, ``(M, N)``, float32 (or bfloat16 on NeuronCore-v4).
        stationary: SBUF, ``(K, M)`` with K and M up to 128.
        moving: SBUF, ``(K, N)`` with N up to 512, one PSUM bank, before NeuronCore-v4.
        is_stationary_onezero: a hint about speed for float32; values do not depend on it.
        is_moving_onezero: likewise.
        is_transpose: pass bits through, which keeps NaN and Inf, from NeuronCore-v3.
        accumulate: add to ``dst``, overwrite it, or (``None``) add where an earlier product wrote it.
        tile_position: first row and column of the array that is used.
        tile_size: rows and columns of the tile.
        perf_mode: ``double_row`` for pairs of float8 rows, ``stationary`` ``(K, 2, M)`` and ``moving`` ``(K, 2, N)``.
        name: for messages and profiles.

    Raises:
        KernelError: for regions, types, shapes or modes that the engine does not take.
    """
    attributes = {
        "is_transpose": bool(is_transpose),
        "accumulate": None if accumulate is None else bool(accumulate),
        "tile_position": tuple(tile_position or ()),
        "tile_size": tuple(tile_size or ()),
        "perf_mode": perf_mode if isinstance(perf_mode, str) else perf_mode.name,
        "onezero": (bool(is_stationary_onezero), bool(is_moving_onezero)),
    }
    return issue("nc_matmul", Engine.TENSOR, (dst,), (stationary, moving), attributes, name)


def nc_transpose(
    dst: NkiTensor, data: NkiTensor, engine: _engine = _engine.unknown, name: str | None = None
) -> NkiInstruction:
    """``dst = data.T``, all free dimensions of ``data`` as one.

    Args:
        dst: ``(F, P)``, of the type of ``data``; PSUM on the Tensor Engine.
        data: ``(P, F)``: up to 128 x 128 in SBUF on the Tensor Engine, up to 32 x 32 on the Vector Engine.
        engine: tensor or vector; by default the one that can take these operands.
        name: for messages and profiles.

    Raises:
        KernelError: for regions, types and shapes that the engine does not take.
    """
    small = data.shape[0] <= _VECTOR_MOST and data.free_size <= _VECTOR_MOST
    from_psum = data.storage.buffer.region == "psum" or dst.storage.buffer.region != "psum"
    default = Engine.VECTOR if small and from_psum else Engine.TENSOR
    return issue("nc_transpose", choose(engine, default), (dst,), (data,), {}, name)
