"""What the tests of checkpoints share: seeded states, and a checkpointer that records its events."""

from collections.abc import Mapping
from pathlib import Path

import torch

from twintrack.clock import SystemClock
from twintrack.events import Event
from twintrack.job.records import CheckpointPolicy
from twintrack.storage import FileSystem, LocalFileSystem
from twintrack.training.checkpoint import Checkpointer, TrainingState

JOB = "a" * 64
OTHER_JOB = "b" * 64


def make_state(step: int, seed: int | None = None, *, size: int = 6) -> TrainingState:
    """A small state of two weights with all that goes with them; other seeds, other numbers."""
    generator = torch.Generator().manual_seed(step if seed is None else seed)
    tensors = {}
    for name, shape in (("layer.0.lora_A", (4, size)), ("layer.0.lora_B", (size,))):
        master = torch.randn(shape, generator=generator)
        tensors[f"weights/{name}"] = master.to(torch.bfloat16)
        tensors[f"master/{name}"] = master
        tensors[f"moment1/{name}"] = torch.randn(shape, generator=generator)
        tensors[f"moment2/{name}"] = torch.rand(shape, generator=generator)
    tensors["rng/torch_cpu"] = torch.randint(0, 256, (40,), generator=generator, dtype=torch.uint8)
    values = {"schedule": {"last": 0.1 * step}, "sampler": {"epoch": 0, "position": step * 3}, "tokens": None}
    return TrainingState(step, tensors, values)


def bits(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor in order, element by element: the slowest and plainest way."""
    return b"".join(
        bytes(element.clone().reshape(1).view(torch.uint8).tolist()) for element in tensor.flatten()
    )


def assert_same_bits(found: TrainingState, required: TrainingState) -> None:
    """Same step, names, types, shapes, bits and values."""
    assert found.step == required.step
    assert set(found.tensors) == set(required.tensors)
    for name, tensor in required.tensors.items():
        assert found.tensors[name].dtype is tensor.dtype, name
        assert found.tensors[name].shape == tensor.shape, name
        assert bits(found.tensors[name]) == bits(tensor), name
    assert found.values == required.values


def same_bits(found: TrainingState, required: TrainingState) -> bool:
    """Whether ``assert_same_bits`` holds."""
    try:
        assert_same_bits(found, required)
    except AssertionError:
        return False
    return True


class Recorder:
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, *kinds: type[Event]) -> list[Event]:
        """Events of some kinds, in order."""
        return [event for event in self.events if isinstance(event, kinds)]


def make_checkpointer(
    folder: Path,
    fs: FileSystem | None = None,
    *,
    keep: int = 3,
    asynchronous: bool = True,
    job: str = JOB,
    emit: Recorder | None = None,
    shard_bytes: int = 1 << 30,
) -> Checkpointer:
    """A checkpointer of the job of these tests."""
    policy = CheckpointPolicy(every_steps=1, keep=keep, asynchronous=asynchronous)
    return Checkpointer(
        fs or LocalFileSystem(),
        folder,
        SystemClock(),
        policy,
        job,
        emit or Recorder(),
        shard_bytes=shard_bytes,
    )


def contents(folder: Path) -> Mapping[str, bytes]:
    """All files below a folder, by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
