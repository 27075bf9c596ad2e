"""Kernels as PyTorch operators, against PyTorch's own functions and their gradients."""

import numpy as np
import pytest
import torch
from torch.library import opcheck

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.torch.kernel_operator import kernel_operator

SCHEMA = "(Tensor x, float scale=1.0) -> Tensor"


@nki.jit
def softmax(x, scale):
    """Softmax of ``scale * x`` over rows; up to 128 of them."""
    rows, columns = x.shape
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    least = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    nisa.tensor_reduce(dst=least, op=nl.maximum, data=tile, axis=1, negate=True)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=least)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def softmax_gradient(y, dy, scale):
    """``scale * y * (dy - sum(y * dy))`` per row."""
    rows, columns = y.shape
    power, slope, product = (nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3))
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=power, src=y)
    nisa.dma_copy(dst=slope, src=dy)
    nisa.tensor_tensor(dst=product, data1=power, data2=slope, op=nl.multiply)
    nisa.tensor_reduce(dst=total, op=nl.add, data=product, axis=1)
    nisa.tensor_scalar(
        dst=slope, data=slope, op0=nl.subtract, operand0=total, op1=nl.multiply, operand1=scale
    )
    nisa.tensor_tensor(dst=power, data1=power, data2=slope, op=nl.multiply)
    out = nl.ndarray((rows, columns), dtype=y.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=power)
    return out


@nki.jit
def sum_and_difference(x, y):
    a, b, c = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(dst=a, src=x)
    nisa.dma_copy(dst=b, src=y)
    results = []
    for op in (nl.add, nl.subtract):
        nisa.tensor_tensor(dst=c, data1=a, data2=b, op=op)
        out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=c)
        results.append(out)
    return results


@nki.jit
def in_place(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=x, src=tile)
    return x


@pytest.fixture
def operator():
    with kernel_operator(
        "twintrack_tests::softmax_gradient",
        softmax_gradient,
        schema="(Tensor y, Tensor dy, float scale) -> Tensor",
    ) as gradient:

        def backward(inputs, outputs, gradients):
            return gradient(outputs[0], gradients[0].contiguous(), inputs[1]), None

        with kernel_operator("twintrack_tests::softmax", softmax, schema=SCHEMA, backward=backward) as made:
            yield made


def values(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def reference(x, scale=1.0):
    return torch.softmax(x.double() * scale, dim=-1)


def test_values_and_gradients_are_those_of_torch(operator):
    x, weights = values(9, 33).requires_grad_(), values(9, 33, seed=1)
    y = operator(x, 0.5)
    wide = x.detach().double().requires_grad_()
    expected = reference(wide, 0.5)
    torch.testing.assert_close(y.double(), expected, atol=1e-6, rtol=1e-5)
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(x.grad.double(), wide.grad, atol=1e-6, rtol=1e-5)


def test_the_default_of_a_schema_reaches_the_kernel(operator):
    x = values(4, 8)
    assert torch.equal(operator(x), operator(x, 1.0))
    assert torch.equal(operator(x, scale=2.0), operator(x, 2.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torch_finds_nothing_wrong_with_the_registration(operator, dtype):
    """Schema, results without data, autograd and compilation agree, as PyTorch's own ``opcheck`` has it."""
    opcheck(operator.overload, (values(5, 16).to(dtype).requires_grad_(), 0.5))


def test_compiles_without_a_graph_break_and_gives_the_same(operator):
    def function(x):
        return (operator(x * 2, 0.5) ** 2).sum()

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    eager_x, compiled_x = (values(6, 12).requires_grad_() for _ in range(2))
    one, other = function(eager_x), compiled(compiled_x)
    one.backward()
    other.backward()
    assert torch.equal(one, other)
    assert torch.equal(eager_x.grad, compiled_x.grad)
    assert torch.equal(torch.compile(function, fullgraph=True, backend="eager")(eager_x), one)


def test_another_shape_compiles_too(operator):
    compiled = torch.compile(lambda x: operator(x), fullgraph=True, backend="eager")
    for rows in (2, 3, 5):
        x = values(rows, 8)
        assert torch.equal(compiled(x), operator(x))


def test_several_results_of_another_type():
    with kernel_operator(
        "twintrack_tests::both", sum_and_difference, schema="(Tensor x, Tensor y) -> (Tensor, Tensor)"
    ) as both:
        x, y = values(3, 4), values(3, 4, seed=1)
        opcheck(both.overload, (x, y))
        total, difference = both(x, y)
        assert torch.equal(total, (x + y).bfloat16())
        assert torch.equal(difference, (x - y).bfloat16())


def test_a_given_shape_function_is_used_instead_of_a_run():
    seen = []

    def shapes(x, scale):
        seen.append(tuple(x.shape))
        return torch.empty_like(x)

    with kernel_operator("twintrack_tests::shaped", softmax, schema=SCHEMA, shapes=shapes) as made:
        found = made(torch.empty(3, 7, device="meta"), 1.0)
    assert (seen, tuple(found.shape)) == ([(3, 7)], (3, 7))


def test_removal_gives_the_name_back_and_leaves_nothing():
    for _ in range(2):
        made = kernel_operator("twintrack_tests::again", softmax, schema=SCHEMA)
        made(values(2, 4), 1.0)
        made.remove()
        made.remove()
    assert not hasattr(torch.ops.twintrack_tests, "again")


def test_a_taken_name_is_refused_and_the_first_stays(operator):
    with pytest.raises(KernelError, match="which is registered"):
        kernel_operator("twintrack_tests::softmax", softmax, schema=SCHEMA)
    assert operator(values(2, 4), 1.0).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "schema", "message"),
    [
        ("softmax", SCHEMA, "namespace::name"),
        ("twintrack_tests::a b", SCHEMA, "namespace::name"),
        ("twintrack_tests::bad", "Tensor -> Tensor", "a schema in PyTorch's notation"),
        ("twintrack_tests::bad", "(Tensor x, *, float scale) -> Tensor", "by position"),
        ("twintrack_tests::bad", "(Tensor(a!) x) -> Tensor", "without written arguments"),
    ],
)
def test_wrong_names_and_schemas_are_refused(name, schema, message):
    with pytest.raises(KernelError, match=message):
        kernel_operator(name, softmax, schema=schema)


def test_a_kernel_that_writes_to_its_argument_is_refused():
    with (
        kernel_operator("twintrack_tests::in_place", in_place, schema="(Tensor x) -> Tensor") as made,
        pytest.raises(KernelError, match="writes to x"),
    ):
        made(values(2, 4))


def test_a_kernels_mistake_is_named_at_its_line(operator):
    with pytest.raises(KernelError, match=r"test_torch_kernel_operator\.py:\d+"):
        operator(values(200, 4), 1.0)


def test_a_backward_with_too_few_gradients_is_named():
    with kernel_operator(
        "twintrack_tests::short", softmax, schema=SCHEMA, backward=lambda inputs, outputs, grads: grads[0]
    ) as made:
        y = made(values(2, 4).requires_grad_(), 1.0)
        with pytest.raises(KernelError, match="2 gradients from backward"):
            y.sum().backward()
