"""Truth of what a comparison gives.

A tensor is true: kernels ask ``if bias:`` to learn whether one was passed. The tile that a comparison of
``nki.language`` gives is true where all its elements are, so that ``assert nl.equal(result, expected)``, as the
documentation's examples write it, checks what it says. The elements are looked at without an instruction, as a debugger
does, so a branch on them is for tests and debugging; the real compiler has no such branch.
"""

from __future__ import annotations

from twintrack.errors import KernelError
from twintrack.nki.context import current_core
from twintrack.nki.tensor import NkiTensor

__all__ = ["Truth"]


class Truth(NkiTensor):
    """A tile of ones and zeros that a comparison gave, or a view of it."""

    __slots__ = ()

    @classmethod
    def of(cls, tile: NkiTensor) -> Truth:
        """The same tile, with a truth value."""
        made = object.__new__(cls)
        made.storage = tile.storage
        made.dtype = tile.dtype
        made.shape = tile.shape
        made.strides = tile.strides
        made.offset = tile.offset
        made.dynamic = tile.dynamic
        made._signature = None
        made._array = None
        return made

    def __bool__(self) -> bool:
        """Whether all elements are true.

        Raises:
            KernelError: where values are not computed.
        """
        if self.storage.data is None:
            frame = current_core().author()
            raise KernelError(
                "values, to know whether a comparison holds",
                found="a run without values",
                where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
                remedy="run the kernel with values, or branch on shapes and arguments only",
            )
        return bool(self.array().all())
