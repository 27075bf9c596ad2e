"""Track ``neuron``: a real Trainium2 or Trainium3 device through TorchNeuron, PyTorch's native ``neuron`` device.

TorchNeuron (package ``torch-neuronx`` from 2.13.3, Neuron 2.33, Python 3.12 to 3.14) registers itself when torch is
imported. It is used eagerly here, as the other devices are. This file has not yet run on hardware.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import torch

from twintrack.tracks.base import Services, Settings
from twintrack.tracks.eager import EagerTrack, check_eager, peak_resident_bytes

__all__ = ["NeuronTrack"]


def _device_module() -> Any | None:
    return getattr(torch, "neuron", None)


class NeuronTrack:
    """A NeuronCore of this machine."""

    name = "neuron"

    def absence(self) -> str | None:
        """What is missing, in one line."""
        if sys.version_info < (3, 12):
            version = ".".join(map(str, sys.version_info[:2]))
            return f"neuron: TorchNeuron needs Python 3.12 or newer, this is {version}"
        if importlib.util.find_spec("torch_neuronx") is None:
            return "neuron: the package torch-neuronx (TorchNeuron, Neuron 2.33 or newer) is not installed"
        module = _device_module()
        if module is None or not module.is_available():
            return "neuron: TorchNeuron finds no Trainium device"
        return None

    def check(self, settings: Settings) -> None:
        """Refuse what it cannot do.

        Raises:
            TrackError: naming the setting.
        """
        check_eager(self.name, settings)

    def open(self, settings: Settings, services: Services) -> EagerTrack:
        """Begin to use the first NeuronCore.

        Raises:
            TrackError: if the parallel plan needs more than one device, or a rounding it has not.
        """
        del services
        module = _device_module()
        return EagerTrack(
            self.name,
            torch.device("neuron", 0),
            settings,
            attention="eager",
            synchronize=module.synchronize if module is not None else lambda: None,
            peak_memory=lambda: (peak_resident_bytes(), "largest resident set of the host process"),
            facts={"logical cores (LNC)": str(settings.logical_cores)},
        )
