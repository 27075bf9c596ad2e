"""Truth of what a comparison gives.

A tensor is true: kernels ask ``if bias:`` to learn whether one was passed. The tile that a comparison of
``nki.language`` gives is true where all its elements are, so that ``assert nl.equal(result, expected)``, as the
documentation's examples write it, checks what it says. The elements are looked at without an instruction, as a
debugger does, so a branch on them is for tests and debugging; the real compiler has no such branch. With ``strict`` a
run has none either: ``if``, ``while``, ``and``, ``or`` and conditional expressions on a comparison are refused outside
of ``assert``. The bytecode tells a branch from ``bool(...)`` and ``not``, the source tells an ``assert``; where there
is no source, nothing is refused.
"""

from __future__ import annotations

import ast
import dis
import inspect
from types import FrameType

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
        made._signature = made._cuts = made._array = None
        made._form = 0
        return made

    def __bool__(self) -> bool:
        """Whether all elements are true.

        Raises:
            KernelError: where values are not computed; in a strict run at a branch.
        """
        core = current_core()
        if core.strict:
            _refuse_branch(core.author())
        if self.storage.data is None:
            frame = core.author()
            raise KernelError(
                "values, to know whether a comparison holds",
                found="a run without values",
                where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
                remedy="run the kernel with values, or branch on shapes and arguments only",
            )
        return bool(self.array().all())


def _refuse_branch(frame: FrameType) -> None:
    """Refuse a branch of the author's code on a comparison.

    Args:
        frame: where the truth is asked for.

    Raises:
        KernelError: at a conditional jump that belongs to no ``assert``.
    """
    opname = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    if not ("JUMP" in opname or opname == "TO_BOOL") or not _is_branch(frame):
        return
    raise KernelError(
        "no Python branch on a comparison of tiles, as their values are known on the device only,",
        found="a comparison of nki.language as a condition",
        where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
        remedy="select with nl.where or a predicated copy, load the value into a register for `while reg:`, or run "
        "without strict",
    )


def _is_branch(frame: FrameType) -> bool:
    """Whether the innermost statement at a frame's line is known, and no ``assert``."""
    try:
        tree = ast.parse("".join(inspect.findsource(frame.f_code)[0]))
    except (OSError, SyntaxError):
        return False
    line = frame.f_lineno
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    innermost = max(around, key=lambda node: (node.lineno, node.col_offset), default=None)
    return innermost is not None and not isinstance(innermost, ast.Assert)
