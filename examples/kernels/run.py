"""Run an example kernel on made inputs and compare it with its reference.

    python examples/kernels/run.py softmax --dtype bfloat16 --check all

Prints the largest error of each output beside its tolerance, and what the run took: instructions, bytes to and from
HBM, the most that was live in SBUF and PSUM. Exit code 1 where an error is above the tolerance, 2 where the kernel
breaks a rule or refuses the sizes. With --no-values the kernel is traced on shapes alone, which is quick at any size,
and nothing is compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from table import EXAMPLES, Example

from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.dtypes import dtype_of
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki.array_files import write_arrays
from twintrack.nki.arrays import Shape
from twintrack.nki.files import load_kernel
from twintrack.nki.kernel import Options
from twintrack.nki.launch import Launch, launch_ranks

__all__ = ["Outcome", "Traffic", "inputs_of", "main", "reference_of", "run_example"]

FOLDER = Path(__file__).resolve().parent


class Traffic:
    """Counts the bytes that DMA instructions move from and to HBM; a sink of instructions."""

    def __init__(self) -> None:
        self.read = 0
        self.written = 0

    def __call__(self, core: int, ins: Instruction) -> None:
        """Count one instruction."""
        del core
        if ins.engine.value != "dma":
            return
        self.read += sum(_bytes(view) for view in ins.ins)
        self.written += sum(_bytes(view) for view in ins.outs)


def _bytes(view: Any) -> int:
    if view is None or view.storage.buffer.on_chip:
        return 0
    moved = 1
    for count, stride in zip(view.shape, view.strides, strict=True):
        moved *= count if stride else 1
    return moved * int(view.dtype.bytes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave.

    Args:
        errors: of each output, as a share of the reference's largest magnitude.
        traffic: with HBM.
        launches: one per rank.
    """

    errors: tuple[float, ...]
    traffic: Traffic
    launches: tuple[Launch, ...]

    def within(self, tolerance: tuple[float, ...]) -> bool:
        """Whether no output's error is above its tolerance."""
        return all(error <= most for error, most in zip(self.errors, tolerance, strict=bool(self.errors)))


