"""Where an operator is marked ``rounds_once``, PyTorch's own bfloat16 kernel may stand in for the rule.

The rule: widen to float32, compute, round once to nearest even. Which NaN results is not promised, by PyTorch least of
all; that it is a NaN is.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from program_cases import run_one

from twintrack.compiler.operators import OPERATORS
from twintrack.numerics.rounding import Stochastic, TowardZero

EVERY = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
"""All 65,536 patterns of bfloat16."""
SPECIAL = [
    *(0x0000, 0x0001, 0x0002, 0x007F, 0x0080, 0x0081),  # zero, subnormals, the smallest normals
    *(0x3F80, 0x3F81, 0x3F82, 0x3F83, 0x3F7F, 0x3F00, 0x4000, 0x4040, 0x4049, 0x40A0, 0x42C8),  # around 1
    *(0x3B80, 0x3C00, 0x3B81, 0x4380, 0x4381, 0x4B80, 0x4B7F),  # ties when added to numbers around 1 and 256
    *(0x1F80, 0x2000, 0x1FC0, 0x5F00, 0x5F80, 0x00FF, 0x0100),  # whose products are subnormal or overflow
    *(0x7F00, 0x7F7E, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF),  # the largest, infinity, NaN
]
MARKED = sorted(name for name, spec in OPERATORS.items() if spec.rounds_once)
ARITHMETIC = [name for name in MARKED if OPERATORS[name].kind == "arithmetic"]
UNARY = [name for name in ARITHMETIC if OPERATORS[name].operands == (1,)]
BINARY = [name for name in ARITHMETIC if OPERATORS[name].operands == (1, 2)]


def _pairs():
    """All pairs of special patterns of both signs, and 300,000 pairs of arbitrary ones."""
    special = np.array([s | sign for s in SPECIAL for sign in (0, 0x8000)], np.uint16)
    left, right = np.meshgrid(special, special)
    random = np.random.default_rng(5).integers(0, 1 << 16, (2, 300_000), np.uint16)
    near = random[0] ^ np.random.default_rng(6).integers(0, 1 << 9, 300_000, np.uint16)
    left = np.concatenate([left.ravel(), random[0], random[0]])
    right = np.concatenate([right.ravel(), random[1], near])
    return tuple(torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) for x in (left, right))


def _bits(x):
    bits = x.view(torch.int16).numpy().view(np.uint16).copy() if x.is_floating_point() else x.numpy()
    if x.is_floating_point():
        bits[torch.isnan(x).numpy()] = 0x7FC0
    return bits


def _by_the_rule(name, operands):
    """Widened, computed and rounded, with no part of it from the executor; the rounding is ml_dtypes'."""
    result = OPERATORS[name].kernel([x.float() for x in operands], {})
    if not result.is_floating_point():
        return result
    with np.errstate(invalid="ignore"):
        rounded = result.numpy().astype(ml_dtypes.bfloat16).view(np.int16)
    return torch.from_numpy(rounded).view(torch.bfloat16)


@pytest.mark.parametrize("name", UNARY)
def test_unary_kernels_keep_the_rule_on_every_pattern(name):
    direct = OPERATORS[name].kernel([EVERY], {})
    np.testing.assert_array_equal(_bits(direct), _bits(_by_the_rule(name, [EVERY])))


@pytest.mark.parametrize("name", BINARY)
def test_binary_kernels_keep_the_rule_on_special_and_random_patterns(name):
    operands = _pairs()
    direct = OPERATORS[name].kernel(list(operands), {})
    np.testing.assert_array_equal(_bits(direct), _bits(_by_the_rule(name, operands)))


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_kernels_keep_the_rule_whatever_the_layout(name):
    """Broadcast, transposed and odd-sized operands take other loops inside PyTorch than contiguous ones."""
    left, right = _pairs()
    operands = [left[:4095].reshape(65, 63).t(), right[7:70].reshape(63, 1)][: 1 if name in UNARY else 2]
    direct = OPERATORS[name].kernel(operands, {})
    np.testing.assert_array_equal(
        _bits(direct.contiguous()), _bits(_by_the_rule(name, operands).contiguous())
    )


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_the_executor_keeps_the_rule(name):
    operands = list(_pairs())[: 1 if name in UNARY else 2]
    dtype = "bool" if OPERATORS[name].result == "bool" else "bf16"
    np.testing.assert_array_equal(_bits(run_one(name, operands, dtype)), _bits(_by_the_rule(name, operands)))


@pytest.mark.parametrize("rule", [TowardZero(), Stochastic(4)], ids=lambda rule: rule.name)
@pytest.mark.parametrize("name", ["add", "mul", "div", "sub"])
def test_other_roundings_are_never_left_to_the_kernel(name, rule):
    """PyTorch's kernel knows nearest even only."""
    generator = torch.Generator().manual_seed(2)
    left, right = (torch.randn(2000, generator=generator).to(torch.bfloat16) for _ in range(2))
    exact = OPERATORS[name].kernel([left.float(), right.float()], {})
    found = run_one(name, [left, right], "bf16", rounding=rule, invocation=3)
    np.testing.assert_array_equal(_bits(found), _bits(rule.to(exact, torch.bfloat16, 3 * 2**32 + 1)))
    assert (_bits(found) != _bits(_by_the_rule(name, [left, right]))).mean() > 0.1


def test_the_pairs_hold_ties_subnormals_overflow_and_signed_zeros():
    """So that agreement means something."""
    left, right = _pairs()
    wide = (left.float() + right.float()).view(torch.int32)
    assert ((wide & 0xFFFF) == 0x8000).sum() > 1000
    product = left.float() * right.float()
    assert ((product != 0) & (product.abs() < 2.0**-126)).sum() > 1000
    assert (torch.isinf(product) & torch.isfinite(left) & torch.isfinite(right)).sum() > 1000
    assert (torch.signbit(product) & (product == 0)).sum() > 1000


def test_all_marked_operators_are_tested_here_or_only_move():
    moving = {name for name in MARKED if OPERATORS[name].result == "same"}
    assert {*UNARY, *BINARY, *moving} == set(MARKED)
    assert all(OPERATORS[name].kind in ("view", "movement") for name in moving)


def test_an_operator_that_rounds_more_than_once_would_be_found():
    """A cube as two products, each rounded, is not the cube rounded once."""
    x = EVERY[torch.isfinite(EVERY)]
    cubed = (x * x) * x
    assert (_bits(cubed) != _bits(_by_the_rule("pow", [x, torch.full_like(x, 3.0)]))).mean() > 0.05
