"""Every operator against an independent statement of what it means, for float32 and bfloat16 operands.

Exact operators are stated in NumPy float32, whose arithmetic is IEEE 754, and rounded by ml_dtypes: equal bits.
Others are stated in float64; the result must be one that float32 arithmetic can reach: within a few units of float32,
and then rounded once.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import torch
from program_cases import run_one

from twintrack.compiler.operators import OPERATORS

BF16 = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(7)
TOLERANCE = 4e-6
"""Of float32 kernels against float64, relative to the largest term: 32 units in the last place."""


def _tensor(array, dtype):
    return torch.from_numpy(np.asarray(array)).to(torch.bfloat16 if dtype == "bf16" else torch.float32)


def _exact(tensor):
    """A float tensor as float32 NumPy; bfloat16 values are among those of float32."""
    return tensor.float().numpy()


def _bits(tensor):
    return tensor.contiguous().view(torch.int16).numpy().view(np.uint16)


def _same_bits(result, expected):
    """Equal bit for bit, where any NaN equals any other."""
    expected = np.asarray(expected)
    assert result.shape == expected.shape
    if result.dtype is torch.bfloat16:
        expected = expected.astype(BF16)
        found, wanted = _bits(result), expected.view(np.uint16)
    else:
        found, wanted = result.numpy(), expected.astype(np.float32)
        found, wanted = found.view(np.uint32), wanted.view(np.uint32)
    number = ~np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(found[number], wanted[number])
    assert torch.isnan(result).numpy()[~number].all()


def _within(result, expected, scale=None):
    """Between the roundings of the ends of the interval that float32 arithmetic may reach."""
    scale = np.abs(expected) if scale is None else scale
    low, high = expected - TOLERANCE * scale, expected + TOLERANCE * scale
    found = result.double().numpy()
    if result.dtype is torch.bfloat16:
        low, high = (x.astype(np.float32).astype(BF16).astype(np.float64) for x in (low, high))
    else:
        low, high = (
            np.nextafter(low.astype(np.float32), -np.inf),
            np.nextafter(high.astype(np.float32), np.inf),
        )
    assert (low <= found).all()
    assert (found <= high).all()


def _values(n=400, spread=3.0):
    signs = np.where(RANDOM.random(n) < 0.5, -1.0, 1.0)
    return (signs * np.exp(RANDOM.normal(size=n) * spread)).astype(np.float32)


_erf = np.vectorize(math.erf)


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def _gelu(x, approximate="none"):
    if approximate == "none":
        return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _slope(function, x, *args):
    """Derivative by central differences in float64; good to about 1e-9."""
    h = 1e-5
    return (function(x + h, *args) - function(x - h, *args)) / (2 * h)


def _softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


EXACT_UNARY = {"neg": np.negative, "abs": np.abs, "relu": lambda x: np.where(x > 0, x, np.float32(0))}
UNARY = {
    "exp": (np.exp, _values(spread=1.0)),
    "log": (np.log, np.abs(_values())),
    "sqrt": (np.sqrt, np.abs(_values())),
    "rsqrt": (lambda x: 1.0 / np.sqrt(x), np.abs(_values())),
    "reciprocal": (np.reciprocal, _values()),
    "sigmoid": (_sigmoid, _values(spread=1.0)),
    "tanh": (np.tanh, _values(spread=1.0)),
    "erf": (_erf, _values(spread=1.0)),
    "sin": (np.sin, _values(spread=1.0)),
    "cos": (np.cos, _values(spread=1.0)),
    "silu": (lambda x: x * _sigmoid(x), _values(spread=1.0)),
}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
BINARY |= {"maximum": np.maximum, "minimum": np.minimum}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
COMPARE |= {"ge": np.greater_equal}
INTEGER = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}
INTEGER |= {"shift_left": np.left_shift, "shift_right": np.right_shift, "remainder": np.remainder}
HERE = {
    *("not", "pow", "gelu", "silu_grad", "gelu_grad", "softmax", "softmax_grad", "log_softmax"),
    *("log_softmax_grad", "matmul", "sum", "mean", "amax", "amin", "argmax", "add_rows", "scatter_add"),
    *("reshape", "transpose", "broadcast", "slice", "concat", "pad", "select", "take_rows", "gather"),
    *("cast", "iota", "constant"),
}
"""Operators with a test of their own below."""

both = pytest.mark.parametrize("dtype", ["f32", "bf16"])


def test_every_operator_is_stated_here():
    stated = {*EXACT_UNARY, *UNARY, *BINARY, *COMPARE, *INTEGER, *HERE}
    assert stated == set(OPERATORS)


@both
@pytest.mark.parametrize("name", EXACT_UNARY)
def test_exact_unary(name, dtype):
    x = _tensor(_values(), dtype)
    _same_bits(run_one(name, [x], dtype), EXACT_UNARY[name](_exact(x)))


@both
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    function, values = UNARY[name]
    x = _tensor(values, dtype)
    expected = function(_exact(x).astype(np.float64))
    scale = np.maximum(np.abs(expected), 1.0) if name in ("log", "sin", "cos") else None
    _within(run_one(name, [x], dtype), expected, scale)


@both
@pytest.mark.parametrize("name", BINARY)
def test_binary_on_tensors_that_broadcast(name, dtype):
    x, y = _tensor(_values().reshape(20, 20), dtype), _tensor(_values(20), dtype)
    with np.errstate(over="ignore"):
        _same_bits(run_one(name, [x, y], dtype), BINARY[name](_exact(x), _exact(y)))


@both
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", BINARY)
def test_binary_on_a_tensor_and_a_number(name, side, dtype):
    """The number is a float32, whatever the tensor's type."""
    x, scalar = _tensor(_values(), dtype), np.float32(0.1)
    pair = (_exact(x), scalar) if side == "right" else (scalar, _exact(x))
    _same_bits(run_one(name, [x], dtype, scalar=0.1, side=side), BINARY[name](*pair))


