"""Kernels in files and their arguments, for the command line; arrays in files are in ``array_files``.

A kernel file is the user's own program and is imported as such.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twintrack.errors import KernelError, UserError, nearest
from twintrack.neuroncore.memory.dtypes import DTYPES, dtype_of
from twintrack.nki import isa, language
from twintrack.nki.arrays import Shape
from twintrack.nki.installing import installed
from twintrack.nki.kernel import Kernel

__all__ = [
    "arguments_of",
    "load_kernel",
    "parse_shape",
    "running_kernel",
]

_PACKAGE = Path(__file__).resolve().parents[1]


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
            remedy=_remedy(error),
        ) from error


def _remedy(error: BaseException) -> str:
    """What a Python error of a kernel most often means."""
    call = re.match(r"(\w+)\(\) (missing|got|takes)", str(error))
    name = call[1] if call is not None else ""
    function = vars(isa).get(name) or vars(language).get(name)
    if isinstance(error, TypeError) and callable(function):
        parameters = ", ".join(inspect.signature(function).parameters)
        return (
            f"call {name}({parameters}); calls that return their result are of the dialect until 2.26: "
            "import neuronxcc.nki"
        )
    return "correct that line; python -m twintrack.nki SCRIPT.py shows the whole traceback of a call from a script"


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


def parse_shape(text: str) -> tuple[str, Shape]:
    """``name=128x512:bfloat16`` as an argument's name and shape; float32 where no type is named.

    Raises:
        UserError: if it is not of this form.
    """
    name, separator, rest = text.partition("=")
    sizes, _, kind = rest.partition(":")
    dims = tuple(int(size) for size in sizes.split("x") if size.isdecimal())
    if not separator or not name or len(dims) != sizes.count("x") + 1 or any(size < 1 for size in dims):
        raise UserError(
            "NAME=SIZExSIZE[:TYPE], such as a=128x512:bfloat16",
            found=repr(text),
            where="--shape",
            remedy="write sizes from 1 joined by x, and a type of nki.language",
        )
    try:
        return name, Shape(dims, dtype_of(kind or "float32"))
    except KeyError:
        known = [one for one in DTYPES if "_x4" not in one]
        hint = (
            "NKI has no types of 64 bits; name a shorter one" if kind.endswith("64") else nearest(kind, known)
        )
        raise UserError(
            f"a type among {', '.join(known)}",
            found=repr(kind),
            where=f"--shape {text}",
            remedy=hint or "name one of them",
        ) from None


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
        found = [f"none given for {', '.join(missing)}"] if missing else []
        found += [f"unknown to it: {', '.join(unknown)}"] if unknown else []
        raise UserError(
            f"the kernel's arguments ({', '.join(parameters)})",
            found=", ".join(found),
            where=getattr(function, "__name__", "kernel"),
            remedy="give arrays by --inputs or --shape and other values by --set, each under the argument's name",
        )
    return given
