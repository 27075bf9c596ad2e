"""Checkpoints: tensors in safetensors, everything else JSON, a digest per file, a manifest written last."""

from twintrack.training.checkpoint.checkpointer import Checkpointer
from twintrack.training.checkpoint.inspection import Inspection, Status, find_folders, inspect, scan
from twintrack.training.checkpoint.manifest import FileRecord, Manifest
from twintrack.training.checkpoint.random_state import capture_random_state, restore_random_state
from twintrack.training.checkpoint.reader import (
    LoadedCheckpoint,
    TensorRecord,
    read_checkpoint,
    read_values,
    tensor_records,
)
from twintrack.training.checkpoint.state import TrainingState

__all__ = [
    "Checkpointer",
    "FileRecord",
    "Inspection",
    "LoadedCheckpoint",
    "Manifest",
    "Status",
    "TensorRecord",
    "TrainingState",
    "capture_random_state",
    "find_folders",
    "inspect",
    "read_checkpoint",
    "read_values",
    "restore_random_state",
    "scan",
    "tensor_records",
]