@both
def test_operands_of_two_types_meet_in_float32(dtype):
    """As bias and product of a linear layer do: bfloat16 and float32, one rounding."""
    x, y = _tensor(_values(), "bf16"), _tensor(_values(), "f32")
    _same_bits(run_one("add", [x, y], dtype), _exact(x) + y.numpy())


@both
def test_an_integer_beside_floats_becomes_float32(dtype):
    """257 has no bfloat16; it must not be rounded before it is used."""
    x, n = _tensor([1.0, 2.0, -3.0], dtype), torch.tensor([257, 2**24 + 1, 3])
    _same_bits(run_one("mul", [x, n], dtype), _exact(x) * n.numpy().astype(np.float32))
    assert run_one("lt", [_tensor([256.0], dtype), torch.tensor([257])], "bool").tolist() == [True]


@pytest.mark.parametrize("name", [*BINARY, *INTEGER])
def test_integers_are_exact(name):
    x = torch.from_numpy(RANDOM.integers(-(2**62), 2**62, 100))
    y = torch.from_numpy(RANDOM.integers(1, 60, 100))
    function = {**BINARY, **INTEGER}[name]
    if name == "div":
        expected = x.numpy().astype(np.float32) / y.numpy().astype(np.float32)
        _same_bits(run_one(name, [x, y], "f32"), expected)
        return
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run_one(name, [x, y], "i64").numpy(), function(x.numpy(), y.numpy()))
        found = run_one(name, [x], "i64", scalar=3, side="right").numpy()
        np.testing.assert_array_equal(found, function(x.numpy(), 3))
        found = run_one(name, [y], "i64", scalar=3, side="left").numpy()
        np.testing.assert_array_equal(found, function(3, y.numpy()))


def test_a_fraction_beside_integers_makes_float32():
    x = torch.tensor([1, 2, 3])
    _same_bits(run_one("sub", [x], "f32", scalar=2.5, side="left"), np.float32([1.5, 0.5, -0.5]))


