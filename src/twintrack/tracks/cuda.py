"""Track ``cuda``: one NVIDIA GPU through PyTorch, with deterministic algorithms: a resumed run has equal bits."""

from __future__ import annotations

import os

import torch

from twintrack.tracks.base import Services, Settings
from twintrack.tracks.eager import EagerTrack, check_eager

__all__ = ["CudaTrack"]


class CudaTrack:
    """A GPU, where PyTorch was built for one and finds it."""

    name = "cuda"

    def absence(self) -> str | None:
        """Why there is none, in one line."""
        if torch.version.cuda is None:
            return "cuda: this PyTorch is built without CUDA"
        return None if torch.cuda.is_available() else "cuda: no CUDA device is visible"

    def check(self, settings: Settings) -> None:
        """Refuse what it cannot do.

        Raises:
            TrackError: naming the setting.
        """
        check_eager(self.name, settings)

    def open(self, settings: Settings, services: Services) -> EagerTrack:
        """Begin to use the first visible GPU.

        TF32 stays off, so float32 means float32. cuBLAS needs its workspace setting before its first call.

        Raises:
            TrackError: if the parallel plan needs more than one device, or a rounding it has not.
        """
        del services
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        device = torch.device("cuda", 0)
        return EagerTrack(
            self.name,
            device,
            settings,
            attention="sdpa",
            synchronize=lambda: torch.cuda.synchronize(device),
            peak_memory=lambda: (
                torch.cuda.max_memory_allocated(device),
                "peak allocated by PyTorch on the GPU",
            ),
            facts={"gpu": torch.cuda.get_device_name(device), "cuda": str(torch.version.cuda)},
        )
