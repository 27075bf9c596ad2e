"""Optimizer state: a plain torch AdamW goes on where our step stopped, and ours where a plain one stopped."""

from __future__ import annotations

import contextlib
import json

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from layout_cases import random_tensors
from safetensors import safe_open
from safetensors.torch import save

from tiny_llama import tiny_model
from twintrack.errors import CheckpointError
from twintrack.job.records import Lora, Optimizer
from twintrack.pilot.convert.layouts import (
    OptimizerState,
    adamw_state_dict,
    from_adamw,
    optimizer_bytes,
    plain_adamw,
    read_optimizer,
    restore_adamw,
    same_bits,
)
from twintrack.training.adapter import adapt
from twintrack.training.schedule import adamw_scalars
from twintrack.training.step import Step

CONSTANTS = Optimizer(learning_rate=1e-2, weight_decay=0.1, beta2=0.95, max_gradient_norm=None)
LORA = Lora(targets=("q_proj", "down_proj"), rank=2)
SHAPES = {"model.norm.weight": (4,), "q.lora_A.default.weight": (2, 3), "q.lora_B.default.weight": (3, 2)}


def _state(step: int = 5, shapes=SHAPES) -> OptimizerState:
    second = {name: tensor.square() for name, tensor in random_tensors(shapes, 2).items()}
    return OptimizerState(step, random_tensors(shapes, 0), random_tensors(shapes, 1), second)


def _same(left: OptimizerState, right: OptimizerState) -> bool:
    return left.step == right.step and all(
        held.keys() == right.groups[kind].keys()
        and all(same_bits(tensor, right.groups[kind][name]) for name, tensor in held.items())
        for kind, held in left.groups.items()
    )


def _adapted(dtype=None, lora: Lora | None = LORA):
    adapted = adapt(tiny_model(layers=1), lora, seed=3, dtype=dtype)
    return adapted.model, {name: tuple(adapted.initial[name].shape) for name in adapted.trainable}


def _our_steps(state: OptimizerState, gradients: list, model) -> OptimizerState:
    """Steps of the training loop's own update, at a constant rate."""
    step = Step(model, CONSTANTS, torch.float32)
    groups = {kind: dict(held) for kind, held in state.groups.items()}
    for number, gradient in enumerate(gradients, state.step + 1):
        values = adamw_scalars(number, CONSTANTS.learning_rate, CONSTANTS)
        scalars = {name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()}
        groups = step.update(groups, gradient, scalars)["state"]
    return OptimizerState(state.step + len(gradients), **groups)


def _plain_steps(optimizer, model, gradients: list) -> None:
    parameters = dict(model.named_parameters())
    for gradient in gradients:
        for name, tensor in gradient.items():
            parameters[name].grad = tensor.clone()
        optimizer.step()


@pytest.mark.parametrize("lora", [LORA, None], ids=["lora", "full"])
def test_plain_adamw_goes_on_as_our_own_step_would_have(lora):
    model, shapes = _adapted(lora=lora)
    gradients = [random_tensors(shapes, seed) for seed in range(10, 16)]
    stopped = _our_steps(_state(4, shapes), gradients[:3], model)
    ours = _our_steps(stopped, gradients[3:], model)

    optimizer = plain_adamw(model, CONSTANTS)
    restore_adamw(stopped, optimizer, model)
    _plain_steps(optimizer, model, gradients[3:])
    theirs = from_adamw(optimizer, model)

    assert theirs.step == ours.step == 10
    assert list(theirs.master) == list(ours.master)
    for kind, held in ours.groups.items():
        for name, tensor in held.items():
            torch.testing.assert_close(theirs.groups[kind][name], tensor, rtol=2e-6, atol=1e-7)


def test_without_the_moments_plain_adamw_goes_elsewhere():
    """The comparison above would notice an optimizer that was not restored."""
    model, shapes = _adapted()
    gradients = [random_tensors(shapes, seed) for seed in range(3)]
    start = _state(4, shapes)
    ours = _our_steps(start, gradients, model)
    zeros = {name: torch.zeros(shape) for name, shape in shapes.items()}
    optimizer = plain_adamw(model, CONSTANTS)

    restore_adamw(OptimizerState(0, start.master, zeros, zeros), optimizer, model)
    _plain_steps(optimizer, model, gradients)

    theirs = from_adamw(optimizer, model)
    assert max(float((theirs.master[n] - t).abs().max()) for n, t in ours.master.items()) > 1e-3