@both
def test_remainder_has_the_sign_of_the_divisor(dtype):
    x, y = _tensor([5.0, -5.0, 5.0, -5.0], dtype), _tensor([3.0, 3.0, -3.0, -3.0], dtype)
    assert run_one("remainder", [x, y], dtype).tolist() == [2.0, 1.0, -1.0, -2.0]


@both
@pytest.mark.parametrize("name", COMPARE)
def test_comparisons(name, dtype):
    specials = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]
    x, y = _tensor(np.repeat(specials, 6), dtype), _tensor(np.tile(specials, 6), dtype)
    np.testing.assert_array_equal(run_one(name, [x, y], "bool").numpy(), COMPARE[name](_exact(x), _exact(y)))
    found = run_one(name, [x], "bool", scalar=1, side="right").numpy()
    np.testing.assert_array_equal(found, COMPARE[name](_exact(x), 1))


def test_not_and_bits_on_truths():
    x, y = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    assert run_one("not", [x], "bool").tolist() == [False, False, True, True]
    assert run_one("not", [torch.tensor([0.0, -0.0, 2.0, np.nan])], "bool").tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert run_one("bit_and", [x, y], "bool").tolist() == [True, False, False, False]
    assert run_one("bit_or", [x, y], "bool").tolist() == [True, True, True, False]
    assert run_one("bit_xor", [x, y], "bool").tolist() == [False, True, True, False]


@both
def test_pow(dtype):
    x, y = _tensor(np.abs(_values(spread=1.0)), dtype), _tensor(_values(spread=0.5), dtype)
    base, power = (_exact(t).astype(np.float64) for t in (x, y))
    _within(run_one("pow", [x, y], dtype), base**power)
    _within(run_one("pow", [x], dtype, scalar=3, side="right"), base**3)
    _within(run_one("pow", [y], dtype, scalar=2.0, side="left"), 2.0**power)


@both
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_and_its_gradient(approximate, dtype):
    x, grad = _tensor(_values(spread=1.0).clip(-4, 4), dtype), _tensor(_values(spread=1.0), dtype)
    wide, g = _exact(x).astype(np.float64), _exact(grad).astype(np.float64)
    scale = np.abs(wide)  # 1 + erf cancels where x is far below 0
    _within(run_one("gelu", [x], dtype, approximate=approximate), _gelu(wide, approximate), scale)
    found = run_one("gelu_grad", [grad, x], dtype, approximate=approximate)
    _within(found, g * _slope(_gelu, wide, approximate), np.abs(g) * (1 + np.abs(wide)))


@both
def test_silu_gradient(dtype):
    x, grad = _tensor(_values(spread=1.0), dtype), _tensor(_values(spread=1.0), dtype)
    wide, g = _exact(x).astype(np.float64), _exact(grad).astype(np.float64)
    s = _sigmoid(wide)
    _within(
        run_one("silu_grad", [grad, x], dtype), g * (s + wide * s * (1 - s)), np.abs(g) * (1 + np.abs(wide))
    )


@both
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_and_gradients(axis, dtype):
    x, grad = (
        _tensor(_values(600, 1.0).reshape(20, 30), dtype),
        _tensor(_values(600, 1.0).reshape(20, 30), dtype),
    )
    wide, g = _exact(x).astype(np.float64), _exact(grad).astype(np.float64)
    p = _softmax(wide, axis)
    _within(run_one("softmax", [x], dtype, axis=axis), p)
    _within(
        run_one("log_softmax", [x], dtype, axis=axis), np.log(p), np.maximum(np.abs(wide).max(), 1) + 0 * p
    )
    out = _tensor(p, dtype)
    q = _exact(out).astype(np.float64)
    expected = q * (g - (g * q).sum(axis, keepdims=True))
    scale = q * (np.abs(g) + np.abs(g * q).sum(axis, keepdims=True))
    _within(run_one("softmax_grad", [grad, out], dtype, axis=axis), expected, scale)
    logs = _tensor(np.log(p), dtype)
    q = np.exp(_exact(logs).astype(np.float64))
    expected = g - q * g.sum(axis, keepdims=True)
    scale = np.abs(g) + q * np.abs(g).sum(axis, keepdims=True) * (1 + np.abs(_exact(logs)))
    _within(run_one("log_softmax_grad", [grad, logs], dtype, axis=axis), expected, scale)


