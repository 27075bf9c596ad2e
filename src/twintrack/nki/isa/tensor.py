"""``nki.isa``: instructions of the Tensor Engine."""

from __future__ import annotations

from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.constants import matmul_perf_mode
from twintrack.nki.isa.issue import NkiInstruction, choose, flag, issue
from twintrack.nki.tensor import NkiTensor

__all__ = ["nc_matmul", "nc_matmul_mx", "nc_transpose", "quantize_mx"]

_VECTOR_MOST = 32
_NO_MODE = matmul_perf_mode.none
_PLAIN: dict[str, Any] = {
    "is_transpose": False,
    "accumulate": None,
    "tile_position": (),
    "tile_size": (),
    "perf_mode": "none",
    "onezero": (False, False),
}
"""Attributes of nearly every ``nc_matmul``, made once."""


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
        dst: PSUM, ``(M, N)``, float32 (or bfloat16 on NeuronCore-v4); in transpose mode also of the type of
            ``stationary``.
        stationary: SBUF, ``(K, M)`` with K and M up to 128.
        moving: SBUF, ``(K, N)`` with N up to 512, one PSUM bank, before NeuronCore-v4.
        is_stationary_onezero: a hint about speed for float32; values do not depend on it.
        is_moving_onezero: likewise.
        is_transpose: pass bits through, which keeps NaN and Inf, from NeuronCore-v3.
        accumulate: add to ``dst``, overwrite it, or (``None``) add to the elements that an earlier product wrote and
            overwrite the others.
        tile_position: first row and column of the array that is used.
        tile_size: rows and columns of the tile.
        perf_mode: ``double_row`` for pairs of float8 rows, ``stationary`` ``(K, 2, M)`` and ``moving`` ``(K, 2, N)``.
        name: for messages and profiles.

    Raises:
        KernelError: for regions, types, shapes or modes that the engine does not take.
    """
    plain = (
        accumulate is None
        and perf_mode is _NO_MODE
        and not (is_transpose or tile_position or tile_size or is_stationary_onezero or is_moving_onezero)
    )
    attributes = (
        _PLAIN
        if plain
        else {
            "is_transpose": is_transpose
            if type(is_transpose) is bool
            else flag("is_transpose", is_transpose),
            "accumulate": None if accumulate is None else bool(accumulate),
            "tile_position": tuple(tile_position or ()),
            "tile_size": tuple(tile_size or ()),
            "perf_mode": perf_mode if isinstance(perf_mode, str) else perf_mode._name_,
            "onezero": (bool(is_stationary_onezero), bool(is_moving_onezero)),
        }
    )
    return issue("nc_matmul", Engine.TENSOR, (dst,), (stationary, moving), attributes, name)


def nc_matmul_mx(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile_position: tuple[int, int] | None = None,
    tile_size: tuple[int, int] | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = stationary.T @ moving`` or ``dst += ...`` of MX matrices, scaled and summed in float32; NeuronCore-v4.

    Args:
        dst: PSUM, ``(M, N)``, float32 or bfloat16.
        stationary: SBUF, words of four elements, ``(K, M)`` with K a multiple of 32 up to 128, M even up to 128.
        moving: SBUF, ``(K, N)``, as far as PSUM reaches.
        stationary_scale: SBUF, float8_e8m0fnu or uint8, M per partition: the scales of each 32 partitions of data in
            four partitions, 32 apart, from partition 0, 4, 8 or 12 of a quadrant.
        moving_scale: likewise, N per partition.
        tile_position: first row of the array that is used, and 0.
        tile_size: rows of the tile, and 128.
        accumulate: as of ``nc_matmul``.
        name: for messages and profiles.

    Raises:
        KernelError: before NeuronCore-v4; for regions, types and shapes that the engine does not take.
    """
    attributes = {
        "accumulate": None if accumulate is None else bool(accumulate),
        "tile_position": tuple(tile_position or ()),
        "tile_size": tuple(tile_size or ()),
    }
    ins = (stationary, moving, stationary_scale, moving_scale)
    return issue("nc_matmul_mx", Engine.TENSOR, (dst,), ins, attributes, name)


def quantize_mx(
    dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """``dst, dst_scale = src`` in an MX format of 8-bit floats, by the Vector Engine; NeuronCore-v4.

    Args:
        dst: SBUF, float8_e5m2_x4 or float8_e4m3fn_x4, ``(P, F / 4)``.
        src: SBUF, float16 or bfloat16, ``(P, F)`` with P a multiple of 32 up to 128, F of 4.
        dst_scale: SBUF, float8_e8m0fnu or uint8, F / 4 per partition; where scales lie see ``nc_matmul_mx``.
        name: for messages and profiles.

    Raises:
        KernelError: before NeuronCore-v4; for regions, types and shapes that the engine does not take.
    """
    return issue("quantize_mx", Engine.VECTOR, (dst, dst_scale), (src,), {}, name)


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
