"""Arrays in ``.npz`` files, for the command line: data, of which nothing is executed.

NumPy's file format has no bfloat16 and no float8: of such an array it keeps the bytes and forgets the type. Here they
are stored by their bits, as unsigned integers under ``NAME:TYPE``, such as ``x:bfloat16``.
"""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from twintrack.errors import UserError, nearest
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.storage import FileSystem, LocalFileSystem, write_bytes_atomic

__all__ = ["named_arrays", "read_arrays", "stored_name", "write_arrays"]

Array = npt.NDArray[Any]
_DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    SyntaxError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    TypeError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy and the zip reader raise for a file that is none, or damaged."""
_MAKE_IT = "make it with numpy.savez(path, name=array, ...)"
_LOST = {1: "float8_e4m3", 2: "bfloat16"}
"""By bytes: an element type of which NumPy's file format keeps the bytes alone."""


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an ``.npz`` file by name; ``name:bfloat16`` holds bits of that type.

    Raises:
        UserError: if it is no such file, is damaged, or holds Python objects or elements without a type.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as loaded:
            if isinstance(loaded, np.ndarray):
                raise ValueError("one array (.npy)")
            found = [_typed(path, key, _member(path, loaded, key)) for key in loaded.files]
            if len(dict(found)) < len(found):
                raise ValueError("a name twice, with and without a type")
            return dict(found)
    except _DAMAGE as error:
        raise _no_arrays(path, f"{type(error).__name__}: {error}"[:160], _MAKE_IT) from error


def _member(path: Path, loaded: Mapping[str, Array], key: str) -> Array:
    """One array of the file."""
    try:
        return loaded[key]
    except ValueError as error:
        if "'<f1'" not in str(error):  # what ml_dtypes calls float8_e5m2, and NumPy cannot read back
            raise
        name, _, kind = key.partition(":")
        found = f"{key} of 1-byte elements whose type the file does not hold (<f1), as of float8_e5m2 arrays"
        raise _no_arrays(path, found, _by_bits(name, kind or "float8_e5m2", 1)) from error


def _no_arrays(path: Path, found: str, remedy: str) -> UserError:
    return UserError("an .npz file of arrays", found=found, where=str(path), remedy=remedy)


def _typed(path: Path, key: str, value: Array) -> tuple[str, Array]:
    """An array under its name, as the type that its key names."""
    name, separator, kind = key.partition(":")
    size = value.dtype.itemsize
    if not separator:
        if value.dtype.kind == "V" and value.dtype.names is None:
            raise _no_arrays(
                path,
                f"{key} of {size}-byte elements whose type the file does not hold ({value.dtype.str}), as of bfloat16 "
                "and float8 arrays",
                _by_bits(name, _LOST.get(size, "TYPE"), size),
            )
        return key, value
    dtype = DTYPES.get(kind)
    if dtype is None:
        raise _no_arrays(
            path,
            f"the type {kind!r} in the name {key!r}",
            nearest(kind, DTYPES) or f"name one of {', '.join(DTYPES)}",
        )
    if size != dtype.bytes or (value.dtype.kind not in "uV" and value.dtype != dtype.stored):
        raise _no_arrays(
            path,
            f"{key!r} with elements of {value.dtype}, not the bits of {kind}",
            _by_bits(name, kind, dtype.bytes),
        )
    return name, value.view(dtype.stored)


def _by_bits(name: str, kind: str, size: int) -> str:
    return (
        f"store it by its bits, under a name with its type: "
        f'numpy.savez(path, **{{"{name}:{kind}": {name}.view(numpy.uint{8 * size})}})'
    )


def stored_name(name: str, value: Array) -> str:
    """The name under which ``write_arrays`` stores an array: with its type where NumPy's format lacks it."""
    return name if value.dtype.type.__module__ == "numpy" else f"{name}:{value.dtype.name}"


def write_arrays(path: Path, result: Any, fs: FileSystem | None = None) -> dict[str, Array]:
    """Write what a kernel returned; what was written, by ``named_arrays``.

    Raises:
        UserError: if it holds no arrays.
        StorageError: if the file cannot be written.
    """
    arrays = named_arrays(result)
    if not arrays:
        raise UserError(
            "a kernel that returns arrays, or writes to an argument",
            found=type(result).__name__,
            where="result",
            remedy="return a tensor",
        )
    plain = {}
    for name, value in arrays.items():
        key = stored_name(name, value)
        plain[key] = value if key == name else value.view(np.dtype(f"u{value.dtype.itemsize}"))
    buffer = io.BytesIO()
    np.savez(buffer, **plain)  # type: ignore[arg-type]
    write_bytes_atomic(fs or LocalFileSystem(), path, buffer.getvalue())
    return arrays


def named_arrays(result: Any) -> dict[str, Array]:
    """The arrays in what a kernel returned: ``out0``, ``out1``, ..., or the keys of a dictionary.

    Deeper ones are named by their place: ``out1.0``, ``state.m``. Values that are no arrays are left out.
    """
    if isinstance(result, np.ndarray):
        return {"out0": result}
    items: list[tuple[str, Any]] = []
    if isinstance(result, Mapping):
        items = [(str(key), value) for key, value in result.items()]
    elif isinstance(result, tuple | list):
        items = [(f"out{at}", value) for at, value in enumerate(result)]
    found: dict[str, Array] = {}
    for name, value in items:
        if isinstance(value, np.ndarray):
            found[name] = value
        else:
            found.update(
                {f"{name}.{deeper.removeprefix('out')}": one for deeper, one in named_arrays(value).items()}
            )
    return found
