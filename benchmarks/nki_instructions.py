"""What instructions cost on the software NeuronCore: ``python benchmarks/nki_instructions.py``.

With values: one instruction on a 128 x 512 float32 tile against the NumPy call that does its arithmetic, written
to memory that is there. Without values (shapes alone): an instruction of a kernel against ``np.add`` on 8 elements, for
whole tiles and for a mix of slices as kernels have; then the same with its trace kept and timed by the timing model.
Medians of pairs that were measured in turn on one thread, in CPU seconds; exit code 1 where a ratio is over its limit.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from _nki import matmul, pairs_of, ufunc_seconds
from _one_thread import one_thread
from _pairs import line, median_ratio, verdict
from twintrack import nki
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.schedule import Timeline, schedule
from twintrack.neuroncore.timing.trace import Trace
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape
from twintrack.nki.kernel import options_from_environment
from twintrack.nki.launch import Launch, launch

PAIRS = 41
REPEATS = 40
SHAPE = (128, 512)
VALUES_LIMIT = 3.0
TRACING_PAIRS = 41
TRACING_LIMIT = 25.0
TIMING_LIMIT = 50.0
PARAMETERS = parameters_of("trn2")
OPTIONS = replace(options_from_environment({}, chip="trn2"), values=False)
Work = Callable[[], object]
Case = tuple[str, Work, Work]


def repeated(work: Work) -> Work:
    """A work done so often that a clock tick does not matter."""

    def many() -> None:
        for _ in range(REPEATS):
            work()

    return many


def cases(x: Any, y: Any, z: Any, row: Any) -> list[Case]:
    """Instructions on tiles, and NumPy's way to the same numbers."""
    a = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    b, out, sums = a.copy(), np.empty_like(a), np.empty(SHAPE[0], np.float32)
    two = np.float32(2)
    return [
        ("tensor_tensor add", lambda: nisa.tensor_tensor(z, x, y, nl.add), lambda: np.add(a, b, out=out)),
        (
            "tensor_scalar multiply",
            lambda: nisa.tensor_scalar(z, x, nl.multiply, 2.0),
            lambda: np.multiply(a, two, out=out),
        ),
        ("activation exp", lambda: nisa.activation(z, nl.exp, x), lambda: np.exp(a, out=out)),
        ("tensor_copy", lambda: nisa.tensor_copy(z, x), lambda: np.copyto(out, a)),
        (
            "tensor_reduce add",
            lambda: nisa.tensor_reduce(row, nl.add, x, axis=1),
            lambda: np.add.reduce(a, axis=1, out=sums),
        ),
    ]


def with_values() -> list[bool]:
    """Measure inside a kernel, where instructions may be issued."""
    kept: list[bool] = []

    def kernel(given: Any) -> Any:
        x, y, z = (nl.ndarray(SHAPE, nl.float32, buffer=nl.sbuf) for _ in range(3))
        row = nl.ndarray((SHAPE[0], 1), nl.float32, buffer=nl.sbuf)
        for tile in (x, y, z):
            nisa.dma_copy(dst=tile, src=given)
        for name, instruction, reference in cases(x, y, z, row):
            kept.append(compare(name, instruction, reference))
        result = nl.ndarray(SHAPE, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=result, src=z)
        return result

    nki.simulate(kernel)(np.random.default_rng(0).standard_normal(SHAPE, np.float32))
    return kept


def compare(name: str, instruction: Work, reference: Work) -> bool:
    """Print both medians and whether their ratio keeps the limit."""
    found = pairs_of(repeated(instruction), repeated(reference), PAIRS, warm=2)
    for what, column in zip((name, "  NumPy"), zip(*found, strict=True), strict=True):
        print(line(what, [1e6 / REPEATS * each for each in column], "us"))
    text, kept = verdict(f"{name} / NumPy", median_ratio(found), VALUES_LIMIT, at_most=True)
    print(text, flush=True)
    return kept


def whole_tiles(given: Any) -> Any:
    """Instructions on whole tiles, none of them sliced."""
    x, y = (nl.ndarray(SHAPE, nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(dst=x, src=given)
    nisa.dma_copy(dst=y, src=given)
    for _ in range(1000):
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=2.0)
        nisa.activation(dst=x, op=nl.exp, data=y)
        nisa.tensor_copy(dst=y, src=x)
    out = nl.ndarray(SHAPE, nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


KERNELS: tuple[tuple[str, Any, tuple[Shape, ...]], ...] = (
    ("whole tiles", whole_tiles, (Shape(SHAPE),)),
    ("sliced matmul", matmul.function, (Shape((4096, 2048), "bfloat16"), Shape((4096, 2048), "bfloat16"))),
)


def traced(kernel: Any, shapes: tuple[Shape, ...]) -> Launch:
    """Run a kernel on shapes alone."""
    return launch(kernel, (), shapes, {}, OPTIONS)


def timed(kernel: Any, shapes: tuple[Shape, ...]) -> Timeline:
    """Run it on shapes alone, keep what it issues and time that."""
    trace = Trace(PARAMETERS)
    launch(kernel, (), shapes, {}, replace(OPTIONS, sink=trace.keep))
    return schedule(trace, OPTIONS.generation)


def beside_ufunc(work: Callable[[], object], runs: int, count: int) -> list[tuple[float, float]]:
    """CPU seconds per instruction, and of ``np.add``: the mean of before and after, for a processor's clock changes.

    What a run made is kept until the next run has made its own, so that its memory is used again: what the operating
    system takes to hand out new pages is not counted. On a virtual machine that is up to 40 us a page.
    """
    kept, found = work(), []
    for _ in range(runs):
        before = ufunc_seconds()
        start = time.process_time()
        made = work()
        seconds = time.process_time() - start
        found.append((seconds / count, (before + ufunc_seconds()) / 2))
        kept = made
    del kept
    return found


def without_values() -> list[bool]:
    """Measure whole runs, each beside ``np.add``, per instruction."""
    kept = []
    for name, kernel, shapes in KERNELS:
        count = traced(kernel, shapes).cores[0].count
        for what, work, limit in (("traced", traced, TRACING_LIMIT), ("traced, timed", timed, TIMING_LIMIT)):
            found = beside_ufunc(partial(work, kernel, shapes), TRACING_PAIRS, count)
            print(line(f"{name}: {what}", [1e6 * each for each, _ in found], "us"))
            print(line("  np.add on 8 elements", [1e6 * each for _, each in found], "us"))
            per_second = 1 / statistics.median(each for each, _ in found)
            text, good = verdict(f"{name}: {what} / np.add", median_ratio(found), limit, at_most=True)
            print(f"{text} ({count} instructions, {per_second:,.0f} a second)", flush=True)
            kept.append(good)
    return kept


def main() -> int:
    """Print the figures and whether the ratios keep their limits."""
    one_thread()
    kept = [*with_values(), *without_values()]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