def reference_of(one: Example) -> ModuleType:
    """The module with ``make_inputs`` and ``expected``."""
    path = FOLDER / one.folder / "reference.py"
    spec = importlib.util.spec_from_file_location(f"reference_of_{one.folder}", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inputs_of(one: Example, dtype: str, sizes: Mapping[str, int], seed: int = 0) -> list[dict[str, Any]]:
    """The kernel's arguments by name, for each rank.

    Args:
        one: whose.
        dtype: of the floating-point inputs that are not float32 in any case.
        sizes: as ``make_inputs`` names them.
        seed: of the values.
    """
    made = reference_of(one).make_inputs(np.random.default_rng(seed), dtype_of(dtype).stored, **sizes)
    return list(made) if one.ranks > 1 else [made]


def run_example(
    one: Example,
    dtype: str = "float32",
    *,
    sizes: Mapping[str, int] | None = None,
    chip: str = "trn2",
    checks: str = "fast",
    values: bool = True,
) -> Outcome:
    """Run it and compare.

    Args:
        one: the example.
        dtype: of its inputs.
        sizes: those that are shown where ``None``.
        chip: whose NeuronCore.
        checks: ``off``, ``fast`` or ``all``.
        values: without them the kernel is traced on shapes, and there are no errors to give.

    Raises:
        KernelError: if the kernel breaks a rule.
    """
    inputs = inputs_of(one, dtype, sizes or one.shown)
    reference = reference_of(one)
    if not values:
        inputs = [{name: Shape(x.shape, x.dtype) for name, x in given.items()} for given in inputs]
        expected: tuple[Any, ...] = ()
    elif one.ranks > 1:
        expected = tuple(reference.expected(*inputs))
    else:
        expected = _tuple(reference.expected(**inputs[0]))
    kernel = load_kernel(f"{FOLDER / one.folder / 'kernel.py'}:{one.name}")
    traffic = Traffic()
    options = Options(GENERATIONS[chip], checks=Checks(checks), sink=traffic, values=values)
    grid = (one.cores,) if one.cores > 1 else ()
    launches = launch_ranks(
        kernel.function, grid, [((), given) for given in inputs], options, ranks_per_node=one.ranks
    )
    if not values:
        return Outcome((), traffic, tuple(launches))
    found = [output for launch in launches for output in _tuple(launch.result)]
    errors = tuple(_error(a, b) for a, b in zip(found, expected, strict=True))
    return Outcome(errors, traffic, tuple(launches))


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _error(found: Any, expected: Any) -> float:
    """Largest difference, as a share of the reference's largest magnitude."""
    if found.shape != expected.shape:
        raise ValueError(f"the kernel gave {found.shape}, the reference {expected.shape}")
    wide = np.asarray(found, np.float64)
    return float(np.abs(wide - expected).max() / max(float(np.abs(expected).max()), 1e-30))


def _told(one: Example, dtype: str, outcome: Outcome) -> list[str]:
    lines = [
        f"output {at}: largest error {error:.1e} of the largest magnitude (allowed: {most:.1e})"
        for at, (error, most) in enumerate(zip(outcome.errors, one.tolerance[dtype], strict=False))
    ]
    lines.append(
        f"HBM: {outcome.traffic.read:,} bytes read by DMA, {outcome.traffic.written:,} bytes written"
    )
    for rank, launch in enumerate(outcome.launches):
        for core, use in zip(launch.cores, launch.memory, strict=False):
            who = f"rank {rank} core {core.program}" if len(outcome.launches) > 1 else f"core {core.program}"
            lines.append(
                f"{who}: {core.count:,} instructions; SBUF {use.sbuf_peak:,} of {use.sbuf_bytes:,} bytes per "
                f"partition at most, PSUM {use.psum_peak:,} of {core.generation.psum_partition_bytes:,}; "
                f"{len(use.spills)} spills"
            )
    return lines


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    return name, int(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 where every output is within its tolerance, the worst of several kernels'."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = list(dict.fromkeys(name for one in EXAMPLES for name in (one.folder, one.name)))
    parser.add_argument("name", choices=names, help="a kernel, or a folder for all that are in it")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--chip", choices=("trn1", "trn2", "trn3"), default="trn2")
    parser.add_argument("--check", choices=("off", "fast", "all"), default="fast")
    parser.add_argument("--no-values", action="store_true", help="trace on shapes alone, compare nothing")
    parser.add_argument(
        "--size", action="append", type=_size, default=[], metavar="NAME=N", help="instead of the table's"
    )
    parser.add_argument("--save-inputs", type=Path, metavar="FILE.npz", help="write the inputs and stop")
    given = parser.parse_args(arguments)
    chosen = [one for one in EXAMPLES if given.name in (one.name, one.folder)]
    for one in chosen:
        if unknown := {name for name, _ in given.size} - set(one.shown):
            parser.error(f"{one.name} has the sizes {', '.join(one.shown)}, not {', '.join(sorted(unknown))}")
    if given.save_inputs is not None:  # kernels of one folder take the same
        (inputs,) = inputs_of(chosen[0], given.dtype, {**chosen[0].shown, **dict(given.size)})
        for name, value in write_arrays(given.save_inputs, inputs).items():
            print(f"{name}: {value.dtype.name} {list(value.shape)} in {given.save_inputs}")
        return 0
    return max(_run(one, given) for one in chosen)


def _run(one: Example, given: argparse.Namespace) -> int:
    """Run one example and print what it gave; the exit code."""
    sizes = {**one.shown, **dict(given.size)}
    try:
        outcome = run_example(
            one, given.dtype, sizes=sizes, chip=given.chip, checks=given.check, values=not given.no_values
        )
    except AssertionError as error:  # of the kernel itself, or of a rule that it breaks
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    shown = ", ".join(f"{key}={value}" for key, value in sizes.items())
    print(f"{one.name}: {given.dtype}, {shown}, on {given.chip}")
    print("\n".join(_told(one, given.dtype, outcome)))
    return 0 if outcome.within(one.tolerance[given.dtype]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
