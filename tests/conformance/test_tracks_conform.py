"""One file for every track that this machine has: what training may rely on, whatever the device."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tiny_llama import tiny_model
from twintrack.clock import SystemClock
from twintrack.errors import TrackError
from twintrack.events import Event
from twintrack.job.records import Lora, Optimizer, Parallel
from twintrack.storage import LocalFileSystem
from twintrack.tracks import TRACKS, OpenTrack, Services, Settings
from twintrack.training.adapter import adapt
from twintrack.training.step import Step

HERE = [name for name, track in TRACKS.items() if track.absence() is None]
TOLERANCE = {"fp32": 2e-6, "bf16": 3e-2}
"""Of gradients against float64, relative to the largest: unit roundoff 2**-24 and 2**-9, over some twenty operators."""


def settings(compute: str, **other: object) -> Settings:
    values = {
        "compute": compute,
        "rounding": "nearest-even",
        "seed": 0,
        "instance": "trn2.48xlarge",
        "logical_cores": 2,
        "allow_host": False,
        "parallel": Parallel(),
    }
    return Settings(**{**values, **other})  # type: ignore[arg-type]


def services(folder: Path) -> tuple[Services, list[Event]]:
    events: list[Event] = []
    return Services(events.append, SystemClock(), LocalFileSystem(), folder), events


@pytest.fixture(
    params=[(name, compute) for name in HERE for compute in ("fp32", "bf16")], ids=lambda p: "-".join(p)
)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenTrack:
    name, compute = request.param
    return TRACKS[name].open(settings(compute), services(tmp_path)[0])


class Setting:
    """A tiny adapted model on a track, with non-zero adapters, one batch of two packed rows."""

    def __init__(self, track: OpenTrack, optimizer: Optimizer | None = None) -> None:
        model = tiny_model()
        model.config._attn_implementation = track.rules.attention
        self.reference = adapt(
            copy.deepcopy(model), Lora(targets=("q_proj", "down_proj"), rank=4), seed=1
        ).model
        lora = Lora(targets=("q_proj", "down_proj"), rank=4)
        adapted = adapt(model, lora, seed=1, dtype=track.rules.compute)
        self.model = adapted.model.to(track.device)
        generator = torch.Generator().manual_seed(7)
        self.master = {
            name: torch.randn(value.shape, generator=generator) * 0.05
            for name, value in adapted.initial.items()
        }
        trained = set(adapted.trainable)
        named = [*self.model.named_parameters(), *self.model.named_buffers()]
        self.frozen = {name: tensor.detach() for name, tensor in named if name not in trained}
        ids = torch.randint(8, 500, (2, 24), generator=generator)
        segments = torch.tensor([[0] * 10 + [1] * 14, [0] * 20 + [1] * 4])
        positions = (
            torch.cat([torch.arange(10), torch.arange(14)]),
            torch.cat([torch.arange(20), torch.arange(4)]),
        )
        labels = torch.roll(ids, -1, 1)
        labels[:, ::5] = -100
        batch = {
            "input_ids": ids,
            "labels": labels,
            "position_ids": torch.stack(positions),
            "segment_ids": segments,
        }
        self.batch = {name: tensor.to(track.device) for name, tensor in batch.items()}
        self.step = Step(self.model, optimizer or Optimizer(), track.rules.compute)
        self.weights = {name: t.to(track.device, track.rules.compute) for name, t in self.master.items()}
        self.scale = torch.tensor(0.02, device=track.device)


def float64_gradients(setting: Setting) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients by PyTorch in float64, with the usual cross-entropy and a mask written out by hand."""
    model = setting.reference.double().train(False)
    named = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in setting.weights.items():
            named[name].copy_(weight.cpu().double())
        for name, tensor in setting.frozen.items():
            if name in named:
                named[name].copy_(tensor.cpu().double())
    batch = {name: tensor.cpu() for name, tensor in setting.batch.items()}
    rows, length = batch["input_ids"].shape
    mask = torch.full((rows, 1, length, length), -1e30, dtype=torch.float64)
    for row in range(rows):
        for i in range(length):
            for j in range(i + 1):
                if batch["segment_ids"][row, i] == batch["segment_ids"][row, j]:
                    mask[row, 0, i, j] = 0.0
    model.config._attn_implementation = "eager"
    logits = model(
        input_ids=batch["input_ids"], position_ids=batch["position_ids"], attention_mask=mask
    ).logits
    total = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum"
    )
    loss = total * float(setting.scale)
    names = list(setting.weights)
    grads = torch.autograd.grad(loss, [named[name] for name in names])
    return loss.detach(), dict(zip(names, grads, strict=True))


def test_gradients_agree_with_float64(opened: OpenTrack) -> None:
    setting = Setting(opened)
    compute = "bf16" if opened.rules.compute is torch.bfloat16 else "fp32"
    gradients = opened.compile("gradients", setting.step.gradients, layers=setting.step.layers)

    result = gradients(setting.weights, setting.frozen, setting.batch, setting.scale, invocation=0)

    loss, expected = float64_gradients(setting)
    assert result["loss"].dtype is torch.float32
    assert float(result["loss"]) == pytest.approx(float(loss), rel=TOLERANCE[compute])
    for name, grad in expected.items():
        found = result["gradients"][name]
        assert found.dtype is torch.float32
        difference = (found.cpu().double() - grad).abs().max()
        assert difference <= TOLERANCE[compute] * 2 * grad.abs().max(), name


