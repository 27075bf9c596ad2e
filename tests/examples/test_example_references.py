"""The references of the example kernels agree with PyTorch's functions in float64, gradients by its autograd."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kernels"
EXACT = {"rtol": 0, "atol": 1e-13}


def _reference(name, **sizes):
    """The module of an example's reference, and inputs in float64."""
    sys.path.insert(0, str(FOLDER))
    try:
        run, table = importlib.import_module("run"), importlib.import_module("table")
    finally:
        sys.path.remove(str(FOLDER))
    module = run.reference_of(table.example(name))
    return module, module.make_inputs(np.random.default_rng(1), np.dtype(np.float64), **sizes)


def _tensors(inputs, *names):
    return [torch.tensor(inputs[name], requires_grad=True) for name in names]


def test_softmax():
    reference, inputs = _reference("softmax", rows=5, columns=30)

    np.testing.assert_allclose(
        reference.expected(**inputs), torch.softmax(torch.tensor(inputs["x"]), -1).numpy(), **EXACT
    )


def test_rmsnorm():
    reference, inputs = _reference("rmsnorm", rows=5, width=30)
    x, weight = (torch.tensor(inputs[name]) for name in ("x", "weight"))

    np.testing.assert_allclose(
        reference.expected(**inputs), functional.rms_norm(x, (30,), weight, 1e-6).numpy(), **EXACT
    )


def test_attention_forward():
    reference, inputs = _reference("flash_attention_forward", heads=2, positions=24, width=8)
    attention = functional.scaled_dot_product_attention(*_tensors(inputs, "q", "k", "v"), is_causal=True)

    np.testing.assert_allclose(reference.expected(**inputs)[0], attention.detach().numpy(), **EXACT)


def test_attention_backward_by_autograd():
    reference, inputs = _reference("flash_attention_backward", heads=2, positions=24, width=8)
    operands = _tensors(inputs, "q", "k", "v")
    attention = functional.scaled_dot_product_attention(*operands, is_causal=True)
    attention.backward(torch.tensor(inputs["grad"]))

    np.testing.assert_allclose(inputs["out"], attention.detach().numpy(), **EXACT)
    for gradient, operand in zip(reference.expected(**inputs), operands, strict=True):
        np.testing.assert_allclose(gradient, operand.grad.numpy(), **EXACT)


def test_cross_entropy_by_autograd():
    reference, inputs = _reference("cross_entropy", tokens=10, vocabulary=30)
    (logits,) = _tensors(inputs, "logits")
    loss = functional.cross_entropy(logits, torch.tensor(inputs["targets"]).long(), reduction="none")
    loss.sum().backward()
    expected_loss, gradient = reference.expected(**inputs)

    np.testing.assert_allclose(expected_loss, loss.detach().numpy(), **EXACT)
    np.testing.assert_allclose(gradient, logits.grad.numpy(), **EXACT)


def test_embedding():
    reference, inputs = _reference("embedding_gather", tokens=10, vocabulary=30, width=4)
    rows = functional.embedding(torch.tensor(inputs["ids"]).long(), torch.tensor(inputs["table"]))

    np.testing.assert_array_equal(reference.expected(**inputs), rows.numpy())


def test_three_steps_of_adamw():
    """The numbers of a step are float32 for the kernel, which is all that the two differ by."""
    reference, _ = _reference("adam", size=8, step=1)
    generator = torch.Generator().manual_seed(1)
    parameter = torch.nn.Parameter(torch.randn(50, dtype=torch.float64, generator=generator))
    optimizer = torch.optim.AdamW([parameter], lr=1e-3, weight_decay=0.1)
    master, first, second = parameter.detach().numpy().copy(), np.zeros(50), np.zeros(50)

    for step in (1, 2, 3):
        parameter.grad = torch.randn(50, dtype=torch.float64, generator=generator)
        optimizer.step()
        numbers = reference.step_of(step, learning_rate=1e-3, weight_decay=0.1)
        _, master, first, second = reference.expected(
            master, parameter.grad.numpy(), master, first, second, numbers
        )

    assert master == pytest.approx(parameter.detach().numpy(), abs=3e-7)
