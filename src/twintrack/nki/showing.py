"""What ``print``, debuggers and tests see of a tensor: its elements where they lie, without an instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.convert import to_float32
from twintrack.neuroncore.memory.view import View
from twintrack.nki.tensor_errors import tensor_error

__all__ = ["Shown"]


class Shown(View):
    """A view whose elements can be looked at."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"NkiTensor({self.describe()}, shape={self.shape}, dtype={self.dtype})"

    def __str__(self) -> str:
        """What it is, and its elements where the run computes them."""
        return f"{self!r}\n{self._elements()}"

    def is_identity(self) -> bool:
        """Whether it is plainly the whole buffer: no slice, no access pattern."""
        return self.dynamic is None and self.covers_buffer()

    @property
    def sim_value(self) -> npt.NDArray[Any]:
        """A copy of the elements as they are now, written or not.

        Raises:
            KernelError: in a run without values, and for an address that is known only when an instruction uses it.
        """
        if self.storage.data is None:
            raise tensor_error(self, "values", "a run without values", "run the kernel with values")
        if self.dynamic is not None:
            raise tensor_error(
                self, "a view with a static address", "an indirect one", "copy it to a tile first"
            )
        return self.array().copy()

    @property
    def device_value(self) -> None:
        """What a device gave, which none did here."""
        return

    def _elements(self) -> str:
        """The elements as NumPy prints them (narrow floats as float32), or why there are none to see."""
        written = self.storage.written
        if self.storage.data is None:
            return "(values are not computed in this run)"
        if self.dynamic is not None:
            return "(at an address that is known only when an instruction uses it)"
        if written.nothing:
            return "(never written)"
        held = self.array()
        shown = to_float32(held, self.dtype) if self.dtype.is_float else held
        text = np.array2string(shown, threshold=256, edgeitems=4)
        if written.covers(self.pattern()):
            return text
        return text + "\n(partly never written: there, floats are nan and integers 4)"
