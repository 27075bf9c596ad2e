"""Arrays that a kernel is called with, as the emulator holds them, and tensors that it returns, as the caller's kind.

NumPy, torch (CPU) and JAX arrays are taken; torch and JAX are looked at only if the caller has imported them. Shapes
(``Shape(dims, dtype)``) stand for arrays where values are not computed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DType, dtype_of
from twintrack.neuroncore.memory.storage import Storage
from twintrack.nki.tensor import NkiTensor

__all__ = ["Argument", "Arrays", "Shape"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """An argument without values.

    Args:
        dims: positive sizes.
        dtype: a name, a NumPy dtype or an ``nl`` type.
    """

    dims: tuple[int, ...]
    dtype: object = "float32"


class Argument:
    """One array argument.

    Args:
        values: dense, of ``dtype.stored``; ``None`` without values.
        shape: its sizes.
        dtype: element type.
        name: as messages name it.
        restore: copies what the kernel wrote back to the caller's array, where that is not the same memory.
    """

    __slots__ = ("dtype", "name", "restore", "shape", "storage", "values")

    def __init__(
        self,
        values: Array | None,
        shape: tuple[int, ...],
        dtype: DType,
        name: str,
        restore: Callable[[Array], None] | None,
    ) -> None:
        self.values = values
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.restore = restore
        self.storage: Storage | None = None


class Arrays:
    """The arrays of one launch.

    Args:
        values: whether values are computed.
    """

    def __init__(self, *, values: bool) -> None:
        self.values = values
        self.kind = "numpy"
        """Of the arrays that came in: ``numpy``, ``torch`` or ``jax``."""
        self.given = 0
        """Tensors that the kernel returned."""
        self._taken: dict[int, Argument] = {}

    @property
    def modified(self) -> bool:
        """Whether the kernel wrote to an argument."""
        return any(one.storage is not None and one.storage.modified for one in self._taken.values())

    def take(self, value: Any, name: str) -> Any:
        """An argument: arrays (also inside lists, tuples and dictionaries) as ``Argument``, all else as it is.

        Raises:
            KernelError: for an array of a type that NKI does not have, or on another device.
        """
        if isinstance(value, Shape):
            return self._shape(value, name)
        if isinstance(value, np.ndarray):
            return self._numpy(value, name)
        if _is_torch(value):
            self.kind = "torch"
            return self._torch(value, name)
        if _is_jax(value):
            self.kind = "jax"
            return self._numpy(np.asarray(value), name)
        return value

    def _shape(self, value: Shape, name: str) -> Argument:
        if self.values:
            raise KernelError(
                "arrays where values are computed",
                found=f"the shape {list(value.dims)} alone",
                where=name,
                remedy="pass an array, or run without values",
            )
        made = Argument(None, tuple(value.dims), _dtype(value.dtype, name), name, None)
        self._taken[id(made)] = made
        return made

    def _numpy(self, value: Array, name: str) -> Argument:
        known = self._taken.get(id(value))
        if known is not None:
            return known
        dtype = _dtype(value.dtype, name)
        shape = value.shape or (1,)
        if 0 in shape:
            raise KernelError(
                "arrays with elements", found=f"shape {list(shape)}", where=name, remedy="pass a larger array"
            )
        held = value.view(np.uint8) if value.dtype == np.bool_ else value
        dense = (
            held if held.flags.c_contiguous and held.flags.writeable else np.ascontiguousarray(held).copy()
        )
        restore = None
        if dense is not held and value.flags.writeable:
            restore = _restorer(held)
        made = Argument(dense, shape, dtype, name, restore)
        self._taken[id(value)] = made
        return made

    def _torch(self, value: Any, name: str) -> Argument:
        if value.device.type != "cpu":
            raise KernelError(
                "tensors on the cpu", found=f"one on {value.device}", where=name, remedy="move it with .cpu()"
            )
        made = self._numpy(_from_torch(value.detach(), name), name)
        made.name = name
        return made

    def write_back(self) -> None:
        """Copy what the kernel wrote to arguments whose memory is not the caller's."""
        for one in self._taken.values():
            if (
                one.restore is not None
                and one.storage is not None
                and one.storage.modified
                and one.values is not None
            ):
                one.restore(one.values)

    def give(self, returned: Any, where: str) -> Any:
        """What the kernel returned, tensors as the caller's kind of array.

        Raises:
            KernelError: if a returned tensor was never or only partly written.
        """
        if isinstance(returned, NkiTensor):
            return self._array(returned, where)
        if isinstance(returned, tuple):
            made = [self.give(one, where) for one in returned]
            return type(returned)(*made) if hasattr(returned, "_fields") else tuple(made)
        if isinstance(returned, list):
            return [self.give(one, where) for one in returned]
        if isinstance(returned, dict):
            return {key: self.give(one, where) for key, one in returned.items()}
        return returned

    def _array(self, tensor: NkiTensor, where: str) -> Any:
        self.given += 1
        written = tensor.storage.written
        if not written.covers(tensor.pattern()):
            first = written.first_missing(tensor.pattern()) // tensor.storage.buffer.dtype.bytes
            at = [int(i) for i in np.unravel_index(first, tensor.storage.buffer.shape)]
            raise KernelError(
                "an output that is wholly written",
                found=f"{'nothing' if written.nothing else f'element {at} never'} written of {tensor.describe()}",
                where=where,
                remedy="write every element of what the kernel returns",
            )
        if tensor.storage.data is None:
            return Shape(tensor.shape, tensor.dtype)
        held = tensor.array()
        if held.dtype != tensor.dtype.stored:
            held = held.astype(tensor.dtype.stored)
        result = held.view(np.bool_) if tensor.dtype == "bool" else held
        result = np.ascontiguousarray(result)
        if self.kind == "torch":
            return _to_torch(result)
        if self.kind == "jax":
            return sys.modules["jax"].numpy.asarray(result)
        return result


def _dtype(value: object, name: str) -> DType:
    try:
        return dtype_of(value)
    except KeyError:
        raise KernelError(
            "an array of a type that NKI has",
            found=str(value),
            where=name,
            remedy="convert it, for instance to float32 or int32",
        ) from None


def _restorer(target: Array) -> Callable[[Array], None]:
    def restore(values: Array) -> None:
        target[...] = values.reshape(target.shape)

    return restore


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def _from_torch(value: Any, name: str) -> Array:
    """A tensor's own memory as a NumPy array, narrow floats by their bits."""
    torch = sys.modules["torch"]
    dtype = _dtype(value.dtype, name)
    if dtype.stored.type.__module__ != "numpy":
        wide = torch.int16 if dtype.bytes == 2 else torch.uint8
        bits: Array = value.view(wide).numpy()
        return bits.view(dtype.stored)
    found: Array = value.numpy()
    return found


def _to_torch(result: Array) -> Any:
    torch = sys.modules["torch"]
    if result.dtype.type.__module__ != "numpy":
        wide = np.int16 if result.dtype.itemsize == 2 else np.uint8
        bits = torch.from_numpy(result.view(wide))
        return bits.view(getattr(torch, result.dtype.name))
    return torch.from_numpy(result)
