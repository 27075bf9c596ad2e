"""How much slower a bf16 matrix product is than a float32 one on this CPU: ``python benchmarks/cpu_bf16.py``.

A CPU without bf16 instructions (AVX-512 BF16, AMX, or Arm's BF16) computes bf16 products in software. The
third column is what one may do instead: widen to float32, multiply, round once. ``M x K`` times ``K x N`` are
the shapes of a layer of the demo's model. Nothing is required of the figures; ``docs/log.md`` records them.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

ROUNDS = 15
SHAPES = ((256, 576, 1536), (256, 1536, 576), (512, 576, 1536))
INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16")


def seconds(work: Callable[[], torch.Tensor]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bf16_instructions() -> str:
    """Which bf16 instructions this CPU names among its features, where the system tells."""
    features = Path("/proc/cpuinfo")
    if not features.exists():
        return "unknown"
    words = set(features.read_text(encoding="utf-8").split())
    return ", ".join(name for name in INSTRUCTIONS if name in words) or "none"


def ways_to_multiply(left: torch.Tensor, right: torch.Tensor) -> list[Callable[[], torch.Tensor]]:
    """``left (M, K) @ right (N, K).T``: in float32, in bf16, and in float32 from and to bf16."""
    left16, right16 = left.bfloat16(), right.bfloat16()
    return [
        lambda: left @ right.T,
        lambda: left16 @ right16.T,
        lambda: (left16.float() @ right16.float().T).bfloat16(),
    ]


def main() -> int:
    """Print one line per shape: medians of rounds in which each way runs once."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"bf16 instructions of this CPU: {bf16_instructions()}")
    print(f"{'M x K x N':>16} {'float32 ms':>11} {'bf16 ms':>9} {'widened ms':>11} {'bf16 / float32':>15}")
    generator = torch.Generator().manual_seed(0)
    for m, k, n in SHAPES:
        left = torch.randn(m, k, generator=generator)
        right = torch.randn(n, k, generator=generator)
        ways = ways_to_multiply(left, right)
        rounds = [[seconds(way) for way in ways] for _ in range(ROUNDS + 2)][2:]  # the first two warm up
        float32, bf16, widened = (statistics.median(column) * 1e3 for column in zip(*rounds, strict=True))
        ratio = statistics.median(each[1] / each[0] for each in rounds)
        print(f"{f'{m} x {k} x {n}':>16} {float32:11.2f} {bf16:9.2f} {widened:11.2f} {ratio:15.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