def test_update_is_adamw_with_clipping(opened: OpenTrack) -> None:
    """Three updates agree with ``torch.optim.AdamW`` and ``clip_grad_norm_`` to float32 rounding."""
    optimizer = Optimizer(learning_rate=1e-2, weight_decay=0.1, beta2=0.95, max_gradient_norm=0.5)
    setting = Setting(opened, optimizer)
    update = opened.compile("update", setting.step.update)
    state = {
        "master": {n: t.to(opened.device) for n, t in setting.master.items()},
        "moment1": {n: torch.zeros_like(t, device=opened.device) for n, t in setting.master.items()},
        "moment2": {n: torch.zeros_like(t, device=opened.device) for n, t in setting.master.items()},
    }
    own = {name: torch.nn.Parameter(tensor.clone()) for name, tensor in setting.master.items()}
    peer = torch.optim.AdamW(own.values(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    generator = torch.Generator().manual_seed(3)
    for step in range(1, 4):
        gradients = {name: torch.randn(t.shape, generator=generator) for name, t in setting.master.items()}
        for name, parameter in own.items():
            parameter.grad = gradients[name].clone()
        norm = torch.nn.utils.clip_grad_norm_(own.values(), 0.5)
        peer.step()
        scalars = {
            "step_size": 1e-2 / (1 - 0.9**step),
            "second_correction": (1 - 0.95**step) ** -0.5,
            "decay": 1 - 1e-2 * 0.1,
        }
        result = update(
            state,
            {n: g.to(opened.device) for n, g in gradients.items()},
            {n: torch.tensor(v, dtype=torch.float32, device=opened.device) for n, v in scalars.items()},
            invocation=step,
        )
        state = result["state"]
        assert float(result["norm"]) == pytest.approx(float(norm), rel=1e-5)
    for name, parameter in own.items():
        torch.testing.assert_close(state["master"][name].cpu(), parameter.detach(), rtol=1e-5, atol=1e-7)
        assert result["weights"][name].dtype is opened.rules.compute


def test_equal_calls_give_equal_bits_and_change_nothing(opened: OpenTrack) -> None:
    setting = Setting(opened)
    gradients = opened.compile("gradients", setting.step.gradients, layers=setting.step.layers)
    arguments = (setting.weights, setting.frozen, setting.batch, setting.scale)
    versions = [t._version for part in arguments[:3] for t in part.values()]  # type: ignore[union-attr]

    first = gradients(*arguments, invocation=5)
    second = gradients(*arguments, invocation=5)

    assert torch.equal(first["loss"], second["loss"])
    assert all(torch.equal(first["gradients"][n], second["gradients"][n]) for n in setting.weights)
    assert versions == [t._version for part in arguments[:3] for t in part.values()]  # type: ignore[union-attr]


def test_another_shape_is_another_call(opened: OpenTrack) -> None:
    setting = Setting(opened)
    evaluate = opened.compile("evaluate", setting.step.evaluate, layers=setting.step.layers)
    both = evaluate(setting.weights, setting.frozen, setting.batch, invocation=0)

    one = {name: tensor[:1] for name, tensor in setting.batch.items()}
    alone = evaluate(setting.weights, setting.frozen, one, invocation=1)

    assert both.shape == (2, 24)
    tolerance = 5e-2 if opened.rules.compute is torch.bfloat16 else 1e-5
    torch.testing.assert_close(alone, both[:1], rtol=tolerance, atol=tolerance)


def test_ignored_labels_cost_nothing_and_segments_do_not_see_each_other(opened: OpenTrack) -> None:
    setting = Setting(opened)
    evaluate = opened.compile("evaluate", setting.step.evaluate, layers=setting.step.layers)
    changed = {**setting.batch, "input_ids": setting.batch["input_ids"].clone()}
    changed["input_ids"][0, :10] = 9

    before = evaluate(setting.weights, setting.frozen, setting.batch, invocation=0)
    after = evaluate(setting.weights, setting.frozen, changed, invocation=0)

    assert torch.all(before[setting.batch["labels"] == -100] == 0.0)
    assert torch.equal(before[0, 10:], after[0, 10:])
    assert torch.equal(before[1], after[1])
    assert not torch.equal(before[0, :10], after[0, :10])


def test_next_token_is_the_likeliest(opened: OpenTrack) -> None:
    setting = Setting(opened)
    choose = opened.compile("next_tokens", setting.step.next_tokens, layers=setting.step.layers)
    batch = {name: tensor for name, tensor in setting.batch.items() if name != "labels"}
    last = torch.tensor([9, 19], device=opened.device)

    found = choose(setting.weights, setting.frozen, batch, last, invocation=0)

    losses = []
    for token in range(512):
        labels = torch.full_like(setting.batch["input_ids"], -100)
        labels[0, 9] = labels[1, 19] = token
        losses.append(setting.step.evaluate(setting.weights, setting.frozen, {**batch, "labels": labels}))
    table = torch.stack([torch.stack([loss[0, 9], loss[1, 19]]) for loss in losses])
    for row in range(2):
        assert table[found[row], row] <= table[:, row].min() * 1.01


def test_meters_and_facts_are_there(opened: OpenTrack) -> None:
    opened.synchronize()
    size, what = opened.peak_memory()

    assert size > 0 or opened.name == "cuda"
    assert what
    assert opened.facts()
    assert opened.rules.description


@pytest.mark.parametrize("name", HERE)
def test_a_plan_for_several_devices_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r"data 1 x tensor 8 x pipeline 2 = 16 devices"):
        TRACKS[name].open(settings("fp32", parallel=Parallel(tensor=8, pipeline=2)), services(tmp_path)[0])


@pytest.mark.parametrize("name", [name for name in TRACKS if name not in HERE])
def test_an_absent_track_says_in_one_line_what_is_missing(name: str) -> None:
    reason = TRACKS[name].absence()

    assert reason is not None
    assert reason.startswith(f"{name}: ")
    assert "\n" not in reason
