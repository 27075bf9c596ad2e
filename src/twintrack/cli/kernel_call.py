"""A kernel as a command line names it: its file, arguments, chip, grid and options."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twintrack.nki.kernel import Kernel, Options
    from twintrack.nki.launch import Launch
    from twintrack.nki.lint.records import Finding

__all__ = ["call_of", "findings", "launched", "trip_counts"]


def findings(path: Path, sdk: str | None) -> Sequence[Finding]:
    """Python that the compiler refuses and, where a version is named, names that it does not document."""
    from twintrack.errors import UserError
    from twintrack.nki.lint.check import NEWEST, check_source
    from twintrack.nki.lint.names import undocumented_names

    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            "a Python file", found=str(error), where=str(path), remedy="name a .py file"
        ) from error
    names = () if sdk is None else undocumented_names(source, str(path), sdk=sdk)
    return sorted(
        [*check_source(source, str(path), sdk=sdk or NEWEST), *names], key=lambda one: (one.line, one.column)
    )


def launched(
    target: str,
    inputs: Path | None,
    shapes: tuple[str, ...],
    settings: tuple[str, ...],
    chip: str | None,
    lnc: str | None,
    sdk: str | None,
    **changes: Any,
) -> tuple[Launch, dict[str, Any]]:
    """Run a kernel; what it did, and the arguments that it was given."""
    from twintrack.nki.files import running_kernel
    from twintrack.nki.launch import launch

    kernel, options, given = call_of(target, inputs, shapes, settings, chip, lnc, sdk, **changes)
    with running_kernel(target):
        return launch(kernel.function, kernel.grid, (), given, options, kernel.schedule), given


def call_of(
    target: str,
    inputs: Path | None,
    shapes: tuple[str, ...],
    settings: tuple[str, ...],
    chip: str | None,
    lnc: str | None,
    sdk: str | None,
    **changes: Any,
) -> tuple[Kernel, Options, dict[str, Any]]:
    """A kernel on its grid, how it is run, and its arguments."""
    from twintrack.nki.array_files import read_arrays
    from twintrack.nki.arrays import shape_of
    from twintrack.nki.files import arguments_of, load_kernel
    from twintrack.nki.kernel import Kernel

    if sdk is not None:
        _require_documented(Path(target.rpartition(":")[0]), sdk)
    kernel = load_kernel(target)
    options = _options(kernel, chip, **changes)
    grid = kernel.grid if lnc is None else (int(lnc),) if lnc == "2" else ()
    if lnc == "2" and options.generation.number < 3:
        raise click.UsageError(f"--lnc 2 needs trn2 or newer, found {options.generation.chip}")
    arrays: dict[str, Any] = {} if inputs is None else dict(read_arrays(inputs))
    if not options.values:
        arrays = {name: shape_of(value, name) for name, value in arrays.items()}
        arrays.update(_shapes(shapes))
    given = arguments_of(kernel.function, arrays, _settings(settings))
    on_grid = Kernel(kernel.function, grid, kernel.chip, kernel.schedule)
    return on_grid, options, given


def _require_documented(path: Path, sdk: str) -> None:
    from twintrack.errors import KernelError

    found = findings(path, sdk) if path.is_file() else ()
    if found:
        first = found[0]
        more = f"; {len(found) - 1} more: see twintrack kernel lint --sdk {sdk}" if len(found) > 1 else ""
        raise KernelError(
            first.rule.required,
            found=first.found,
            where=f"{path}:{first.line}",
            remedy=f"{first.rule.remedy} [{first.rule.name}]{more}",
        )


def _options(kernel: Kernel, chip: str | None, *, check: str, strict: bool, **changes: Any) -> Options:
    """How the kernel is run: on the chip that its decorator, ``--chip`` or the environment names, in this order."""
    from dataclasses import replace

    from twintrack.errors import KernelError
    from twintrack.neuroncore.emulator.core import Checks
    from twintrack.neuroncore.memory.generation import GENERATIONS
    from twintrack.nki.kernel import options_from_environment

    options = options_from_environment(chip=kernel.chip or chip)
    if chip is not None and GENERATIONS[chip] is not options.generation:
        raise KernelError(
            f"--chip {options.generation.chip}, or none, for a kernel whose decorator names that chip",
            found=f"--chip {chip}",
            where=getattr(kernel, "__name__", "kernel"),
            remedy="leave --chip out, or remove platform_target from the decorator",
        )
    if options.default_chip:
        click.echo("chip: trn2, as neither --chip nor NEURON_PLATFORM_TARGET_OVERRIDE names one", err=True)
    return replace(options, checks=Checks(check), strict=strict, **changes)


def _settings(texts: tuple[str, ...]) -> dict[str, Any]:
    """Arguments of ``--set`` by name.

    Raises:
        UserError: if one is not NAME=VALUE with a value in JSON, or a name is given twice.
    """
    from twintrack.errors import UserError

    found: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.UsageError(f"--set takes NAME=VALUE, found {text!r}")
        if name in found:
            raise _twice("--set", name)
        try:
            found[name] = json.loads(value)
        except ValueError as error:
            raise UserError(
                "a value in JSON (3, 0.5, true, null, [1, 2])",
                found=repr(text),
                where="--set",
                remedy=f"write a string with quotes: --set '{name}={json.dumps(value)}'",
            ) from error
    return found


def _shapes(texts: tuple[str, ...]) -> dict[str, Any]:
    """Arguments of ``--shape`` by name.

    Raises:
        UserError: if one is no shape, or a name is given twice.
    """
    from twintrack.nki.files import parse_shape

    found: dict[str, Any] = {}
    for name, shape in map(parse_shape, texts):
        if name in found:
            raise _twice("--shape", name)
        found[name] = shape
    return found


def _twice(option: str, name: str) -> Exception:
    from twintrack.errors import UserError

    return UserError("each name once", found=f"{name!r} twice", where=option, remedy="leave one of them out")


def trip_counts(texts: tuple[str, ...]) -> dict[str, int] | None:
    """Iterations of ``--trips`` by ``file:line``; the key ``""`` stands for all loops.

    A file without a folder is any of that name; one with a folder is taken from the working directory.

    Raises:
        UserError: if one is not of the form, or a loop is given twice.
    """
    from twintrack.errors import UserError

    found: dict[str, int] = {}
    for text in texts:
        loop, _, count = text.rpartition("=")
        file, _, line = loop.rpartition(":")
        if not count.isdecimal() or (loop and not (file and line.isdecimal())) or text.startswith("="):
            raise UserError(
                "FILE.py:LINE=N, or N for all loops",
                found=repr(text),
                where="--trips",
                remedy="name the line of the loop and its iterations, from 0",
            )
        key = loop if os.sep not in loop else os.path.abspath(loop)
        if key in found:
            raise _twice("--trips", loop or "all loops")
        found[key] = int(count)
    return found or None
