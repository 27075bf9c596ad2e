"""What kernels hold on the software NeuronCore, and what extrapolation saves: ``python benchmarks/nki_memory.py``.

Memory: a process that runs a 4096^3 bfloat16 matmul notes its peak resident set before the run (``getrusage``), with
its operands there, and after it; the rise over the bytes of what the run makes must keep the limit: the peak that it
adds, operands among it, is at most the bytes of operands and result and a quarter of them.

Extrapolation: CPU seconds of ``twintrack.profile`` for an 8192 x 8192 x 28672 matmul of whose outermost loop so many
iterations are traced and timed as show that it is steady, against those with all of them traced, each in a process of
its own; and the peak resident set of the first.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _nki import bf16_operands, load_block, matmul
from _one_thread import one_thread
from _pairs import verdict
from twintrack import nki, profile
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape

SIZE, MEMORY_LIMIT = 4096, 1.25
ROWS, DEPTH, COLUMNS = 28672, 8192, 8192
TIME_LIMIT, AGREEMENT = 0.1, 1e-3
RESIDENT_LIMIT = 1024.0


def long_matmul(lhs_t: Any, rhs: Any) -> Any:
    """A row of blocks of results at a time, in an affine loop: its ``lhs_t`` stays in SBUF while ``rhs`` goes by."""
    depth, rows, columns = lhs_t.shape[0] // 128, lhs_t.shape[1], rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(rows // 128):
        stationary = load_block(lhs_t, depth, m * 128, 128)
        for n in nl.affine_range(columns // 512):
            moving = load_block(rhs, depth, n * 512, 512)
            sums = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(depth):
                nisa.nc_matmul(dst=sums, stationary=stationary[:, k, :], moving=moving[:, k, :])
            rounded = nl.ndarray((128, 512), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=rounded, src=sums)
            nisa.dma_copy(dst=out[nl.ds(m * 128, 128), nl.ds(n * 512, 512)], src=rounded)
    return out


def peak_mib() -> float:
    """Peak resident set of this process, in MiB."""
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib / 1024 / (1024 if sys.platform == "darwin" else 1)


def run_values() -> dict[str, float]:
    """In a process of its own: the peak before operands are made, and after the matmul."""
    nki.simulate(matmul)(*bf16_operands(512))
    before = peak_mib()
    operands = bf16_operands(SIZE)
    made = peak_mib()
    out = nki.simulate(matmul)(*operands)
    tensors = sum(each.nbytes for each in (*operands, out)) / 2**20
    return {"before": before, "made": made, "after": peak_mib(), "tensors": tensors}


def run_timing(*, extrapolated: bool) -> dict[str, float]:
    """In a process of its own: seconds that the model gives, CPU seconds that it took, and the peak resident set."""
    shapes = (Shape((DEPTH, ROWS), "bfloat16"), Shape((DEPTH, COLUMNS), "bfloat16"))
    start = time.process_time()
    found = profile(long_matmul, *shapes, chip="trn2", what_if=False, extrapolate=extrapolated)
    return {"seconds": found.seconds, "took": time.process_time() - start, "peak": peak_mib()}


def in_process(*arguments: str) -> dict[str, float]:
    """What this script finds in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> int:
    """Print the figures and whether they keep their limits."""
    one_thread()
    if sys.argv[1:] == ["values"]:
        print(json.dumps(run_values()))
        return 0
    if sys.argv[1:2] == ["timing"]:
        print(json.dumps(run_timing(extrapolated=sys.argv[2] == "extrapolated")))
        return 0
    values = in_process("values")
    print(f"{SIZE}^3 bf16, operands and result {values['tensors']:10.1f} MiB")
    print(f"peak resident before operands     {values['before']:10.1f} MiB")
    print(f"peak resident with operands       {values['made']:10.1f} MiB")
    print(f"peak resident after the matmul    {values['after']:10.1f} MiB")
    added = (values["after"] - values["before"]) / values["tensors"]
    checks = [verdict("added by the matmul / tensors", added, MEMORY_LIMIT, at_most=True)]
    print(checks[0][0], flush=True)
    short, full = in_process("timing", "extrapolated"), in_process("timing", "full")
    for name, found in (("extrapolated", short), ("in full", full)):
        print(
            f"{DEPTH} x {COLUMNS} x {ROWS} {name:<14} {found['seconds'] * 1e3:9.3f} ms modelled, "
            f"profiled in {found['took']:.2f} s, {found['peak']:.0f} MiB"
        )
    apart = abs(short["seconds"] / full["seconds"] - 1)
    checks += [
        verdict("extrapolated / in full, CPU time", short["took"] / full["took"], TIME_LIMIT, at_most=True),
        verdict("extrapolated, peak MiB", short["peak"], RESIDENT_LIMIT, at_most=True),
        verdict("modelled times apart, %", 100 * apart, 100 * AGREEMENT, at_most=True),
    ]
    for text, _ in checks[1:]:
        print(text)
    return 0 if all(kept for _, kept in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
