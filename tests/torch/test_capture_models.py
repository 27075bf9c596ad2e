"""The functions of a training step, captured and executed in float32, equal eager PyTorch; equal layers stand once."""

from __future__ import annotations

import pytest
import torch
from capture_cases import Case, differences, run

from twintrack.compiler.cost import measure_work
from twintrack.compiler.ir import Program
from twintrack.numerics.rounding import Stochastic
from twintrack.torch.capture import capture

CASES = {
    "lora": {"layers": 3, "lora": ("q_proj", "down_proj")},
    "full, tied": {"layers": 2, "tied": True},
    "dropout": {"layers": 3, "lora": ("v_proj",), "dropout": 0.25},
}


@pytest.fixture(scope="module", params=CASES)
def captured(request):
    """A case, its gradients captured with regions and without, and what eager PyTorch finds."""
    case = Case(**CASES[request.param])
    step = case.step
    with_regions = capture("gradients", step.gradients, case.arguments(), layers=step.layers)
    flat = capture("gradients", step.gradients, case.arguments())
    return request.param, case, with_regions, flat, step.gradients(*case.arguments())


def test_gradients_equal_eager_pytorch(captured):
    _, case, with_regions, flat, eager = captured
    for program in (with_regions, flat):
        assert differences(run(program, case.arguments()), eager) < 1e-6


def test_gradients_with_regions_have_the_bits_of_those_without(captured):
    _, case, with_regions, flat, _ = captured
    assert differences(run(with_regions, case.arguments()), run(flat, case.arguments())) == 0.0


def test_regions_change_no_count_and_no_flop(captured):
    _, _, with_regions, flat, _ = captured
    one, other = measure_work(with_regions), measure_work(flat)
    assert one.counts == other.counts
    assert one.flops == other.flops
    assert one.operator_bytes == pytest.approx(other.operator_bytes, rel=0.02)  # a broadcast ends at a call


def test_equal_layers_are_captured_once(captured):
    """With LoRA the first layer differs: nothing before it learns, so it sends no gradient back."""
    name, case, with_regions, flat, _ = captured
    kinds = 1 if name == "full, tied" else 2
    names = {f"LlamaDecoderLayer.{i}.{way}" for i in range(kinds) for way in ("forward", "backward")}
    assert set(with_regions.functions) == {"main", *names}
    assert set(flat.functions) == {"main"}
    calls = [op.attributes["function"] for op in with_regions.main.body if op.name == "call"]
    assert len(calls) == 2 * len(case.step.layers)


def test_everything_runs_under_the_rules(captured):
    work = measure_work(captured[2])
    assert work.host_flops == 0
    assert not work.host


def test_programs_come_back_from_disk(captured):
    for program in captured[2:4]:
        assert Program.from_json(program.to_json()) == program


def test_no_line_holds_an_absolute_path_and_every_backward_line_says_so(captured):
    for program in captured[2:4]:
        for function in program.functions.values():
            lines = [op.line for op in function.body]
            assert not [
                line for line in lines if line.startswith("/") or "site-packages" in line or "unknown" in line
            ]
            if function.name.endswith(".backward"):
                assert all(line.endswith(" (gradient)") for line in lines)
            if function.name.endswith(".forward"):
                assert not any(line.endswith(" (gradient)") for line in lines)


def test_another_key_is_another_mask_and_no_other_program(captured):
    name, case, with_regions, _, eager = captured
    frozen = {k: torch.tensor(999) if k.endswith(".key") else t for k, t in case.frozen.items()}
    arguments = (case.weights, frozen, *case.arguments()[2:])
    found, again = run(with_regions, arguments), case.step.gradients(*arguments)
    assert differences(found, again) < 1e-6
    assert (differences(found, eager) > 1e-3) == (name == "dropout")


def test_capture_is_repeatable():
    """Byte for byte, so that a cache may compare: nothing in a program depends on the process's history."""
    texts = set()
    for _ in range(2):
        case = Case(**CASES["full, tied"])
        texts.add(capture("g", case.step.gradients, case.arguments(), layers=case.step.layers).to_json())
    assert len(texts) == 1


@pytest.fixture(scope="module")
def updating():
    case = Case(**CASES["lora"])
    arguments = case.update_arguments(case.step.gradients(*case.arguments())["gradients"])
    return case, arguments, capture("update", case.step.update, arguments)


def test_the_update_has_the_bits_of_eager_pytorch(updating):
    """Weights, both moments and the norm; AdamW is made of single operators, so not one bit may differ."""
    case, arguments, program = updating
    found, eager = run(program, arguments), case.step.update(*arguments)
    assert differences(found, eager) == 0.0
    assert differences(found["state"]["master"], case.master) > 0.0


def test_equal_tensors_are_updated_together_and_come_back_in_their_order(updating):
    """One square root per shape and one for the norm; names stay in the model's order, on which sums depend."""
    case, arguments, program = updating
    shapes = len({tuple(t.shape) for t in case.master.values()})
    assert measure_work(program).counts["sqrt"] == shapes + 1
    found = run(program, arguments)
    for tensors in (*found["state"].values(), found["weights"]):
        assert list(tensors) == list(case.master)


def test_evaluation_and_answers_equal_eager_pytorch():
    case = Case(**CASES["lora"])
    arguments = case.arguments()[:3]
    program = capture("evaluate", case.step.evaluate, arguments, layers=case.step.layers)
    assert differences([run(program, arguments)], [case.step.evaluate(*arguments)]) < 1e-6
    arguments = (*arguments, torch.tensor([3, 7]))
    program = capture("next_tokens", case.step.next_tokens, arguments, layers=case.step.layers)
    assert set(program.functions) == {
        "main",
        "LlamaDecoderLayer.0",
    }  # nothing learns here: all layers are alike
    assert torch.equal(run(program, arguments), case.step.next_tokens(*arguments))


def test_in_bf16_the_program_is_near_float32_and_rounding_is_seen():
    """Loss within 1 % and gradients within 15 % of float32; stochastic rounding gives other bits, equal each time."""
    settings = {"layers": 2, "lora": ("q_proj", "down_proj")}
    exact = Case(**settings)
    reference = exact.step.gradients(*exact.arguments())
    case = Case(**settings, dtype=torch.bfloat16)
    arguments = case.arguments()
    program = capture("gradients", case.step.gradients, arguments, layers=case.step.layers)
    found = run(program, arguments)
    assert differences([found["loss"]], [reference["loss"]]) < 0.01
    assert differences(found, reference) < 0.15
    assert differences(found, reference) > 1e-4
    one, other, again = (run(program, arguments, Stochastic(2), invocation=i) for i in (1, 2, 1))
    assert differences(one, again) == 0.0
    assert differences(one, other) > 0.0
    assert differences(one, reference) < 0.3