@both
@pytest.mark.parametrize("batch", [(), (3,)])
def test_matmul(batch, dtype):
    shapes = (*batch, 5, 40), (*batch, 40, 7)
    x, y = (_tensor(_values(math.prod(s), 1.0).reshape(s), dtype) for s in shapes)
    left, right = _exact(x).astype(np.float64), _exact(y).astype(np.float64)
    _within(run_one("matmul", [x, y], dtype), left @ right, np.abs(left) @ np.abs(right))


@both
@pytest.mark.parametrize("axes", [(), (0,), (1,), (2, 0), (0, 1, 2)])
@pytest.mark.parametrize("keep", [False, True])
def test_reductions(axes, keep, dtype):
    x = _tensor(_values(120, 1.0).reshape(4, 5, 6), dtype)
    wide = _exact(x).astype(np.float64)
    terms = np.abs(wide).sum(axis=axes, keepdims=keep)
    attributes = {"axes": axes, "keep": keep}
    _within(run_one("sum", [x], dtype, **attributes), wide.sum(axis=axes, keepdims=keep), terms)
    _within(run_one("mean", [x], dtype, **attributes), wide.mean(axis=axes, keepdims=keep), terms)
    _same_bits(run_one("amax", [x], dtype, **attributes), _exact(x).max(axis=axes, keepdims=keep))
    _same_bits(run_one("amin", [x], dtype, **attributes), _exact(x).min(axis=axes, keepdims=keep))


def test_sums_of_bfloat16_are_accumulated_in_float32():
    """1 and 512 times 2**-8: in bfloat16 every addition would be lost."""
    x = torch.tensor([1.0, *[2.0**-8] * 512], dtype=torch.bfloat16)
    assert run_one("sum", [x], "bf16", axes=(0,), keep=False).item() == 3.0


def test_sums_of_truths_and_integers_count():
    x = torch.tensor([[True, False], [True, True]])
    assert run_one("sum", [x], "i64", axes=(0,), keep=False).tolist() == [2, 1]
    assert run_one("sum", [x.long() * 2**40], "i64", axes=(0, 1), keep=True).tolist() == [[3 * 2**40]]


@both
def test_argmax_gives_the_first_of_the_largest(dtype):
    x = _tensor([[1, 3, 3], [-1, -1, -2], [np.inf, 0, np.inf], [0, np.nan, np.inf]], dtype)
    assert run_one("argmax", [x], "i64", axis=1, keep=False).tolist() == [1, 0, 0, 1]
    np.testing.assert_array_equal(
        run_one("argmax", [x], "i64", axis=0, keep=True).numpy(), np.argmax(_exact(x), 0, keepdims=True)
    )


def _distinct(dtype, *shape):
    """Distinct values, so that a wrong place shows; NaN bits among them."""
    x = torch.arange(math.prod(shape), dtype=torch.int16) + 0x7F78
    values = x.view(torch.bfloat16).reshape(shape)
    return values if dtype == "bf16" else values.float()


def _moved(result, expected):
    """Moving changes no bit, not even of a NaN."""
    kind = torch.int16 if result.dtype is torch.bfloat16 else torch.int32
    np.testing.assert_array_equal(result.contiguous().view(kind).numpy(), expected)


def _raw(x):
    return x.view(torch.int16 if x.dtype is torch.bfloat16 else torch.int32).numpy()


