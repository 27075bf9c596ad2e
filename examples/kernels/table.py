"""The example kernels: one record each, with the sizes they are shown and tested at and how exact they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["EXAMPLES", "Example", "example"]


@dataclass(frozen=True, slots=True)
class Example:
    """One kernel beside its reference.

    Args:
        name: of the kernel function in ``FOLDER/kernel.py``.
        folder: below ``examples/kernels``; its ``reference.py`` has ``make_inputs`` and ``expected``.
        shown: sizes that ``run.py`` uses, for ``make_inputs``.
        small: sizes for tests: more than one tile in every direction that is tiled.
        tolerance: by element type of the inputs, one per output: its largest error, as a share of the largest
            magnitude that the reference has in it.
        reason: where that error comes from.
        chips: that it runs on.
        cores: programs of the launch grid: 2 is LNC2.
        ranks: of the collective; 1 where there is none.
    """

    name: str
    folder: str
    shown: Mapping[str, int]
    small: Mapping[str, int]
    tolerance: Mapping[str, tuple[float, ...]]
    reason: str
    chips: tuple[str, ...] = ("trn1", "trn2", "trn3")
    cores: int = 1
    ranks: int = 1
    dtypes: tuple[str, ...] = field(init=False)
    """Element types of the inputs that it is run with."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtypes", tuple(self.tolerance))


def _sizes(**sizes: int) -> Mapping[str, int]:
    return MappingProxyType(sizes)


def _tolerance(float32: tuple[float, ...], bfloat16: tuple[float, ...]) -> Mapping[str, tuple[float, ...]]:
    return MappingProxyType({"float32": float32, "bfloat16": bfloat16})


def _matmul(step: str) -> Example:
    return Example(
        f"matmul_{step}",
        "matmul",
        shown=_sizes(m=1024, k=1024, n=1024),
        small=_sizes(m=256, k=256, n=1024),
        tolerance=_tolerance((2e-6,), (2**-8,)),
        reason="float32 sums of K products; bfloat16 results are rounded once, by at most 2^-8 of themselves",
    )


EXAMPLES: tuple[Example, ...] = (
    _matmul("basic"),
    _matmul("hoisted"),
    _matmul("block_free"),
    _matmul("block_all"),
    Example(
        "softmax",
        "softmax",
        shown=_sizes(rows=1024, columns=4096),
        small=_sizes(rows=200, columns=384),
        tolerance=_tolerance((1e-6,), (2**-8,)),
        reason="float32 powers and sums; bfloat16 results are rounded once, by at most 2^-8 of themselves",
    ),
    Example(
        "rmsnorm",
        "rmsnorm",
        shown=_sizes(rows=1024, width=4096),
        small=_sizes(rows=200, width=384),
        tolerance=_tolerance((1e-6,), (2**-8,)),
        reason="float32 sum of squares; bfloat16 results are rounded once, by at most 2^-8 of themselves",
    ),
    Example(
        "rope",
        "rope",
        shown=_sizes(heads=8, positions=1024, width=128),
        small=_sizes(heads=3, positions=200, width=64),
        tolerance=_tolerance((1e-6,), (2**-8,)),
        reason="products and their sum in float32; bfloat16 results are rounded once, by at most 2^-8 of themselves",
    ),
    Example(
        "flash_attention_forward",
        "flash_attention_forward",
        shown=_sizes(heads=4, positions=2048, width=128),
        small=_sizes(heads=2, positions=640, width=32),
        tolerance=_tolerance((2e-6, 1e-6), (2**-7, 1e-6)),
        reason="float32 scores, weights and sums; with bfloat16 the weights and the results are rounded, by 2^-8 each",
    ),
    Example(
        "flash_attention_backward",
        "flash_attention_backward",
        shown=_sizes(heads=4, positions=1024, width=128),
        small=_sizes(heads=2, positions=640, width=32),
        tolerance=_tolerance((4e-6,) * 3, (2**-6,) * 3),
        reason="float32 products and sums; with bfloat16 the weights, their gradients, the forward result and the "
        "results are rounded, by 2^-8 each",
    ),
    Example(
        "adam",
        "adam",
        shown=_sizes(size=128 * 8192, step=10),
        small=_sizes(size=128 * 2500, step=3),
        tolerance=_tolerance((1e-6,) * 4, (2**-8, 1e-6, 1e-6, 1e-6)),
        reason="moments and masters in float32; bfloat16 parameters are rounded once, by at most 2^-8 of themselves",
    ),
    Example(
        "embedding_gather",
        "embedding_gather",
        shown=_sizes(tokens=1024, vocabulary=8192, width=1024),
        small=_sizes(tokens=200, vocabulary=300, width=96),
        tolerance=_tolerance((0.0,), (0.0,)),
        reason="nothing is computed",
        chips=("trn2", "trn3"),
    ),
    Example(
        "cross_entropy",
        "cross_entropy",
        shown=_sizes(tokens=256, vocabulary=32_000),
        small=_sizes(tokens=200, vocabulary=5000),
        tolerance=_tolerance((1e-6, 2e-6), (1e-6, 2**-8)),
        reason="float32 powers and sums; a bfloat16 gradient is rounded once, by at most 2^-8 of itself",
        chips=("trn2", "trn3"),
    ),
    Example(
        "center_columns",
        "two_core_centering",
        shown=_sizes(rows=2048, columns=4096),
        small=_sizes(rows=512, columns=1200),
        tolerance=_tolerance((1e-6, 1e-6), (2**-8, 1e-6)),
        reason="float32 sums; bfloat16 results are rounded once, by at most 2^-8 of themselves",
        chips=("trn2", "trn3"),
        cores=2,
    ),
    Example(
        "collective_matmul",
        "collective_matmul",
        shown=_sizes(m=1024, k=2048, n=2048, ranks=4),
        small=_sizes(m=256, k=512, n=1200, ranks=4),
        tolerance=_tolerance((2e-6,) * 4, (2**-7,) * 4),
        reason="float32 sums; with bfloat16 four shares of about half the size and their sum are rounded, by 2^-8 each",
        ranks=4,
    ),
    Example(
        "top_k_router",
        "top_k_router",
        shown=_sizes(tokens=1024, width=1024, experts=64),
        small=_sizes(tokens=256, width=256, experts=20),
        tolerance=_tolerance((2e-6, 0.0, 0.0), (2e-6, 0.0, 0.0)),
        reason="float32 logits and powers, also of bfloat16 inputs; choices and counts are exact",
    ),
    Example(
        "selective_scan",
        "selective_scan",
        shown=_sizes(channels=256, states=16, steps=2048),
        small=_sizes(channels=256, states=4, steps=1500),
        tolerance=_tolerance((2e-6,), (2**-8,)),
        reason="float32 states; bfloat16 results are rounded once, by at most 2^-8 of themselves",
    ),
)
"""In the order of the index page."""


def example(name: str) -> Example:
    """The one of this name.

    Raises:
        KeyError: if there is none.
    """
    return {one.name: one for one in EXAMPLES}[name]
