"""The state of every random generator that libraries share: Python, NumPy, and PyTorch on each device.

Our own code passes seeds and generators; this is for code that draws from the shared ones, such as dropout.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from twintrack.errors import CheckpointError

__all__ = ["capture_random_state", "restore_random_state"]


def capture_random_state() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The present state as what a ``TrainingState`` takes: tensors under ``rng/``, and values that JSON has.

    The tensors are of type uint8: ``rng/torch_cpu``, and ``rng/torch_cuda_N`` once CUDA is in use.
    """
    tensors = {"rng/torch_cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for index, state in enumerate(torch.cuda.get_rng_state_all()):
            tensors[f"rng/torch_cuda_{index}"] = state
    version, words, gauss = random.getstate()
    numpy: Any = np.random.get_state(legacy=False)
    values = {
        "python": {"version": version, "words": list(words), "gauss": gauss},
        "numpy": {
            "bit_generator": numpy["bit_generator"],
            "key": [int(word) for word in numpy["state"]["key"]],
            "pos": int(numpy["state"]["pos"]),
            "has_gauss": int(numpy["has_gauss"]),
            "gauss": float(numpy["gauss"]),
        },
    }
    return tensors, values


def restore_random_state(tensors: Mapping[str, torch.Tensor], values: Mapping[str, Any]) -> None:
    """Put back what ``capture_random_state`` returned; further tensors in ``tensors`` are not looked at.

    Raises:
        CheckpointError: if a part is missing or malformed, or the number of CUDA devices is another one.
    """
    cuda = sorted(name for name in tensors if name.startswith("rng/torch_cuda_"))
    if len(cuda) != (torch.cuda.device_count() if cuda else 0):
        raise _unusable(f"generators of {len(cuda)} CUDA devices, on {torch.cuda.device_count()}")
    try:
        python, numpy = values["python"], values["numpy"]
        random.setstate((python["version"], tuple(python["words"]), python["gauss"]))
        np.random.set_state(
            {
                "bit_generator": numpy["bit_generator"],
                "state": {"key": np.array(numpy["key"], dtype=np.uint32), "pos": numpy["pos"]},
                "has_gauss": numpy["has_gauss"],
                "gauss": numpy["gauss"],
            }
        )
        torch.set_rng_state(tensors["rng/torch_cpu"])
        for index in range(len(cuda)):
            torch.cuda.set_rng_state(tensors[f"rng/torch_cuda_{index}"], index)
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise _unusable(f"{type(error).__name__}: {error}") from error


def _unusable(found: str) -> CheckpointError:
    return CheckpointError(
        "the state of every random generator",
        found=found,
        where="random state of the checkpoint",
        remedy="resume on a machine of the same kind, with the version of twintrack that wrote it",
    )