@both
def test_views(dtype):
    x = _distinct(dtype, 2, 3, 4)
    raw = _raw(x)
    _moved(run_one("reshape", [x], dtype, shape=(6, 4)), raw.reshape(6, 4))
    _moved(run_one("transpose", [x], dtype, order=(2, 0, 1)), raw.transpose(2, 0, 1))
    _moved(
        run_one("broadcast", [x[:, :1]], dtype, shape=(5, 2, 3, 4)), np.broadcast_to(raw[:, :1], (5, 2, 3, 4))
    )
    _moved(run_one("slice", [x], dtype, axis=2, start=1, stop=4, step=2), raw[:, :, 1:4:2])


@both
def test_movement(dtype):
    x = _distinct(dtype, 3, 4)
    raw = _raw(x)
    _moved(run_one("concat", [x, x, x[:, :1]], dtype, axis=1), np.concatenate([raw, raw, raw[:, :1]], 1))
    _moved(run_one("pad", [x], dtype, axis=0, before=1, after=2), np.pad(raw, ((1, 2), (0, 0))))
    condition = torch.tensor([True, False, True, False])
    _moved(run_one("select", [condition, x, x[:1]], dtype), np.where(condition.numpy(), raw, raw[:1]))
    ids = torch.tensor([[2, 0], [1, 2]], dtype=torch.int32)
    _moved(run_one("take_rows", [x, ids], dtype), raw[ids.numpy()])
    index = torch.tensor([[3, 0], [1, 1]])
    _moved(run_one("gather", [x, index], dtype, axis=1), np.take_along_axis(raw[:2], index.numpy(), 1))


@both
def test_adding_by_index(dtype):
    """Rows and elements that meet are summed in float32 and rounded once."""
    values, ids = _tensor(_values(60, 1.0).reshape(3, 5, 4), dtype), torch.tensor([[0, 2, 2, 5, 0]] * 3)
    wide = _exact(values).astype(np.float64)
    table, terms = np.zeros((6, 4)), np.zeros((6, 4))
    np.add.at(table, ids.numpy(), wide)
    np.add.at(terms, ids.numpy(), np.abs(wide))
    _within(run_one("add_rows", [values, ids], dtype, rows=6), table, terms)
    flat, index = values.reshape(15, 4), torch.from_numpy(RANDOM.integers(0, 3, (10, 4)))
    table, terms = np.zeros((15, 3)), np.zeros((15, 3))
    for row, column in np.ndindex(10, 4):
        table[row, index[row, column]] += _exact(flat)[row, column]
        terms[row, index[row, column]] += abs(_exact(flat)[row, column])
    _within(run_one("scatter_add", [flat, index], dtype, axis=1, shape=(15, 3)), table, terms)


def test_casts():
    x = torch.tensor([1.00390625, -2.7, 3.5, 257.0])
    _same_bits(run_one("cast", [x], "bf16"), x.numpy())
    _same_bits(run_one("cast", [x.bfloat16()], "f32"), x.bfloat16().float().numpy())
    assert run_one("cast", [x], "i64").tolist() == [1, -2, 3, 257]
    assert run_one("cast", [torch.tensor([0.0, -0.0, 0.5])], "bool").tolist() == [False, False, True]
    assert run_one("cast", [torch.tensor([True, False])], "bf16").tolist() == [1.0, 0.0]
    _same_bits(run_one("cast", [torch.tensor([257, -3])], "bf16"), np.float32([257, -3]))
    assert run_one("cast", [torch.tensor([2**31 + 5])], "i32").tolist() == [-(2**31) + 5]


def test_what_is_made_from_nothing():
    assert run_one("iota", [], "i64", count=4, start=7, step=-3).tolist() == [7, 4, 1, -2]
    _same_bits(run_one("iota", [], "bf16", count=300, start=0, step=1), np.arange(300, dtype=np.float32))
    _same_bits(run_one("constant", [], "bf16", shape=(2, 1), value=0.1), np.full((2, 1), 0.1, np.float32))
    assert run_one("constant", [], "f32", shape=(), value=-math.inf).item() == -math.inf
    assert run_one("constant", [], "bool", shape=(2,), value=True).tolist() == [True, True]
    assert run_one("constant", [], "u8", shape=(1,), value=255).tolist() == [255]
