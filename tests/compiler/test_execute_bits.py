"""The software Trainium2 gives the bits that its number rules predict, and not those of other rules.

Operands are integers times powers of two, small enough that a float32 sum of their products is exact in any order.
The three possible results of a product of bfloat16 matrices can then be predicted with integers alone:

- ours: the exact sum, rounded once to bfloat16;
- plain float32: the exact sum;
- accumulated in bfloat16: every product and every partial sum rounded.
"""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from program_cases import Draft, one_operator, run_one

from twintrack.compiler.execute import Executor
from twintrack.compiler.verify import verify
from twintrack.numerics.rounding import NearestEven, Stochastic, TowardZero

M, K, N = 24, 200, 20
BF16 = ml_dtypes.bfloat16


def _neighbours(value: Fraction):
    """The bfloat16 numbers around a fraction, as fractions: 8 significant bits, found by integer division."""
    if value == 0:
        return value, value
    magnitude, unit = abs(value), Fraction(1)
    while magnitude / unit >= 256:
        unit *= 2
    while magnitude / unit < 128:
        unit /= 2
    low = (magnitude // unit) * unit
    high = low if low == magnitude else low + unit
    return (low, high) if value > 0 else (-high, -low)


def _nearest_even(value: Fraction) -> Fraction:
    low, high = _neighbours(value)
    if low == high:
        return low
    if value - low != high - value:
        return low if value - low < high - value else high
    unit = high - low
    return low if (low / unit) % 2 == 0 else high


def _integers():
    """8-bit significands of both signs; rows and columns scaled by powers of two far apart."""
    random = np.random.default_rng(1)
    left, right = random.integers(-255, 256, (M, K)), random.integers(-255, 256, (K, N))
    return left, right, random.integers(-20, 21, M), random.integers(-20, 21, N)


@pytest.fixture(scope="module")
def case():
    """Operands as bfloat16 tensors, and the exact product as fractions."""
    left, right, rows, columns = _integers()
    assert (
        np.abs(left).astype(np.int64) @ np.abs(right)
    ).max() < 2**24  # so every partial sum is exact in float32
    scale = np.array([[Fraction(2) ** int(r + c) for c in columns] for r in rows])
    exact = (left.astype(object) @ right.astype(object)) * scale
    x = torch.from_numpy(np.ldexp(left.astype(np.float64), rows[:, None])).to(torch.bfloat16)
    y = torch.from_numpy(np.ldexp(right.astype(np.float64), columns[None, :])).to(torch.bfloat16)
    assert [[Fraction(v) for v in row] for row in x.tolist()] == [
        [int(v) * Fraction(2) ** int(r) for v in row] for row, r in zip(left, rows, strict=True)
    ]
    return x, y, exact


def _fractions(tensor):
    flat = [Fraction(value) for value in tensor.double().flatten().tolist()]
    return np.array(flat, dtype=object).reshape(tuple(tensor.shape))


def _rounded(exact):
    return np.vectorize(_nearest_even, otypes=[object])(exact)


def _accumulated_in_bf16(x, y):
    """Every product and every partial sum rounded to bfloat16, in order, by ml_dtypes."""
    left, right = (t.float().numpy().astype(BF16) for t in (x, y))
    total = np.zeros((M, N), BF16)
    for k in range(K):
        product = (left[:, k, None].astype(np.float32) * right[None, k].astype(np.float32)).astype(BF16)
        total = (total.astype(np.float32) + product.astype(np.float32)).astype(BF16)
    return torch.from_numpy(total.view(np.int16)).view(torch.bfloat16)


def _in_pieces(x, y):
    """The same order of rounding as a program of the IR: products and sums as operators of their own."""
    draft = Draft()
    a, b = draft.input("bf16", M, K), draft.input("bf16", K, N)
    total = draft.emit("constant", dtype="bf16", shape=(M, N), value=0.0)
    for k in range(K):
        column = draft.emit("slice", a, dtype="bf16", axis=1, start=k, stop=k + 1, step=1)
        row = draft.emit("slice", b, dtype="bf16", axis=0, start=k, stop=k + 1, step=1)
        total = draft.emit("add", total, draft.emit("mul", column, row, dtype="bf16"), dtype="bf16")
    program = draft.program(total)
    verify(program)
    return Executor(program, NearestEven()).run([x, y], invocation=0)[0]


def test_a_matmul_is_the_exact_sum_rounded_once(case):
    x, y, exact = case
    assert (_fractions(run_one("matmul", [x, y], "bf16")) == _rounded(exact)).all()


def test_it_differs_from_plain_float32_where_and_by_what_is_predicted(case):
    x, y, exact = case
    plain, ours = run_one("matmul", [x, y], "f32"), run_one("matmul", [x, y], "bf16")
    assert (_fractions(plain) == exact).all()
    found, predicted = _fractions(plain) - _fractions(ours), exact - _rounded(exact)
    assert (found == predicted).all()
    assert (predicted != 0).mean() > 0.9


def test_it_differs_from_accumulation_in_bf16_where_and_by_what_is_predicted(case):
    x, y, exact = case
    worse, ours = _accumulated_in_bf16(x, y), run_one("matmul", [x, y], "bf16")
    assert torch.equal(_in_pieces(x, y).view(torch.int16), worse.view(torch.int16))
    found = _fractions(ours) - _fractions(worse)
    assert (found == _rounded(exact) - _fractions(worse)).all()
    assert (found != 0).mean() > 0.9


def test_a_wrong_rounding_is_told_apart(case):
    x, y, exact = case
    wrong = _fractions(run_one("matmul", [x, y], "bf16", rounding=TowardZero()))
    assert (np.abs(wrong) <= np.abs(exact)).all()
    assert 0.3 < (wrong != _rounded(exact)).mean() < 0.7


def test_bias_meets_the_product_in_float32(case):
    """As in PSUM: product declared float32, sum with the bias, one rounding."""
    x, y, exact = case
    bias = torch.arange(1, N + 1).to(torch.bfloat16) * 2.0**-10
    draft = Draft()
    a, b, c = draft.input("bf16", M, K), draft.input("bf16", K, N), draft.input("bf16", N)
    program = draft.program(draft.emit("add", c, draft.emit("matmul", a, b, dtype="f32"), dtype="bf16"))
    verify(program)
    found = Executor(program, NearestEven()).run([x, y, bias], invocation=0)[0]
    total = (exact + _fractions(bias)).astype(np.float64)
    kept = np.abs(total) < 2.0**14 * np.abs(total - exact.astype(np.float64))  # the float32 sum is exact too
    kept &= total == total.astype(np.float32)
    assert kept.sum() > 50
    assert (_fractions(found)[kept] == _rounded((exact + _fractions(bias))[kept])).all()


def test_master_weights_keep_what_bf16_would_lose():
    """An update of 2**-10 of a weight: 512 of them add up in float32, in bfloat16 every one is lost."""

    def run(dtype):
        draft = Draft()
        value = draft.input(dtype, 1)
        for _ in range(512):
            value = draft.emit("add", value, dtype=dtype, scalar=2.0**-10, side="right")
        program = draft.program(draft.emit("cast", value, dtype="bf16"))
        start = torch.ones(1, dtype=torch.bfloat16 if dtype == "bf16" else torch.float32)
        return Executor(program, NearestEven()).run([start], invocation=0)[0].item()

    assert (run("f32"), run("bf16")) == (1.5, 1.0)


def test_stochastic_results_are_neighbours(case):
    x, y, exact = case
    neighbours = np.vectorize(_neighbours, otypes=[object, object])(exact)
    results = [
        _fractions(run_one("matmul", [x, y], "bf16", rounding=Stochastic(3), invocation=i)) for i in range(8)
    ]
    for found in results:
        assert ((found == neighbours[0]) | (found == neighbours[1])).all()
    inexact = neighbours[0] != neighbours[1]
    both = np.any([found == neighbours[0] for found in results], 0) & np.any(
        [found == neighbours[1] for found in results], 0
    )
    assert both[inexact].mean() > 0.7  # 7/9 are expected, the discarded fractions being uniform


@pytest.mark.parametrize("share", [1, 64, 128, 200, 255])
def test_stochastic_rounding_is_unbiased(share):
    """100,000 products 1 x (1 + share/256 units): the share of roundings up within 4.5 standard deviations."""
    n = 100_000
    x = torch.tensor([[1.0], [share * 2.0**-15]], dtype=torch.bfloat16).t()
    y = torch.ones(2, n, dtype=torch.bfloat16)
    found = run_one("matmul", [x, y], "bf16", rounding=Stochastic(5))
    up, p = (found > 1).float().mean().item(), share / 256
    assert set(found.unique().tolist()) <= {1.0, 1.0 + 2.0**-7}
    assert abs(up - p) < 4.5 * (p * (1 - p) / n) ** 0.5


def test_stochastic_bits_depend_on_seed_and_invocation_alone(case):
    x, y, _ = case
    program = one_operator("matmul", [x, y], "bf16")

    def bits(seed, invocation):
        result = Executor(program, Stochastic(seed)).run([x, y], invocation=invocation)[0]
        return result.view(torch.int16).tolist()

    first = bits(1, 4)
    threads = torch.get_num_threads()
    torch.set_num_threads(2 if threads == 1 else 1)
    torch.manual_seed(123)
    torch.rand(3)
    try:
        assert bits(1, 4) == first
    finally:
        torch.set_num_threads(threads)
    assert bits(1, 5) != first
    assert bits(2, 4) != first


def test_equal_operators_of_one_execution_draw_different_bits(case):
    """Also in two calls of one function; and every execution repeats itself."""
    x, y, _ = case
    layer = Draft("layer")
    a, b = layer.input("bf16", M, K), layer.input("bf16", K, N)
    function = layer.function(layer.emit("matmul", a, b, dtype="bf16"))
    draft = Draft()
    a, b = draft.input("bf16", M, K), draft.input("bf16", K, N)
    same = draft.emit("matmul", a, b, dtype="bf16")
    program = draft.program(same, *draft.call(function, a, b), *draft.call(function, a, b), others=[function])
    verify(program)
    executor = Executor(program, Stochastic(9))
    first, second, third = executor.run([x, y], invocation=7)
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)
    again = executor.run([x, y], invocation=7)
    assert all(torch.equal(p, q) for p, q in zip(again, (first, second, third), strict=True))
