"""``twintrack kernel``: run NKI kernels on the software NeuronCore, look at their instructions, check their source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twintrack.nki.kernel import Options
    from twintrack.nki.launch import Launch

__all__ = ["command"]

_CHIPS = ("trn1", "trn2", "trn3")


@click.group("kernel")
def command() -> None:
    """Run NKI kernels in software, print their instructions, check their source."""


def _common(function: Any) -> Any:
    """Options of every command that runs a kernel."""
    options = (
        click.option(
            "--inputs",
            type=click.Path(path_type=Path),
            help="An .npz file with the arrays, by the arguments' names.",
        ),
        click.option(
            "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Another argument, as JSON."
        ),
        click.option("--chip", type=click.Choice(_CHIPS), help="Whose NeuronCore; trn2 by default."),
        click.option("--lnc", type=click.IntRange(1, 2), default=1, show_default=True, help="Cores at once."),
        click.option(
            "--check",
            type=click.Choice(("off", "fast", "all")),
            default="fast",
            show_default=True,
            help="all also searches for accesses that nothing orders; off is for benchmarks.",
        ),
        click.option("--strict", is_flag=True, help="Refuse tiles that the compiler would have to spill."),
        click.option(
            "--sdk", help="Also refuse names and Python that this SDK version does not have, such as 2.32."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command("run")
@click.argument("target", metavar="FILE.py:KERNEL")
@_common
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write what the kernel returns to this .npz file."
)
def run(
    target: str,
    inputs: Path | None,
    settings: tuple[str, ...],
    chip: str | None,
    lnc: int,
    check: str,
    strict: bool,
    sdk: str | None,
    out: Path | None,
) -> None:
    """Run a kernel on arrays and say what it did.

    Values are those of a NeuronCore; a mistake is one line that names the place in the kernel, and exit code 2.
    """
    from twintrack.nki.files import write_arrays

    launch = _launch(target, inputs, (), settings, _options(chip, check, strict), lnc, sdk)
    shown = write_arrays(out, launch.result) if out is not None else {}
    for line in _told(launch, check):
        click.echo(line)
    for name, value in shown.items():
        click.echo(f"{name}: {value.dtype.name} {list(value.shape)} in {out}")


@command.command("disasm")
@click.argument("target", metavar="FILE.py:KERNEL")
@_common
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=128x512:TYPE",
    help="An argument's shape, in place of an array.",
)
@click.option("--json", "as_json", is_flag=True, help="The stream as JSON lines, for machines.")
def disasm(
    target: str,
    inputs: Path | None,
    shapes: tuple[str, ...],
    settings: tuple[str, ...],
    chip: str | None,
    lnc: int,
    check: str,
    strict: bool,
    sdk: str | None,
    as_json: bool,
) -> None:
    """Print every instruction that a kernel issues: engine, tiles, attributes, loop position, source line.

    With --shape nothing is computed: the kernel is traced on shapes alone.
    """
    from dataclasses import replace

    from twintrack.neuroncore.isa.disassembly import disassemble
    from twintrack.neuroncore.isa.stream import Stream
    from twintrack.neuroncore.isa.stream_file import to_lines

    options = _options(chip, check, strict)
    stream = Stream(options.generation.chip)
    options = replace(options, sink=stream.keep, values=not shapes)
    _launch(target, inputs, shapes, settings, options, lnc, sdk)
    for line in to_lines(stream) if as_json else disassemble(stream):
        click.echo(line)


@command.command("lint")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--sdk", default="2.32", show_default=True, help="SDK version whose rules hold.")
def lint(files: tuple[Path, ...], sdk: str) -> None:
    """Find Python that the NKI compiler refuses in the kernels of FILES; exit code 2 where there is any."""
    from twintrack.errors import KernelError

    found = [finding for path in files for finding in _findings(path, sdk)]
    for finding in found:
        click.echo(str(finding))
    if found:
        raise KernelError(
            "kernels that the NKI compiler takes",
            found=f"{len(found)} places that it refuses",
            where=", ".join(str(path) for path in files),
            remedy="mend the lines above",
        )
    click.echo(f"{len(files)} files: nothing that the NKI compiler of {sdk} refuses")


def _findings(path: Path, sdk: str) -> Sequence[Any]:
    from twintrack.errors import UserError
    from twintrack.nki.lint import check_source

    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            "a Python file", found=str(error), where=str(path), remedy="name a .py file"
        ) from error
    return check_source(source, str(path), sdk=sdk)


def _options(chip: str | None, check: str, strict: bool) -> Options:
    from dataclasses import replace

    from twintrack.neuroncore.emulator.core import Checks
    from twintrack.nki.kernel import options_from_environment

    options = options_from_environment(chip=chip)
    if options.default_chip:
        click.echo("chip: trn2, as none was named", err=True)
    return replace(options, checks=Checks(check), strict=strict)


def _launch(
    target: str,
    inputs: Path | None,
    shapes: tuple[str, ...],
    settings: tuple[str, ...],
    options: Options,
    lnc: int,
    sdk: str | None,
) -> Launch:
    from twintrack.errors import KernelError
    from twintrack.nki.files import arguments_of, load_kernel, parse_shape, read_arrays
    from twintrack.nki.launch import launch

    if sdk is not None:
        path = Path(target.rpartition(":")[0])
        if path.is_file() and (found := _findings(path, sdk)):
            raise KernelError(
                f"a kernel that the NKI compiler of {sdk} takes",
                found=f"{found[0]}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""),
                where=str(path),
                remedy="see twintrack kernel lint",
            )
    kernel = load_kernel(target)
    arrays: dict[str, Any] = {} if inputs is None else dict(read_arrays(inputs))
    if not options.values:
        from twintrack.nki.arrays import Shape

        arrays = {name: Shape(value.shape, value.dtype) for name, value in arrays.items()}
        arrays.update(parse_shape(text) for text in shapes)
    given = arguments_of(kernel.function, arrays, dict(_setting(text) for text in settings))
    return launch(kernel.function, (lnc,) if lnc > 1 else (), (), given, options)


def _setting(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.UsageError(f"--set takes NAME=VALUE, found {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _told(launch: Launch, check: str) -> list[str]:
    """What a launch did, in lines."""
    lines = [
        f"core {core.program}: {core.count:,} instructions on {core.generation.chip}" for core in launch.cores
    ]
    for core, use in zip(launch.cores, launch.memory, strict=False):
        lines.append(
            f"core {core.program}: SBUF {use.sbuf_peak:,} of {use.sbuf_bytes:,} bytes per partition at most, "
            f"PSUM {use.psum_peak:,} of {core.generation.psum_partition_bytes:,}"
        )
        if use.spills:
            lines.append(
                f"core {core.program}: the compiler would spill {len(use.spills)} tiles, {use.spilled_bytes:,} bytes"
            )
            lines.extend(f"  {one.buffer!r}" for one in use.spills[:10])
    if check == "off":
        lines.append("checks were off: nothing was looked for")
    return lines
