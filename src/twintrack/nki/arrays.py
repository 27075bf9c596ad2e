"""Arrays that a kernel is called with, as the emulator holds them, and tensors that it returns, as the caller's kind.

NumPy, torch (CPU) and JAX arrays are taken; torch and JAX are looked at only if the caller has imported them. Shapes
(``Shape(dims, dtype)``) stand for arrays where values are not computed.

An argument is seen over the caller's own memory where that is dense and writable, so that what a kernel writes to it
is written there. Other memory is copied, and what was written is copied back. Two arguments that are one array are one
tensor. Arguments that share memory otherwise may be read, but not written: the device would have two copies.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DTYPES, DType, dtype_of
from twintrack.neuroncore.memory.storage import Storage
from twintrack.nki.containers import mapped
from twintrack.nki.tensor import NkiTensor

__all__ = ["Argument", "Arrays", "Shape", "shape_of"]

Array = npt.NDArray[Any]
_KEPT_BY_NEAREST = {"float64": "float32", "int64": "int32", "uint64": "uint32", "longdouble": "float32"}


@dataclass(frozen=True, slots=True)
class Shape:
    """An argument without values.

    Args:
        dims: positive sizes, as a tuple or a list; ``()`` as of an array without dimensions.
        dtype: a name, a NumPy dtype or an ``nl`` type.

    Raises:
        KernelError: if the sizes are no such sequence, or NKI has no such type.
    """

    dims: tuple[int, ...]
    dtype: object = "float32"

    def __post_init__(self) -> None:
        sizes: object = self.dims
        if not isinstance(sizes, tuple | list) or not all(map(_is_size, sizes)):
            raise KernelError(
                "sizes from 1 as a tuple of integers",
                found=repr(sizes)[:80],
                where="Shape",
                remedy='write a shape such as Shape((128, 512), "bfloat16")',
            )
        object.__setattr__(self, "dims", tuple(operator.index(size) for size in sizes))
        _dtype(self.dtype, "Shape")


def shape_of(value: Array, name: str) -> Shape:
    """The shape that stands for an array.

    Args:
        value: any.
        name: of the argument, for messages.

    Raises:
        KernelError: for an array without elements or of a type that NKI does not have.
    """
    _not_empty(value.shape, name)
    return Shape(value.shape, _dtype(value.dtype.newbyteorder("="), name))


def _is_size(value: object) -> bool:
    return isinstance(value, SupportsIndex) and not isinstance(value, bool) and operator.index(value) >= 1


class Argument:
    """One array argument.

    Args:
        values: dense, of ``dtype.stored``; ``None`` without values.
        shape: its sizes; ``(1,)`` for an array without dimensions.
        dtype: element type.
        name: as messages name it.
        target: the caller's array; ``None`` without values.
    """

    __slots__ = ("dtype", "name", "shape", "storage", "target", "values")

    def __init__(
        self,
        values: Array | None,
        shape: tuple[int, ...],
        dtype: DType,
        name: str,
        target: Array | None,
    ) -> None:
        self.values = values
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.target = target
        self.storage: Storage | None = None

    @property
    def modified(self) -> bool:
        """Whether the kernel wrote to it."""
        return self.storage is not None and self.storage.modified


class Arrays:
    """The arrays of one launch.

    Args:
        values: whether values are computed.
    """

    def __init__(self, *, values: bool) -> None:
        self.values = values
        self.kind = "numpy"
        """Of the arrays that came in: ``numpy``, ``torch`` or ``jax``; torch where kinds are mixed."""
        self.given = 0
        """Tensors that the kernel returned."""
        self._taken: dict[int, tuple[Any, Argument]] = {}

    @property
    def modified(self) -> bool:
        """Whether the kernel wrote to an argument."""
        return any(one.modified for one in self._arguments())

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the arguments that the kernel wrote to."""
        return tuple(one.name for one in self._arguments() if one.modified)

    def _arguments(self) -> Iterator[Argument]:
        return (argument for _, argument in self._taken.values())

    def take(self, value: Any, name: str) -> Any:
        """An argument: arrays as ``Argument``, also inside lists, tuples, dictionaries and records; all else as it is.

        Raises:
            KernelError: for an array without elements, of a type that NKI does not have, or on another device.
        """
        return mapped(value, self._one, name)

    def _one(self, value: Any, name: str) -> Any:
        known = self._taken.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, Shape):
            made = self._shape(value, name)
        elif isinstance(value, np.ndarray):
            made = _numpy(value, name)
        elif _is_torch(value):
            self.kind = "torch"
            made = _numpy(_from_torch(value, name), name)
        elif _is_jax(value):
            self.kind = self.kind if self.kind == "torch" else "jax"
            made = _numpy(np.asarray(value), name)
        else:
            return value
        self._taken[id(value)] = (value, made)  # the array is kept, so that its number stays its own
        return made

    def _shape(self, value: Shape, name: str) -> Argument:
        if self.values:
            raise KernelError(
                "arrays where values are computed",
                found=f"the shape {list(value.dims)} alone",
                where=name,
                remedy="pass an array, or run without values",
            )
        return Argument(None, value.dims or (1,), _dtype(value.dtype, name), name, None)

    def write_back(self) -> None:
        """Copy what the kernel wrote to arguments whose memory is not the caller's.

        Raises:
            KernelError: if an argument that was written cannot be, or shares memory with another one.
        """
        written = [one for one in self._arguments() if one.modified and one.target is not None]
        for one in written:
            assert one.target is not None  # noqa: S101 - chosen so above
            if not one.target.flags.writeable:
                raise KernelError(
                    "a writable array for an argument that the kernel writes to",
                    found="one that is read-only",
                    where=one.name,
                    remedy="pass a copy, such as numpy.array(x), and read the result from it",
                )
            for other in self._arguments():
                if other is not one and other.target is not None and _share(one.target, other.target):
                    raise KernelError(
                        "an argument that the kernel writes to, with memory of its own",
                        found=f"memory shared with {other.name}",
                        where=one.name,
                        remedy="pass a copy, or the whole array once and slice it in the kernel",
                    )
        for one in written:
            _restore(one)

    def give(self, returned: Any, where: str) -> Any:
        """What the kernel returned, tensors as the caller's kind of array; never the memory of an argument.

        Raises:
            KernelError: if a returned tensor is not in HBM, or was never or only partly written.
        """
        return mapped(returned, lambda one, _: self._array(one, where), "result")

    def _array(self, tensor: Any, where: str) -> Any:
        if not isinstance(tensor, NkiTensor):
            return tensor
        self.given += 1
        _require_output(tensor, where)
        if tensor.storage.data is None:
            return Shape(tensor.shape, tensor.dtype)
        held = tensor.array()
        if held.dtype != tensor.dtype.stored:
            held = held.astype(tensor.dtype.stored)
        result = held.view(np.bool_) if tensor.dtype == "bool" else held
        origin = tensor.storage.buffer.origin
        result = result.copy("C") if origin != "tile" else np.ascontiguousarray(result)
        if self.kind == "torch":
            return _to_torch(result, tensor.dtype)
        if self.kind == "jax":
            return sys.modules["jax"].numpy.asarray(result)
        return result


