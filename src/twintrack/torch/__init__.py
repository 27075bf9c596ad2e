"""The PyTorch front end: capture of functions of tensors into the graph IR."""

from twintrack.torch.capture import capture

__all__ = ["capture"]
