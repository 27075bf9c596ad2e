"""Which line of the model caused an operator; operators of a backward pass point to the line of their forward."""

from __future__ import annotations

import sys
from types import FrameType

import torch

__all__ = ["Lines"]

_SKIP = ("/torch/", "/twintrack/torch/", "/contextlib.py", "<frozen", "<string>")


class Lines:
    """Source lines seen so far, by the number of the autograd node they belong to."""

    def __init__(self) -> None:
        self._by_node: dict[int, str] = {}

    def current(self) -> str:
        """Line of the operator that is being dispatched now."""
        node = torch._C._current_autograd_node()
        if node is not None:
            return f"{self._by_node.get(node._sequence_nr(), node.name())} (gradient)"
        line = _model_line(sys._getframe(1))
        self._by_node[torch._C._autograd._get_sequence_nr() - 1] = line
        return line


def _model_line(frame: FrameType | None) -> str:
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(part in name for part in _SKIP):
            return f"{_short(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown line"


def _short(name: str) -> str:
    """The path from the package on, so that a program does not depend on where a machine keeps its packages."""
    for root in ("/site-packages/", "/src/"):
        if root in name:
            return name.rsplit(root, 1)[1]
    return name.rsplit("/", 1)[-1]
