"""``nki.language``: constants that are part of the compiled program."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from twintrack.neuroncore.convert import round_to, to_float32
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES, DType, dtype_of
from twintrack.neuroncore.memory.generation import PARTITIONS
from twintrack.neuroncore.memory.storage import Storage
from twintrack.nki import isa
from twintrack.nki.context import current_core
from twintrack.nki.earlier import also_took
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language.tiles import on_chip, tile
from twintrack.nki.tensor import NkiTensor, to_dtype

__all__ = ["shared_constant", "shared_identity_matrix"]


def _of_type(make: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """``dtype`` (until 2.28) is the type that the constant is converted to."""
    dtype = given.pop("dtype")
    if dtype is None:
        return make(*args, **given)
    (constant,) = signature(make).bind(*args, **given).args
    values = _read(constant) if isinstance(constant, str | Path) else np.asarray(constant)
    return _constant(_converted(values, to_dtype(dtype)), to_dtype(dtype))


def _converted(values: Any, kind: DType) -> Any:
    """Numbers as a type, rounded and saturated as a write to a tensor of it does; at least one dimension."""
    try:
        if values.dtype.kind not in "biuf":  # bfloat16 and float8, which NumPy lacks
            source = dtype_of(values.dtype)
            values = to_float32(values.view(source.stored), source)
        return round_to(np.atleast_1d(values), kind)
    except (KeyError, TypeError):
        raise author_error(
            f"numbers that can be converted to {kind} for nl.shared_constant",
            str(values.dtype),
            "convert them, for example with .astype(np.float32)",
        ) from None


@also_took(_of_type, "dtype")
def shared_constant(constant: Any) -> NkiTensor:
    """A tensor in shared HBM that holds constant data when the program is loaded; no instruction makes it.

    Args:
        constant: an array, or the path of a ``.npy`` file.

    Raises:
        KernelError: if there is no such file, its content is no array, or NKI has no such element type.
    """
    values = _read(constant) if isinstance(constant, str | Path) else np.asarray(constant)
    try:
        kind = dtype_of(values.dtype)
    except KeyError:
        raise author_error(
            "an element type of nki.language for nl.shared_constant",
            str(values.dtype),
            "convert it, for example with .astype(np.float32)",
        ) from None
    if values.ndim == 0:
        values = values.reshape(1)
    return _constant(values, kind)


def _constant(values: Any, kind: DType) -> NkiTensor:
    held = np.array(values, order="C", copy=True).view(kind.stored)
    core, region = current_core(), MemoryRegion.shared_hbm

    def make() -> Storage:
        return core.adopt(held, held.shape, kind, region, "", "constant")

    machine = core.machine
    shared = machine is not None and machine.shares(region)
    storage = machine.shared(core, held.shape, kind, make) if machine is not None and shared else make()
    return NkiTensor(held.shape, kind, storage, MemoryRegion.shared_hbm)


def _read(path: str | Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise author_error(
            "a .npy file for nl.shared_constant", f"{path}: {error}", "write it with numpy.save"
        ) from None


def shared_identity_matrix(n: int, dtype: DType = DTYPES["uint8"], dst: NkiTensor | None = None) -> NkiTensor:
    """The identity matrix in SBUF, loaded from a shared constant.

    Args:
        n: rows and columns, up to 128.
        dtype: of its elements.
        dst: a tile ``(n, n)`` in SBUF to write to; a new one where ``None``.

    Returns:
        ``dst``, or the new tile.

    Raises:
        KernelError: for more than 128 rows, or a destination of another shape.
    """
    kind = to_dtype(dtype)
    if not 1 <= n <= PARTITIONS:
        raise author_error(
            f"1 to {PARTITIONS} rows for nl.shared_identity_matrix", f"{n}", "make it of tiles of 128"
        )
    made = tile((n, n), kind) if dst is None else on_chip("shared_identity_matrix", "dst", dst)
    if made.shape != (n, n):
        raise author_error(
            f"dst of shape [{n}, {n}] for nl.shared_identity_matrix", f"{list(made.shape)}", "allocate it so"
        )
    # values of one and zero are the same in every type that numbers are cast to
    isa.dma_copy(made, _constant(np.eye(n, dtype=np.float32), DTYPES["float32"]))
    return made
