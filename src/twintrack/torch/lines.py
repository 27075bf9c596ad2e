"""Which line of the model caused an operator; operators of a backward pass point to the line of their forward."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import FrameType

import torch

__all__ = ["Lines"]

_SKIP = (
    f"{Path(torch.__file__).parent}/",
    f"{Path(__file__).parent}/",
    str(contextlib.__file__),
    "<frozen",
    "<string>",
)
"""Beginnings of the file names of those who only pass calls on."""


class Lines:
    """Source lines seen so far, by the number of the autograd node they belong to."""

    def __init__(self) -> None:
        self._by_node: dict[int, str] = {}
        self._next_node = _next_node()

    def current(self) -> str:
        """Line of the operator that is being dispatched now."""
        node = torch._C._current_autograd_node()
        if node is not None:
            return f"{self._by_node.get(node._sequence_nr(), node.name())} (gradient)"
        line = _model_line(sys._getframe(1))
        self.note(line)
        return line

    def note(self, line: str) -> None:
        """The autograd nodes made since the last call belong to this line; an operator without a gradient makes
        none."""
        following = _next_node()
        self._by_node.update(dict.fromkeys(range(self._next_node, following), line))
        self._next_node = following


def _next_node() -> int:
    number: int = torch._C._autograd._get_sequence_nr()
    return number


def _model_line(frame: FrameType | None) -> str:
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_SKIP):
            return f"{_short(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown line"


def _short(name: str) -> str:
    """The path from the package on, so that a program does not depend on where a machine keeps its packages."""
    for root in ("/site-packages/", "/src/"):
        if root in name:
            return name.rsplit(root, 1)[1]
    return name.rsplit("/", 1)[-1]
