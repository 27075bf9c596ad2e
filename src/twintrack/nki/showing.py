"""A tensor's elements as text, for ``print`` and debuggers: looked at where they lie, without an instruction."""

from __future__ import annotations

import numpy as np

from twintrack.neuroncore.convert import to_float32
from twintrack.neuroncore.memory.view import View

__all__ = ["elements"]


def elements(view: View) -> str:
    """The elements as NumPy prints them (narrow floats as float32), or why there are none to see."""
    storage = view.storage
    if storage.data is None:
        return "(values are not computed in this run)"
    if view.dynamic is not None:
        return "(at an address that is known only when an instruction uses it)"
    if storage.written.nothing:
        return "(never written)"
    held = view.array()
    shown = to_float32(held, view.dtype) if view.dtype.is_float else held
    text = np.array2string(shown, threshold=256, edgeitems=4)
    if storage.written.covers(view.pattern()):
        return text
    return text + "\n(partly never written: there, floats are nan and integers 4)"