def _require_output(tensor: NkiTensor, where: str) -> None:
    buffer = tensor.storage.buffer
    if buffer.on_chip:
        raise KernelError(
            "an output in HBM",
            found=f"one in {buffer.region.value}, {tensor.describe()}",
            where=where,
            remedy="copy it to a tensor in nl.shared_hbm with nisa.dma_copy and return that",
        )
    if buffer.ended:
        raise KernelError(
            "an output made outside of loops that have ended",
            found=f"one made in the body of the loop at {buffer.ended}, {tensor.describe()}",
            where=where,
            remedy="allocate it before the loop, and let the body write to it",
        )
    if tensor.dynamic is not None:
        raise KernelError(
            "an output with a static address",
            found=f"an indirect one, {tensor.describe()}",
            where=where,
            remedy="copy it with nisa.dma_copy",
        )
    written = tensor.storage.written
    pattern = tensor.pattern()
    if written.covers(pattern):
        return
    first = written.first_missing(pattern) // buffer.dtype.bytes
    at = [int(i) for i in np.unravel_index(first, buffer.shape)]
    raise KernelError(
        "an output that is wholly written",
        found=f"{'nothing' if written.nothing else f'element {at} never'} written of {tensor.describe()}",
        where=where,
        remedy="write every element of what the kernel returns",
    )


