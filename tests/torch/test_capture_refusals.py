"""What capture refuses, each with one line that names operator and model line; and what ``allow_host`` does instead."""

from __future__ import annotations

import inspect

import pytest
import torch
from capture_cases import differences, run
from torch import nn

from twintrack.compiler.cost import measure_work
from twintrack.errors import CompileError, UnsupportedOperator
from twintrack.torch.capture import capture

X = torch.arange(12.0).reshape(3, 4)
OUTSIDE = torch.ones(3, 4)


class Running(nn.Module):
    """A model with an operator that has no rule."""

    def forward(self, x):
        x = x * 2
        return torch.cumsum(x, dim=1) + 1  # here


def _here():
    return next(
        f"test_capture_refusals.py:{number}"
        for number, text in enumerate(inspect.getsource(inspect.getmodule(Running)).splitlines(), 1)
        if text.endswith("# here")
    )


def _refused(function, *arguments, error=UnsupportedOperator, **options):
    with pytest.raises(error) as caught:
        capture("f", function, arguments or (X,), **options)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.exit_code == 2
    return text


def test_an_operator_without_a_rule_is_named_with_its_line():
    text = _refused(lambda x: [Running()(x)])
    assert text.startswith(f"{_here()}: ")
    assert "aten.cumsum.default" in text
    assert "allow_host = true" in text


def test_an_operator_without_a_rule_in_the_backward_is_named_with_the_forward_line():
    class Sort(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return torch.sort(grad)[0]

    def function(x):
        leaf = x.detach().requires_grad_(True)
        return list(torch.autograd.grad(Sort.apply(leaf * 2).sum(), [leaf]))

    text = _refused(function)
    assert "aten.sort" in text
    assert "(gradient): " in text


def test_in_a_layer_too():
    model = Running()
    assert _refused(lambda x: [model(x)], layers=(model,)).startswith(f"{_here()}: ")
    assert "forward" not in vars(model)


def test_allow_host_runs_it_as_pytorch_does_and_counts_it():
    program = capture("f", lambda x: [Running()(x)], (X,), allow_host=True)
    assert differences(run(program, (X,)), [Running()(X)]) == 0.0
    work = measure_work(program)
    assert dict(work.host) == {f"aten.cumsum.default ({_here()})": 1}
    assert work.counts["host"] == 1
    assert 0 < work.total_flops - work.host_flops < work.total_flops
    assert work.operators - sum(work.host.values()) == 2


def test_allow_host_in_regions_counts_every_call():
    layers = [Running(), Running()]
    program = capture("f", lambda x: [layers[1](layers[0](x))], (X,), layers=layers, allow_host=True)
    assert measure_work(program).counts["host"] == 2
    assert differences(run(program, (X,)), [layers[1](layers[0](X))]) == 0.0


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: [torch.sort(x)[1]], "aten.sort"),
        (lambda x: [x.topk(2, dim=1)[0]], "aten.topk"),
        (lambda x: [torch.embedding(x, torch.arange(2)).cumsum(0)], "aten.cumsum"),
        (lambda x: [torch.round(x)], "aten.round"),
        (lambda x: [x.view(torch.int32)], "aten.view.dtype"),
    ],
)
def test_operators_without_a_rule_run_on_the_host_where_allowed(function, operator):
    assert operator in _refused(function)
    program = capture("f", function, (X,), allow_host=True)
    assert differences(run(program, (X,)), function(X)) == 0.0
    assert measure_work(program).host


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: [torch.nn.functional.dropout(x, 0.5)],
        lambda x: [x + torch.rand(3, 4)],
        lambda x: [torch.bernoulli(x)],
    ],
)
def test_random_numbers_are_refused_everywhere(function, allow):
    assert "test_capture_refusals.py:" in _refused(function, allow_host=allow)


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: [x * x[0, 0].item()],
        lambda x: [x if x.sum() > 0 else -x],
        lambda x: [x[: int(x[0, 1])]],
        lambda x: [x[x > 0]],
        lambda x: [torch.nonzero(x)],
        lambda x: [x.masked_select(x > 0)],
        lambda x: [x.unique()],
        lambda x: [x if torch.equal(x, x) else -x],
    ],
)
def test_what_depends_on_data_is_refused_with_its_line(function, allow):
    text = _refused(function, allow_host=allow)
    assert text.startswith("test_capture_refusals.py:")
    assert "a graph that does not depend on data" in text


