"""Layers that repeat: equal ones are captured once, unequal ones never merged, and the model is left as it was."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from capture_cases import differences, run
from torch import nn
from torch.func import functional_call

from twintrack.compiler.cost import measure_work
from twintrack.torch.capture import capture
from twintrack.torch.regions import layer_signature

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Layer(nn.Module):
    """A linear map and whatever else a test hangs on it."""

    def __init__(self, **attributes):
        super().__init__()
        self.map = nn.Linear(4, 4)
        self.scale = 1.0
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x, *, shift=0.0):
        return torch.tanh(self.map(x) * self.scale + shift)


def _model(*layers):
    torch.manual_seed(0)
    return nn.ModuleList(layers)


def _state(layers):
    return {name: p.detach() for name, p in layers.named_parameters()}


def _chain(layers, x, **keywords):
    for layer in layers:
        x = layer(x, **keywords)
    return x


class _Chain(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return _chain(self.layers, x)


def _gradients(layers, body=None):
    """A function of state and input to loss and gradients; ``body`` is what the model does."""
    model = _Chain(layers)
    if body is not None:
        model.forward = lambda x: body(layers, x)

    def function(state, x):
        leaves = {f"layers.{k}": v.detach().requires_grad_(True) for k, v in state.items()}
        loss = functional_call(model, leaves, (x,)).square().sum()
        return [loss.detach(), *torch.autograd.grad(loss, list(leaves.values()))]

    return function


def _check(layers, body=None, regions=None, layers_given=None, *, counts=True):
    """Captured with and without regions, the function means the same; returns the program with regions."""
    function, arguments = _gradients(layers, body), (_state(layers), X)
    with_regions = capture("f", function, arguments, layers=tuple(layers_given or layers))
    flat = capture("f", function, arguments)
    eager = function(*arguments)
    assert differences(run(with_regions, arguments), eager) < 1e-6
    assert differences(run(flat, arguments), eager) < 1e-6
    assert not counts or measure_work(with_regions).counts == measure_work(flat).counts
    names = {name.rsplit(".", 1)[0] for name in with_regions.functions} - {"main"}
    if regions is not None:
        assert len(names) == regions, names
    return with_regions


def test_equal_layers_make_one_region_after_the_first():
    """The first has an input that needs no gradient, so it is a region of its own."""
    _check(_model(*(Layer() for _ in range(4))), regions=2)


UNEQUAL = {
    "a number": (1.0, 2.0),
    "an integer and the same float": (1, 1.0),
    "a text": ("a", "b"),
    "a tuple": ((1, 2), (1, 3)),
    "a list": ([1, 2], [1, 2, 3]),
    "a dict": ({"default": 1.0}, {"default": 2.0}),
    "a nested dict": ({"a": {"b": 1}}, {"a": {"b": 2}}),
    "a set": ({1}, {2}),
    "a type": (torch.float32, torch.bfloat16),
    "nothing": (None, 0),
    "a function": (torch.relu, torch.tanh),
    "an object": (object(), object()),
    "an object in a list": ([object()], [object()]),
}


@pytest.mark.parametrize("case", UNEQUAL)
def test_layers_that_differ_in_an_attribute_are_not_equal(case):
    one, other = UNEQUAL[case]
    assert layer_signature(Layer(kind=one)) != layer_signature(Layer(kind=other))
    assert layer_signature(Layer(kind=one)) == layer_signature(Layer(kind=one))
    if "object" not in case:
        assert layer_signature(Layer(kind=one)) == layer_signature(Layer(kind=copy.deepcopy(one)))


def test_an_attribute_that_matters_acts():
    program = _check(_model(Layer(), Layer(scale=2.0), Layer(scale=3.0), Layer(scale=2.0)), regions=3)
    assert sum(op.name == "call" for op in program.main.body) == 8


def test_layers_that_differ_inside_are_not_merged():
    inner = Layer()
    inner.map.bias = None
    _check(_model(Layer(), Layer(), inner), regions=3)
    other = Layer()
    other.map.in_features = 4.0
    _check(_model(Layer(), Layer(), other), regions=3)


def test_training_and_evaluation_are_told_apart():
    layers = _model(Layer(), Layer(), Layer())
    layers[2].eval()
    _check(layers, regions=3)


def test_the_index_of_a_layer_does_not_tell_it_apart():
    layers = _model(*(Layer(layer_idx=i, options={"target_name": f"layers.{i}"}) for i in range(3)))
    _check(layers, regions=2)


def test_classes_are_told_apart():
    class Other(Layer):
        def forward(self, x):
            return super().forward(x) * 2

    _check(_model(Layer(), Layer(), Other()), regions=3)


def test_hooks_tell_layers_apart_and_run_once():
    """A hook runs where the layer is called, outside its region, and not again inside."""
    layers = _model(Layer(), Layer(), Layer())
    layers[2].register_forward_hook(lambda module, args, out: out * 2)
    _check(layers, regions=3)


def test_hooks_of_modules_inside_a_layer_are_part_of_it():
    layers = _model(Layer(), Layer(), Layer())
    layers[2].map.register_forward_hook(lambda module, args, out: out + 1)
    _check(layers, regions=3)


def test_arguments_tell_calls_apart():
    def body(layers, x):
        x = layers[0](x)
        x = layers[1](x, shift=1.0)
        return layers[2](x, shift=2.0) + layers[2](x, shift=1.0)

    _check(_model(Layer(), Layer(), Layer()), body, regions=3)


def test_shapes_types_and_gradients_tell_calls_apart():
    def body(layers, x):
        with torch.no_grad():
            still = layers[0](x)
        return layers[0](x) + still + layers[0](torch.cat([x, x]))[:3] + layers[0](x.detach())

    _check(_model(Layer()), body, regions=3)


class Several(nn.Module):
    """Several results: one used, one not, a truth, a number, nothing, an argument as it was."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(4, 4)

    def forward(self, x, state):
        out = self.map(x)
        return {"out": out, "unused": out.exp(), "positive": out > 0, "rest": (None, 3, state)}


