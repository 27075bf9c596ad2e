"""Every shared random generator goes on where it was, through a checkpoint on disk."""

import random

import numpy as np
import pytest
import torch
from checkpoint_cases import make_checkpointer

from twintrack.errors import CheckpointError
from twintrack.training.checkpoint import TrainingState, capture_random_state, restore_random_state


@pytest.fixture(autouse=True)
def _same_generators_afterwards():
    before = capture_random_state()
    yield
    restore_random_state(*before)


def draw() -> list[float]:
    """Odd counts of normal draws leave a spare one inside Python's and NumPy's generators."""
    return [
        random.random(),
        random.gauss(0, 1),
        *np.random.randn(3).tolist(),
        *torch.randn(3).tolist(),
        *torch.rand(2).tolist(),
    ]


@pytest.mark.parametrize("warm", [0, 1, 2, 700])
def test_all_generators_go_on_to_the_bit(tmp_path, warm):
    random.seed(warm)
    np.random.seed(warm)
    torch.manual_seed(warm)
    for _ in range(warm):
        draw()
    tensors, values = capture_random_state()
    with make_checkpointer(tmp_path) as checkpointer:
        checkpointer.save(TrainingState(1, tensors, {"random": values}))
        required = [draw(), draw()]
        draw()
        state = checkpointer.load(1).state
    restore_random_state(state.tensors, state.values["random"])
    assert [draw(), draw()] == required


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors, values: tensors.clear(),
        lambda tensors, values: values.pop("numpy"),
        lambda tensors, values: values["python"].update(words=[1, 2]),
        lambda tensors, values: values["numpy"].update(key=[-1]),
        lambda tensors, values: tensors.update({"rng/torch_cpu": torch.zeros(3, dtype=torch.uint8)}),
        lambda tensors, values: tensors.update({f"rng/torch_cuda_{n}": torch.zeros(1) for n in range(99)}),
    ],
)
def test_what_is_no_random_state_is_refused_in_one_line(damage):
    tensors, values = capture_random_state()
    damage(tensors, values)
    with pytest.raises(CheckpointError, match="the state of every random generator") as refusal:
        restore_random_state(tensors, values)
    assert "\n" not in str(refusal.value)
