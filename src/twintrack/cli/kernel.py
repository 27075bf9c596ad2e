"""``twintrack kernel``: run NKI kernels on the software NeuronCore, look at their instructions, check their source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twintrack.cli.kernel_call import call_of, findings, launched, trip_counts

if TYPE_CHECKING:
    from twintrack.nki.launch import Launch

__all__ = ["command"]

_CHIPS = ("trn1", "trn2", "trn3")
_MOST_SHOWN = 10


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
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Another argument, as JSON; strings in quotes.",
        ),
        click.option("--chip", type=click.Choice(_CHIPS), help="Whose NeuronCore; trn2 by default."),
        click.option(
            "--lnc",
            type=click.Choice(("1", "2")),
            help="Cores at once: 2 is LNC2, from trn2 on; 1 by default, or the kernel's own grid.",
        ),
        click.option(
            "--check",
            type=click.Choice(("off", "fast", "all")),
            default="fast",
            show_default=True,
            help="all also looks for accesses that nothing orders and for inputs outside a function's valid range; "
            "off is for benchmarks.",
        ),
        click.option(
            "--strict",
            is_flag=True,
            help="Refuse tiles that the compiler would have to spill, and Python branches on tiles.",
        ),
        click.option(
            "--most-iterations",
            type=click.IntRange(min=1),
            default=100_000,
            show_default=True,
            help="Iterations after which a loop on the device counts as one that never ends.",
        ),
        click.option(
            "--sdk", help="Also refuse names and Python that this SDK version does not have, such as 2.32."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _on_shapes(function: Any) -> Any:
    """Options of the commands that run a kernel on shapes."""
    shape = click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME=128x512:TYPE",
        help="An argument's shape, in place of an array.",
    )
    trips = click.option(
        "--trips",
        multiple=True,
        metavar="[FILE.py:LINE=]N",
        help="Iterations of the loop there whose bound only values tell; N alone is for all such loops.",
    )
    return shape(trips(function))


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
    lnc: str | None,
    check: str,
    strict: bool,
    most_iterations: int,
    sdk: str | None,
    out: Path | None,
) -> None:
    """Run a kernel on arrays and say what it did.

    Values are those of a NeuronCore; a mistake is one line that names the place in the kernel, and exit code 2.
    """
    from twintrack.nki.array_files import named_arrays, stored_name, write_arrays

    if out is not None and inputs is not None and out.resolve() == inputs.resolve():
        raise click.UsageError(f"--out must be another file than --inputs, found {out} for both")
    changes = {"check": check, "strict": strict, "most_iterations": most_iterations}
    launch, given = launched(target, inputs, (), settings, chip, lnc, sdk, **changes)
    found = named_arrays(launch.result) or {name: given[name] for name in launch.written if name in given}
    if out is not None:
        write_arrays(out, found)
    for line in _told(launch, check):
        click.echo(line)
    for name, value in found.items():
        stored = stored_name(name, value)
        where = "" if out is None else f" in {out}" + ("" if stored == name else f" as {stored}")
        click.echo(f"{name}: {value.dtype.name} {list(value.shape)}{where}")


@command.command("disasm")
@click.argument("target", metavar="FILE.py:KERNEL")
@_common
@_on_shapes
@click.option("--json", "as_json", is_flag=True, help="The stream as JSON lines, for machines.")
def disasm(
    target: str,
    inputs: Path | None,
    shapes: tuple[str, ...],
    settings: tuple[str, ...],
    chip: str | None,
    lnc: str | None,
    check: str,
    strict: bool,
    most_iterations: int,
    sdk: str | None,
    trips: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print every instruction that a kernel issues: engine, tiles, attributes, loop position, source line.

    With --shape nothing is computed: the kernel is traced on shapes alone.
    """
    from twintrack.neuroncore.isa.disassembly import disassemble
    from twintrack.neuroncore.isa.stream import Stream
    from twintrack.neuroncore.isa.stream_file import to_lines

    if trips and not shapes:
        raise click.UsageError("--trips needs --shape: with arrays the values tell how often loops run")
    stream = Stream("")
    launch, _ = launched(
        target,
        inputs,
        shapes,
        settings,
        chip,
        lnc,
        sdk,
        check=check,
        strict=strict,
        most_iterations=most_iterations,
        sink=stream.keep,
        values=not shapes,
        trip_counts=trip_counts(trips),
    )
    stream.chip = launch.cores[0].generation.chip
    for line in to_lines(stream) if as_json else disassemble(stream):
        click.echo(line)


