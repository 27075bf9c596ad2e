"""How long ``twintrack --help`` takes, in bare starts of the interpreter: ``python benchmarks/startup.py``.

The two are timed in turn, pair by pair, so that whatever else the machine does falls on both; the figure is
the median of the pairs' ratios. Ends with exit code 1 where it is not under the limit.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

PAIRS = 30
LIMIT = 10.0


def seconds(*arguments: str) -> float:
    """Wall time of one start of this interpreter with these arguments, until it has ended."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    """Print the medians and whether the ratio keeps the limit."""
    help_arguments = (
        "-c",
        "import sys; sys.argv = ['twintrack', '--help']; import twintrack.cli as c; c.main()",
    )
    seconds(*help_arguments)  # byte code is written once
    pairs = [(seconds("-c", ""), seconds(*help_arguments)) for _ in range(PAIRS)]
    ratio = statistics.median(command / bare for bare, command in pairs)
    bare, command = (statistics.median(column) for column in zip(*pairs, strict=True))
    kept = ratio < LIMIT
    print(f"bare interpreter start  {bare * 1e3:6.1f} ms   median of {PAIRS}")
    print(f"twintrack --help        {command * 1e3:6.1f} ms   median of {PAIRS}")
    verdict = f"limit {LIMIT:g}: {'kept' if kept else 'BROKEN'}"
    print(f"ratio                   {ratio:6.2f}      median of pairs; {verdict}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
