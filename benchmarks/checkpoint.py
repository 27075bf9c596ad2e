"""What a checkpoint costs: the stall of an asynchronous save, and the throughput of a synchronous one.

    python benchmarks/checkpoint.py --folder /path/on/the/disk/to/measure

Each round measures, in turning order: an asynchronous save (how long ``save`` held the caller), a synchronous save,
a plain file copy of the same files with each copy forced to disk, and a plain copy left in the page cache. Ratios are
taken within a round, and their medians over the rounds are printed. The copies read what was just written, so their
source is in memory, as that of a save is. All data are flushed before each measurement. Two states: one of at
least 1 GiB, which must meet the limits, and one of about 10 MB, as a small adapter has, which is shown apart.
Exit code 1: a limit was missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from twintrack.clock import SystemClock
from twintrack.job.records import CheckpointPolicy
from twintrack.storage import LocalFileSystem
from twintrack.training.checkpoint import Checkpointer, TrainingState

STALL_LIMIT = 0.2
"""Largest asynchronous stall, as a share of the synchronous save."""
THROUGHPUT_LIMIT = 0.7
"""Smallest throughput of a synchronous save, as a share of a plain file copy with the same durability."""
BYTES_PER_PARAMETER = 2 + 4 + 4 + 4
"""bfloat16 weight; float32 master weight and two moments."""
LAYERS = 20


def make_state(size: int) -> TrainingState:
    """A state of at least ``size`` bytes."""
    generator = torch.Generator().manual_seed(0)
    count = -(-size // (LAYERS * BYTES_PER_PARAMETER))
    tensors = {}
    for layer in range(LAYERS):
        master = torch.randn(count, generator=generator)
        tensors[f"weights/layers.{layer}"] = master.to(torch.bfloat16)
        tensors[f"master/layers.{layer}"] = master
        tensors[f"moment1/layers.{layer}"] = torch.randn(count, generator=generator)
        tensors[f"moment2/layers.{layer}"] = torch.rand(count, generator=generator)
    return TrainingState(1, tensors, {"sampler": {"epoch": 0, "position": 1}})


class Bench:
    """The four measurements on one state, each in seconds."""

    def __init__(self, folder: Path, state: TrainingState) -> None:
        self.folder = folder
        self.state = state
        self.background: list[float] = []
        self.source = folder / "source"
        with self._checkpointer(self.source) as checkpointer:
            checkpointer.save(state)
        self.files = [path for path in (self.source / "step-00000001").iterdir() if path.is_file()]

    def _checkpointer(self, folder: Path) -> Checkpointer:
        policy = CheckpointPolicy(every_steps=1, keep=1)
        return Checkpointer(LocalFileSystem(), folder, SystemClock(), policy, "bench", lambda _: None)

    def asynchronous_stall(self, target: Path) -> float:
        with self._checkpointer(target) as checkpointer:
            start = time.perf_counter()
            checkpointer.save(self.state)
            stall = time.perf_counter() - start
            checkpointer.wait()
            self.background.append(time.perf_counter() - start)
        return stall

    def synchronous_save(self, target: Path) -> float:
        with self._checkpointer(target) as checkpointer:
            start = time.perf_counter()
            checkpointer.save(self.state, wait=True)
            return time.perf_counter() - start

    def durable_copy(self, target: Path) -> float:
        return self._copy(target, durable=True)

    def cached_copy(self, target: Path) -> float:
        return self._copy(target, durable=False)

    def _copy(self, target: Path, *, durable: bool) -> float:
        start = time.perf_counter()
        target.mkdir()
        for path in self.files:
            shutil.copyfile(path, target / path.name)
            if durable:
                _sync(target / path.name)
        if durable:
            _sync(target)
        return time.perf_counter() - start

    def run(self, rounds: int) -> dict[str, list[float]]:
        """Seconds of each measurement, by name, one per round."""
        measures: list[Callable[[Path], float]] = [
            self.asynchronous_stall,
            self.synchronous_save,
            self.durable_copy,
            self.cached_copy,
        ]
        seconds: dict[str, list[float]] = {measure.__name__: [] for measure in measures}
        for turn in range(rounds + 1):
            for place in range(len(measures)):
                measure = measures[(place + turn) % len(measures)]
                target = self.folder / "target"
                os.sync()
                took = measure(target)
                shutil.rmtree(target)
                if turn:  # the first round warms up
                    seconds[measure.__name__].append(took)
        shutil.rmtree(self.source)
        return seconds


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def median_ratio(over: list[float], under: list[float]) -> float:
    """Median of the ratios within each round."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def report(console: Console, name: str, bench: Bench, rounds: int) -> tuple[float, float]:
    """Measure, print, and return the two ratios that have limits."""
    seconds = bench.run(rounds)
    size = bench.state.bytes
    table = Table(
        f"{name}: {size / 1e6:,.1f} MB, {rounds} rounds", "median", "least", "most", "MB/s (median)"
    )
    rows = seconds | {"asynchronous_background": bench.background[1:]}
    for measure, values in rows.items():
        middle = statistics.median(values)
        speed = "" if measure == "asynchronous_stall" else f"{size / middle / 1e6:,.0f}"
        numbers = [f"{value * 1e3:,.2f} ms" for value in (middle, min(values), max(values))]
        table.add_row(measure.replace("_", " "), *numbers, speed)
    console.print(table)
    stall = median_ratio(seconds["asynchronous_stall"], seconds["synchronous_save"])
    durable = median_ratio(seconds["durable_copy"], seconds["synchronous_save"])
    cached = median_ratio(seconds["cached_copy"], seconds["synchronous_save"])
    console.print(f"asynchronous stall / synchronous save                         {stall:.4f}")
    console.print(f"throughput: synchronous save / copy with fsync of each file   {durable:.2f}")
    console.print(f"throughput: synchronous save / copy left in the page cache    {cached:.2f}\n")
    return stall, durable


def main() -> int:
    """Run both states; 0 if the large one meets the limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="on the disk to measure; needs 4 GiB")
    parser.add_argument(
        "--gib", type=float, default=1.0, help="size of the large state, at least (default: 1)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds (default: 5)")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=110)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        small = Bench(Path(folder), make_state(10_000_000))
        report(console, "small adapter state", small, arguments.rounds)
        large = Bench(Path(folder), make_state(int(arguments.gib * 2**30)))
        stall, throughput = report(console, "large state", large, arguments.rounds)
    met = stall <= STALL_LIMIT and throughput >= THROUGHPUT_LIMIT
    console.print(
        f"large state: stall {stall:.4f} (at most {STALL_LIMIT}), throughput {throughput:.2f} "
        f"(at least {THROUGHPUT_LIMIT}): {'met' if met else 'MISSED'}"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
