"""The four steps of the matrix multiplication at the size of a published measurement, and their story in numbers."""

from __future__ import annotations

from collections.abc import Sequence

from pages import sentence, table_text
from run import FOLDER
from table import EXAMPLES, Example

from twintrack.neuroncore.timing.binding import LIMIT_NAMES
from twintrack.neuroncore.timing.profile import Profile
from twintrack.neuroncore.timing.views import error_text
from twintrack.nki.arrays import Shape
from twintrack.nki.files import load_kernel
from twintrack.nki.profiling import profile
from twintrack.report.format import quantity_text

__all__ = ["PUBLISHED_MS", "SIZE", "STEPS", "profile_step", "steps_section"]

STEPS: tuple[Example, ...] = tuple(one for one in EXAMPLES if one.folder == "matmul")
"""From basic tiles to blocks over every dimension."""
SIZE = (4096, 8192, 8192)
"""M, K and N of the published measurement, bfloat16."""
PUBLISHED_MS = (51.8, 42.96, 22.07, 6.97)
"""On Trainium1, of a tutorial's kernels with the four ideas: AWS Neuron SDK 2.26,
``general/nki/tutorials/matrix_multiplication.rst``."""


def profile_step(one: Example, chip: str, *, what_if: bool) -> Profile:
    """A step at that size.

    Args:
        one: of ``STEPS``.
        chip: ``trn1`` or ``trn2``.
        what_if: whether it is timed again with one limit lifted at a time, which takes most of the time.
    """
    m, k, n = SIZE
    given = {"lhs_t": Shape((k, m), "bfloat16"), "rhs": Shape((k, n), "bfloat16")}
    kernel = load_kernel(f"{FOLDER / one.folder / 'kernel.py'}:{one.name}")
    return profile(kernel, chip=chip, settings=given, what_if=what_if)


def steps_section(trn2: Sequence[Profile], trn1: Sequence[Profile]) -> str:
    """Tables and story, Markdown.

    Args:
        trn2: profiles of ``STEPS``.
        trn1: likewise; what binds is not asked.
    """
    m, k, n = SIZE
    errors = {error_text(one) for one in (*trn2, *trn1)}
    return "\n\n".join(
        (
            f"At M x K x N = {m:,} x {k:,} x {n:,}, bfloat16, one core of trn2, simulated:",
            _steps_table(trn2),
            *_story(trn2),
            "The same kernels on one core of trn1, beside the published times of a tutorial's kernels with the same "
            "four ideas, at the same size (AWS Neuron SDK 2.26, `general/nki/tutorials/matrix_multiplication.rst`):",
            table_text(
                ("kernel", "these, simulated", "DMA active", "the tutorial's, published"),
                [
                    (f"`{one.kernel}`", quantity_text(one.time), f"{one.dma.share:.0%}", f"{published:g} ms")
                    for one, published in zip(trn1, PUBLISHED_MS, strict=True)
                ],
            ),
            _comparison(trn2, trn1),
            " ".join(sentence(text) for text in sorted(errors)),
        )
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def _gb(count: float) -> str:
    return f"{count * 1e-9:.2f} GB"


def _steps_table(trn2: Sequence[Profile]) -> str:
    head = ("kernel", "time", "DMA active", "Tensor active", "HBM bytes", "DMAs", "MFU", "what binds")
    rows = [
        (
            f"`{one.kernel}`",
            quantity_text(one.time),
            f"{one.dma.share:.0%}",
            f"{one.engines['tensor'].share:.0%}",
            _gb(one.hbm_bytes),
            f"{one.dma.transfers:,}",
            f"{one.mfu:.0%}",
            LIMIT_NAMES[one.binding.resource],
        )
        for one in trn2
    ]
    return table_text(head, rows)


def _waited(one: Profile) -> float:
    """Seconds in which the Tensor Engine waited for operands."""
    return sum(wait.seconds for wait in one.waits if wait.engine == "tensor" and wait.reason == "data")


def _story(trn2: Sequence[Profile]) -> tuple[str, ...]:
    basic, hoisted, free, whole = trn2
    return (
        f"1. `{basic.kernel}` brings every tile by a DMA of its own: {basic.dma.transfers:,} of them. The queue cannot "
        f"issue them fast enough: DMA is active for {basic.dma.share:.0%} of the time, but its engines are busy for "
        f"only {basic.dma.busy_share:.0%}. The Tensor Engine starves between tiles, {_ms(_waited(basic))} in all, and "
        f"loses {_ms(basic.throttled_seconds)} more to its limit after idleness.",
        f"2. `{hoisted.kernel}` loads the stationary tiles of a row once, and all of K with one DMA. That saves few "
        f"bytes ({_gb(basic.hbm_bytes)} become {_gb(hoisted.hbm_bytes)}) and nearly all DMAs "
        f"({hoisted.dma.transfers:,} are left): {basic.seconds / hoisted.seconds:.1f} times as fast. Now the DMA "
        f"engines are busy for {hoisted.dma.busy_share:.0%} of the time, at "
        f"{hoisted.dma.gigabytes_per_second:.0f} GB/s: what is left is to move fewer bytes.",
        f"3. `{free.kernel}` uses what it loads for four rows by two columns of tiles: {_gb(free.hbm_bytes)}, "
        f"{hoisted.seconds / free.seconds:.1f} times as fast. DMA is active for {free.dma.share:.0%} of the time only, "
        f"and yet the Tensor Engine waits for operands, {_ms(_waited(free))} in all: blocks over all of K take "
        f"{free.sbuf_peak:,} of {free.sbuf_room:,} bytes per partition, so the next ones do not fit beside them and "
        "are not loaded ahead.",
        f"4. `{whole.kernel}` cuts K too. Blocks of M and N grow, {_gb(whole.hbm_bytes)} are left, and the next block "
        f"is loaded while this one is used: {_ms(_waited(whole))} of waiting, {free.seconds / whole.seconds:.1f} times "
        f"as fast, {basic.seconds / whole.seconds:.1f} times in all. The Tensor Engine is active for "
        f"{whole.engines['tensor'].share:.0%} of the time.",
    )


def _comparison(trn2: Sequence[Profile], trn1: Sequence[Profile]) -> str:
    basic, hoisted, _, whole = trn1
    return (
        f"On trn1 the four steps together are worth {basic.seconds / whole.seconds:.1f} times, published "
        f"{PUBLISHED_MS[0] / PUBLISHED_MS[3]:.1f} times. The second alone is worth less than on trn2: there DMA "
        f"engines are busy for {basic.dma.busy_share:.0%} of the time already in the first, and time follows the bytes "
        f"({_gb(basic.hbm_bytes)} to {_gb(hoisted.hbm_bytes)}). The third is faster than the tutorial's because its "
        "blocks have 4 x 2 tiles, the tutorial's 2 x 2, which loads the moving operand twice as often. The last takes "
        f"{_ms(whole.seconds)} on trn1 and {_ms(trn2[3].seconds)} on trn2: both are near the Tensor Engine's peak, "
        f"which is {whole.peak_tflops:g} TFLOPS in a core of trn1 and {trn2[3].peak_tflops:g} in one of trn2 (dense "
        f"bfloat16). The tutorial's own loops, written anew, are rows of the "
        "[accuracy table](../../../docs/timing-accuracy.md)."
    )