def _numpy(value: Array, name: str) -> Argument:
    """An array as an argument, over its own memory where that is dense, writable and in the machine's byte order."""
    dtype = _dtype(value.dtype.newbyteorder("="), name)
    shape = value.shape or (1,)
    _not_empty(shape, name)
    held = value.view(np.uint8) if value.dtype.itemsize == 1 and dtype.stored == np.uint8 else value
    plain = held.flags.c_contiguous and held.flags.writeable and held.dtype == dtype.stored
    dense = held if plain else np.array(held, dtype.stored, order="C", copy=True)
    return Argument(dense, shape, dtype, name, held)


def _restore(one: Argument) -> None:
    """Copy a written argument to the caller's array, where it is held elsewhere."""
    target, storage = one.target, one.storage
    if target is None or storage is None or storage.data is None:
        return
    held = storage.data.view(storage.kind(one.dtype))
    if not np.may_share_memory(held, target):
        target[...] = held.reshape(target.shape).astype(target.dtype)


def _share(first: Array, second: Array) -> bool:
    """Whether arrays share an element; arrays of whole rows are compared exactly, which is quick for them."""
    return np.may_share_memory(first, second) and np.shares_memory(first, second)


def _not_empty(shape: tuple[int, ...], name: str) -> None:
    if any(size < 1 for size in shape):
        raise KernelError(
            "arrays with elements", found=f"shape {list(shape)}", where=name, remedy="pass a larger array"
        )


def _dtype(value: object, name: str) -> DType:
    try:
        return dtype_of(value)
    except KeyError:
        nearest = _KEPT_BY_NEAREST.get(str(value).rpartition(".")[2], "")
        known = ", ".join(one for one in DTYPES if "_x4" not in one)
        raise KernelError(
            "an array of a type that NKI has",
            found=str(value),
            where=name,
            remedy=f"convert it to {nearest}" if nearest else f"convert it to one of {known}",
        ) from None


# torch and JAX, where the caller has imported them


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def _from_torch(value: Any, name: str) -> Array:
    """A tensor's own memory as a NumPy array, narrow floats by their bits."""
    torch = sys.modules["torch"]
    if value.device.type != "cpu":
        raise KernelError(
            "tensors on the cpu", found=f"one on {value.device}", where=name, remedy="move it with .cpu()"
        )
    if value.layout != torch.strided:
        raise KernelError(
            "dense tensors", found=f"one of {value.layout}", where=name, remedy="convert it with .to_dense()"
        )
    dtype = _dtype(value.dtype, name)
    plain = value.detach()
    if dtype.stored.type.__module__ != "numpy":
        wide = torch.int16 if dtype.bytes == 2 else torch.uint8
        bits: Array = plain.view(wide).numpy()
        return bits.view(dtype.stored)
    if str(value.dtype) == f"torch.{dtype.name}" and dtype.kind == "scale":
        raw: Array = plain.view(torch.uint8).numpy()
        return raw.view(np.dtype("float8_e8m0fnu"))
    found: Array = plain.numpy()
    return found


def _to_torch(result: Array, dtype: DType) -> Any:
    torch = sys.modules["torch"]
    narrow = result.dtype.type.__module__ != "numpy"
    if narrow or dtype.kind == "scale":
        wide = np.int16 if result.dtype.itemsize == 2 else np.uint8
        bits = torch.from_numpy(result.view(wide))
        return bits.view(getattr(torch, dtype.name))
    return torch.from_numpy(result)