def test_our_own_step_goes_on_where_plain_adamw_stopped():
    model, shapes = _adapted()
    gradients = [random_tensors(shapes, seed) for seed in range(6)]
    optimizer = plain_adamw(model, CONSTANTS)
    _plain_steps(optimizer, model, gradients[:3])
    stopped = read_optimizer(optimizer_bytes(from_adamw(optimizer, model)), where="file")

    _plain_steps(optimizer, model, gradients[3:])
    theirs, ours = from_adamw(optimizer, model), _our_steps(stopped, gradients[3:], model)

    for name, tensor in ours.master.items():
        torch.testing.assert_close(theirs.master[name], tensor, rtol=2e-6, atol=1e-7)


def test_what_is_put_into_an_optimizer_comes_back_to_the_bit():
    model, shapes = _adapted()
    state = _state(7, shapes)
    optimizer = plain_adamw(model, CONSTANTS)

    restore_adamw(state, optimizer, model)

    assert _same(from_adamw(optimizer, model), state)


def test_the_state_stays_as_it_was_while_the_optimizer_goes_on():
    """AdamW changes its moments in place; ours are shared with checkpoints being written."""
    model, shapes = _adapted()
    state, kept = _state(7, shapes), _state(7, shapes)
    optimizer = plain_adamw(model, CONSTANTS)
    restore_adamw(state, optimizer, model)

    _plain_steps(optimizer, model, [random_tensors(shapes)])

    assert _same(state, kept)
    assert not _same(from_adamw(optimizer, model), state)


def test_norms_do_not_decay_in_the_plain_optimizer_either():
    model, _ = _adapted(lora=None)

    decays, stays = plain_adamw(model, CONSTANTS).param_groups

    assert (decays["weight_decay"], stays["weight_decay"]) == (0.1, 0.0)
    assert {p.dim() for p in decays["params"]} == {2}
    assert {p.dim() for p in stays["params"]} == {1}


def test_parameters_that_would_round_the_moments_are_refused_and_nothing_is_changed():
    model, shapes = _adapted(torch.bfloat16)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}

    with pytest.raises(CheckpointError, match=r"in float32.*torch\.bfloat16"):
        restore_adamw(_state(7, shapes), plain_adamw(model, CONSTANTS), model)

    assert all(same_bits(p, before[name]) for name, p in model.named_parameters())


def test_a_state_of_other_parameters_is_refused():
    model, shapes = _adapted()
    optimizer = plain_adamw(model, CONSTANTS)
    name = next(iter(shapes))
    fewer = {n: s for n, s in shapes.items() if n != name}
    with pytest.raises(CheckpointError, match=name):
        adamw_state_dict(_state(1, fewer), optimizer, model)
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight"):
        adamw_state_dict(_state(1, shapes | {"model.norm.weight": (64,)}), optimizer, model)
    with pytest.raises(CheckpointError, match=rf"{name} of shape"):
        adamw_state_dict(_state(1, shapes | {name: (3, 64)}), optimizer, model)
    with pytest.raises(CheckpointError, match="parameters of the model"):
        adamw_state_dict(_state(1, shapes), optimizer, tiny_model(layers=1))


def test_an_optimizer_that_is_not_ours_or_never_stepped_is_refused():
    model, shapes = _adapted()
    parameters = [p for p in model.parameters() if p.requires_grad]
    with pytest.raises(CheckpointError, match="none: it was never updated"):
        from_adamw(plain_adamw(model, CONSTANTS), model)
    with pytest.raises(CheckpointError, match="amsgrad"):
        from_adamw(torch.optim.AdamW(parameters, amsgrad=True), model)
    with pytest.raises(CheckpointError, match="found SGD"):
        from_adamw(torch.optim.SGD(parameters), model)
    optimizer = plain_adamw(model, CONSTANTS)
    _plain_steps(optimizer, model, [random_tensors(shapes)])
    optimizer.state[parameters[1]]["step"] += 1
    with pytest.raises(CheckpointError, match="one step for all parameters, 1, found 2"):
        from_adamw(optimizer, model)