@command.command("profile")
@click.argument("target", metavar="FILE.py:KERNEL")
@_common
@_on_shapes
@click.option(
    "--drop-reloads",
    is_flag=True,
    help="Leave out loads of what an earlier tile still holds, as the compiler is known to.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for profile.html, trace.json, profile.json.",
)
@click.option("--quick", is_flag=True, help="Do not time it again with one limit lifted at a time.")
@click.option("--whole", is_flag=True, help="Trace every iteration of long nl.affine_range loops.")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON, for machines.")
def profile(
    target: str,
    inputs: Path | None,
    shapes: tuple[str, ...],
    settings: tuple[str, ...],
    chip: str | None,
    lnc: str | None,
    check: str,
    strict: bool,
    most_iterations: int,
    sdk: str | None,
    trips: tuple[str, ...],
    drop_reloads: bool,
    out: Path | None,
    quick: bool,
    whole: bool,
    as_json: bool,
) -> None:
    """Say how long a kernel takes on a NeuronCore, what bounds it, and what would help most.

    Nothing is computed: arrays of --inputs stand for their shapes. Times are simulated and carry the error that the
    accuracy table supports. trace.json opens in Perfetto and chrome://tracing.
    """
    from twintrack.cli.kernel_profile import run_profile, show
    from twintrack.nki.files import running_kernel

    changes = {"check": check, "strict": strict, "most_iterations": most_iterations, "values": False}
    changes["trip_counts"] = trip_counts(trips)
    kernel, options, given = call_of(target, inputs, shapes, settings, chip, lnc, sdk, **changes)
    with running_kernel(target):
        found = run_profile(
            kernel,
            given,
            options,
            drop_reloads=drop_reloads,
            what_if=not quick,
            extrapolate=not whole,
        )
    show(found, out, as_json=as_json)


@command.command("lint")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--sdk", help="SDK version whose rules and names hold; without it the newest, names not looked at."
)
def lint(files: tuple[Path, ...], sdk: str | None) -> None:
    """Find Python that the NKI compiler refuses in the kernels of FILES; exit code 2 where there is any.

    With --sdk names of nki that this version does not document are found too, anywhere in the files.
    """
    from twintrack.errors import KernelError
    from twintrack.nki.lint.check import NEWEST

    found = [finding for path in files for finding in findings(path, sdk)]
    for finding in found:
        click.echo(str(finding))
    if found:
        raise KernelError(
            f"kernels that the NKI compiler of {sdk or NEWEST} takes",
            found="1 place that it refuses" if len(found) == 1 else f"{len(found)} places that it refuses",
            where=str(files[0]) if len(files) == 1 else f"{len(files)} files",
            remedy="mend what is listed",
        )
    counted = "1 file" if len(files) == 1 else f"{len(files)} files"
    click.echo(f"{counted}: nothing that the NKI compiler of {sdk or NEWEST} is documented to refuse")


def _told(launch: Launch, check: str) -> list[str]:
    """What a launch did, in lines."""
    lines = [
        f"core {core.program}: {core.count:,} instruction{'' if core.count == 1 else 's'} on {core.generation.chip}"
        for core in launch.cores
    ]
    for core, use in zip(launch.cores, launch.memory, strict=False):
        lines.append(
            f"core {core.program}: SBUF {use.sbuf_peak:,} of {use.sbuf_bytes:,} bytes per partition at most, "
            f"PSUM {use.psum_peak:,} of {core.generation.psum_partition_bytes:,}"
        )
        if use.spills:
            lines.append(
                f"core {core.program}: the compiler would spill {use.spilled_bytes:,} bytes of "
                + ("1 tile:" if len(use.spills) == 1 else f"{len(use.spills)} tiles:")
            )
            lines.extend(f"  {one.buffer!r}" for one in use.spills[:_MOST_SHOWN])
            if len(use.spills) > _MOST_SHOWN:
                lines.append(f"  and {len(use.spills) - _MOST_SHOWN} more")
    if check == "off":
        lines.append("checks were off: no mistake was looked for")
    return lines
