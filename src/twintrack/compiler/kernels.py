"""The meaning of the IR's operators: one kernel each, over PyTorch CPU tensors.

Kernels never change an operand. They get floating-point operands in float32 and give float32; the executor rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from twintrack.compiler.shapes import pad_shape

__all__ = ["Kernel", "binary", "kernels", "reduction", "unary"]

Attributes = Mapping[str, Any]
Kernel = Callable[[Sequence[Tensor], Attributes], Tensor]


def unary(function: Callable[[Tensor], Tensor]) -> Kernel:
    """An operator of one tensor."""
    return lambda x, _: function(x[0])


def binary(function: Callable[[Tensor, Tensor], Tensor]) -> Kernel:
    """An operator of two tensors, or of one tensor and the attribute ``scalar`` on its ``side``.

    A scalar takes part as a tensor without axes: an integer beside floats becomes float32, and a fraction beside
    integers makes the result float32.
    """

    def kernel(x: Sequence[Tensor], a: Attributes) -> Tensor:
        if len(x) == 2:
            return function(x[0], x[1])
        scalar = torch.as_tensor(a["scalar"])
        return function(x[0], scalar) if a["side"] == "right" else function(scalar, x[0])

    return kernel


def reduction(function: Callable[..., Tensor]) -> Kernel:
    """A reduction over ``axes``; over none it is a copy, where PyTorch would take all of them."""

    def kernel(x: Sequence[Tensor], a: Attributes) -> Tensor:
        return function(x[0], dim=a["axes"], keepdim=a["keep"]) if a["axes"] else x[0]

    return kernel


def _argmax(x: Sequence[Tensor], a: Attributes) -> Tensor:
    return torch.argmax(x[0], dim=a["axis"], keepdim=a["keep"])


def _take_rows(x: Sequence[Tensor], _: Attributes) -> Tensor:
    table, ids = x
    return functional.embedding(ids, table)


def _add_rows(x: Sequence[Tensor], a: Attributes) -> Tensor:
    """Sum rows of ``x[0]`` into a table of ``rows`` rows, in the order of the ids."""
    values, ids = x
    width = values.shape[-1]
    table = torch.zeros((a["rows"], width), dtype=values.dtype)
    return table.index_add_(0, ids.reshape(-1), values.reshape(ids.numel(), width))


def _gather(x: Sequence[Tensor], a: Attributes) -> Tensor:
    return torch.gather(x[0], a["axis"], x[1].long())


def _scatter_add(x: Sequence[Tensor], a: Attributes) -> Tensor:
    values, index = x
    return torch.zeros(a["shape"], dtype=values.dtype).scatter_add_(a["axis"], index.long(), values)


def _slice(x: Sequence[Tensor], a: Attributes) -> Tensor:
    index = [slice(None)] * x[0].dim()
    index[a["axis"]] = slice(a["start"], a["stop"], a["step"])
    return x[0][tuple(index)]


def _pad(x: Sequence[Tensor], a: Attributes) -> Tensor:
    """Zeros around ``x``: the gradient of a slice with step 1."""
    out = torch.zeros(pad_shape([tuple(x[0].shape)], a), dtype=x[0].dtype)
    out.narrow(a["axis"], a["before"], x[0].shape[a["axis"]]).copy_(x[0])
    return out


def _softmax_grad(x: Sequence[Tensor], a: Attributes) -> Tensor:
    grad, out = x
    return out * (grad - (grad * out).sum(a["axis"], keepdim=True))


def _log_softmax_grad(x: Sequence[Tensor], a: Attributes) -> Tensor:
    grad, out = x
    return torch.addcmul(grad, torch.exp(out), grad.sum(a["axis"], keepdim=True), value=-1.0)


def _silu_grad(x: Sequence[Tensor], _: Attributes) -> Tensor:
    result: Tensor = torch.ops.aten.silu_backward(x[0], x[1])
    return result


def _gelu_grad(x: Sequence[Tensor], a: Attributes) -> Tensor:
    result: Tensor = torch.ops.aten.gelu_backward(x[0], x[1], approximate=a["approximate"])
    return result


def _iota(_: Sequence[Tensor], a: Attributes) -> Tensor:
    result: Tensor = torch.arange(a["count"]) * a["step"] + a["start"]
    return result


def _constant(_: Sequence[Tensor], a: Attributes) -> Tensor:
    return torch.full(a["shape"], a["value"])


def _remainder(x: Tensor, by: Tensor) -> Tensor:
    """The result has the sign of the divisor, as in Python."""
    result: Tensor = torch.remainder(x, by)
    return result


def kernels() -> dict[str, Kernel]:
    """Kernels by operator name."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "neg": torch.neg,
        "abs": torch.abs,
        "relu": torch.relu,
        "exp": torch.exp,
        "log": torch.log,
        "sqrt": torch.sqrt,
        "rsqrt": torch.rsqrt,
        "reciprocal": torch.reciprocal,
        "sigmoid": torch.sigmoid,
        "silu": functional.silu,
        "tanh": torch.tanh,
        "erf": torch.erf,
        "sin": torch.sin,
        "cos": torch.cos,
        "not": torch.logical_not,
    }
    pairs: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "pow": torch.pow,
        "remainder": _remainder,
        "bit_and": torch.bitwise_and,
        "bit_or": torch.bitwise_or,
        "bit_xor": torch.bitwise_xor,
        "shift_left": torch.bitwise_left_shift,
        "shift_right": torch.bitwise_right_shift,
        "eq": torch.eq,
        "ne": torch.ne,
        "lt": torch.lt,
        "le": torch.le,
        "gt": torch.gt,
        "ge": torch.ge,
    }
    reductions: dict[str, Callable[..., Tensor]] = {
        "sum": torch.sum,
        "mean": torch.mean,
        "amax": torch.amax,
        "amin": torch.amin,
    }
    return {
        **{name: unary(function) for name, function in functions.items()},
        **{name: binary(function) for name, function in pairs.items()},
        **{name: reduction(function) for name, function in reductions.items()},
        "argmax": _argmax,
        "gelu": lambda x, a: functional.gelu(x[0], approximate=a["approximate"]),
        "silu_grad": _silu_grad,
        "gelu_grad": _gelu_grad,
        "softmax": lambda x, a: torch.softmax(x[0], a["axis"]),
        "softmax_grad": _softmax_grad,
        "log_softmax": lambda x, a: torch.log_softmax(x[0], a["axis"]),
        "log_softmax_grad": _log_softmax_grad,
        "matmul": lambda x, _: torch.matmul(x[0], x[1]),
        "select": lambda x, _: torch.where(x[0], x[1], x[2]),
        "reshape": lambda x, a: x[0].reshape(a["shape"]),
        "transpose": lambda x, a: x[0].permute(a["order"]),
        "broadcast": lambda x, a: x[0].expand(a["shape"]),
        "slice": _slice,
        "concat": lambda x, a: torch.cat(list(x), a["axis"]),
        "pad": _pad,
        "cast": lambda x, _: x[0],
        "take_rows": _take_rows,
        "add_rows": _add_rows,
        "gather": _gather,
        "scatter_add": _scatter_add,
        "iota": _iota,
        "constant": _constant,
    }
