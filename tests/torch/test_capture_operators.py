"""Small functions of tensors, captured and executed, equal eager PyTorch in value, type and shape."""

from __future__ import annotations

import pytest
import torch
from capture_cases import differences, run
from torch.nn import functional as F

from twintrack.torch.capture import capture

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
Y = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
N = torch.arange(24).reshape(4, 6) % 7
BOOL = X > 0
INF = float("inf")

CASES = {
    "scalars on both sides": (lambda x: (2 - x) / 3 + 1.5 * x, X),
    "a fraction minus integers": (lambda n: 2.5 - n, N),
    "integers and floats": (lambda x, n: x * n + n, X, N),
    "alpha": (lambda x, y: torch.add(x, y, alpha=2), X, Y),
    "negative alpha of integers": (lambda n: torch.sub(n, n, alpha=3), N),
    "alpha of a number": (lambda x: torch.add(x, 2.0, alpha=0.5), X),
    "powers": (lambda x: x**2 + x.abs() ** 0.5 + 2.0 ** x.abs() + x.abs().pow(x), X),
    "integer powers": (lambda n: n**3, N),
    "remainder": (lambda x, n: (x % 0.7, n % 3, 7 % (n + 1)), X, N),
    "bits": (lambda n: ((n & 3) | 8) ^ (n << 2) ^ (n >> 1), N),
    "comparisons": (lambda x, y: ((x < y) | (x >= 1)) & ~(x == y) & (x != 0), X, Y),
    "truth of numbers": (lambda n, x: (torch.logical_and(n, n > 2), n.logical_or(x), n.logical_xor(x)), N, X),
    "not of numbers": (lambda n: (torch.logical_not(n), ~n, ~n.to(torch.uint8), ~n.bool()), N),
    "any and all": (lambda x: ((x > 1).any(), (x > -1).all(0), (x > 1).any(1, keepdim=True), x.all()), X),
    "sum of truths": (lambda b: (b.sum(), b.sum(0), b.float().mean()), BOOL),
    "sum in another type": (lambda n: (n.sum(0, dtype=torch.float32), n.float().mean(1, keepdim=True)), N),
    "sum over no named axis": (lambda x: (x.sum(dim=()), x.sum(-1), x.sum((0, -1), keepdim=True)), X),
    "reductions of a number": (lambda x: (x[0, 0].sum(), x[0, 0].mean(), x[0, 0].amax()), X),
    "extremes": (lambda x: (x.amax(0), x.amin((0, 1)), x.argmax(-1), x.argmax(0, keepdim=True)), X),
    "activations": (lambda x: (F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"), x.sigmoid(), x.tanh()), X),
    "unary": (lambda x: (x.exp(), x.abs().log(), x.abs().rsqrt(), x.reciprocal(), x.erf(), x.sin(), x.cos(), -x), X),
    "softmax": (lambda x: (x.softmax(0), x.log_softmax(-1), x[0, 0].softmax(0)), X),
    "linear with bias": (lambda x, y: F.linear(x, y, y[:, 0]), X, Y),
    "batched product": (lambda x, y: torch.bmm(x.reshape(2, 2, 6), y.reshape(2, 6, 2)), X, Y),
    "product with a vector": (lambda x, y: x @ y[0], X, Y),
    "views": (lambda x: x.t().reshape(2, 3, 4).permute(2, 0, -2).unsqueeze(1).squeeze().flatten(1), X),
    "transpose of a number": (lambda x: x[0, 0].transpose(0, 0), X),
    "slices": (lambda x: (x[1:-1, ::2], x[:, 5:2], x[-1], x[..., -2], x[2:100]), X),
    "splits": (lambda x: (*x.split(4, 1), *x.split([1, 3], 0), *x.unbind(0), *x.chunk(3, 1)), X),
    "expand": (lambda x: (x[:, :1].expand(-1, 3), x[0].expand(2, 4, 6), x[:1].repeat_interleave(2, 0)), X),
    "concat": (lambda x, y: (torch.cat([x, y, x[:0]]), torch.cat([x[:, :0], y], 1), torch.stack([x, y], -1)), X, Y),
    "concat of empties": (lambda x: torch.cat([x[:0], x[:0]]), X),
    "concat of two types": (lambda x, n: torch.cat([x, n]), X, N),
    "where": (lambda x, y: (torch.where(x > 0, x, y), torch.where(x > 0, 1.0, y), torch.where(x > 0, x, 0)), X, Y),
    "where of two types": (lambda x, n: torch.where(x > 0, x, n), X, N),
    "where of numbers": (lambda x: torch.where(x > 0, 1.0, -INF), X),
    "mask with infinity": (lambda x: x.masked_fill(x > 0, -INF).softmax(-1), X[:, :] - 0.3),
    "mask with a tensor": (lambda x, y: x.masked_fill(y > 0, y[0, 0]), X, Y),
    "embedding": (lambda n, x: F.embedding(n % 4, x), N, X),
    "gather": (lambda x, n: (x.gather(1, n % 6), x.gather(0, n[:2] % 4)), X, N),
    "scatter": (lambda x, n: (torch.zeros_like(x).scatter_add(1, n % 6, x), x.scatter_add(0, n[:2] % 4, x)), X, N),
    "ranges": (lambda x: (torch.arange(5), torch.arange(2, 9, 3), torch.arange(4, dtype=torch.float32) * x[0, :4]), X),
    "filled": (lambda x: (torch.full((2,), INF), torch.ones_like(x), x.new_zeros(3), torch.full((2,), True)), X),
    "integers filled with a fraction": (lambda n: n.masked_fill(n > 3, 2.7), N),
    "casts": (lambda x: (x.long(), x.bool(), x.half().float(), x.int().float(), x.to(torch.uint8) * 0), X),
    "a number as a tensor": (lambda x: x * torch.tensor(0.5) + torch.tensor(2), X),
    "identity": (lambda x: (x, x.detach(), x.clone(), x.contiguous()), X),
    "causal mask": (lambda x: x[:, :4] + torch.where(torch.arange(4)[:, None] >= torch.arange(4), 0.0, -1e9), X),
    "triangle": (lambda x: (x.tril(), x.triu(1)), X),
    "clamp": (lambda x, y, n: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(y, y + 1), n.clamp(max=3)), X, Y, N),
    "sign": (lambda x, n: (x.sign(), (n - 3).sign(), (x * 0).sign()), X, N),
    "cross entropy": (lambda x, n: F.cross_entropy(x, n[:, 0] % 6), X, N),
    "attention": (lambda x, y: F.scaled_dot_product_attention(x[None, None], y[None, None], x[None, None]), X, Y),
}  # fmt: skip


def _as_list(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


@pytest.mark.parametrize("name", CASES)
def test_a_function_means_what_it_means_in_pytorch(name):
    function, *arguments = CASES[name]
    listed = lambda *a: _as_list(function(*a))  # noqa: E731
    program = capture(name, listed, arguments)
    found, eager = run(program, arguments), listed(*arguments)
    assert differences(found, eager) < 1e-6


GRADIENTS = {
    "embedding with padding": (lambda w, n: F.embedding(n, w, padding_idx=3).square(), torch.randn(7, 5), N),
    "slices and selections": (lambda x: x[1:3] * x[0] + x[:, 2:][1:3].sum(), X),
    "activations": (
        lambda x: F.silu(x) + F.gelu(x) + F.gelu(x, approximate="tanh") + F.relu(x) + x.tanh(),
        X,
    ),
    "softmax": (lambda x, y: x.softmax(-1) * y + y.log_softmax(0) * x, X, Y),
    "gather": (lambda x, n: x.gather(1, n % 6).exp(), X, N),
    "broadcasts": (lambda x, y: x[:, :1] * y + y[0] / (x.abs() + 1) + x[0, 0], X, Y),
    "concat and split": (lambda x, y: torch.cat([y.split(2, 1)[1], x], 1).square(), X, Y),
    "linear": (lambda x, y: F.linear(x, y, y[:, 0]).square(), X, Y),
    "masks": (lambda x, y: x.masked_fill(y > 0, 0.0) + torch.where(x > 0, x * y, y), X, Y),
    "means": (lambda x: x.mean(0) * x.mean() * x.amax(1, keepdim=True), X),
    "maximum": (lambda x, y: torch.maximum(x, y) * torch.minimum(x, y), X, Y),
    "one value used twice": (lambda x: (x * x) * (x * x).sum(), X),
    "sqrt and powers": (lambda x: x.abs().sqrt() + x**3 + x.square().mean(-1, keepdim=True).rsqrt(), X),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_mean_what_they_mean_in_pytorch(name):
    function, *arguments = GRADIENTS[name]

    def gradients(*tensors):
        floats = [t.detach().requires_grad_(True) if t.is_floating_point() else t for t in tensors]
        out = function(*floats)
        return list(torch.autograd.grad(out.sum() * 0.5, [t for t in floats if t.is_floating_point()]))

    program = capture(name, gradients, arguments)
    assert differences(run(program, arguments), gradients(*arguments)) < 2e-6


IN_PLACE = {
    "add": lambda x, y: (x * 1).add_(y),
    "several": lambda x, y: (x * 1).mul_(2).sub_(y).clamp_(min=0.0),
    "into a narrower type": lambda x, y: x.to(torch.bfloat16).add_(y),
    "comparison": lambda x, y: (x * 1).lt_(y),
    "copy": lambda x, y: (x * 1).copy_(y[0]),
    "zero": lambda x, y: (x * 1).zero_() + y,
    "fill": lambda x, y: (x * 1).fill_(2.5) + y,
    "fill with a tensor": lambda x, y: (x * 1).fill_(y[0, 0]),
    "masked fill": lambda x, y: (x * 1).masked_fill_(y > 0, -1.0),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_operators_on_a_tensor_of_ones_own(name):
    function = IN_PLACE[name]
    listed = lambda x, y: [function(x, y)]  # noqa: E731
    found, eager = run(capture(name, listed, (X, Y)), (X, Y)), listed(X, Y)
    assert differences(found, eager) == 0.0


def test_the_new_value_is_seen_by_later_reads_and_not_by_earlier_ones():
    def function(x):
        y = x * 2
        before = y + 1
        y.add_(10)
        return [before, y, y * 2]

    assert differences(run(capture("f", function, (X,)), (X,)), function(X)) == 0.0


def test_only_types_and_shapes_of_arguments_matter():
    """The same program from zeros and from ones, and from tensors with other strides."""
    function = CASES["mask with infinity"][0]
    texts = {
        capture("f", function, (x,)).to_json()
        for x in (torch.zeros(4, 6), torch.ones(4, 6), torch.ones(6, 4).t())
    }
    assert len(texts) == 1
