"""Every operator names the model line that caused it; those of the backward name the same line."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.func import functional_call

from twintrack.torch.capture import capture

HERE = Path(__file__).name


class Model(nn.Module):
    """Marked lines; frozen and learning operators alternate, since only the latter leave a trace in autograd."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))
        self.register_buffer("mask", torch.ones(4))

    def forward(self, x):
        y = x @ self.weight  # product
        mask = self.mask * 2  # frozen
        y = torch.sin(y)  # sine
        shape = mask + 1  # frozen too
        return helper(y, shape).sum()  # total


def helper(y, shape):
    return torch.nn.functional.gelu(y) * shape  # helper


class Layered(nn.Module):
    """The same, as a layer that repeats."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Model(), Model()])

    def forward(self, x):
        return self.layers[0](x) + self.layers[1](x * 2)  # calls


def line_of(mark):
    lines = inspect.getsource(inspect.getmodule(Model)).splitlines()
    (number,) = [i for i, text in enumerate(lines, 1) if text.endswith(f"  # {mark}")]
    return f"{HERE}:{number}"


def _capture(model, layers=()):
    state = {name: p.detach() for name, p in model.named_parameters()}
    buffers = dict(model.named_buffers())

    def gradients(state, buffers, x):
        leaves = {k: v.detach().requires_grad_(True) for k, v in state.items()}
        loss = functional_call(model, {**buffers, **leaves}, (x,))
        return [loss.detach(), *torch.autograd.grad(loss, list(leaves.values()))]

    return capture("lines", gradients, (state, buffers, torch.ones(3, 4)), layers=layers)


def _lines(function, *names):
    return {op.line for op in function.body if op.name in names}


def test_forward_operators_name_their_line():
    main = _capture(Model()).main
    assert line_of("product") in _lines(main, "matmul")
    assert line_of("frozen too") in _lines(main, "add")


def test_backward_operators_name_the_line_of_their_forward():
    main = _capture(Model()).main
    assert _lines(main, "cos") == {f"{line_of('sine')} (gradient)"}
    assert _lines(main, "gelu_grad") == {f"{line_of('helper')} (gradient)"}
    assert f"{line_of('product')} (gradient)" in _lines(main, "matmul")
    assert f"{line_of('total')} (gradient)" in _lines(main, "broadcast")


def test_frozen_operators_between_do_not_move_the_lines_of_learning_ones():
    lines = {op.line for op in _capture(Model()).main.body}
    assert f"{line_of('frozen')} (gradient)" not in lines
    assert f"{line_of('frozen too')} (gradient)" not in lines


def test_lines_inside_regions_and_of_their_calls():
    model = Layered()
    program = _capture(model, tuple(model.layers))
    backward = next(f for name, f in program.functions.items() if name.endswith("backward"))
    assert _lines(backward, "cos") == {f"{line_of('sine')} (gradient)"}
    calls = {op.line for op in program.main.body if op.name == "call"}
    assert calls == {line_of("calls"), f"{line_of('calls')} (gradient)"}
    assert _lines(program.main, "mul") == {line_of("calls")}


def test_what_autograd_makes_for_a_call_has_the_line_of_the_call():
    """Zeros for a result of a layer that nobody uses."""

    class Two(nn.Module):
        def forward(self, x):
            return x.sin(), x.exp()

    layer = Two()

    def function(x):
        leaf = x.detach().requires_grad_(True)
        used, _ = layer(leaf)  # unused
        return list(torch.autograd.grad(used.sum(), [leaf]))  # afterwards

    program = capture("lines", function, (torch.ones(2),), layers=(layer,))
    assert _lines(program.main, "call") == {line_of("unused"), f"{line_of('unused')} (gradient)"}
    assert f"{line_of('unused')} (gradient)" in _lines(program.main, "constant")


def test_the_innermost_line_outside_pytorch_is_named():
    """Of a helper of the model's own, not of the line that called it, and never one inside PyTorch."""
    main = _capture(Model()).main
    assert line_of("helper") in _lines(main, "gelu", "mul")
    assert not [op.line for op in main.body if "functional.py" in op.line or "/torch/" in op.line]


def test_a_model_below_a_folder_named_torch_is_still_the_model(tmp_path):
    """A path is skipped because it is PyTorch's own, not because a word in it is ``torch``; this file is one too."""
    assert "/torch/" in str(Path(__file__))
    folder = tmp_path / "site-packages" / "acme" / "torch"
    folder.mkdir(parents=True)
    file = folder / "net.py"
    file.write_text("def double(x):\n    return x * 2\n")
    spec = importlib.util.spec_from_file_location("acme_net", file)
    net = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(net)
    program = capture("f", lambda x: [net.double(x)], (torch.ones(2),))
    assert program.main.body[0].line == "acme/torch/net.py:2"


@pytest.mark.parametrize("layers", [True, False])
def test_no_line_is_an_absolute_path(layers):
    model = Layered()
    program = _capture(model, tuple(model.layers) if layers else ())
    for function in program.functions.values():
        for op in function.body:
            assert not op.line.startswith("/")
            assert str(Path.home()) not in op.line
            assert op.line.startswith(HERE), op.line