def test_layers_may_give_several_results_of_any_kind():
    def body(layers, x):
        first = x
        for layer in layers:
            result = layer(x, first)
            nothing, three, state = result["rest"]
            assert nothing is None
            x = torch.where(result["positive"], result["out"] * three, x) + state
        return x

    program = _check(_model(Several(), Several(), Several()), body, regions=2, counts=False)
    assert measure_work(program).counts["exp"] == 3  # what a region gives is made, also where nobody uses it


def test_two_results_with_gradients_both_reach_back():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(4, 4)

        def forward(self, x, y):
            return self.map(x), self.map(y) * x

    def body(layers, x):
        y = x
        for layer in layers:
            x, y = layer(x, y)
        return x * y

    _check(_model(Two(), Two(), Two()), body, regions=2)


def test_layers_inside_layers_are_regions_inside_regions():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleList(Layer() for _ in range(2))

        def forward(self, x):
            return _chain(self.inner, x)

    layers = _model(Outer(), Outer(), Outer())
    program = _check(layers, layers_given=[*layers, *(i for layer in layers for i in layer.inner)])
    kinds = {
        name: {op.name for op in f.body} for name, f in program.functions.items() if name.startswith("Outer")
    }
    assert len(kinds) == 4
    assert all(found == {"call"} for found in kinds.values())
    assert len([name for name in program.functions if name.startswith("Layer")]) == 4


def test_layers_of_one_class_inside_each_other_keep_names_of_their_own():
    class Nest(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.map = nn.Linear(4, 4)
            self.inner = Nest(depth - 1) if depth else None

        def forward(self, x):
            x = self.map(x).sin()
            return self.inner(x) if self.inner else x

    layers = _model(Nest(2), Nest(2))
    _check(layers, layers_given=[m for m in layers.modules() if isinstance(m, Nest)])


def test_one_layer_used_twice_sums_its_gradients():
    layer = Layer()
    _check(_model(layer, Layer()), lambda layers, x: layers[0](layers[1](layers[0](x))), regions=2)


def test_a_parameter_shared_by_two_layers_sums_its_gradients():
    layers = _model(Layer(), Layer(), Layer())
    layers[2].map.weight = layers[1].map.weight
    _check(layers, regions=2)


def test_a_layer_without_gradients_has_no_backward():
    layers = _model(Layer(), Layer())
    state = _state(_Chain(layers))

    def function(state, x):
        with torch.no_grad():
            return [functional_call(_Chain(layers), state, (x,))]

    program = capture("f", function, (state, X), layers=tuple(layers))
    assert set(program.functions) == {"main", "Layer.0"}
    assert differences(run(program, (state, X)), function(state, X)) < 1e-6


def test_the_forward_of_a_layer_is_put_back():
    layers = _model(Layer(), Layer())
    layers[1].forward = own = functools.partial(Layer.forward, layers[1])  # as libraries do that wrap a layer
    _check(layers, layers_given=[*layers, layers[0]])  # also when one is listed twice
    assert "forward" not in vars(layers[0])
    assert vars(layers[1])["forward"] is own


def test_the_forward_of_a_layer_is_put_back_after_an_error():
    class Broken(Layer):
        def forward(self, x):
            raise RuntimeError("broken on purpose")

    layers = _model(Layer(), Broken())
    layers[0].forward = own = layers[0].forward
    with pytest.raises(RuntimeError, match="on purpose"):
        capture("f", _gradients(layers), (_state(layers), X), layers=tuple(layers))
    assert vars(layers[0])["forward"] is own
    assert "forward" not in vars(layers[1])
    assert _chain(layers[:1], X).shape == (3, 4)


def test_a_signature_depends_on_nothing_but_the_layer():
    one, other = Layer(), Layer()
    assert layer_signature(one) == layer_signature(other)
    _chain([one], X)
    one.register_buffer("more", torch.ones(2))  # tensors are told apart by their types, where they are used
    assert layer_signature(one) == layer_signature(other)
    one.map.eval()
    assert layer_signature(one) != layer_signature(other)
