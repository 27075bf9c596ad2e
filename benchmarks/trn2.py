"""A step of ``trn2`` against one of ``cpu`` in bf16, both on the demo's model: ``python benchmarks/trn2.py``.

``cpu`` runs PyTorch's eager bf16 kernels, ``trn2`` the captured program under Trainium's number rules with
nearest-even rounding: gradients of one micro-batch and the optimizer's update. Steps are timed in turn; the first of
each, in which programs are captured, is left out. The ratio must be at most 3. A CPU without bf16 instructions
computes bf16 products slowly, which helps the ratio there; the line that says so is printed. A second ratio, against
float32 eager on ``cpu``, has no limit and shows what the rules cost beside the fastest thing this CPU does.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from _demo import demo_job, open_demo
from _pairs import line, median_ratio, verdict
from cpu_bf16 import bf16_instructions

LIMIT, ROUNDS = 3.0, 7


def stepper(track_name: str, compute: str, cache: Path) -> Callable[[], None]:
    """One training step of the demo's job on a track, on the same rows each time."""
    session = open_demo(track_name, compute, cache, demo_job())
    progress = session.fresh()
    batch = session.batch(list(session.data.train[: session.job.batch.micro]))
    scalars = {name: session.scalar(1e-4) for name in ("step_size", "second_correction", "decay")}

    def step() -> None:
        found = session.programs.gradients(
            progress.weights, session.frozen, batch, session.scalar(0.01), invocation=1
        )
        session.programs.update(progress.optimizer, found["gradients"], scalars, invocation=2)

    return step


def seconds(step: Callable[[], None]) -> float:
    """Wall time of one step."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> int:
    """Print medians, and whether the limit is kept."""
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            "trn2 bf16": stepper("trn2", "bf16", Path(folder)),
            "cpu bf16": stepper("cpu", "bf16", Path(folder)),
            "cpu fp32": stepper("cpu", "fp32", Path(folder)),
        }
        rounds = [[seconds(step) for step in sides.values()] for _ in range(ROUNDS + 1)][1:]
    columns = list(zip(*rounds, strict=True))
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"bf16 instructions of this CPU: {bf16_instructions()}")
    for name, column in zip(sides, columns, strict=True):
        print(line(f"{name}, seconds per step", column, "s"))
    text, kept = verdict("trn2 / cpu bf16", median_ratio([(a, b) for a, b, _ in rounds]), LIMIT, at_most=True)
    print(text)
    print(f"{'trn2 / cpu fp32':<34} {statistics.median(a / c for a, _, c in rounds):10.3f}     no limit")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