@pytest.mark.parametrize("allow", [False, True])
def test_a_tensor_from_outside_is_refused_with_its_line(allow):
    text = _refused(lambda x: [x + OUTSIDE], error=CompileError, allow_host=allow)
    assert text.startswith("test_capture_refusals.py:")
    assert "a tensor of shape (3, 4) from outside" in text
    assert "from outside" in _refused(lambda x: [OUTSIDE], error=CompileError)
    assert "from outside" in _refused(lambda x: [x @ torch.tensor([1.0, 2, 3, 4])], error=CompileError)


def test_a_parameter_that_was_not_passed_in_is_refused():
    layer = nn.Linear(4, 4)
    assert "from outside" in _refused(lambda x: [layer(x)], error=CompileError)


def _changes_shared(x):
    y = x * 2
    y[0].add_(1)
    return [y]


def _changes_base(x):
    y = x * 2
    view = y[0]
    y.add_(1)
    return [view]


def _changes_alias(x):
    y = x * 2
    z = y.detach()
    z.zero_()
    return [y]


@pytest.mark.parametrize("function", [_changes_shared, _changes_base, _changes_alias])
def test_in_place_on_shared_memory_is_refused(function):
    text = _refused(function)
    assert "on memory shared with another tensor" in text
    assert text.startswith("test_capture_refusals.py:")


def test_in_place_on_an_argument_is_refused():
    """The program could not change the caller's tensor, and the function would mean something else."""
    assert "on an argument" in _refused(lambda x: [x.add_(1)])
    assert "on memory shared" in _refused(lambda x: [x.view(12).mul_(2)])


class Counting(nn.Module):
    """Changes a buffer, as BatchNorm does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


def test_a_buffer_that_changes_is_refused_also_in_a_layer():
    layer, model = Counting(), nn.Sequential()
    model.append(layer)

    def function(buffers, x):
        return [torch.func.functional_call(model, buffers, (x,))]

    buffers = {"0.count": torch.zeros(())}
    assert "on an argument" in _refused(function, buffers, X)
    assert "on an argument" in _refused(function, buffers, X, layers=(layer,))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [torch.add(x, x, out=x * 1)],
        lambda x: [(x * 1).unsqueeze_(0)],
        lambda x: [(x * 1).resize_(2, 2)],
        lambda x: [(x * 1).normal_()],
        lambda x: [(x * 1).set_(x)],
        lambda x: [x.as_strided((2, 2), (1, 1))],
        lambda x: [torch.empty_like(x)],
    ],
)
@pytest.mark.parametrize("allow", [False, True])
def test_what_reaches_into_memory_is_refused(function, allow):
    text = _refused(function, allow_host=allow)
    assert text.startswith("test_capture_refusals.py:")
    assert "aten." in text


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda x: [x.double()], "float64"),
        (lambda x: [x.to(torch.int8)], "int8"),
        (lambda x: [torch.complex(x, x)], "complex64"),
    ],
)
def test_element_types_that_the_ir_lacks_are_refused_with_their_line(function, found):
    text = _refused(function, error=CompileError, allow_host=True)
    assert found in text
    assert text.startswith("test_capture_refusals.py:")


def test_an_argument_of_a_type_that_the_ir_lacks_is_refused():
    assert "float64" in _refused(lambda x: [x], X.double(), error=CompileError)


def test_errors_of_the_model_are_its_own():
    with pytest.raises(RuntimeError, match="reduction dim"):
        capture("f", lambda x: [x @ x], (X,))
    with pytest.raises(TypeError, match="tensors expected"):
        capture("f", lambda x: ["text"], (X,))


def test_nothing_is_left_behind_after_a_refusal():
    """Capture works again, on the same tensors, and PyTorch is as before."""
    _refused(lambda x: [Running()(x)])
    assert torch._C._len_torch_dispatch_stack() == 0
    assert run(capture("f", lambda x: [x + 1], (X,)), (X,))[0].equal(X + 1)
