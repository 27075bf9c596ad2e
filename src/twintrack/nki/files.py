"""Kernels in files and arrays in ``.npz`` files, for the command line.

A kernel file is the user's own program and is imported as such; an ``.npz`` file is data and nothing in it is executed.
Element types that NumPy's file format lacks (bfloat16, float8) are stored by their bits, under ``name:bfloat16``.
"""

from __future__ import annotations

import importlib.util
import inspect
import io
import struct
import sys
import tokenize
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from twintrack.errors import KernelError, UserError, nearest
from twintrack.neuroncore.memory.dtypes import dtype_of
from twintrack.nki.arrays import Shape
from twintrack.nki.installing import installed
from twintrack.nki.kernel import Kernel
from twintrack.storage import FileSystem, LocalFileSystem, write_bytes_atomic

__all__ = [
    "arguments_of",
    "load_kernel",
    "named_arrays",
    "parse_shape",
    "read_arrays",
    "running_kernel",
    "write_arrays",
]

Array = npt.NDArray[Any]
_PACKAGE = Path(__file__).resolve().parents[1]
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


def load_kernel(target: str) -> Kernel:
    """The kernel that ``FILE.py:NAME`` names; the file is imported with the NKI names installed.

    Raises:
        UserError: if there is no such file or kernel, or the file cannot be imported.
    """
    file, separator, name = target.rpartition(":")
    if not separator or not name.isidentifier() or not file:
        raise UserError(
            "FILE.py:KERNEL", found=repr(target), where="kernel", remedy="name the file and the kernel in it"
        )
    path = Path(file)
    if not path.is_file():
        raise UserError("a Python file", found="none", where=file, remedy="name the file with the kernel")
    module = _import(path)
    found = getattr(module, name, None)
    if isinstance(found, Kernel):
        return found
    if inspect.isfunction(found):
        return Kernel(found)
    known = [key for key, value in vars(module).items() if isinstance(value, Kernel)]
    hint = nearest(name, known)
    raise UserError(
        "a kernel (a function, or one decorated with nki.jit)",
        found=f"no {name!r}" if found is None else f"{type(found).__name__} {name!r}",
        where=file,
        remedy=hint or (f"it has {', '.join(known)}" if known else "decorate the kernel with nki.jit"),
    )


def _import(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"twintrack_kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError("a Python file (.py)", found=path.suffix, where=str(path), remedy="name a .py file")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with installed():
            spec.loader.exec_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(
            "a file that can be imported",
            found=_shown(error),
            where=_place(error, path) or str(path),
            remedy="run it with Python to see where it fails",
        ) from error
    finally:
        sys.path[:] = before
    return module


@contextmanager
def running_kernel(target: str) -> Iterator[None]:
    """Python errors that a kernel's own code raises are its author's mistakes; others pass.

    Args:
        target: ``FILE.py:NAME`` of the kernel.

    Raises:
        KernelError: in their place, at the line of the kernel.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        place = _place(error, Path(target.rpartition(":")[0]))
        if place is None:
            raise
        raise KernelError(
            "a kernel that runs",
            found=_shown(error),
            where=place,
            remedy="mend it; python -m twintrack.nki shows a script's whole traceback",
        ) from error


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _place(error: BaseException, path: Path) -> str | None:
    """``file:line`` where the error came from, if that is not inside this package or the standard library's loader."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or Path(frames[-1].filename).is_relative_to(_PACKAGE):
        return None
    wanted = [one for one in frames if Path(one.filename) in (path, path.resolve())]
    return f"{wanted[-1].filename}:{wanted[-1].lineno}" if wanted else None


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an ``.npz`` file by name; ``name:bfloat16`` holds bits of that type.

    Raises:
        UserError: if it is no such file, is damaged, or holds Python objects.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as loaded:
            if isinstance(loaded, np.ndarray):
                raise ValueError("one array (.npy)")
            found = [_typed(key, loaded[key]) for key in loaded.files]
            if len(dict(found)) < len(found):
                raise ValueError("a name twice, with and without a type")
            return dict(found)
    except _DAMAGE as error:
        raise UserError(
            "an .npz file of arrays",
            found=f"{type(error).__name__}: {error}"[:160],
            where=str(path),
            remedy="make it with numpy.savez(path, name=array, ...)",
        ) from error


def _typed(key: str, value: Array) -> tuple[str, Array]:
    name, separator, kind = key.partition(":")
    if not separator:
        return key, value
    dtype = dtype_of(kind)
    return name, value.view(dtype.stored)


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
        if value.dtype.type.__module__ == "numpy":
            plain[name] = value
        else:
            plain[f"{name}:{value.dtype.name}"] = value.view(np.dtype(f"u{value.dtype.itemsize}"))
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


def parse_shape(text: str) -> tuple[str, Shape]:
    """``name=128x512:bfloat16`` as an argument's name and shape; float32 where no type is named.

    Raises:
        UserError: if it is not of this form.
    """
    name, separator, rest = text.partition("=")
    sizes, _, kind = rest.partition(":")
    try:
        dims = tuple(int(size) for size in sizes.split("x"))
        dtype = dtype_of(kind or "float32")
    except (ValueError, KeyError):
        dims, dtype = (), dtype_of("float32")
    if not separator or not name or not dims or any(size < 1 for size in dims):
        raise UserError(
            "NAME=SIZExSIZE[:TYPE], such as a=128x512:bfloat16",
            found=repr(text),
            where="--shape",
            remedy="write sizes from 1 joined by x, and a type of nki.language",
        )
    return name, Shape(dims, dtype)


def arguments_of(
    function: Callable[..., Any], arrays: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Keyword arguments for a kernel from named arrays and other values.

    Raises:
        UserError: if one is unknown to the kernel, or one that it needs is missing.
    """
    parameters = inspect.signature(function).parameters
    given = {**arrays, **settings}
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    unknown = [name for name in given if name not in parameters and not takes_all]
    missing = [
        name
        for name, one in parameters.items()
        if name not in given
        and one.default is inspect.Parameter.empty
        and one.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    ]
    if unknown or missing:
        found = [f"no {', '.join(missing)}"] if missing else []
        found += [f"{', '.join(unknown)}, which it does not take"] if unknown else []
        raise UserError(
            f"the kernel's arguments ({', '.join(parameters)})",
            found=" and ".join(found),
            where=getattr(function, "__name__", "kernel"),
            remedy="give arrays by --inputs or --shape and other values by --set, each under the argument's name",
        )
    return given