def test_the_file_has_the_documented_keys_and_comes_back_to_the_bit(tmp_path):
    state = _state()
    path = tmp_path / "optimizer.safetensors"
    path.write_bytes(optimizer_bytes(state))

    with safe_open(path, framework="pt") as opened:
        assert opened.metadata() == {"format": "pt", "layout": "1", "step": "5"}
        assert set(opened.keys()) == {f"{k}.{n}" for k in ("master", "exp_avg", "exp_avg_sq") for n in SHAPES}
        for name in SHAPES:
            assert same_bits(opened.get_tensor(f"exp_avg_sq.{name}"), state.moment2[name])
    assert _same(read_optimizer(path.read_bytes(), where="file"), state)
    assert optimizer_bytes(_state()) == path.read_bytes()


def test_moments_that_share_memory_as_before_the_first_step_can_be_written():
    zeros = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    state = OptimizerState(0, random_tensors(SHAPES), zeros, dict(zeros))

    assert _same(read_optimizer(optimizer_bytes(state), where="file"), state)


def _file(change=lambda tensors: None, **metadata: str) -> bytes:
    kinds = {"master": "master", "moment1": "exp_avg", "moment2": "exp_avg_sq"}
    tensors = {f"{kinds[k]}.{n}": t for k, held in _state().groups.items() for n, t in held.items()}
    change(tensors)
    return save(tensors, metadata={"layout": "1", "step": "5"} | metadata)


def _replace(key, change):
    return lambda tensors: tensors.update({key: change(tensors[key])})


NORM = "model.norm.weight"
BAD_FILES = {
    "no bytes": (b"", "safetensors file"),
    "cut short": (_file()[:-1], "safetensors file"),
    "another layout": (_file(layout="2"), "layout 1"),
    "no step": (_file(step=""), "a step in the metadata"),
    "a step that is no number": (_file(step="5.0"), "a step in the metadata"),
    "a moment missing": (_file(lambda t: t.pop(f"exp_avg.{NORM}")), f"moment1 of every.*{NORM}"),
    "a master missing": (_file(lambda t: t.pop(f"master.{NORM}")), f"of every.*{NORM}"),
    "an unknown kind": (_file(lambda t: t.update({f"momentum.{NORM}": torch.ones(1)})), "momentum"),
    "a kind alone": (_file(lambda t: t.update({"master": torch.ones(1)})), "found master"),
    "another type": (_file(_replace(f"exp_avg.{NORM}", torch.Tensor.half)), "float32.*float16"),
    "whole numbers": (_file(_replace(f"exp_avg.{NORM}", torch.Tensor.long)), "float32.*int64"),
    "another shape": (_file(_replace(f"exp_avg.{NORM}", lambda t: t[:3].clone())), r"\[4\].*\[3\]"),
    "no elements": (
        _file(lambda t: t.update({k: torch.zeros(0) for k in t if k.endswith(NORM)})),
        "elements in master",
    ),
    "a second moment below zero": (_file(_replace(f"exp_avg_sq.{NORM}", torch.neg)), "from 0"),
    "not finite": (_file(_replace(f"exp_avg.{NORM}", lambda t: t / 0)), f"exp_avg.{NORM}"),
    "nothing": (save({}, metadata={"layout": "1", "step": "5"}), "at least one parameter"),
    "no metadata": (save({"master.x": torch.ones(1)}), "metadata"),
}


@pytest.mark.parametrize("spoil", BAD_FILES, ids=str)
def test_a_file_that_is_no_optimizer_state_is_refused(spoil):
    data, said = BAD_FILES[spoil]
    with pytest.raises(CheckpointError, match=rf"(?s)the file: .*{said}"):
        read_optimizer(data, where="the file")


@settings(max_examples=150)
@given(st.integers(0, len(_file()) - 1), st.integers(0, 255))
@example(0, 255)
def test_a_file_with_any_byte_changed_is_read_or_refused_and_nothing_else(place, value):
    data = bytearray(_file())
    data[place] = value
    with contextlib.suppress(CheckpointError):
        read_optimizer(bytes(data), where="file")


@settings(max_examples=60)
@given(
    st.binary(max_size=60)
    | st.text().map(lambda x: _framed({"__metadata__": x}))
    | st.dictionaries(st.text(max_size=4), st.integers() | st.text()).map(
        lambda x: _framed({"__metadata__": x})
    )
)
def test_what_is_no_such_file_is_refused(data):
    with pytest.raises(CheckpointError):
        read_optimizer(data, where="file")


def _framed(header) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text
