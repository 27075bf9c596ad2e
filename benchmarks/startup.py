"""How long ``twintrack --help`` takes, in bare starts of the interpreter: ``python benchmarks/startup.py``.

The two are timed in turn, pair by pair, so that whatever else the machine does falls on both; the figure is
the median of the pairs' ratios. Ends with exit code 1 where it is over the limit.
"""

from __future__ import annotations

import subprocess
import sys
import time

from _pairs import line, median_ratio, verdict

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
    bare, command = zip(*pairs, strict=True)
    print(line("bare interpreter start", [each * 1e3 for each in bare], "ms"))
    print(line("twintrack --help", [each * 1e3 for each in command], "ms"))
    ratio = median_ratio(list(zip(command, bare, strict=True)))
    text, kept = verdict("twintrack --help / bare start", ratio, LIMIT, at_most=True)
    print(text)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
