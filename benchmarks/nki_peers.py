"""The same matmul in kernel emulators, side by side: ``python benchmarks/nki_peers.py``.

1024^3 in bfloat16, blocks of 128 x 512 results and 128 of K, on the software NeuronCore (checks ``fast`` and ``all``),
in Triton's interpreter, and in the TPU interpret mode of JAX Pallas with and without its search for races. Each runs
in a process of its own, on one thread where it can be asked for; every run is paired with a NumPy float32 matmul of
that size, so that rows can be compared although other load comes and goes. Medians; seconds are CPU seconds. A peer
that is not installed is said to be so: ``pip install -e '.[peers]'``. Nothing is required of the figures, but every
result must be right: exit code 1 where one is not.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from _nki import bf16_operands, matmul, seconds_of
from _one_thread import one_thread
from twintrack import nki
from twintrack.neuroncore.emulator.core import Checks

SIZE = 1024
RUNS = 5
TOLERANCE = 2.0**-7
"""Of the largest magnitude: results are rounded to bfloat16."""
ROWS = {
    "ours-fast": "twintrack, checks fast",
    "ours-all": "twintrack, checks all",
    "triton": "Triton, interpreter",
    "pallas": "JAX Pallas, TPU interpret",
    "pallas-races": "JAX Pallas, TPU interpret, races",
}
ENVIRONMENT = {
    "TRITON_INTERPRET": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


def prepared(row: str, lhs_t: np.ndarray, rhs: np.ndarray) -> tuple[str, Callable[[], np.ndarray]]:
    """Version of what is measured, and a function that multiplies once."""
    if row == "triton":
        import _peer_triton

        return _peer_triton.VERSION, _peer_triton.prepare(lhs_t, rhs)
    if row.startswith("pallas"):
        import _peer_pallas

        return _peer_pallas.VERSION, _peer_pallas.prepare(lhs_t, rhs, races=row == "pallas-races")
    checks = Checks.ALL if row == "ours-all" else Checks.FAST
    run = nki.simulate(matmul).with_options(checks=checks)
    return "this checkout", lambda: run(lhs_t, rhs).astype(np.float32)


def measured(row: str) -> dict[str, Any]:
    """One row, in this process: seconds per run and of the NumPy matmul beside it, and the error."""
    lhs_t, rhs = bf16_operands(SIZE)
    wide_t, wide = lhs_t.astype(np.float32), rhs.astype(np.float32)
    try:
        version, run = prepared(row, lhs_t, rhs)
    except ModuleNotFoundError as error:
        return {"missing": error.name}
    expected = wide_t.T @ wide
    error = float(np.abs(run() - expected).max() / np.abs(expected).max())  # the first run compiles
    found = []
    for _ in range(RUNS):
        reference = seconds_of(lambda: wide_t.T @ wide)
        start = time.perf_counter()
        seconds = seconds_of(run)
        found.append((seconds, time.perf_counter() - start, seconds / reference))
    cpu, wall, ratio = (statistics.median(column) for column in zip(*found, strict=True))
    return {"version": version, "cpu": cpu, "wall": wall, "ratio": ratio, "error": error}


def main() -> int:
    """Print one line per emulator."""
    one_thread()
    if sys.argv[1:2] == ["--row"]:
        print(json.dumps(measured(sys.argv[2])))
        return 0
    print(f"{SIZE}^3 bfloat16, medians of {RUNS}")
    print(f"{'':<34}{'CPU s':>9}{'wall s':>9}{'NumPy matmuls':>15}{'error':>9}  version")
    right = True
    for row, label in ROWS.items():
        command = [sys.executable, str(Path(__file__).resolve()), "--row", row]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | ENVIRONMENT
        )
        found = json.loads(done.stdout.splitlines()[-1])
        if "missing" in found:
            print(f"{label:<34}not installed: {found['missing']}")
            continue
        good = found["error"] <= TOLERANCE
        right = right and good
        print(
            f"{label:<34}{found['cpu']:9.3f}{found['wall']:9.3f}{found['ratio']:15.1f}"
            f"{found['error']:9.4f}  {found['version']}{'' if good else '  WRONG'}",
            flush=True,
        )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
